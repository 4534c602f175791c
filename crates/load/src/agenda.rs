//! Who asks for what, and when: arrivals, requests and thinking, behind one face.
//!
//! A *visit* is what one arrival does: a single request, a session of a file, a walk, a session of a log. An
//! [`Itinerary`] is one client's place in its visit. In a closed loop a client whose visit is over begins
//! another. Times are absolute on the monotonic clock.

use std::iter::Peekable;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_measure::Nanos;
use sojourn_workload::trace::Request;

use crate::{
    Arrivals, LoggedVisit, Requests, Think,
    law::Law,
    picker::{MixCheck, Picker},
    rates::ArrivalTimes,
    session_file::{Burst, Session},
    walk::{VISIT_PAGES_MAX, Walk},
};

/// The source of all requests.
pub struct Agenda<'a> {
    comers: Comers<'a>,
    visits: Visits,
    think: Think,
    /// How many requests of a picking client go together.
    together: u32,
    random: Xoshiro256PlusPlus,
    origin: Nanos,
    /// How many visits may still begin, and how many requests.
    visits_left: u64,
    requests_left: u64,
    visits_begun: u64,
}

enum Comers<'a> {
    /// When clients of a closed loop come, the next one last.
    Closed(Vec<Nanos>),
    Open(Peekable<ArrivalTimes>),
    Logged(Peekable<Box<dyn Iterator<Item = LoggedVisit> + 'a>>),
}

enum Visits {
    Pick(Picker),
    Sessions(Vec<Session<u32>>),
    Walk(Walk<u32>),
    /// What think times are multiplied by.
    Logged(f64),
}

/// One client's place in its visit.
#[derive(Debug)]
pub struct Itinerary {
    /// When the visit began.
    began: Nanos,
    /// When its last turn began: the request, or burst, before the one that is thought about.
    turn: Nanos,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// So many requests of a burst may still go beside those under way.
    Pick { left: u32 },
    /// The request `next` of a burst of a session.
    Session { number: u32, burst: u32, next: u32 },
    /// The request `next` of a page, after so many pages.
    Walk { page: u32, next: u32, pages: u32 },
    /// The request `next` of a session of a log.
    Logged { start_ns: i64, requests: Box<[Request]>, next: u32 },
}

/// A request to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When.
    pub at: Nanos,
    /// For what.
    pub document: u32,
}

/// How much may be asked for in all.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    pub visits: u64,
    pub requests: u64,
}

