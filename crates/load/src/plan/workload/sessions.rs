//! The kinds of visits, and a client's position in one. A visit determines due times that depend only on itself.

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_measure::Nanos;
use sojourn_workload::trace::Request;

use crate::plan::{
    LoggedVisit, Requests,
    distribution::Distribution,
    markov_chain::{VISIT_PAGES_MAX, Walk},
    mix::{MixCheck, Picker},
    scenario::Scenario,
    session_file::{Burst, Session},
};

/// The kind of all visits of a run.
pub enum Visits {
    Pick {
        picker: Picker,
        /// The size of a burst.
        together: u32,
        /// True if choices follow each other, as in a closed loop.
        repeats: bool,
    },
    Sessions(Vec<Session<u32>>),
    Walk(Walk<u32>),
    Scenario(Arc<Scenario>),
    /// With the factor on think times.
    Logged(f64),
}

/// A client's position in its visit.
#[derive(Debug)]
pub enum Position {
    /// The remaining requests of the burst.
    Pick { left: u32 },
    /// Request `next` of a burst of a session.
    Session { number: u32, burst: u32, next: u32 },
    /// Request `next` of a page, after `pages` pages.
    Walk { page: u32, next: u32, pages: u32 },
    /// Request `next` of an iteration, which is drawn at its start; `logs_in` if the login comes first.
    Scenario { logs_in: bool, requests: Box<[u32]>, next: u32 },
    /// Request `next` of a session of a log.
    Logged { start_ns: i64, requests: Box<[Request]>, next: u32 },
}

pub struct NextRequest {
    pub document: u32,
    pub when: RequestTime,
}

pub enum RequestTime {
    /// As soon as earlier requests are answered.
    Immediate,
    /// After a think time from its own distribution, or else the run's.
    AfterThinking(Option<Distribution>),
    /// At this time since the run's start.
    At(Nanos),
}

impl Visits {
    /// Visits for these requests; `together` and `repeats` apply to clients that choose documents.
    pub fn new(requests: Requests, together: u32, repeats: bool) -> Visits {
        match requests {
            Requests::Pick(pick) => Visits::Pick { picker: Picker::new(&pick), together, repeats },
            Requests::Sessions(sessions) => Visits::Sessions(sessions),
            Requests::Walk(walk) => Visits::Walk(walk),
            Requests::Scenario(scenario) => Visits::Scenario(scenario),
            Requests::Logged { think_scale } => Visits::Logged(think_scale),
        }
    }

    /// The start of visit `number`, or of a logged one.
    pub fn begin(&self, number: u64, logged: Option<LoggedVisit>) -> Position {
        match self {
            Visits::Pick { together, .. } => Position::Pick { left: together - 1 },
            Visits::Sessions(sessions) => {
                let in_turn = (number % sessions.len() as u64) as u32;
                Position::Session { number: in_turn, burst: 0, next: 0 }
            }
            Visits::Walk(walk) => Position::Walk { page: walk.start() as u32, next: 0, pages: 0 },
            Visits::Scenario(_) => Position::Scenario { logs_in: false, requests: Box::default(), next: 0 },
            Visits::Logged(_) => {
                let (start_ns, requests) =
                    logged.map(|visit| (visit.start_ns, visit.requests)).unwrap_or_default();
                Position::Logged { start_ns, requests, next: 0 }
            }
        }
    }

    pub fn first(&mut self, position: &mut Position, random: &mut Xoshiro256PlusPlus) -> Option<NextRequest> {
        let document = match (&mut *self, &mut *position) {
            (Visits::Pick { picker, .. }, _) => picker.pick(random),
            (Visits::Sessions(sessions), Position::Session { number, next, .. }) => {
                take(&sessions[*number as usize][0], next)?
            }
            (Visits::Walk(walk), Position::Walk { page, next, .. }) => {
                take(&walk.page(*page as usize).burst, next)?
            }
            (Visits::Scenario(scenario), Position::Scenario { logs_in, requests, next }) => {
                *requests = scenario.draw(*logs_in, random);
                *next = 1;
                requests.first().copied()?
            }
            _ => return self.next(position, random),
        };
        Some(NextRequest { document, when: RequestTime::Immediate })
    }

    /// The next request to send together with those in flight, if there is one.
    pub fn next_in_burst(&mut self, position: &mut Position, random: &mut Xoshiro256PlusPlus) -> Option<u32> {
        match (self, position) {
            (Visits::Pick { picker, .. }, Position::Pick { left }) => {
                *left = left.checked_sub(1)?;
                Some(picker.pick(random))
            }
            // The first of a burst is sent alone.
            (Visits::Sessions(sessions), Position::Session { number, burst, next }) if *next > 1 => {
                take(&sessions[*number as usize][*burst as usize], next)
            }
            (Visits::Walk(walk), Position::Walk { page, next, .. }) if *next > 1 => {
                take(&walk.page(*page as usize).burst, next)
            }
            _ => None,
        }
    }

