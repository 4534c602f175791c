//! The workload of a run: which request is due when, from arrivals, visits and think times.
//!
//! A *visit* is what one arrival does: a single request, a session of a file, a walk, or a session of a log. A
//! [`VisitState`] is a client's position in its visit. In a closed loop a client starts another visit after each. Times
//! are absolute on the monotonic clock.

mod arrivals;
mod sessions;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_measure::Nanos;

use crate::plan::{
    Arrivals, Requests, Think,
    distribution::{Distribution, exponential},
    mix::MixCheck,
    scenario::Scenario,
};
use arrivals::RemainingArrivals;
use sessions::{NextRequest, Position, RequestTime, Visits};

/// The most visits that are under way when a run starts.
const UNDER_WAY_MAX: usize = 1_000_000;

/// The source of all requests.
pub struct Workload<'a> {
    arrivals_left: RemainingArrivals<'a>,
    visits: Visits,
    think: Think,
    random: Xoshiro256PlusPlus,
    origin: Nanos,
    /// How long ago the visits began that are under way when the run starts.
    under_way: Vec<Nanos>,
    /// The remaining visits and requests.
    left: Quota,
    visits_begun: u64,
}

/// A client's position in its visit.
#[derive(Debug)]
pub struct VisitState {
    began: Nanos,
    /// How long ago that was when the run started.
    age: Nanos,
    /// When its last request or burst was due, from which pacing counts.
    paced_from: Nanos,
    position: Position,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueRequest {
    pub at: Nanos,
    pub document: u32,
}

/// The most visits and requests of a run.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    pub visits: u64,
    pub requests: u64,
}

