//! M/PH/c/LPS-r with room for K jobs: the Markov chain ends at level K, where arrivals are turned away.
//!
//! The stationary distribution is found by block elimination from the empty station upwards. An accepted job is
//! followed as in `tagged`, but while it waits the jobs that come behind it are counted one by one: at most K − r wait
//! in all, and so their number is not negative binomial.

use super::distribution::{ResponseDistribution, SURVIVAL_TAIL};
use super::occupancy::Move;
use super::stationary::Stationary;
use super::tagged::{InService, apply, remaining, replaced, scaled};
use super::{ExactError, ExactLps, LEVELS_MAX, PhaseType};
use crate::closed_form::ClosedFormError;
use crate::speed::Speed;

/// The most multiplications of the elimination (levels times states per level cubed): a few seconds.
const ELIMINATION_MAX: f64 = 1e9;
/// The most states of a waiting job.
const WAITING_STATES_MAX: usize = 200_000;
/// The most events followed.
const EVENTS_MAX: usize = 100_000;
/// A job stays longer than this many means only in the part of the tail that is left out, unless demand varies greatly.
const TAIL_OF_MEANS: f64 = 10.0;

impl ExactLps {
    /// As [`ExactLps::with_speed`], with room for `capacity` jobs in all and any load: arrivals that find the station
    /// full are refused. Results describe accepted jobs.
    ///
    /// # Errors
    /// [`ExactError`] when a parameter is out of its domain or the state space too large.
    pub fn finite(
        arrival_rate: f64,
        demand: PhaseType,
        limit: u32,
        speed: &Speed,
        capacity: u32,
    ) -> Result<Self, ExactError> {
        let refuse = |name, requirement, value| {
            Err(ExactError::ClosedForm(ClosedFormError::Parameter { name, requirement, value }))
        };
        if !(arrival_rate.is_finite() && arrival_rate > 0.0) {
            return refuse("arrival rate", "positive and finite", arrival_rate);
        }
        if limit == 0 {
            return refuse("r", "at least 1", 0.0);
        }
        if capacity < limit {
            return refuse("capacity", "at least r", f64::from(capacity));
        }
        let states = Self::level_states(limit, demand.phases())?;
        if capacity > LEVELS_MAX || f64::from(capacity) * (states as f64).powi(3) > ELIMINATION_MAX {
            return Err(ExactError::TooManyLevels { capacity, states });
        }
        let mut solved = Self::unsolved(arrival_rate, demand, limit, speed);
        solved.capacity = Some(capacity as usize);
        solved.stationary =
            Stationary::finite(arrival_rate, &solved.speeds, &solved.occupancies, capacity as usize)
                .ok_or(ExactError::Singular)?;
        Ok(solved)
    }

    /// The probability that an arrival finds the station full: that it is full, by PASTA. 0 without a capacity.
    pub fn loss_probability(&self) -> f64 {
        self.stationary.full()
    }

    /// Returns true if [`ExactLps::distribution`] takes at most seconds.
    pub fn has_distribution(&self) -> bool {
        self.capacity.is_none_or(|capacity| {
            let waiting = capacity - self.limit;
            let counted = if self.is_unshared() { waiting } else { waiting * (waiting + 1) / 2 };
            // Far beyond saturation most events are refused arrivals.
            let events = (self.arrival_rate + self.event_rate()) * self.mean_response_time() * TAIL_OF_MEANS;
            counted * self.occupancies.of(self.limit).states <= WAITING_STATES_MAX
                && events <= EVENTS_MAX as f64
        })
    }

    /// Returns true if the jobs in service do not slow each other down.
    fn is_unshared(&self) -> bool {
        self.speeds.iter().enumerate().all(|(jobs, speed)| *speed == jobs as f64)
    }
}

