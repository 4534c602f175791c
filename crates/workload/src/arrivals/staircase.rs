//! A staircase of request rates, stationary from the first moment of every level.
//!
//! With Poisson arrivals alone the request rate would need a session's whole duration to build up. At each level,
//! sessions *in progress* therefore join, as a stationary process of the added rate would have them at that moment: an
//! M/G/∞ population, Poisson in number with mean rate × mean duration, each of a template drawn in proportion to its
//! duration and at a uniform age (length-biased sampling).

use std::iter::Peekable;
use std::vec::IntoIter;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::templates::{Templates, Totals, TraceTemplates};
use super::{Arrival, ArrivalsError, positive};
use crate::trace::Trace;
use crate::variates;

/// The most sessions in progress at once, on average, at any level.
pub const IN_PROGRESS_MAX: usize = 1_000_000;

const NS_PER_SECOND: f64 = 1e9;

/// A step of the staircase: this total request rate from `start_ns` on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// In nanoseconds since the run's start.
    pub start_ns: u64,
    /// The target request rate of sessions in progress and new ones together.
    pub requests_per_second: f64,
}

/// Rising request rates, generated from a trace's sessions drawn uniformly with replacement.
#[derive(Clone, Debug, PartialEq)]
pub struct Staircase {
    /// The levels in order; neither their starts nor their rates decrease.
    pub levels: Vec<Level>,
    /// No session starts later.
    pub end_ns: u64,
    /// The time before a level in which its sessions in progress connect, evenly spread, so that their connections
    /// exist when the level starts. At most the distance to the previous level.
    pub settle_ns: u64,
    /// A factor on think times. The load generator must use the same.
    pub think_scale: f64,
    /// The seed of everything random.
    pub seed: u64,
}

impl Staircase {
    /// Builds one level per rate, each of length `step_ns`. In the first half of the `settle_ns` at its start the
    /// sessions in progress connect, in the second half queues settle.
    pub fn in_steps(rates: &[f64], step_ns: u64, settle_ns: u64, think_scale: f64, seed: u64) -> Staircase {
        let settle_ns = settle_ns / 2;
        let level = |(index, &requests_per_second): (usize, &f64)| Level {
            start_ns: step_ns * index as u64 + settle_ns,
            requests_per_second,
        };
        let levels = rates.iter().enumerate().map(level).collect();
        Staircase { levels, end_ns: step_ns * rates.len() as u64, settle_ns, think_scale, seed }
    }

    /// The arrivals of one run in order of `connect_ns`, generated on demand.
    pub fn arrivals<'a>(
        &self,
        trace: &'a Trace,
    ) -> Result<impl Iterator<Item = Arrival> + use<'a>, ArrivalsError> {
        let arrivals = self.arrivals_of(TraceTemplates::new(trace, self.think_scale))?;
        Ok(arrivals.map(|Ok(arrival)| arrival))
    }

    /// The same for templates from any source, whose durations must be scaled by the same factor.
    pub fn arrivals_of<T: Templates>(&self, templates: T) -> Result<StaircaseArrivals<T>, ArrivalsError> {
        let totals = templates.totals();
        self.check(&totals)?;
        let mut newcomer_random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let batch_random = newcomer_random.clone();
        newcomer_random.jump(); // a stream of its own: levels do not disturb each other's newcomers
        Ok(StaircaseArrivals {
            newcomers: Newcomers::new(self, &totals, newcomer_random).peekable(),
            batch: Vec::new().into_iter().peekable(),
            batch_random,
            next_level: 0,
            staircase: self.clone(),
            templates,
            totals,
        })
    }

    /// The mean number of sessions in progress at a request rate: Little's law over durations.
    pub fn sessions_in_progress(&self, totals: &Totals, requests_per_second: f64) -> f64 {
        let duration_seconds = totals.mean_session_duration_ns() * self.think_scale / NS_PER_SECOND;
        requests_per_second / totals.mean_requests_per_session().max(1.0) * duration_seconds
    }

    fn check(&self, totals: &Totals) -> Result<(), ArrivalsError> {
        positive("think scale", self.think_scale)?;
        if totals.sessions == 0 {
            return Err(ArrivalsError::EmptyTrace);
        }
        let mut before = Level { start_ns: 0, requests_per_second: 0.0 };
        for (index, level) in self.levels.iter().enumerate() {
            let requests_per_second = level.requests_per_second;
            let later = level.start_ns > before.start_ns || index == 0;
            let rises = requests_per_second.is_finite() && requests_per_second >= before.requests_per_second;
            if !later || !rises || level.start_ns >= self.end_ns {
                return Err(ArrivalsError::Level { index, requests_per_second });
            }
            let sessions = self.sessions_in_progress(totals, requests_per_second);
            if sessions > IN_PROGRESS_MAX as f64 {
                return Err(ArrivalsError::TooManyInProgress { requests_per_second, sessions });
            }
            before = *level;
        }
        Ok(())
    }
}

