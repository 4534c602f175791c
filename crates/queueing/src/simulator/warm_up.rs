//! The least length of a replication: how many jobs a loaded station needs to forget that it started empty.
//!
//! An open queue relaxes over about 2(1+C²)/(1−ρ)² arrivals (the reflected Brownian motion of Whitt, Management Science
//! 35(11), 1989, "Planning queueing simulations"). A run must be so long that its warm-up share covers two such times.

use super::estimate::WARM_UP_SHARE;
use crate::system::{Source, System};

/// The number of relaxation times that the warm-up share must cover.
const RELAXATIONS: f64 = 2.0;
/// C² is capped here: beyond it the rare large demands call for a longer run, not for a longer warm-up.
const SCV_MAX: f64 = 50.0;
/// Utilisation is capped here, because losses elsewhere may leave less work than the classes seem to bring.
const RHO_MAX: f64 = 0.99;
/// Jobs per user of a closed class, since every user starts with a think time.
const JOBS_PER_USER: f64 = 10.0;

/// The least number of jobs of a replication at utilisation `rho`.
pub(super) fn jobs_min(rho: f64, scv: f64) -> u64 {
    let relaxation = 2.0 * (1.0 + scv.min(SCV_MAX)) / (1.0 - rho).powi(2);
    (relaxation * RELAXATIONS * WARM_UP_SHARE as f64) as u64
}

/// The least numbers of jobs of a replication of a system. Each kind of class has its own: many fast jobs of the one say
/// nothing of the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct JobsMin {
    /// Of all open classes together, set by the station that is slowest to forget.
    pub(super) open: u64,
    /// Of all closed classes together.
    pub(super) closed: u64,
}

impl JobsMin {
    pub(super) fn of(system: &System) -> Self {
        let count = system.stations.len();
        let (mut visits, mut first, mut second) = (vec![0.0; count], vec![0.0; count], vec![0.0; count]);
        let (mut rate, mut users) = (0.0, 0.0);
        for class in &system.classes {
            match class.source {
                Source::Open { rate: own } => {
                    rate += own;
                    for (probability, visit) in class.visits() {
                        let (mean, square) = visit.demand.moments(class.document.as_ref());
                        visits[visit.station] += own * probability;
                        first[visit.station] += own * probability * mean;
                        second[visit.station] += own * probability * square;
                    }
                }
                Source::Closed { users: own, .. } => users += f64::from(own),
            }
        }
        let at = |station: usize| {
            let model = &system.stations[station];
            // A queue of limited length fills and empties fast.
            if model.is_delay() || model.is_lossy() || first[station] <= 0.0 {
                return 0;
            }
            let rho = (first[station] / model.service().saturation()).min(RHO_MAX);
            let scv = (second[station] * visits[station] / first[station].powi(2) - 1.0).max(0.0);
            // Open jobs of the system per visit to the station.
            (jobs_min(rho, scv) as f64 * rate / visits[station]) as u64
        };
        Self {
            open: (0..count).map(at).max().unwrap_or(0),
            closed: (users * JOBS_PER_USER * WARM_UP_SHARE as f64) as u64,
        }
    }

    /// The least number of all jobs. In a mixed system it may take more.
    pub(super) fn all(self) -> u64 {
        self.open.max(self.closed)
    }
}
