//! The bottleneck: station loads per unit of traffic, which station saturates first, and asymptotic bounds.

use serde::Serialize;

use super::flow::Flow;
use crate::named::Named;

/// The bottleneck and the load on every station.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// The station that saturates first; `None` when nothing is limited.
    pub station: Option<String>,
    /// The station that would saturate first if the bottleneck were removed.
    pub next: Option<String>,
    /// The factor by which all traffic could grow before the bottleneck saturates; open classes only.
    pub growth_factor_max: Option<f64>,
    /// The throughput of all classes together, in their present mix, at which the bottleneck saturates.
    pub saturation_throughput_per_second: Option<f64>,
    pub stations: Named<StationLoad>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StationLoad {
    /// Busy seconds per server and job of the mix; the saturation throughput is its reciprocal.
    pub demand_per_job_seconds: f64,
    /// Saturation throughput in jobs of the mix; `None` at a delay or an unused station.
    pub saturation_throughput_per_second: Option<f64>,
    /// Utilisation by the open classes alone; `None` at a delay.
    pub open_utilisation: Option<f64>,
}

/// Finds the bottleneck for a `mix` of throughputs by class, in any unit: only the proportions count.
pub(super) fn find(flow: &Flow<'_>, mix: &[f64]) -> Bottleneck {
    let total = mix.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let loads: Vec<f64> = flow.utilisations(mix).iter().map(|work| work / total).collect();
    let open = flow.open_utilisations();
    let mut ranking: Vec<usize> =
        (0..flow.stations()).filter(|k| !flow.is_delay(*k) && loads[*k] > 0.0).collect();
    ranking.sort_by(|a, b| loads[*b].total_cmp(&loads[*a]));
    let name = |station: &usize| flow.system.stations[*station].name.clone();
    let load = |station: usize| {
        let limited = !flow.is_delay(station);
        let entry = StationLoad {
            demand_per_job_seconds: loads[station],
            saturation_throughput_per_second: (limited && loads[station] > 0.0).then(|| 1.0 / loads[station]),
            open_utilisation: limited.then_some(open[station]),
        };
        (name(&station), entry)
    };
    let first = ranking.first().copied();
    Bottleneck {
        station: first.as_ref().map(name),
        next: ranking.get(1).map(name),
        growth_factor_max: first
            .filter(|_| flow.closed().next().is_none())
            .map(|station| 1.0 / open[station]),
        saturation_throughput_per_second: first.map(|station| 1.0 / loads[station]),
        stations: Named((0..flow.stations()).map(load).collect()),
    }
}

/// Asymptotic and balanced-job bounds of one closed class (Lazowska et al. 1984, chapter 5).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bounds {
    /// Balanced-job lower bound.
    pub throughput_min_per_second: f64,
    /// The lesser of the asymptotic and the balanced-job upper bound.
    pub throughput_max_per_second: f64,
    /// Follows from the largest throughput.
    pub response_time_min_seconds: f64,
    /// Follows from the smallest throughput.
    pub response_time_max_seconds: f64,
    /// N*: with more users than this, jobs must queue at the bottleneck.
    pub saturation_users: f64,
}

pub(super) fn bounds(flow: &Flow<'_>) -> Option<Bounds> {
    let closed: Vec<_> = flow.closed().collect();
    let [(class, users, think_time)] = closed[..] else { return None };
    // With several servers, speeds v(n) or open classes only the asymptote would hold, and MVA says more.
    if flow.open().next().is_some()
        || flow.system.stations.iter().any(|station| station.servers > 1 || station.speed.is_some())
        || flow.never_full().is_err()
    {
        return None;
    }
    let demands = &flow.classes[class].demands;
    let queueing: Vec<f64> = (0..demands.len()).filter(|k| !flow.is_delay(*k)).map(|k| demands[k]).collect();
    let delay: f64 = (0..demands.len()).filter(|k| flow.is_delay(*k)).map(|k| demands[k]).sum();
    let (total, largest) = (queueing.iter().sum::<f64>(), queueing.iter().copied().fold(0.0, f64::max));
    if largest == 0.0 {
        return None;
    }
    let (users, away) = (f64::from(users), think_time + delay);
    let average = total / queueing.iter().filter(|demand| **demand > 0.0).count() as f64;
    let lower = users / (total + away + (users - 1.0) * largest / (1.0 + away / (users * total)));
    let upper = (1.0 / largest).min(users / (total + away + (users - 1.0) * average / (1.0 + away / total)));
    Some(Bounds {
        throughput_min_per_second: lower,
        throughput_max_per_second: upper,
        response_time_min_seconds: users / upper - think_time,
        response_time_max_seconds: users / lower - think_time,
        saturation_users: (total + away) / largest,
    })
}
