//! Describes in words which of a solver's mean response times are approximate, and by how much they were found to be
//! off.
//!
//! The ranges are the largest errors that a sweep over laws, loads and limits found, rounded outwards; a test draws
//! other cases and checks them against the ranges. They are evidence, not theorems. A mean without such a description
//! is exact.

use super::dispersion::is_irregular;
use super::flow::{Flow, is_memoryless, phase_type, scv};
use crate::closed_form::{Validity, erlang_c};
use crate::system::{Demand, Discipline, Route, Visit};

/// The largest C², and the lowest and highest error in per cent that a sweep found up to it.
pub(super) type InSweep = (f64, i32, i32);

/// The errors of the mean time at a station whose arrivals are departures of FIFO and LPS stations, by the largest C² of
/// demand there: utilisations 0.3 to 0.9, one to sixteen servers, r 2 to 16.
const DEPARTURES: [InSweep; 3] = [(1.0, -10, 45), (4.0, -35, 35), (25.0, -65, 90)];
/// The same where they change the wait by at most `NEARLY_POISSON`.
const NEARLY_POISSON_DEPARTURES: [InSweep; 3] = [(1.0, -15, 30), (4.0, -25, 30), (25.0, -35, 45)];
const NEARLY_POISSON: f64 = 0.05;
/// The same where jobs come back to the station: twice through all.
const RETURNING: [InSweep; 3] = [(1.0, -30, 80), (4.0, -40, 80), (25.0, -45, 80)];
/// The same behind stations that turn jobs away; K 1 to 56, offered 0.3 to 1.5 times what they serve.
const ACCEPTED: [InSweep; 3] = [(1.0, -5, 125), (4.0, -50, 40), (25.0, -75, 30)];
/// The errors of p50 to p99.9 where a job queues more than once, by the largest C² of demand at a queue.
const SEVERAL_QUEUES: [InSweep; 3] = [(1.0, -20, 40), (4.0, -30, 40), (25.0, -65, 65)];
/// The same where jobs come back to a queue.
const SEVERAL_QUEUES_RETURNING: [InSweep; 3] = [(1.0, -40, 60), (4.0, -55, 100), (25.0, -50, 200)];
/// The same where the document's size makes the demand at more than one queue: large documents hold up the same jobs twice.
const SEVERAL_QUEUES_BY_SIZE: [InSweep; 3] = [(1.0, -70, 85), (4.0, -85, 70), (25.0, -90, 70)];
/// The same behind stations that turn jobs away, of independent demands.
const SEVERAL_QUEUES_ACCEPTED: [InSweep; 3] = [(1.0, -15, 70), (4.0, -25, 60), (25.0, -65, 40)];
/// The errors of the mean by Eq. 2.2 at a speed v(n), by C²: utilisations 0.3 to 0.9, r 2 to 32.
const EQUATION_AT_SPEED: [InSweep; 3] = [(1.0, -5, 5), (4.0, -5, 20), (25.0, -5, 60)];
/// The same at 2 to 16 servers, r up to 64.
const EQUATION_AT_SERVERS: [InSweep; 3] = [(1.0, -5, 10), (4.0, -5, 25), (25.0, -5, 70)];
/// The errors of a closed class's mean response time with FIFO and LPS taken as PS, by C²: 2 to 50 users, one to
/// three stations, r 2 to 16.
const WITHOUT_LIMIT: [InSweep; 3] = [(1.0, -5, 35), (4.0, -30, 20), (25.0, -55, 20)];
/// The errors of a closed class's mean response time by the thesis's fixed point: 2 to 50 users, r 1 to 16.
const FIXED_POINT: [InSweep; 3] = [(1.0, -5, 65), (4.0, -10, 65), (25.0, -25, 150)];
/// The same with several servers after Seidmann, whatever C²: 2 to 50 users, one to three stations of up to 16 servers.
const SEIDMANN: InSweep = (f64::INFINITY, -1, 30);
/// The same by Bard and Schweitzer: one to three classes, one to five stations.
const BARD_SCHWEITZER: InSweep = (f64::INFINITY, -5, 35);

/// Pairs of the largest C² and the largest relative error of the mean response time by Allen and Cunneen that a sweep found
/// up to it: two to sixteen servers, utilisation 0.3 to 0.9.
const SEVERAL_SERVERS: [(f64, f64); 6] =
    [(1.0, 0.05), (2.0, 0.1), (4.0, 0.2), (8.0, 0.3), (12.0, 0.6), (25.0, 0.7)];
/// The sweep found no mean that was too low by more than this.
const SEVERAL_SERVERS_LOW: f64 = 0.05;

