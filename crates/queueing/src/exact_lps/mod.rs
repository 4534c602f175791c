//! M/PH/c/LPS-r solved exactly: mean, distribution of the response time, and mean by service demand.
//!
//! Poisson arrivals, phase-type demand, and at most r jobs sharing a server of any speed v(n), or c servers; FIFO is r = c.
//! There may be room for K jobs only (`finite`). The state is the number of jobs and the number in each phase among those
//! in service: a quasi-birth-death process, homogeneous above level r. The mean comes from its stationary distribution
//! (`stationary`); the distribution of the response time from a tagged job (`tagged`) followed by uniformisation
//! (`distribution`); the mean by demand from attained service as the clock (`conditional`).

mod conditional;
mod distribution;
mod finite;
mod occupancy;
mod phase_type;
mod stationary;
mod tagged;

use thiserror::Error;

pub use distribution::ResponseDistribution;
pub use phase_type::PhaseType;

use crate::closed_form::{ClosedFormError, Mg1};
use crate::speed::Speed;
use occupancy::Occupancies;
use stationary::Stationary;

/// The most states per level. Beyond it the dense solution takes minutes, and simulation is the better tool.
pub const LEVEL_STATES_MAX: usize = 600;
/// The most places in service, and the most room with a capacity: a matrix is kept for each level.
pub const LEVELS_MAX: u32 = 20_000;

/// The reason why there is no exact solution.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ExactError {
    /// The station is unstable, or a parameter is out of its domain.
    #[error(transparent)]
    ClosedForm(#[from] ClosedFormError),
    /// The demand has no (small) phase-type form.
    #[error("the demand is not phase type (exponential, Erlang, hyper-exponential): simulate")]
    NotPhaseType,
    /// r and the number of phases give too many states or levels.
    #[error(
        "r = {limit} with {phases} phases needs more than {LEVEL_STATES_MAX} states per level or {LEVELS_MAX} levels: simulate"
    )]
    TooLarge { limit: u32, phases: usize },
    #[error(
        "room for {capacity} jobs with {states} states per level is too much for the exact solution: simulate"
    )]
    TooManyLevels {
        capacity: u32,
        /// States per level.
        states: usize,
    },
    /// The linear equations are singular: the load is within rounding of 1.
    #[error("the load is too close to 1 for the exact solution")]
    Singular,
    /// The mean is known, but following a job through the queue would take minutes.
    #[error(
        "following a job through the queue takes too long, with a load close to 1 or demand that varies much: simulate"
    )]
    TooNearSaturation,
}

/// A solved LPS station with Poisson arrivals and phase-type demand.
#[derive(Debug, Clone)]
pub struct ExactLps {
    arrival_rate: f64,
    demand: PhaseType,
    limit: usize,
    /// K, the most jobs present; `None` without a limit.
    capacity: Option<usize>,
    /// v(0) = 0, v(1) … v(r).
    speeds: Vec<f64>,
    occupancies: Occupancies,
    stationary: Stationary,
}

impl ExactLps {
    /// Solves for the stationary distribution; `limit` is r.
    ///
    /// # Errors
    /// [`ExactError`] when the load is 1 or more or the state space too large.
    pub fn new(arrival_rate: f64, demand: PhaseType, limit: u32) -> Result<Self, ExactError> {
        Self::with_speed(arrival_rate, demand, limit, &Speed::Servers(1.0))
    }

    /// As [`ExactLps::new`], with the total speed v(n) of n jobs in service: several servers, or a measured curve.
    ///
    /// # Errors
    /// As [`ExactLps::new`]; the load is λ `E[S]` / v(r).
    pub fn with_speed(
        arrival_rate: f64,
        demand: PhaseType,
        limit: u32,
        speed: &Speed,
    ) -> Result<Self, ExactError> {
        // Demands at v(r) times the speed are shorter by that factor, so stability is that of one server.
        let full = speed.at(limit.max(1) as usize);
        Mg1::new(arrival_rate, demand.mean() / full, demand.second_moment() / (full * full))?;
        let refuse = |name, requirement, value| ClosedFormError::Parameter { name, requirement, value };
        if limit == 0 {
            return Err(refuse("r", "at least 1", 0.0).into());
        }
        if arrival_rate == 0.0 {
            return Err(refuse("arrival rate", "positive", 0.0).into());
        }
        Self::level_states(limit, demand.phases())?;
        let mut solved = Self::unsolved(arrival_rate, demand, limit, speed);
        solved.stationary = Stationary::solve(arrival_rate, &solved.speeds, &solved.occupancies)
            .ok_or(ExactError::Singular)?;
        Ok(solved)
    }

    /// States per level, unless they are too many.
    fn level_states(limit: u32, phases: usize) -> Result<usize, ExactError> {
        let states = occupancy::state_count(limit, phases).filter(|states| *states <= LEVEL_STATES_MAX);
        states.filter(|_| limit <= LEVELS_MAX).ok_or(ExactError::TooLarge { limit, phases })
    }

    fn unsolved(arrival_rate: f64, demand: PhaseType, limit: u32, speed: &Speed) -> Self {
        let occupancies = Occupancies::new(&demand, limit as usize);
        let limit = limit as usize;
        let speeds = (0..=limit).map(|jobs| if jobs == 0 { 0.0 } else { speed.at(jobs) }).collect();
        let stationary = Stationary::default();
        Self { arrival_rate, demand, limit, capacity: None, speeds, occupancies, stationary }
    }

    /// The distribution of states seen by an accepted job that finds `jobs` jobs present.
    fn found(&self, jobs: usize) -> Vec<f64> {
        let accepted = 1.0 - self.loss_probability();
        self.stationary.levels[jobs].iter().map(|probability| probability / accepted).collect()
    }

    fn throughput(&self) -> f64 {
        self.arrival_rate * (1.0 - self.loss_probability())
    }

    /// The event rate of a uniformised clock, fast enough for every phase at every speed.
    fn event_rate(&self) -> f64 {
        self.demand.rate_max() * self.speeds.iter().copied().fold(0.0, f64::max)
    }

    /// The probability that a service event belongs to one given job of `jobs`, per unit of its rate.
    fn event_share(&self, jobs: usize) -> f64 {
        self.speeds[jobs] / jobs as f64 / self.event_rate()
    }

    /// `E[R]` in seconds, by Little's law from the mean number present.
    pub fn mean_response_time(&self) -> f64 {
        self.stationary.mean_present() / self.throughput()
    }

    /// `E[W]` in seconds: the mean wait before service starts.
    pub fn mean_wait(&self) -> f64 {
        self.stationary.mean_waiting() / self.throughput()
    }

    /// The distribution of the response time, for percentiles.
    ///
    /// # Errors
    /// [`ExactError::TooNearSaturation`] where that would take minutes.
    pub fn distribution(&self) -> Result<ResponseDistribution, ExactError> {
        match self.capacity {
            Some(_) if !self.has_distribution() => Err(ExactError::TooNearSaturation),
            Some(_) => finite::distribution(self),
            None => distribution::solve(self),
        }
    }

    /// `E[R | S = x]` in seconds for each demand x, without a capacity. Eq. 2.1 is an approximation of it.
    pub fn conditional_means(&self, demands: &[f64]) -> Vec<f64> {
        assert!(self.capacity.is_none(), "means by demand are of stations without a capacity");
        conditional::solve(self, demands)
    }
}

#[cfg(test)]
mod tests;
