//! Who asks for what, and when: arrivals, requests and thinking, behind one face.
//!
//! A *visit* is what one arrival does: a single request, a session of a file, a walk, a session of a log. An
//! [`Itinerary`] is one client's place in its visit. In a closed loop a client whose visit is over begins
//! another. Times are absolute on the monotonic clock.

mod arrivals;
mod sessions;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_measure::Nanos;

use crate::plan::{Arrivals, Requests, Think, distribution::Law, mix::MixCheck};
use arrivals::RemainingArrivals;
use sessions::{Place, Visits, Wanted, When};

/// The source of all requests.
pub struct Workload<'a> {
    arrivals_left: RemainingArrivals<'a>,
    visits: Visits,
    think: Think,
    random: Xoshiro256PlusPlus,
    origin: Nanos,
    /// The remaining visits and requests.
    left: Quota,
    visits_begun: u64,
}

/// One client's place in its visit.
#[derive(Debug)]
pub struct Itinerary {
    began: Nanos,
    /// When its last turn began: the request, or burst, before the one that is thought about.
    turn: Nanos,
    place: Place,
}

/// A request to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    pub at: Nanos,
    pub document: u32,
}

/// How much may be asked for in all.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    pub visits: u64,
    pub requests: u64,
}

impl<'a> Workload<'a> {
    /// Begins at `origin`; a closed loop's clients come at random within `ramp`. Those that pick send so many requests
    /// `together`.
    pub fn new(
        arrivals: Arrivals<'a>,
        requests: Requests,
        think: Think,
        together: u32,
        quota: Quota,
        (origin, ramp): (Nanos, Nanos),
        seed: u64,
    ) -> Workload<'a> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let arrivals_left = RemainingArrivals::new(arrivals, ramp, &mut random);
        let visits = Visits::new(requests, together, arrivals_left.is_closed());
        Workload { arrivals_left, visits, think, random, origin, left: quota, visits_begun: 0 }
    }

    /// When the next client comes, if any more do.
    pub fn next_start(&mut self) -> Option<Nanos> {
        if self.left.is_none() {
            return None;
        }
        self.arrivals_left.next_start().map(|start| self.origin + start)
    }

    /// Lets the next client in.
    pub fn start(&mut self) -> Option<Itinerary> {
        let at = self.next_start()?;
        let logged = self.arrivals_left.take();
        let place = self.visits.begin(self.visits_begun, logged);
        Some(self.visit(at, place))
    }

    /// Sends the next client away.
    pub fn skip(&mut self) {
        self.arrivals_left.take();
    }

    /// Another visit of a client of a closed loop, whose visit ended at `answered`.
    pub fn renew(&mut self, answered: Nanos) -> Option<Itinerary> {
        if !self.arrivals_left.is_closed() || self.left.is_none() {
            return None;
        }
        let law = match self.think {
            Think::AfterAnswer(law) => law,
            Think::FromStart(_) | Think::Rated { .. } => Law::NONE,
        };
        let at = answered + law.draw(&mut self.random);
        let place = self.visits.begin(self.visits_begun, None);
        Some(self.visit(at, place))
    }

    pub fn first(&mut self, itinerary: &mut Itinerary) -> Option<Due> {
        if self.left.requests == 0 {
            return None;
        }
        let wanted = self.visits.first(&mut itinerary.place, &mut self.random)?;
        Some(self.due(itinerary, &wanted, itinerary.began, 0))
    }

    /// A request that goes together with the ones under way, if there is one.
    pub fn beside(&mut self, itinerary: &mut Itinerary, at: Nanos) -> Option<Due> {
        if self.left.requests == 0 {
            return None;
        }
        let document = self.visits.beside(&mut itinerary.place, &mut self.random)?;
        self.left.requests -= 1;
        Some(Due { at, document })
    }

    /// A client's next request after all of its answers were complete at `answered`, of `received_bytes`
    /// in this visit; `None` ends the visit.
    pub fn next(&mut self, itinerary: &mut Itinerary, answered: Nanos, received_bytes: u64) -> Option<Due> {
        if self.left.requests == 0 {
            return None;
        }
        let wanted = self.visits.next(&mut itinerary.place, &mut self.random)?;
        Some(self.due(itinerary, &wanted, answered, received_bytes))
    }

    /// When the requests after the current one are due, as far as that is known before their time.
    pub fn rest(&self, itinerary: &Itinerary) -> Vec<Nanos> {
        self.visits.rest(&itinerary.place).into_iter().map(|since| self.origin + since).collect()
    }

    /// Returns true if a failed request ends the visit it is part of.
    pub fn failure_ends_visit(&self) -> bool {
        !self.visits.are_picked()
    }

    /// Returns true if visits are single requests, so that one visitor's connection can serve the next.
    pub fn visits_share_connections(&self) -> bool {
        self.visits.are_picked() && matches!(self.arrivals_left, RemainingArrivals::Open(_))
    }

    /// The mean think time of a closed loop in which each answer is thought about.
    pub fn mean_think(&self) -> Option<Nanos> {
        match self.think {
            Think::AfterAnswer(law) if self.visits.think_once_an_answer() => Some(law.mean),
            _ => None,
        }
    }

    /// How what was picked fits its weights.
    pub fn mix_check(&self) -> Option<MixCheck> {
        self.visits.mix_check()
    }

    /// The share of the quota that is used up, where there is one.
    pub fn used(&self, quota: Quota) -> f64 {
        let share = |left: u64, all: u64| if all == u64::MAX { 0.0 } else { 1.0 - left as f64 / all as f64 };
        share(self.left.visits, quota.visits).max(share(self.left.requests, quota.requests))
    }

    fn visit(&mut self, at: Nanos, place: Place) -> Itinerary {
        self.left.visits -= 1;
        self.visits_begun += 1;
        Itinerary { began: at, turn: at, place }
    }

    /// Gives what is wanted its time; it is asked for.
    fn due(
        &mut self,
        itinerary: &mut Itinerary,
        wanted: &Wanted,
        answered: Nanos,
        received_bytes: u64,
    ) -> Due {
        self.left.requests -= 1;
        let at = match wanted.when {
            When::AtOnce => answered,
            When::Thought(own) => self.after_thinking(itinerary, answered, received_bytes, own),
            When::At(since) => self.origin + since,
        };
        Due { at, document: wanted.document }
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
}

impl Quota {
    pub const UNLIMITED: Quota = Quota { visits: u64::MAX, requests: u64::MAX };

    /// Returns true if nothing more may begin.
    fn is_none(&self) -> bool {
        self.visits == 0 || self.requests == 0
    }
}

#[cfg(test)]
mod tests;
