//! Open classes with phase-type demand at the LPS stations, by the exact M/PH/1/LPS solution.
//!
//! Exact as far as arrivals are Poisson: at the first station, and behind PS stations and delays.

use super::Answer;
use super::flow::Flow;
use super::open::wait_and_slope;
use crate::distribution::Distribution;
use crate::exact_lps::{ExactLps, PhaseType};
use crate::system::{Demand, Discipline};

pub(super) fn solve(flow: &Flow<'_>) -> Result<Answer, String> {
    if flow.closed().next().is_some() {
        return Err("there is a closed class: its arrivals depend on the queues".to_owned());
    }
    flow.stable()?;
    if !flow.system.stations.iter().any(|station| matches!(station.discipline, Discipline::Lps { .. })) {
        return Err("there is no lps station: the open solver is as exact".to_owned());
    }
    let throughputs = flow.nominal_mix();
    let mut residences = vec![vec![0.0; flow.stations()]; flow.classes.len()];
    for station in 0..flow.stations() {
        let limited = match flow.system.stations[station].discipline {
            Discipline::Lps { limit } => Some(limit),
            _ => None,
        };
        let exact = limited.map(|limit| mean_per_visit(flow, station, limit, &throughputs)).transpose()?;
        let (wait, slope) = wait_and_slope(flow, station, &throughputs)?;
        for (class, residence) in flow.classes.iter().zip(&mut residences) {
            residence[station] = match exact {
                Some(mean) => class.visits[station] * mean,
                None => class.visits[station] * wait + slope * class.demands[station],
            };
        }
    }
    Ok(flow.answer(&throughputs, &residences))
}

fn mean_per_visit(flow: &Flow<'_>, station: usize, limit: u32, throughputs: &[f64]) -> Result<f64, String> {
    let (rate, _, _) = flow.arrivals(station, throughputs);
    if rate == 0.0 {
        return Ok(0.0);
    }
    let demand = phase_type(flow, station)?;
    let speed = flow.system.stations[station].service().speed;
    let solved = ExactLps::with_speed(rate, demand, limit, &speed).map_err(|error| error.to_string())?;
    Ok(solved.mean_response_time())
}

/// The phase-type demand that all visits to a station have.
pub(super) fn phase_type(flow: &Flow<'_>, station: usize) -> Result<PhaseType, String> {
    let name = flow.system.stations[station].place();
    let distribution =
        common_distribution(flow, station)?.ok_or_else(|| format!("no class visits {name}"))?;
    PhaseType::of(distribution)
        .ok_or_else(|| format!("the demand at {name} is not exponential, Erlang or hyper-exponential"))
}

/// The common demand distribution of all visits to a station; `None` without visits.
fn common_distribution<'s>(flow: &Flow<'s>, station: usize) -> Result<Option<&'s Distribution>, String> {
    let name = flow.system.stations[station].place();
    let mut found = None;
    for (_, visit) in flow.system.classes.iter().flat_map(|class| class.visits()) {
        if visit.station != station {
            continue;
        }
        let Demand::Independent(distribution) = &visit.demand else {
            return Err(format!("the demand at {name} depends on the document size"));
        };
        if found.is_some_and(|other| other != distribution) {
            return Err(format!("visits to {name} have different demands"));
        }
        found = Some(distribution);
    }
    Ok(found)
}
