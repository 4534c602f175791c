//! How many jobs a loaded station needs to forget that it began empty: the least length of a replication.
//!
//! An open queue relaxes over about 2(1+C²)/(1−ρ)² arrivals (the reflected Brownian motion of Whitt, Management Science
//! 35(11), 1989, "Planning queueing simulations"). A run must be so long that its warm-up share covers two such times.

use super::estimate::WARM_UP_SHARE;
use crate::system::{Source, System};

/// Relaxation times that the warm-up share has to cover.
const RELAXATIONS: f64 = 2.0;
/// A more variable demand is not less often in steady state; its rare large values are a matter of length, not of start.
const SCV_MAX: f64 = 50.0;
/// What is lost elsewhere may leave less to a station than its classes seem to bring.
const RHO_MAX: f64 = 0.99;
/// Jobs per user of a closed class, each of whom begins by thinking.
const JOBS_PER_USER: f64 = 10.0;

/// Jobs of one replication of a station at utilisation `rho`.
pub(super) fn jobs_min(rho: f64, scv: f64) -> u64 {
    let relaxation = 2.0 * (1.0 + scv.min(SCV_MAX)) / (1.0 - rho).powi(2);
    (relaxation * RELAXATIONS * WARM_UP_SHARE as f64) as u64
}

/// Jobs of one replication of a system, in which the slowest station counts.
pub(super) fn jobs_min_of(system: &System) -> u64 {
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
        if !model.is_limited() || model.turns_away() || first[station] <= 0.0 {
            return 0;
        }
        let rho = (first[station] / model.service().saturation()).min(RHO_MAX);
        let scv = (second[station] * visits[station] / first[station].powi(2) - 1.0).max(0.0);
        // Jobs of the system while the station has one visit.
        (jobs_min(rho, scv) as f64 * rate / visits[station]) as u64
    };
    let open = (0..count).map(at).max().unwrap_or(0);
    open.max((users * JOBS_PER_USER * WARM_UP_SHARE as f64) as u64)
}
