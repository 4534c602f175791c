//! The kinds of visits, and a client's position in one. A due time is given as far as the visit itself determines it.

use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_measure::Nanos;
use sojourn_workload::trace::Request;

use crate::plan::{
    LoggedVisit, Requests,
    distribution::Law,
    markov_chain::{VISIT_PAGES_MAX, Walk},
    mix::{MixCheck, Picker},
    session_file::{Burst, Session},
};

/// The kind of all visits of a run.
pub enum Visits {
    Pick {
        picker: Picker,
        /// The size of a burst.
        together: u32,
        /// True if one pick follows another, as in a closed loop.
        repeats: bool,
    },
    Sessions(Vec<Session<u32>>),
    Walk(Walk<u32>),
    /// The factor on think times.
    Logged(f64),
}

/// A client's place in its visit.
#[derive(Debug)]
pub enum Place {
    /// The requests of the burst that may still be sent.
    Pick { left: u32 },
    /// The request `next` of a burst of a session.
    Session { number: u32, burst: u32, next: u32 },
    /// The request `next` of a page, after so many pages.
    Walk { page: u32, next: u32, pages: u32 },
    /// The request `next` of a session of a log.
    Logged { start_ns: i64, requests: Box<[Request]>, next: u32 },
}

/// The next request of a visit.
pub struct Wanted {
    pub document: u32,
    pub when: When,
}

pub enum When {
    /// As soon as what came before is answered.
    AtOnce,
    /// After thinking: by a law of its own, or else by that of all.
    Thought(Option<Law>),
    /// So long after the run's start.
    At(Nanos),
}

impl Visits {
    /// Visits for these requests; `together` and `repeats` are for picking clients.
    pub fn new(requests: Requests, together: u32, repeats: bool) -> Visits {
        match requests {
            Requests::Pick(pick) => Visits::Pick { picker: Picker::new(&pick), together, repeats },
            Requests::Sessions(sessions) => Visits::Sessions(sessions),
            Requests::Walk(walk) => Visits::Walk(walk),
            Requests::Logged { think_scale } => Visits::Logged(think_scale),
        }
    }

    /// The beginning of visit `number`, or of one that a log has.
    pub fn begin(&self, number: u64, logged: Option<LoggedVisit>) -> Place {
        match self {
            Visits::Pick { together, .. } => Place::Pick { left: together - 1 },
            Visits::Sessions(sessions) => {
                let in_turn = (number % sessions.len() as u64) as u32;
                Place::Session { number: in_turn, burst: 0, next: 0 }
            }
            Visits::Walk(walk) => Place::Walk { page: walk.start() as u32, next: 0, pages: 0 },
            Visits::Logged(_) => {
                let (start_ns, requests) =
                    logged.map(|visit| (visit.start_ns, visit.requests)).unwrap_or_default();
                Place::Logged { start_ns, requests, next: 0 }
            }
        }
    }

    /// The first request of a visit.
    pub fn first(&mut self, place: &mut Place, random: &mut Xoshiro256PlusPlus) -> Option<Wanted> {
        let document = match (&mut *self, &mut *place) {
            (Visits::Pick { picker, .. }, _) => picker.pick(random),
            (Visits::Sessions(sessions), Place::Session { number, next, .. }) => {
                take(&sessions[*number as usize][0], next)?
            }
            (Visits::Walk(walk), Place::Walk { page, next, .. }) => {
                take(&walk.page(*page as usize).burst, next)?
            }
            _ => return self.next(place, random),
        };
        Some(Wanted { document, when: When::AtOnce })
    }

    /// A request that goes together with the ones under way, if there is one.
    pub fn beside(&mut self, place: &mut Place, random: &mut Xoshiro256PlusPlus) -> Option<u32> {
        match (self, place) {
            (Visits::Pick { picker, .. }, Place::Pick { left }) => {
                *left = left.checked_sub(1)?;
                Some(picker.pick(random))
            }
            // The first of a burst goes alone.
            (Visits::Sessions(sessions), Place::Session { number, burst, next }) if *next > 1 => {
                take(&sessions[*number as usize][*burst as usize], next)
            }
            (Visits::Walk(walk), Place::Walk { page, next, .. }) if *next > 1 => {
                take(&walk.page(*page as usize).burst, next)
            }
            _ => None,
        }
    }

    /// The request after all of those before are answered; `None` ends the visit.
    pub fn next(&mut self, place: &mut Place, random: &mut Xoshiro256PlusPlus) -> Option<Wanted> {
        let thought = |own, document| Some(Wanted { document, when: When::Thought(own) });
        match (self, place) {
            (Visits::Pick { picker, together, repeats }, Place::Pick { left }) => {
                if !*repeats {
                    return None;
                }
                *left = *together - 1;
                thought(None, picker.pick(random))
            }
            (Visits::Sessions(sessions), Place::Session { number, burst, next }) => {
                let session = &sessions[*number as usize];
                let now = &session[*burst as usize];
                if let Some(document) = take(now, next) {
                    return Some(Wanted { document, when: When::AtOnce });
                }
                let after = session.get(*burst as usize + 1)?;
                (*burst, *next) = (*burst + 1, 1);
                thought(now.think.map(|mean| Law { mean, ..Law::NONE }), after.requests[0])
            }
            (Visits::Walk(walk), Place::Walk { page, next, pages }) => {
                let now = walk.page(*page as usize);
                if let Some(document) = take(&now.burst, next) {
                    return Some(Wanted { document, when: When::AtOnce });
                }
                let to = walk.next(*page as usize, random)?;
                (*page, *next, *pages) = (to as u32, 1, *pages + 1);
                if *pages >= VISIT_PAGES_MAX {
                    return None;
                }
                thought(now.think, walk.page(to).burst.requests[0])
            }
            (Visits::Logged(think_scale), Place::Logged { start_ns, requests, next }) => {
                let request = requests.get(*next as usize)?;
                *next += 1;
                let when = When::At(since_start(*start_ns, *think_scale, request));
                Some(Wanted { document: request.document, when })
            }
            _ => unreachable!("an itinerary stays with the agenda it came from"),
        }
    }

    /// When the requests after the current one are due since the run's start, as far as that is known before their
    /// time.
    pub fn rest(&self, place: &Place) -> Vec<Nanos> {
        match (self, place) {
            (&Visits::Logged(think_scale), Place::Logged { start_ns, requests, next }) => {
                let rest = requests.iter().skip(*next as usize);
                rest.map(|request| since_start(*start_ns, think_scale, request)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns true if each request is picked by itself.
    pub fn are_picked(&self) -> bool {
        matches!(self, Visits::Pick { .. })
    }

    /// Returns true if each answer is thought about, by the law of all.
    pub fn think_once_an_answer(&self) -> bool {
        matches!(self, Visits::Pick { together: 1, repeats: true, .. })
    }

    /// How what was picked fits its weights.
    pub fn mix_check(&self) -> Option<MixCheck> {
        match self {
            Visits::Pick { picker, .. } => picker.check(),
            _ => None,
        }
    }
}

/// The next request of a burst, if one is left.
fn take(burst: &Burst<u32>, next: &mut u32) -> Option<u32> {
    let document = burst.requests.get(*next as usize).copied()?;
    *next += 1;
    Some(document)
}

fn since_start(start_ns: i64, think_scale: f64, request: &Request) -> Nanos {
    let offset_ns = (request.offset_ns as f64 * think_scale) as i64;
    Nanos(start_ns.saturating_add(offset_ns).max(0) as u64)
}