    /// The request after all earlier ones were answered. `None` ends the visit.
    pub fn next(&mut self, position: &mut Position, random: &mut Xoshiro256PlusPlus) -> Option<NextRequest> {
        let thought = |own, document| Some(NextRequest { document, when: RequestTime::AfterThinking(own) });
        match (self, position) {
            (Visits::Pick { picker, together, repeats }, Position::Pick { left }) => {
                if !*repeats {
                    return None;
                }
                *left = *together - 1;
                thought(None, picker.pick(random))
            }
            (Visits::Sessions(sessions), Position::Session { number, burst, next }) => {
                let session = &sessions[*number as usize];
                let now = &session[*burst as usize];
                if let Some(document) = take(now, next) {
                    return Some(NextRequest { document, when: RequestTime::Immediate });
                }
                let after = session.get(*burst as usize + 1)?;
                (*burst, *next) = (*burst + 1, 1);
                thought(now.think.map(|mean| Distribution { mean, ..Distribution::NONE }), after.requests[0])
            }
            (Visits::Walk(walk), Position::Walk { page, next, pages }) => {
                let now = walk.page(*page as usize);
                if let Some(document) = take(&now.burst, next) {
                    return Some(NextRequest { document, when: RequestTime::Immediate });
                }
                let to = walk.next(*page as usize, random)?;
                (*page, *next, *pages) = (to as u32, 1, *pages + 1);
                if *pages >= VISIT_PAGES_MAX {
                    return None;
                }
                thought(now.think, walk.page(to).burst.requests[0])
            }
            (Visits::Scenario(scenario), Position::Scenario { requests, next, .. }) => {
                let document = *requests.get(*next as usize)?;
                let before = requests[*next as usize - 1];
                *next += 1;
                thought(scenario.think_after(before), document)
            }
            (Visits::Logged(think_scale), Position::Logged { start_ns, requests, next }) => {
                let request = requests.get(*next as usize)?;
                *next += 1;
                let when = RequestTime::At(since_start(*start_ns, *think_scale, request));
                Some(NextRequest { document: request.document, when })
            }
            _ => unreachable!("a visit stays with the workload that began it"),
        }
    }

    /// The further requests of a visit, as far as they are known.
    pub fn later<'a>(&self, position: &'a Position) -> Box<dyn Iterator<Item = u32> + 'a> {
        match position {
            Position::Scenario { requests, next, .. } => {
                Box::new(requests.iter().skip(*next as usize).copied())
            }
            Position::Logged { requests, next, .. } => {
                Box::new(requests.iter().skip(*next as usize).map(|request| request.document))
            }
            _ => Box::new(std::iter::empty()),
        }
    }

    /// The think time after the last request of a visit, if it has its own.
    pub fn think_at_end(&self, position: &Position) -> Option<Distribution> {
        match (self, position) {
            (Visits::Scenario(scenario), Position::Scenario { requests, next, .. }) => {
                scenario.think_after(*requests.get((*next as usize).checked_sub(1)?)?)
            }
            _ => None,
        }
    }

    /// Returns true if a visit may have requests although one from this position had none.
    pub fn may_have_requests(&self, empty: &Position) -> bool {
        match (self, empty) {
            (Visits::Scenario(scenario), Position::Scenario { logs_in, .. }) => {
                *logs_in || !scenario.is_login_alone()
            }
            _ => false,
        }
    }

    /// When the further requests are due since the run's start, as far as that is known.
    pub fn due_later(&self, position: &Position) -> Vec<Nanos> {
        match (self, position) {
            (&Visits::Logged(think_scale), Position::Logged { start_ns, requests, next }) => {
                let rest = requests.iter().skip(*next as usize);
                rest.map(|request| since_start(*start_ns, think_scale, request)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns true if each request is chosen independently.
    pub fn are_picked(&self) -> bool {
        matches!(self, Visits::Pick { .. })
    }

    /// Returns true if a think time of the run's distribution follows each response.
    pub fn think_once_an_answer(&self) -> bool {
        matches!(self, Visits::Pick { together: 1, repeats: true, .. })
    }

    /// How well the choices fit their weights.
    pub fn mix_check(&self) -> Option<MixCheck> {
        match self {
            Visits::Pick { picker, .. } => picker.check(),
            _ => None,
        }
    }
}

/// The next request of a burst, if there is one.
fn take(burst: &Burst<u32>, next: &mut u32) -> Option<u32> {
    let document = burst.requests.get(*next as usize).copied()?;
    *next += 1;
    Some(document)
}

fn since_start(start_ns: i64, think_scale: f64, request: &Request) -> Nanos {
    let offset_ns = (request.offset_ns as f64 * think_scale) as i64;
    Nanos(start_ns.saturating_add(offset_ns).max(0) as u64)
}
