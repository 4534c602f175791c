//! The speed v(n) of a station: its total rate of work with n jobs in service, relative to one job alone.
//!
//! Real servers neither scale perfectly nor conserve work: locks, caches and paging make v(n) bend and fall. A
//! station under v(n) stays processor sharing (each of n jobs gets v(n)/n), so virtual time, product form and
//! insensitivity carry over. Several equal servers are the case v(n) = min(n, c).

use std::sync::Arc;

use thiserror::Error;

/// The longest table of speeds.
pub const SPEEDS_MAX: usize = 100_000;

/// Total speed by the number of jobs in service; v(1) = 1 for the curves, so that demands are times on an idle station.
#[derive(Debug, Clone, PartialEq)]
pub enum Speed {
    /// min(n, c): c equal servers, each job on at most one; infinite for a delay.
    Servers(f64),
    /// n / (1 + α(n−1) + βn(n−1)): the universal scalability law (Gunther 1993), α contention, β coherency.
    Usl {
        /// α ≥ 0: the serial part of the work.
        alpha: f64,
        /// β ≥ 0: the cost of coherence between each pair of jobs. With β > 0 the speed falls towards 0 as n grows.
        beta: f64,
    },
    /// v(1), v(2), … as measured; the last holds for any greater n.
    Table(Arc<[f64]>),
}

/// The reason why a speed is refused.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SpeedError {
    /// A coefficient of the universal scalability law is out of its domain.
    #[error("{name} must be {requirement}, not {value}")]
    Coefficient {
        name: &'static str,
        /// Completes the sentence "NAME must be …".
        requirement: &'static str,
        value: f64,
    },
    /// The table is empty or longer than [`SPEEDS_MAX`].
    #[error("a table of speeds has from 1 to {SPEEDS_MAX} entries, not {0}")]
    Length(usize),
    /// The table does not begin with 1.
    #[error("speeds are relative to one job alone: the first must be 1, not {0}; divide all by the first")]
    First(f64),
    #[error("speed number {jobs} must be positive and finite, not {value}")]
    Value {
        /// Counted from 1, as the number of jobs in service.
        jobs: usize,
        value: f64,
    },
}

impl Speed {
    /// The universal scalability law.
    ///
    /// # Errors
    /// When a coefficient is negative or not finite, or α is above 1 (two jobs slower than one by contention alone).
    pub fn usl(alpha: f64, beta: f64) -> Result<Self, SpeedError> {
        let refuse = |name, requirement, value| Err(SpeedError::Coefficient { name, requirement, value });
        if !(0.0..=1.0).contains(&alpha) {
            return refuse("alpha", "from 0 to 1", alpha);
        }
        if !(beta.is_finite() && beta >= 0.0) {
            return refuse("beta", "non-negative and finite", beta);
        }
        Ok(Self::Usl { alpha, beta })
    }

    /// v(1) = 1, v(2), …
    ///
    /// # Errors
    /// When there is no entry or too many, the first is not 1, or one is not positive and finite.
    pub fn table(speeds: Vec<f64>) -> Result<Self, SpeedError> {
        if !(1..=SPEEDS_MAX).contains(&speeds.len()) {
            return Err(SpeedError::Length(speeds.len()));
        }
        if let Some(index) = speeds.iter().position(|speed| !(speed.is_finite() && *speed > 0.0)) {
            return Err(SpeedError::Value { jobs: index + 1, value: speeds[index] });
        }
        if (speeds[0] - 1.0).abs() > 1e-9 {
            return Err(SpeedError::First(speeds[0]));
        }
        Ok(Self::Table(speeds.into()))
    }

    /// v(n)/n: the rate at which each of `jobs` ≥ 1 jobs is served.
    #[inline]
    pub fn share(&self, jobs: usize) -> f64 {
        match self {
            Self::Servers(servers) => (servers / jobs as f64).min(1.0),
            Self::Usl { alpha, beta } => {
                let n = jobs as f64;
                1.0 / (1.0 + (n - 1.0) * (alpha + beta * n))
            }
            Self::Table(speeds) => speeds[jobs.min(speeds.len()) - 1] / jobs as f64,
        }
    }

