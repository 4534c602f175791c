//! Describes in words which of a solver's mean response times are approximate, and by how much they were found to be
//! off.
//!
//! The ranges are the largest errors that a sweep over laws, loads and limits found, rounded outwards; a test draws
//! other cases and checks them against the ranges. They are evidence, not theorems. A mean without such a description
//! is exact.

use super::flow::Flow;
use super::phases::phase_type;
use crate::closed_form::{Validity, erlang_c};
use crate::system::{Discipline, Route};

/// Pairs of the largest C² and the largest relative error of the mean response time by Allen and Cunneen that a sweep found
/// up to it: two to sixteen servers, utilisation 0.3 to 0.9.
const SEVERAL_SERVERS: [(f64, f64); 6] =
    [(1.0, 0.05), (2.0, 0.1), (4.0, 0.2), (8.0, 0.3), (12.0, 0.6), (25.0, 0.7)];
/// The sweep found no mean that was too low by more than this.
const SEVERAL_SERVERS_LOW: f64 = 0.05;

pub(super) fn words(approximations: &[String]) -> String {
    match approximations {
        [] => "exact".to_owned(),
        some => format!("approximation ({})", some.join("; ")),
    }
}

/// The method that solved the stations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stations {
    Closed,
    Phases,
}

pub(super) fn of_open(flow: &Flow<'_>, stations: Stations) -> Vec<String> {
    let own = (0..flow.stations()).filter_map(|station| {
        let said = of_station(flow, station, stations)?;
        Some(format!("{}: {said}", flow.system.stations[station].name))
    });
    let behind = (0..flow.stations()).filter(|&station| has_irregular_arrivals(flow, station));
    let behind = behind.map(|station| {
        format!("{}: arrivals taken as Poisson, error not known", flow.system.stations[station].name)
    });
    own.chain(behind).collect()
}

fn of_station(flow: &Flow<'_>, station: usize, stations: Stations) -> Option<String> {
    let (model, throughputs) = (&flow.system.stations[station], flow.nominal_mix());
    let (rate, mean, second) = flow.arrivals(station, &throughputs);
    let phases = phase_type(flow, station);
    let known = phases.as_ref().is_ok_and(|demand| stations == Stations::Phases || demand.phases() == 1);
    if rate == 0.0 || mean == 0.0 || known {
        return None;
    }
    let scv = second / (mean * mean) - 1.0;
    match model.discipline {
        Discipline::Fifo if model.servers > 1 => Some(several_servers(model.servers, rate * mean, scv)),
        Discipline::Lps { .. } if model.speed.is_some() => {
            Some("the limit r with a speed v(n) taken as PS at v(min(n, r)), error not known".to_owned())
        }
        Discipline::Lps { limit } if limit > 1 => {
            let validity = Validity::of_limit(rate * mean, scv, limit);
            Some(format!("Eq. 2.2, {}", validity.range()))
        }
        _ => None,
    }
}

fn several_servers(servers: u32, offered: f64, scv: f64) -> String {
    // A constant demand waits half as long as an exponential one. Rare, huge demands hold one server: the queue grows with
    // them only if the others cannot take the rest.
    let c = f64::from(servers);
    let idle = c - offered;
    let waiting = erlang_c(servers, offered);
    let held = (1.0 - idle).max(0.0);
    let constant = idle + waiting / 2.0;
    let most = (constant + waiting * scv / 2.0) / (constant + held * scv / 2.0) - 1.0 + SEVERAL_SERVERS_LOW;
    let found = SEVERAL_SERVERS.iter().find(|(scv_max, _)| scv <= *scv_max).map(|(_, found)| *found);
    let low = 100.0 * SEVERAL_SERVERS_LOW;
    let range = match found.filter(|found| *found < most) {
        Some(found) => format!(
            "mean off by -{low:.0} % to +{:.0} % in a sweep of laws, by up to +{:.0} % where large demands are rarer",
            100.0 * found,
            100.0 * most
        ),
        None => format!("mean off by -{low:.0} % to +{:.0} %", 100.0 * most),
    };
    format!("several servers by Allen and Cunneen, {range}")
}

/// Returns true if a queueing station receives jobs from one whose departures are not Poisson.
fn has_irregular_arrivals(flow: &Flow<'_>, station: usize) -> bool {
    if flow.is_delay(station) {
        return false;
    }
    let irregular = |upstream: usize| {
        flow.system.stations[upstream].turns_away()
            || matches!(flow.system.stations[upstream].discipline, Discipline::Fifo | Discipline::Lps { .. })
                && !phase_type(flow, upstream).is_ok_and(|demand| demand.phases() == 1)
    };
    let passes = |route: &Route| {
        let last = route.visits.iter().rposition(|visit| visit.station == station).unwrap_or(0);
        route.visits[..last].iter().any(|visit| irregular(visit.station))
    };
    flow.system.classes.iter().flat_map(|class| &class.routes).any(passes)
}

/// The approximations of mean value analysis, which treats every queue as processor sharing.
pub(super) fn of_sharing(flow: &Flow<'_>, several_servers: bool) -> Vec<String> {
    let users: u32 = flow.closed().map(|(_, users, _)| users).sum();
    let own = (0..flow.stations()).flat_map(|station| {
        let model = &flow.system.stations[station];
        let memoryless = phase_type(flow, station).is_ok_and(|demand| demand.phases() == 1);
        let open = flow.open_work()[station] > 0.0;
        let limited = match model.discipline {
            Discipline::Fifo => !memoryless && (open || users > model.servers),
            Discipline::Lps { limit } => !memoryless && (open || users > limit),
            Discipline::Ps | Discipline::Is => false,
        };
        let limited =
            limited.then(|| format!("{}: taken as PS without a limit, error not known", model.name));
        let split = (several_servers && model.servers > 1 && !flow.is_delay(station)).then(|| {
            format!("{}: several servers as a faster one and a delay (Seidmann), error not known", model.name)
        });
        [limited, split].into_iter().flatten().collect::<Vec<_>>()
    });
    own.collect()
}