impl<'a> Workload<'a> {
    /// Starts at `origin`. Closed-loop clients arrive at random within `ramp`; clients that choose documents send
    /// bursts of `together` requests.
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
        let rate = match &arrivals {
            Arrivals::Open { segments, .. } => segments.first().map_or(0.0, |segment| segment.from),
            Arrivals::Closed { .. } | Arrivals::Logged(_) => 0.0,
        };
        let arrivals_left = RemainingArrivals::new(arrivals, ramp, &mut random);
        let under_way = match &requests {
            Requests::Scenario(scenario) if scenario.begins_under_way() => {
                ages(rate, scenario.longest_think(), &mut random)
            }
            _ => Vec::new(),
        };
        let visits = Visits::new(requests, together, arrivals_left.is_closed());
        Workload { arrivals_left, visits, think, random, origin, under_way, left: quota, visits_begun: 0 }
    }

    /// When the next client arrives; `None` if there are no more.
    pub fn next_start(&mut self) -> Option<Nanos> {
        if self.left.is_none() {
            return None;
        }
        if !self.under_way.is_empty() {
            return Some(self.origin);
        }
        self.arrivals_left.next_start().map(|start| self.origin + start)
    }

    /// Starts the next client's visit.
    pub fn start(&mut self) -> Option<VisitState> {
        let at = self.next_start()?;
        let age = self.under_way.pop();
        let logged = if age.is_none() { self.arrivals_left.take() } else { None };
        let position = self.visits.begin(self.visits_begun, logged);
        Some(VisitState { age: age.unwrap_or(Nanos::ZERO), ..self.visit(at, position) })
    }

    /// Skips the next arrival.
    pub fn skip(&mut self) {
        if self.under_way.pop().is_none() {
            self.arrivals_left.take();
        }
    }

    /// Starts another visit of a closed-loop client, whose visit `before` ended at `answered`.
    pub fn next_visit(&mut self, before: &VisitState, answered: Nanos) -> Option<VisitState> {
        if !self.arrivals_left.is_closed() || self.left.is_none() {
            return None;
        }
        let law = match (self.visits.think_at_end(&before.position), self.think) {
            (Some(law), _) | (None, Think::AfterAnswer(law)) => law,
            (None, Think::FromStart(_) | Think::Rated { .. }) => Distribution::NONE,
        };
        let at = answered + law.draw(&mut self.random);
        let position = self.visits.begin(self.visits_begun, None);
        Some(self.visit(at, position))
    }

    /// Starts the visit of a closed-loop client that follows one without a request. It begins when that did, since
    /// nothing was answered that the client could think about. `None` if all others have none either, or may not start.
    pub fn next_after_empty(&mut self, empty: &VisitState) -> Option<VisitState> {
        let may_start = self.arrivals_left.is_closed() && !self.left.is_none();
        if !may_start || !self.visits.may_have_requests(&empty.position) {
            return None;
        }
        let position = self.visits.begin(self.visits_begun, None);
        Some(self.visit(empty.began, position))
    }

    /// The first request of a visit. `None` if it has none, or no more may be made.
    pub fn first(&mut self, visit_state: &mut VisitState) -> Option<DueRequest> {
        if self.left.requests == 0 {
            return None;
        }
        // A login is made by whoever comes, however long the visit would have been under way.
        let logs_in = matches!(visit_state.position, Position::Scenario { logs_in: true, .. });
        let mut request = self.visits.first(&mut visit_state.position, &mut self.random)?;
        let mut ahead = if logs_in { Nanos::ZERO } else { visit_state.age };
        while ahead > Nanos::ZERO {
            request = self.visits.next(&mut visit_state.position, &mut self.random)?;
            let thought = self.thought(&request);
            if thought >= ahead {
                self.left.requests -= 1;
                visit_state.paced_from = visit_state.began + (thought - ahead);
                return Some(DueRequest { at: visit_state.paced_from, document: request.document });
            }
            ahead = ahead - thought;
        }
        Some(self.due(visit_state, &request, visit_state.began, 0))
    }

    /// Draws the think time before a request that was to be made before the run.
    fn thought(&mut self, request: &NextRequest) -> Nanos {
        match (&request.when, &self.think) {
            (RequestTime::AfterThinking(Some(law)), _)
            | (RequestTime::AfterThinking(None), Think::AfterAnswer(law)) => law.draw(&mut self.random),
            _ => Nanos::ZERO,
        }
    }

    /// The next request to send together with those in flight, if there is one.
    pub fn next_in_burst(&mut self, visit_state: &mut VisitState, at: Nanos) -> Option<DueRequest> {
        if self.left.requests == 0 {
            return None;
        }
        let document = self.visits.next_in_burst(&mut visit_state.position, &mut self.random)?;
        self.left.requests -= 1;
        Some(DueRequest { at, document })
    }

    /// A client's next request after all its responses were complete at `answered` and `received_bytes` were received
    /// in this visit. `None` ends the visit.
    pub fn next(
        &mut self,
        visit_state: &mut VisitState,
        answered: Nanos,
        received_bytes: u64,
    ) -> Option<DueRequest> {
        if self.left.requests == 0 {
            return None;
        }
        let request = self.visits.next(&mut visit_state.position, &mut self.random)?;
        Some(self.due(visit_state, &request, answered, received_bytes))
    }

    /// The further requests of a visit, as far as they are known.
    pub fn later<'v>(&self, visit_state: &'v VisitState) -> impl Iterator<Item = u32> + 'v {
        self.visits.later(&visit_state.position)
    }

    /// When the further requests are due, as far as that is known.
    pub fn due_later(&self, visit_state: &VisitState) -> Vec<Nanos> {
        self.visits.due_later(&visit_state.position).into_iter().map(|since| self.origin + since).collect()
    }

    /// Returns true if each visit is an iteration by a user that continues with the next.
    pub fn users_stay(&self) -> bool {
        matches!(&self.visits, Visits::Scenario(scenario) if !scenario.is_user_new())
    }

    /// Returns true if a failed request ends the visit it is part of.
    pub fn failure_ends_visit(&self) -> bool {
        !self.visits.are_picked()
    }

    /// Returns true if visits are single requests, so that visitors can share connections.
    pub fn visits_share_connections(&self) -> bool {
        self.visits.are_picked() && matches!(self.arrivals_left, RemainingArrivals::Open(_))
    }

    /// The mean think time of a closed loop with one after each response.
    pub fn mean_think(&self) -> Option<Nanos> {
        match self.think {
            Think::AfterAnswer(law) if self.visits.think_once_an_answer() => Some(law.mean),
            _ => None,
        }
    }

    /// How well the chosen documents fit their weights.
    pub fn mix_check(&self) -> Option<MixCheck> {
        self.visits.mix_check()
    }

    /// The used share of the quota, if there is one.
    pub fn used(&self, quota: Quota) -> f64 {
        let share = |left: u64, all: u64| if all == u64::MAX { 0.0 } else { 1.0 - left as f64 / all as f64 };
        share(self.left.visits, quota.visits).max(share(self.left.requests, quota.requests))
    }

    /// Returns true if no more visits or requests may start.
    pub fn is_quota_used(&self) -> bool {
        self.left.is_none()
    }

    fn visit(&mut self, at: Nanos, position: Position) -> VisitState {
        self.left.visits -= 1;
        self.visits_begun += 1;
        VisitState { began: at, age: Nanos::ZERO, paced_from: at, position }
    }

    /// Sets a request's due time and counts it against the quota.
    fn due(
        &mut self,
        visit_state: &mut VisitState,
        request: &NextRequest,
        answered: Nanos,
        received_bytes: u64,
    ) -> DueRequest {
        self.left.requests -= 1;
        let at = match request.when {
            RequestTime::Immediate => answered,
            RequestTime::AfterThinking(own) => {
                self.after_thinking(visit_state, answered, received_bytes, own)
            }
            RequestTime::At(since) => self.origin + since,
        };
        DueRequest { at, document: request.document }
    }

    /// When the next request is due, after the think time or by pacing.
    fn after_thinking(
        &mut self,
        visit_state: &mut VisitState,
        answered: Nanos,
        received_bytes: u64,
        own: Option<Distribution>,
    ) -> Nanos {
        let at = match (own, self.think) {
            (Some(law), _) | (None, Think::AfterAnswer(law)) => answered + law.draw(&mut self.random),
            (None, Think::FromStart(law)) => {
                answered.max(visit_state.paced_from + law.draw(&mut self.random))
            }
            (None, Think::Rated { bits_per_second }) => {
                let line = Nanos::from_seconds(received_bytes as f64 * 8.0 / bits_per_second);
                answered.max(visit_state.began + line)
            }
        };
        visit_state.paced_from = at;
        at
    }
}