    /// v(n), for n ≥ 1.
    pub fn at(&self, jobs: usize) -> f64 {
        match self {
            // Not n·(c/n): rounding must not make 3 servers of 2.9999.
            Self::Servers(servers) => servers.min(jobs as f64),
            Self::Table(speeds) => speeds[jobs.min(speeds.len()) - 1],
            Self::Usl { .. } => jobs as f64 * self.share(jobs),
        }
    }

    /// v(r) of a full station, where `limit` is r; the limit of v(n) for n → ∞ when there is no r (`usize::MAX`). An
    /// open station that is offered more work per second than this grows for ever.
    pub fn saturation(&self, limit: usize) -> f64 {
        match self {
            _ if limit < usize::MAX => self.at(limit),
            Self::Servers(servers) => *servers,
            Self::Usl { beta, .. } if *beta > 0.0 => 0.0,
            Self::Usl { alpha, .. } => 1.0 / alpha,
            Self::Table(speeds) => speeds[speeds.len() - 1],
        }
    }

    /// The largest v(n) with at most `limit` jobs in service. Utilisation is a fraction of it.
    pub fn peak(&self, limit: usize) -> f64 {
        match self {
            Self::Servers(_) => self.saturation(limit),
            Self::Usl { beta, .. } if *beta == 0.0 => self.saturation(limit),
            Self::Usl { alpha, beta } => {
                let best = ((1.0 - alpha) / beta).sqrt().max(1.0);
                let whole = best.min(limit as f64) as usize;
                self.at(whole).max(self.at((whole + 1).min(limit)))
            }
            Self::Table(speeds) => speeds[..limit.min(speeds.len())].iter().copied().fold(0.0, f64::max),
        }
    }

    /// Returns true if the station always works at the rate of one job, as the closed forms assume.
    pub fn is_single_server(&self) -> bool {
        *self == Self::Servers(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check;

    #[test]
    fn servers_are_a_curve_like_any_other() {
        let three = Speed::Servers(3.0);
        assert_eq!([1, 2, 3, 4].map(|jobs| three.at(jobs)), [1.0, 2.0, 3.0, 3.0]);
        assert_eq!((three.saturation(usize::MAX), three.peak(2), three.share(6)), (3.0, 2.0, 0.5));
        let table = Speed::table(vec![1.0, 2.0, 3.0]).unwrap();
        (1..9).for_each(|jobs| assert_eq!(table.at(jobs), three.at(jobs)));
        assert_eq!(Speed::Servers(f64::INFINITY).at(7), 7.0);
    }

    #[test]
    fn the_universal_scalability_law_peaks_where_it_says() {
        let speed = Speed::usl(0.05, 0.001).unwrap();
        let best = (1..1_000).max_by(|a, b| speed.at(*a).total_cmp(&speed.at(*b))).unwrap();
        assert_eq!(best, 31); // √(0.95 / 0.001) = 30.8
        check(speed.peak(usize::MAX), speed.at(best), 1e-12);
        check(speed.peak(8), speed.at(8), 1e-12);
        assert_eq!(speed.saturation(usize::MAX), 0.0);
        check(speed.saturation(100), speed.at(100), 1e-12);
        check(Speed::usl(0.1, 0.0).unwrap().saturation(usize::MAX), 10.0, 1e-12);
        assert_eq!(speed.at(1), 1.0);
    }

    #[test]
    fn impossible_speeds_are_refused() {
        assert!(Speed::usl(-0.1, 0.0).is_err() && Speed::usl(0.1, f64::NAN).is_err());
        assert_eq!(Speed::table(vec![]), Err(SpeedError::Length(0)));
        assert_eq!(Speed::table(vec![2.0]), Err(SpeedError::First(2.0)));
        assert_eq!(Speed::table(vec![1.0, 0.0]), Err(SpeedError::Value { jobs: 2, value: 0.0 }));
        assert!(Speed::table(vec![1.0, f64::NAN]).is_err());
    }
}
