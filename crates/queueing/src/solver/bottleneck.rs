//! What gives first: station loads per unit of traffic, saturation, and what comes next.

use serde::Serialize;

use super::flow::Flow;
use crate::simulator::Named;

/// The ranking of the stations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// The station that saturates first; `None` when nothing is limited.
    pub station: Option<String>,
    /// The one that would be next, were the first twice as fast again and again.
    pub next: Option<String>,
    /// By how much all traffic could grow before the first saturates (open classes only).
    pub growth_factor_max: Option<f64>,
    /// The throughput of all classes together, in their present mix, when the first saturates.
    pub saturation_throughput_per_second: Option<f64>,
    /// By station.
    pub stations: Named<StationLoad>,
}

/// The load on one station.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StationLoad {
    /// Busy seconds per job of the mix, per server: the saturation throughput is one over this.
    pub demand_per_job_seconds: f64,
    /// In jobs of the mix; `None` at a delay or a station that is not used.
    pub saturation_throughput_per_second: Option<f64>,
    /// The open classes' part of the utilisation; `None` at a delay.
    pub open_utilisation: Option<f64>,
}

/// `mix` is the throughput of each class, in any unit: only the proportions count.
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