impl<'a> Agenda<'a> {
    /// Begins at `origin`; a closed loop's clients come at random within `ramp`.
    pub fn new(
        arrivals: Arrivals<'a>,
        requests: Requests,
        think: Think,
        together: u32,
        quota: Quota,
        (origin, ramp): (Nanos, Nanos),
        seed: u64,
    ) -> Agenda<'a> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let comers = match arrivals {
            Arrivals::Closed { clients } => {
                let phase = |_| origin + Nanos((random.random::<f64>() * ramp.0 as f64) as u64);
                let mut starts: Vec<Nanos> = (0..clients).map(phase).collect();
                starts.sort_by(|a, b| b.cmp(a));
                Comers::Closed(starts)
            }
            Arrivals::Open { segments, law, .. } => {
                // A sequence of their own: arrivals stay the same whatever is asked for.
                let own = Xoshiro256PlusPlus::seed_from_u64(random.random());
                Comers::Open(ArrivalTimes::new(segments, law, own).peekable())
            }
            Arrivals::Logged(arrivals) => Comers::Logged(arrivals.peekable()),
        };
        let visits = match requests {
            Requests::Pick(pick) => Visits::Pick(Picker::new(&pick)),
            Requests::Sessions(sessions) => Visits::Sessions(sessions),
            Requests::Walk(walk) => Visits::Walk(walk),
            Requests::Logged { think_scale } => Visits::Logged(think_scale),
        };
        let (visits_left, requests_left) = (quota.visits, quota.requests);
        Agenda {
            comers,
            visits,
            think,
            together,
            random,
            origin,
            visits_left,
            requests_left,
            visits_begun: 0,
        }
    }

    /// When the next client comes, if any more do.
    pub fn next_start(&mut self) -> Option<Nanos> {
        if self.visits_left == 0 || self.requests_left == 0 {
            return None;
        }
        match &mut self.comers {
            Comers::Closed(starts) => starts.last().copied(),
            Comers::Open(times) => times.peek().map(|&time| self.origin + time),
            Comers::Logged(arrivals) => arrivals.peek().map(|visit| self.origin + Nanos(visit.connect_ns)),
        }
    }

    /// Lets the next client in.
    pub fn start(&mut self) -> Option<Itinerary> {
        let at = self.next_start()?;
        match &mut self.comers {
            Comers::Closed(starts) => {
                starts.pop();
            }
            Comers::Open(times) => {
                times.next();
            }
            Comers::Logged(arrivals) => {
                let logged = arrivals.next()?;
                let mut itinerary = self.visit(at);
                if let Place::Logged { start_ns, requests, .. } = &mut itinerary.place {
                    (*start_ns, *requests) = (logged.start_ns, logged.requests);
                }
                return Some(itinerary);
            }
        }
        Some(self.visit(at))
    }

    /// Sends the next client away.
    pub fn skip(&mut self) {
        match &mut self.comers {
            Comers::Closed(starts) => drop(starts.pop()),
            Comers::Open(times) => drop(times.next()),
            Comers::Logged(arrivals) => drop(arrivals.next()),
        }
    }

    /// Another visit of a client of a closed loop, whose visit ended at `answered`.
    pub fn renew(&mut self, answered: Nanos) -> Option<Itinerary> {
        let renews = matches!(self.comers, Comers::Closed(_));
        if !renews || self.visits_left == 0 || self.requests_left == 0 {
            return None;
        }
        let at = answered + self.default_law().draw(&mut self.random);
        Some(self.visit(at))
    }

    /// A client's first request.
    pub fn first(&mut self, itinerary: &mut Itinerary) -> Option<Due> {
        if self.requests_left == 0 {
            return None;
        }
        let began = itinerary.began;
        let due = match (&mut self.visits, &mut itinerary.place) {
            (Visits::Pick(picker), _) => Due { at: began, document: picker.pick(&mut self.random) },
            (Visits::Sessions(sessions), Place::Session { number, next, .. }) => {
                *next = 1;
                Due { at: began, document: sessions[*number as usize][0].requests[0] }
            }
            (Visits::Walk(walk), Place::Walk { page, next, .. }) => {
                *next = 1;
                Due { at: began, document: walk.page(*page as usize).burst.requests[0] }
            }
            _ => return self.next(itinerary, Nanos::ZERO, 0),
        };
        self.requests_left -= 1;
        Some(due)
    }

    /// A request that goes together with the ones under way, if there is one.
    pub fn beside(&mut self, itinerary: &mut Itinerary, at: Nanos) -> Option<Due> {
        if self.requests_left == 0 {
            return None;
        }
        let document = match (&mut self.visits, &mut itinerary.place) {
            (Visits::Pick(picker), Place::Pick { left }) => {
                *left = left.checked_sub(1)?;
                picker.pick(&mut self.random)
            }
            // The first of a burst goes alone.
            (Visits::Sessions(sessions), Place::Session { number, burst, next }) if *next > 1 => {
                take(&sessions[*number as usize][*burst as usize], next)?
            }
            (Visits::Walk(walk), Place::Walk { page, next, .. }) if *next > 1 => {
                take(&walk.page(*page as usize).burst, next)?
            }
            _ => return None,
        };
        self.requests_left -= 1;
        Some(Due { at, document })
    }

    /// A client's next request after all of its answers were complete at `answered`, of `received_bytes`
    /// in this visit; `None` ends the visit.
    pub fn next(&mut self, itinerary: &mut Itinerary, answered: Nanos, received_bytes: u64) -> Option<Due> {
        if self.requests_left == 0 {
            return None;
        }
        let due = match (&mut self.visits, &mut itinerary.place) {
            (Visits::Pick(picker), Place::Pick { left }) => {
                if !matches!(self.comers, Comers::Closed(_)) {
                    return None;
                }
                *left = self.together - 1;
                let document = picker.pick(&mut self.random);
                Due { at: self.after_thinking(itinerary, answered, received_bytes, None), document }
            }
            (Visits::Sessions(sessions), Place::Session { number, burst, next }) => {
                let session = &sessions[*number as usize];
                let now = &session[*burst as usize];
                if let Some(document) = take(now, next) {
                    Due { at: answered, document }
                } else {
                    let after = session.get(*burst as usize + 1)?;
                    let own = now.think.map(|mean| Law { mean, ..Law::NONE });
                    (*burst, *next) = (*burst + 1, 1);
                    let document = after.requests[0];
                    Due { at: self.after_thinking(itinerary, answered, received_bytes, own), document }
                }
            }
            (Visits::Walk(walk), Place::Walk { page, next, pages }) => {
                let now = walk.page(*page as usize);
                if let Some(document) = take(&now.burst, next) {
                    Due { at: answered, document }
                } else {
                    let to = walk.next(*page as usize, &mut self.random)?;
                    (*page, *next, *pages) = (to as u32, 1, *pages + 1);
                    if *pages >= VISIT_PAGES_MAX {
                        return None;
                    }
                    let (own, document) = (now.think, walk.page(to).burst.requests[0]);
                    Due { at: self.after_thinking(itinerary, answered, received_bytes, own), document }
                }
            }
            (Visits::Logged(think_scale), Place::Logged { start_ns, requests, next }) => {
                let request = requests.get(*next as usize)?;
                *next += 1;
                due(self.origin, *start_ns, *think_scale, request)
            }
            _ => unreachable!("an itinerary stays with the agenda it came from"),
        };
        self.requests_left -= 1;
        Some(due)
    }

    /// When the requests after the current one are due, as far as that is known before their time.
    pub fn rest(&self, itinerary: &Itinerary) -> Vec<Nanos> {
        match (&self.visits, &itinerary.place) {
            (&Visits::Logged(think_scale), Place::Logged { start_ns, requests, next }) => {
                let rest = requests.iter().skip(*next as usize);
                rest.map(|request| due(self.origin, *start_ns, think_scale, request).at).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether a failed request ends the visit it is part of.
    pub fn failure_ends_visit(&self) -> bool {
        !matches!(self.visits, Visits::Pick(_))
    }

    /// Whether visits are single requests, so that one visitor's connection can serve the next.
    pub fn visits_share_connections(&self) -> bool {
        matches!((&self.visits, &self.comers), (Visits::Pick(_), Comers::Open(_)))
    }

    /// The mean think time of a closed loop in which each answer is thought about.
    pub fn mean_think(&self) -> Option<Nanos> {
        match (&self.comers, &self.visits, self.think) {
            (Comers::Closed(_), Visits::Pick(_), Think::AfterAnswer(law)) if self.together == 1 => {
                Some(law.mean)
            }
            _ => None,
        }
    }

    /// How what was picked fits its weights.
    pub fn mix_check(&self) -> Option<MixCheck> {
        match &self.visits {
            Visits::Pick(picker) => picker.check(),
            _ => None,
        }
    }

    /// The share of the quota that is used up, where there is one.
    pub fn used(&self, quota: Quota) -> f64 {
        let share = |left: u64, all: u64| if all == u64::MAX { 0.0 } else { 1.0 - left as f64 / all as f64 };
        share(self.visits_left, quota.visits).max(share(self.requests_left, quota.requests))
    }

    fn visit(&mut self, at: Nanos) -> Itinerary {
        self.visits_left -= 1;
        let number = self.visits_begun;
        self.visits_begun += 1;
        let in_turn = |all: usize| (number % all as u64) as u32;
        let place = match &self.visits {
            Visits::Pick(_) => Place::Pick { left: self.together - 1 },
            Visits::Sessions(sessions) => {
                Place::Session { number: in_turn(sessions.len()), burst: 0, next: 0 }
            }
            Visits::Walk(walk) => Place::Walk { page: walk.start() as u32, next: 0, pages: 0 },
            Visits::Logged(_) => Place::Logged { start_ns: 0, requests: Box::default(), next: 0 },
        };
        Itinerary { began: at, turn: at, place }
    }

    /// When the next turn is due; it begins then.
    fn after_thinking(
        &mut self,
        itinerary: &mut Itinerary,
        answered: Nanos,
        received_bytes: u64,
        own: Option<Law>,
    ) -> Nanos {
        let at = match (own, self.think) {
            (Some(law), _) | (None, Think::AfterAnswer(law)) => answered + law.draw(&mut self.random),
            (None, Think::FromStart(law)) => answered.max(itinerary.turn + law.draw(&mut self.random)),
            (None, Think::Rated { bits_per_second }) => {
                let line = Nanos::from_seconds(received_bytes as f64 * 8.0 / bits_per_second);
                answered.max(itinerary.began + line)
            }
        };
        itinerary.turn = at;
        at
    }

    fn default_law(&self) -> Law {
        match self.think {
            Think::AfterAnswer(law) => law,
            Think::FromStart(_) | Think::Rated { .. } => Law::NONE,
        }
    }
}

/// The next request of a burst, if one is left.
fn take(burst: &Burst<u32>, next: &mut u32) -> Option<u32> {
    let document = burst.requests.get(*next as usize).copied()?;
    *next += 1;
    Some(document)
}

fn due(origin: Nanos, start_ns: i64, think_scale: f64, request: &Request) -> Due {
    let offset_ns = (request.offset_ns as f64 * think_scale) as i64;
    let since_origin = start_ns.saturating_add(offset_ns).max(0) as u64;
    Due { at: origin + Nanos(since_origin), document: request.document }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArrivalLaw, Pick, Segment, Shape};

    const UNLIMITED: Quota = Quota { visits: u64::MAX, requests: u64::MAX };

    fn agenda(arrivals: Arrivals<'static>, requests: Requests, think: Think) -> Agenda<'static> {
        Agenda::new(arrivals, requests, think, 1, UNLIMITED, (Nanos(100), Nanos(50)), 7)
    }

    fn closed(requests: Requests, think: Think) -> Agenda<'static> {
        agenda(Arrivals::Closed { clients: 3 }, requests, think)
    }

    fn constant(mean: u64) -> Law {
        Law { mean: Nanos(mean), shape: Shape::Constant }
    }

    fn begin(agenda: &mut Agenda<'_>) -> (Itinerary, Due) {
        let mut itinerary = agenda.start().unwrap();
        let due = agenda.first(&mut itinerary).unwrap();
        (itinerary, due)
    }

    #[test]
    fn clients_of_a_closed_loop_come_within_the_ramp_in_order() {
        let mut agenda = closed(Requests::Pick(Pick::First), Think::AfterAnswer(constant(10)));
        let mut before = Nanos(100);
        for _ in 0..3 {
            let start = agenda.next_start().unwrap();
            assert!(before <= start && start < Nanos(150));
            let (mut itinerary, due) = begin(&mut agenda);
            assert_eq!(due, Due { at: start, document: 0 });
            assert_eq!(
                agenda.next(&mut itinerary, Nanos(1000), 0),
                Some(Due { at: Nanos(1010), document: 0 })
            );
            before = start;
        }
        assert_eq!(agenda.next_start(), None);
    }

    #[test]
    fn thinking_from_the_answer_from_the_start_and_by_the_rate() {
        let after = |think| {
            let mut agenda = closed(Requests::Pick(Pick::First), think);
            let (mut itinerary, due) = begin(&mut agenda);
            let early = agenda.next(&mut itinerary, due.at + Nanos(30), 1000).unwrap().at - due.at;
            let late = agenda.next(&mut itinerary, due.at + Nanos(5000), 1000).unwrap().at - due.at;
            (early.0, late.0)
        };
        assert_eq!(after(Think::AfterAnswer(constant(100))), (130, 5100));
        assert_eq!(after(Think::FromStart(constant(100))), (100, 5000));
        // 8000 bits at 8 Gbit/s take a microsecond.
        assert_eq!(after(Think::Rated { bits_per_second: 8e9 }), (1000, 5000));
    }

    #[test]
    fn a_burst_sends_its_first_request_alone_and_the_rest_together() {
        let burst = |requests: &[u32], think| Burst { requests: requests.to_vec(), think };
        let session = vec![burst(&[5, 6, 7], Some(Nanos(40))), burst(&[8], None)];
        let mut agenda = closed(Requests::Sessions(vec![session]), Think::AfterAnswer(constant(3)));
        let (mut itinerary, due) = begin(&mut agenda);
        assert_eq!(due.document, 5);
        assert_eq!(agenda.beside(&mut itinerary, due.at), None, "the first goes alone");
        assert_eq!(agenda.next(&mut itinerary, Nanos(200), 0), Some(Due { at: Nanos(200), document: 6 }));
        assert_eq!(agenda.beside(&mut itinerary, Nanos(200)), Some(Due { at: Nanos(200), document: 7 }));
        assert_eq!(agenda.beside(&mut itinerary, Nanos(200)), None);
        assert_eq!(agenda.next(&mut itinerary, Nanos(300), 0), Some(Due { at: Nanos(340), document: 8 }));
        assert_eq!(agenda.next(&mut itinerary, Nanos(400), 0), None);
        let mut again = agenda.renew(Nanos(400)).unwrap();
        assert_eq!(agenda.first(&mut again), Some(Due { at: Nanos(403), document: 5 }));
    }

    #[test]
    fn open_arrivals_ask_once_each_and_a_quota_ends_them() {
        let segments = vec![Segment { from: 1e6, to: 1e6, length: Nanos(1_000_000_000) }];
        let open = Arrivals::Open { segments, law: ArrivalLaw::Constant, under_way_max: 9 };
        let requests = Requests::Pick(Pick::First);
        let quota = Quota { visits: 3, ..UNLIMITED };
        let think = Think::AfterAnswer(Law::NONE);
        let mut agenda = Agenda::new(open, requests, think, 1, quota, (Nanos(100), Nanos::ZERO), 7);
        agenda.skip();
        for number in 1..=3 {
            let (mut itinerary, due) = begin(&mut agenda);
            assert!((100 + number * 1000..100 + (number + 1) * 1000).contains(&due.at.0), "{due:?}");
            assert_eq!(agenda.next(&mut itinerary, due.at, 0), None);
            assert!(agenda.renew(due.at).is_none());
        }
        assert_eq!(agenda.next_start(), None);
        assert_eq!(agenda.used(quota), 1.0);
    }

    #[test]
    fn sessions_of_a_log_keep_their_offsets_times_the_think_scale() {
        let requests = [40, 100].map(|offset_ns| Request { offset_ns, document: 0 });
        let visit = LoggedVisit { connect_ns: 10, start_ns: -20, requests: Box::new(requests) };
        let arrivals = Arrivals::Logged(Box::new([visit].into_iter()));
        let requests = Requests::Logged { think_scale: 0.5 };
        let think = Think::AfterAnswer(Law::NONE);
        let times = (Nanos(1000), Nanos::ZERO);
        let mut agenda = Agenda::new(arrivals, requests, think, 1, UNLIMITED, times, 0);
        assert_eq!(agenda.next_start(), Some(Nanos(1010)));
        let (mut itinerary, due) = begin(&mut agenda);
        assert_eq!(due.at, Nanos(1000));
        assert_eq!(agenda.rest(&itinerary), [Nanos(1030)]);
        assert_eq!(agenda.next(&mut itinerary, Nanos(5000), 0).unwrap().at, Nanos(1030));
        assert_eq!(agenda.next(&mut itinerary, Nanos(5000), 0), None);
    }
}