/// The range of errors at this C² in words.
pub(super) fn in_sweep(found: &[InSweep], scv: f64) -> String {
    match found.iter().find(|(scv_max, ..)| scv <= *scv_max) {
        Some((_, low, high)) => format!("off by {low} % to +{high} % in a sweep of laws"),
        None => format!("error not known, as C² = {scv:.1} is beyond the sweep"),
    }
}

/// The method that solved the stations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stations {
    Closed,
    Phases,
}

/// The approximations of open classes, with the factors by which departures lengthen the wait at each station.
pub(super) fn of_open(flow: &Flow<'_>, stations: Stations, factors: &[f64]) -> Vec<String> {
    let own = (0..flow.stations()).filter_map(|station| {
        let said = of_station(flow, station, stations)?;
        Some(format!("{}: {said}", flow.system.stations[station].name))
    });
    let behind = (0..flow.stations()).filter(|&station| !flow.is_delay(station)).filter_map(|station| {
        let said = of_departures(flow, station, factors[station], departures(flow, station)?);
        Some(format!("{}: {said}", flow.system.stations[station].name))
    });
    let accepted = (0..flow.stations()).filter(|&station| !flow.is_delay(station)).filter_map(|station| {
        let range = in_sweep(&ACCEPTED, accepted(flow, station)?);
        Some(format!(
            "{}: accepted jobs taken as Poisson arrivals, mean {range}",
            flow.system.stations[station].name
        ))
    });
    own.chain(behind).chain(accepted).collect()
}

fn of_station(flow: &Flow<'_>, station: usize, stations: Stations) -> Option<String> {
    let (model, throughputs) = (&flow.system.stations[station], flow.nominal_mix());
    let (rate, mean, second) = flow.arrivals(station, &throughputs);
    let phases = phase_type(flow, station);
    let known = phases.as_ref().is_ok_and(|demand| stations == Stations::Phases || demand.phases() == 1);
    if rate == 0.0 || mean == 0.0 || known || !model.can_queue() {
        return None;
    }
    let scv = second / (mean * mean) - 1.0;
    match model.discipline {
        Discipline::Fifo if model.servers > 1 => Some(several_servers(model.servers, rate * mean, scv)),
        Discipline::Lps { limit } if limit > 1 && model.speed.is_some() => {
            let range = in_sweep(&EQUATION_AT_SPEED, scv);
            Some(format!("Eq. 2.2 carried over to a speed v(n), mean {range}"))
        }
        Discipline::Lps { limit } if limit > 1 && model.servers > 1 => {
            let range = in_sweep(&EQUATION_AT_SERVERS, scv);
            Some(format!("Eq. 2.2 carried over to several servers, mean {range}"))
        }
        Discipline::Lps { limit } if limit > 1 => {
            let validity = Validity::of_limit(rate * mean, scv, limit);
            Some(format!("Eq. 2.2, {}", validity.range()))
        }
        _ => None,
    }
}

/// The approximation of arrivals that are departures of stations with demands of up to this C².
fn of_departures(flow: &Flow<'_>, station: usize, factor: f64, scv: f64) -> String {
    let model = &flow.system.stations[station];
    if model.capacity.is_some() {
        return "arrivals taken as Poisson, error not known at a station with a capacity".to_owned();
    }
    let found = if returns(flow, station) {
        &RETURNING
    } else if (factor - 1.0).abs() <= NEARLY_POISSON {
        &NEARLY_POISSON_DEPARTURES
    } else {
        &DEPARTURES
    };
    format!("arrivals by their dispersion, mean {}", in_sweep(found, scv))
}

