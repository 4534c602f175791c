//! The bottleneck: station loads per unit of traffic, which station saturates first, and bounds of a closed class.

use serde::Serialize;

use super::approximation::has_product_form;
use super::flow::Flow;
use crate::named::Named;

/// The bottleneck and the load on every station.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// The station that saturates first; `None` when nothing is limited, or only by places that jobs hold.
    pub station: Option<String>,
    /// The station that would saturate first if the bottleneck were removed.
    pub next: Option<String>,
    /// The factor by which all traffic could grow before the bottleneck saturates; open classes only, and `None` where
    /// jobs hold places while they are served elsewhere.
    pub growth_factor_max: Option<f64>,
    /// The throughput of all classes together, in their present mix, at which the bottleneck saturates.
    pub saturation_throughput_per_second: Option<f64>,
    pub stations: Named<StationLoad>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StationLoad {
    /// Busy seconds per server and job of the mix, at the peak of v(n).
    pub demand_per_job_seconds: f64,
    /// Saturation throughput in jobs of the mix; `None` at a delay, an unused station, and a station whose places jobs hold
    /// while they are served elsewhere, because it depends on the time there.
    pub saturation_throughput_per_second: Option<f64>,
    /// Utilisation by the open classes alone; `None` at a delay.
    pub open_utilisation: Option<f64>,
}

/// Finds the bottleneck for a `mix` of throughputs by class, in any unit: only the proportions count.
pub(super) fn find(flow: &Flow<'_>, mix: &[f64]) -> Bottleneck {
    let total = mix.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let loads: Vec<f64> = flow.utilisations(mix).iter().map(|work| work / total).collect();
    let open = flow.open_utilisations();
    let only_open = flow.closed().next().is_none();
    // Open jobs pile up until the station is full. A closed class may be just large enough to keep it at its peak.
    let most = |station: usize| if only_open { flow.saturation(station) } else { flow.peak(station) };
    let saturation = |station: usize| {
        let known = !flow.is_delay(station) && !flow.is_held(station) && loads[station] > 0.0;
        known.then(|| most(station) / (loads[station] * flow.peak(station)))
    };
    let mut ranking: Vec<(f64, usize)> =
        (0..flow.stations()).filter_map(|station| Some((saturation(station)?, station))).collect();
    ranking.sort_by(|a, b| a.0.total_cmp(&b.0));
    let name = |station: usize| flow.system.stations[station].name.clone();
    let load = |station: usize| {
        let entry = StationLoad {
            demand_per_job_seconds: loads[station],
            saturation_throughput_per_second: saturation(station),
            open_utilisation: (!flow.is_delay(station)).then_some(open[station]),
        };
        (name(station), entry)
    };
    let first = ranking.first().copied();
    let grows = only_open && !flow.system.has_simultaneous_possession();
    Bottleneck {
        station: first.map(|(_, station)| name(station)),
        next: ranking.get(1).map(|(_, station)| name(*station)),
        growth_factor_max: first
            .filter(|_| grows)
            .map(|(_, station)| most(station) / (open[station] * flow.peak(station))),
        saturation_throughput_per_second: first.map(|(saturation, _)| saturation),
        stations: Named((0..flow.stations()).map(load).collect()),
    }
}

/// Bounds of one closed class (Lazowska et al. 1984, chapter 5): balanced-job bounds where the product form holds, else
/// asymptotic ones, which hold for any law.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bounds {
    /// The balanced-job or the asymptotic lower bound.
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
    let [(class, users, away)] = closed[..] else { return None };
    // With several servers, speeds v(n) or open classes only the asymptote would hold, and MVA says more.
    if flow.open().next().is_some()
        || flow.system.stations.iter().any(|station| station.servers > 1 || station.speed.is_some())
        || flow.never_full().is_err()
    {
        return None;
    }
    let demands = &flow.classes[class].demands;
    let visited = (0..demands.len()).filter(|k| demands[*k] > 0.0);
    let (delays, queues): (Vec<usize>, Vec<usize>) = visited.partition(|k| flow.is_delay(*k));
    let queueing: Vec<f64> = queues.iter().map(|k| demands[*k]).collect();
    let (total, largest) = (queueing.iter().sum::<f64>(), queueing.iter().copied().fold(0.0, f64::max));
    if largest == 0.0 {
        return None;
    }
    let think_time = away - flow.classes[class].latency;
    let (users, away) = (f64::from(users), away + delays.iter().map(|k| demands[*k]).sum::<f64>());
    let average = total / queueing.len() as f64;
    let (lower, upper) = if queues.iter().all(|k| has_product_form(flow, *k)) {
        (
            users / (total + away + (users - 1.0) * largest / (1.0 + away / (users * total))),
            users / (total + away + (users - 1.0) * average / (1.0 + away / total)),
        )
    } else {
        // Each job waits for at most all others at every station, whatever their demands.
        (users / (users * total + away), users / (total + away))
    };
    let upper = upper.min(1.0 / largest);
    Some(Bounds {
        throughput_min_per_second: lower,
        throughput_max_per_second: upper,
        response_time_min_seconds: users / upper - think_time,
        response_time_max_seconds: users / lower - think_time,
        saturation_users: (total + away) / largest,
    })
}
