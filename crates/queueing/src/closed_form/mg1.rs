//! M/G/1: Poisson arrivals, any service demand, one server.
//!
//! FIFO needs two moments of the demand (Pollaczek-Khinchine), PS only the mean: it is insensitive to the distribution
//! of demand. The two mean response times agree only where C² = 1.

use super::ClosedFormError;
use crate::distribution::{Distribution, RandomVariable};

/// An open station with utilisation below 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mg1 {
    arrival_rate: f64,
    mean_demand: f64,
    second_moment_demand: f64,
}

impl Mg1 {
    /// From λ in 1/s, `E[S]` in s and `E[S²]` in s².
    ///
    /// # Errors
    /// [`ClosedFormError`] when a value is negative or not finite, `E[S²]` < `E[S]²`, or λ `E[S]` ≥ 1.
    pub fn new(
        arrival_rate: f64,
        mean_demand: f64,
        second_moment_demand: f64,
    ) -> Result<Self, ClosedFormError> {
        let refuse = |name, requirement, value| Err(ClosedFormError::Parameter { name, requirement, value });
        if !(arrival_rate.is_finite() && arrival_rate >= 0.0) {
            return refuse("arrival rate", "non-negative and finite", arrival_rate);
        }
        if !(mean_demand.is_finite() && mean_demand > 0.0) {
            return refuse("mean demand", "positive and finite", mean_demand);
        }
        // A deterministic demand has equality, up to the caller's rounding.
        if !(second_moment_demand.is_finite() && second_moment_demand >= mean_demand.powi(2) * (1.0 - 1e-9)) {
            return refuse(
                "second moment of demand",
                "finite and at least the mean squared",
                second_moment_demand,
            );
        }
        let utilisation = arrival_rate * mean_demand;
        if utilisation >= 1.0 {
            let saturation_per_second = 1.0 / mean_demand;
            return Err(ClosedFormError::Unstable { utilisation, saturation_per_second });
        }
        Ok(Self { arrival_rate, mean_demand, second_moment_demand })
    }

    /// From λ in 1/s and the distribution of the demand in seconds.
    ///
    /// # Errors
    /// As [`Mg1::new`].
    pub fn of(arrival_rate: f64, demand: &Distribution) -> Result<Self, ClosedFormError> {
        Self::new(arrival_rate, demand.mean(), demand.second_moment())
    }

    /// λ `E[S]`, by the utilisation law.
    pub fn utilisation(&self) -> f64 {
        self.arrival_rate * self.mean_demand
    }

    /// 1 / `E[S]`: the throughput at which the station saturates.
    pub fn saturation_per_second(&self) -> f64 {
        1.0 / self.mean_demand
    }

    pub fn mean_demand(&self) -> f64 {
        self.mean_demand
    }

    /// `E[S²]` / 2`E[S]`: the mean residual demand of the job in service.
    pub fn mean_residual(&self) -> f64 {
        self.second_moment_demand / (2.0 * self.mean_demand)
    }

    /// Squared coefficient of variation of the demand.
    pub fn scv(&self) -> f64 {
        (self.second_moment_demand / self.mean_demand.powi(2) - 1.0).max(0.0)
    }

    /// `E[V]` = λ `E[S²]` / 2(1−ρ): the mean unfinished work, the same for every work-conserving discipline.
    pub fn mean_workload(&self) -> f64 {
        self.utilisation() * self.mean_residual() / (1.0 - self.utilisation())
    }

    /// Pollaczek-Khinchine: the mean wait in M/G/1 FIFO equals the mean workload (thesis, Eq. 2.3).
    pub fn fifo_mean_response_time(&self) -> f64 {
        self.mean_workload() + self.mean_demand
    }

    /// `E[S]` / (1−ρ): M/G/1 PS.
    pub fn ps_mean_response_time(&self) -> f64 {
        self.ps_conditional_mean(self.mean_demand)
    }

    /// `E[R | S = x]` = x / (1−ρ): M/G/1 PS (thesis, Eq. 2.4).
    pub fn ps_conditional_mean(&self, demand: f64) -> f64 {
        demand / (1.0 - self.utilisation())
    }
}