/// Returns true if a job visits the station more than once.
fn returns(flow: &Flow<'_>, station: usize) -> bool {
    let visits = |route: &Route| route.visits.iter().filter(|visit| visit.station == station).count();
    flow.system.classes.iter().flat_map(|class| &class.routes).any(|route| visits(route) > 1)
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

/// The largest C² of demand at the stations before this one that turn no jobs away and whose departures are not Poisson.
fn departures(flow: &Flow<'_>, station: usize) -> Option<f64> {
    largest_scv_before(flow, station, |upstream| is_irregular(flow, upstream))
}

/// The largest C² of demand at the stations before this one that turn jobs away.
fn accepted(flow: &Flow<'_>, station: usize) -> Option<f64> {
    largest_scv_before(flow, station, |upstream| flow.system.stations[upstream].is_lossy())
}

fn largest_scv_before(flow: &Flow<'_>, station: usize, counts: impl Fn(usize) -> bool) -> Option<f64> {
    let before = |route: &Route| {
        let last = route.visits.iter().rposition(|visit| visit.station == station).unwrap_or(0);
        route.visits[..last]
            .iter()
            .map(|visit| visit.station)
            .filter(|&each| counts(each))
            .collect::<Vec<_>>()
    };
    let stations = flow.system.classes.iter().flat_map(|class| &class.routes).flat_map(before);
    stations.map(|each| scv(flow, each)).reduce(f64::max)
}

/// The approximation of percentiles where a job queues more than once; `None` where none does.
pub(super) fn of_several_queues(flow: &Flow<'_>) -> Option<String> {
    // What a full station lets through is no longer Poisson, even if it is a delay.
    let queues = |station: usize| !flow.is_delay(station) || flow.system.stations[station].capacity.is_some();
    let queues_of = |route: &Route| {
        route.visits.iter().map(|visit| visit.station).filter(|&each| queues(each)).collect::<Vec<_>>()
    };
    let routes = flow.system.classes.iter().flat_map(|class| &class.routes).map(queues_of);
    let several: Vec<usize> = routes.filter(|route| route.len() > 1).flatten().collect();
    let largest = several.iter().map(|&station| scv(flow, station)).reduce(f64::max)?;
    let is_lossy = several.iter().any(|&station| flow.system.stations[station].is_lossy());
    let sized = |route: &Route| {
        let by_size =
            |visit: &&Visit| queues(visit.station) && !matches!(visit.demand, Demand::Independent(_));
        route.visits.iter().filter(by_size).count() > 1
    };
    let sized = flow.system.classes.iter().flat_map(|class| &class.routes).any(sized);
    let returning = several.iter().any(|&station| returns(flow, station));
    let range = match (is_lossy, sized) {
        (false, false) if returning => in_sweep(&SEVERAL_QUEUES_RETURNING, largest),
        (false, false) => in_sweep(&SEVERAL_QUEUES, largest),
        (false, true) => in_sweep(&SEVERAL_QUEUES_BY_SIZE, largest),
        (true, false) => in_sweep(&SEVERAL_QUEUES_ACCEPTED, largest),
        (true, true) => "documents at several queues beside losses are beyond the sweep".to_owned(),
    };
    Some(format!(
        "stations independent given the document, waits scaled by the arrivals' dispersion, {range}"
    ))
}

/// The thesis's fixed point of the throughput and Eq. 2.2 at a station, and mean value analysis at the others.
pub(super) fn of_fixed_point(flow: &Flow<'_>, station: usize) -> Vec<String> {
    let range = in_sweep(&FIXED_POINT, scv(flow, station));
    let name = &flow.system.stations[station].name;
    let own = format!("{name}: Eq. 2.2 at the throughput that it yields, mean {range}");
    let others = (0..flow.stations()).filter(|&other| other != station);
    std::iter::once(own).chain(others.flat_map(|other| of_shared_station(flow, other, true))).collect()
}

pub(super) fn of_bard_schweitzer() -> String {
    format!("Bard-Schweitzer, mean {}", in_sweep(&[BARD_SCHWEITZER], 0.0))
}

/// The approximations of mean value analysis, which treats every queue as processor sharing.
pub(super) fn of_sharing(flow: &Flow<'_>, several_servers: bool) -> Vec<String> {
    (0..flow.stations()).flat_map(|station| of_shared_station(flow, station, several_servers)).collect()
}

fn of_shared_station(flow: &Flow<'_>, station: usize, several_servers: bool) -> impl Iterator<Item = String> {
    let model = &flow.system.stations[station];
    let limited = (!has_product_form(flow, station)).then(|| {
        let range = in_sweep(&WITHOUT_LIMIT, scv(flow, station));
        format!("{}: taken as PS without a limit, mean {range}", model.name)
    });
    let split = (several_servers && model.servers > 1 && !flow.is_delay(station)).then(|| {
        let range = in_sweep(&[SEIDMANN], 0.0);
        format!("{}: several servers as a faster one and a delay (Seidmann), mean {range}", model.name)
    });
    limited.into_iter().chain(split)
}

/// Returns true if the station, with closed classes, is as processor sharing without a limit: it is, or jobs never wait, or
/// all demand is exponential.
pub(super) fn has_product_form(flow: &Flow<'_>, station: usize) -> bool {
    let users: u32 = flow.closed().map(|(_, users, _)| users).sum();
    let model = &flow.system.stations[station];
    let open = flow.open_work()[station] > 0.0;
    let limited = match model.discipline {
        Discipline::Fifo => open || users > model.servers,
        Discipline::Lps { limit } => open || users > limit,
        Discipline::Ps | Discipline::Is => false,
    };
    !limited || is_memoryless(flow, station)
}