/// A waiting accepted job, with the jobs behind it counted: `levels[ahead][behind]` by the phases of the r jobs in service.
struct CountedWaiting<'m> {
    model: &'m ExactLps,
    levels: Vec<Vec<Vec<f64>>>,
    inside: Vec<Move>,
    /// A completion that admits the next job.
    down: Vec<Move>,
    /// A completion that admits this job.
    enter: Vec<Move>,
    stay: Vec<f64>,
    arrival_share: f64,
    /// Set when jobs that arrive behind slow this job down later, so they must be counted.
    counts_behind: bool,
}

impl<'m> CountedWaiting<'m> {
    fn new(model: &'m ExactLps, arrival_share: f64) -> Self {
        let limit = model.limit;
        let full = model.occupancies.of(limit);
        let share = (1.0 - arrival_share) * model.event_share(limit);
        let (inside, enter) = (scaled(&full.inside, share), scaled(&full.exits, share));
        let down = replaced(&enter, model.occupancies.of(limit - 1));
        let stay = remaining(full.states, 1.0 - arrival_share, &[&inside, &enter]);
        let places = model.capacity.unwrap_or(limit) - limit;
        let counts_behind = !model.is_unshared();
        let level = |ahead: usize| {
            let others = if counts_behind { places - ahead } else { 1 };
            let mut level = vec![vec![0.0; full.states]; others];
            level[0] = model.found(limit + ahead);
            level
        };
        let levels = (0..places).map(level).collect();
        Self { model, levels, inside, down, enter, stay, arrival_share, counts_behind }
    }

    fn mass(&self) -> f64 {
        self.levels.iter().flatten().flatten().sum()
    }

    /// Steps one event; returns the probability of entering service at it, by the number of jobs behind and the phases
    /// of the r − 1 others.
    fn step(&mut self) -> Vec<Vec<f64>> {
        let behind_max = self.levels.first().map_or(0, Vec::len);
        let others = self.model.occupancies.of(self.model.limit - 1).states;
        let mut entered = vec![vec![0.0; others]; behind_max];
        for ahead in 0..self.levels.len() {
            let (lower, here) = self.levels.split_at_mut(ahead);
            let here = &mut here[0];
            // From the most jobs behind to the fewest: an arrival moves a probability of the previous step.
            for behind in (0..here.len()).rev() {
                let from = std::mem::take(&mut here[behind]);
                let mut next: Vec<f64> = from.iter().zip(&self.stay).map(|(p, stay)| p * stay).collect();
                apply(&self.inside, 1.0, &from, &mut next);
                match lower.last_mut() {
                    Some(below) => apply(&self.down, 1.0, &from, &mut below[behind]),
                    None => apply(&self.enter, 1.0, &from, &mut entered[behind]),
                }
                let arrives = if self.counts_behind { here.get_mut(behind + 1) } else { None };
                let target = arrives.unwrap_or(&mut next);
                target.iter_mut().zip(&from).for_each(|(sum, p)| *sum += p * self.arrival_share);
                here[behind] = next;
            }
        }
        entered
    }
}

/// The distribution of the response time of accepted jobs.
pub(super) fn distribution(model: &ExactLps) -> Result<ResponseDistribution, ExactError> {
    let (arrival, event) = (model.arrival_rate, model.event_rate());
    let (rate, arrival_share) = (arrival + event, arrival / (arrival + event));
    let mut waiting = CountedWaiting::new(model, arrival_share);
    let mut service = InService::new(model, arrival_share);
    let mut survival = vec![waiting.mass() + service.mass()];
    while survival[survival.len() - 1] > SURVIVAL_TAIL {
        // Demand that varies greatly has jobs that stay for many times the mean.
        if survival.len() >= EVENTS_MAX {
            return Err(ExactError::TooNearSaturation);
        }
        let entered = waiting.step();
        service.step();
        for (behind, others) in entered.iter().enumerate() {
            service.admit(others, 1.0, behind);
        }
        survival.push(waiting.mass() + service.mass());
    }
    Ok(ResponseDistribution::new(rate, SURVIVAL_TAIL, survival))
}