/// The iterator of [`Staircase::arrivals_of`]. It holds the templates and one batch of in-progress sessions.
pub struct StaircaseArrivals<T> {
    templates: T,
    totals: Totals,
    staircase: Staircase,
    newcomers: Peekable<Newcomers>,
    batch: Peekable<IntoIter<Arrival>>,
    batch_random: Xoshiro256PlusPlus,
    /// The level whose batch follows `batch`.
    next_level: usize,
}

impl<T: Templates> Iterator for StaircaseArrivals<T> {
    type Item = Result<Arrival, T::Error>;

    fn next(&mut self) -> Option<Result<Arrival, T::Error>> {
        while self.batch.peek().is_none() && self.next_level < self.staircase.levels.len() {
            self.batch = match self.draw_batch(self.next_level) {
                Ok(batch) => batch.into_iter().peekable(),
                Err(error) => return Some(Err(error)),
            };
            self.next_level += 1;
        }
        let next = match (self.batch.peek(), self.newcomers.peek()) {
            (Some(joining), Some(new)) if joining.connect_ns <= new.connect_ns => self.batch.next(),
            (Some(_), None) => self.batch.next(),
            _ => self.newcomers.next(),
        };
        next.map(Ok)
    }
}

impl<T: Templates> StaircaseArrivals<T> {
    pub fn templates(&mut self) -> &mut T {
        &mut self.templates
    }

    /// Draws the sessions in progress when level `index` starts, beyond those of lower levels.
    fn draw_batch(&mut self, index: usize) -> Result<Vec<Arrival>, T::Error> {
        let Level { start_ns, requests_per_second } = self.staircase.levels[index];
        let (before_ns, before_rate) = match index.checked_sub(1).map(|below| self.staircase.levels[below]) {
            Some(below) => (below.start_ns, below.requests_per_second),
            None => (0, 0.0),
        };
        let added = requests_per_second - before_rate;
        let mean = self.staircase.sessions_in_progress(&self.totals, added);
        let count = variates::poisson(&mut self.batch_random, mean);
        let settle_ns = self.staircase.settle_ns.min(start_ns - before_ns);
        let connect = |k: usize| start_ns - settle_ns + (settle_ns as f64 * k as f64 / count as f64) as u64;
        (0..count).filter_map(|k| self.draw_in_progress(start_ns, connect(k)).transpose()).collect()
    }

    fn draw_in_progress(&mut self, level_ns: u64, connect_ns: u64) -> Result<Option<Arrival>, T::Error> {
        let think_scale = self.staircase.think_scale;
        let mark_ns = self.batch_random.random::<f64>() * self.totals.scaled_duration_ns;
        let (session, requests) = self.templates.at_duration(mark_ns)?;
        let duration_ns = scaled(requests.last().map_or(0, |request| request.offset_ns), think_scale);
        let age_ns = (1.0 - self.batch_random.random::<f64>()) * duration_ns as f64;
        let start_ns = level_ns as i64 - age_ns as i64;
        let due = |offset_ns| start_ns + scaled(offset_ns, think_scale);
        let first_request = requests.iter().position(|request| due(request.offset_ns) >= level_ns as i64);
        let arrival = |first_request| Arrival { connect_ns, start_ns, session, first_request };
        Ok(first_request.map(|first_request| arrival(first_request as u32)))
    }
}

/// Poisson arrivals of new sessions at the rate of the current level.
struct Newcomers {
    random: Xoshiro256PlusPlus,
    /// The start of each level with its sessions per nanosecond, then the end.
    levels: Vec<(f64, f64)>,
    end_ns: f64,
    sessions: usize,
    level: usize,
    now_ns: f64,
}

impl Newcomers {
    fn new(staircase: &Staircase, totals: &Totals, random: Xoshiro256PlusPlus) -> Self {
        let per_ns = |rate: f64| rate / totals.mean_requests_per_session() / NS_PER_SECOND;
        let levels = staircase.levels.iter();
        let levels: Vec<_> =
            levels.map(|level| (level.start_ns as f64, per_ns(level.requests_per_second))).collect();
        let now_ns = levels.first().map_or(0.0, |&(start_ns, _)| start_ns);
        let end_ns = staircase.end_ns as f64;
        Newcomers { random, levels, end_ns, sessions: totals.sessions as usize, level: 0, now_ns }
    }
}

impl Iterator for Newcomers {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        // A unit-rate exponential, consumed at the rate of each level it crosses.
        let mut remaining = variates::exponential(&mut self.random);
        loop {
            let &(_, rate) = self.levels.get(self.level)?;
            let until_ns = self.levels.get(self.level + 1).map_or(self.end_ns, |&(start_ns, _)| start_ns);
            let available = (until_ns - self.now_ns) * rate;
            if remaining < available {
                self.now_ns += remaining / rate;
                let session = self.random.random_range(0..self.sessions) as u32;
                let connect_ns = self.now_ns as u64;
                return Some(Arrival { connect_ns, start_ns: connect_ns as i64, session, first_request: 0 });
            }
            remaining -= available;
            self.now_ns = until_ns;
            self.level += 1;
        }
    }
}

fn scaled(ns: u64, think_scale: f64) -> i64 {
    (ns as f64 * think_scale) as i64
}