/// How long ago visits began that arrived at this rate, as a Poisson process, and not earlier than the longest ago.
fn ages(rate: f64, longest: Nanos, random: &mut Xoshiro256PlusPlus) -> Vec<Nanos> {
    let mut found = Vec::new();
    let mut age = 0.0;
    while rate > 0.0 && found.len() < UNDER_WAY_MAX {
        age += exponential(random) / rate;
        if age >= longest.seconds() {
            break;
        }
        found.push(Nanos::from_seconds(age));
    }
    found
}

impl VisitState {
    /// Called before the first request: the visit starts with the login.
    pub fn log_in_first(&mut self) {
        if let Position::Scenario { logs_in, .. } = &mut self.position {
            *logs_in = true;
        }
    }

    /// Returns true if the last request was the login's last one.
    pub fn has_logged_in(&self, scenario: &Scenario) -> bool {
        let Position::Scenario { requests, next, .. } = &self.position else { return false };
        let is_of_login = |request: &u32| scenario.is_of_login(*request);
        !requests.get(*next as usize).is_some_and(is_of_login)
    }

    /// The scenario's request that was made last.
    pub fn current_request(&self) -> Option<u32> {
        let Position::Scenario { requests, next, .. } = &self.position else { return None };
        requests.get((*next as usize).checked_sub(1)?).copied()
    }
}

impl Quota {
    pub const UNLIMITED: Quota = Quota { visits: u64::MAX, requests: u64::MAX };

    /// Returns true if the quota is exhausted.
    fn is_none(&self) -> bool {
        self.visits == 0 || self.requests == 0
    }
}

#[cfg(test)]
mod tests;
