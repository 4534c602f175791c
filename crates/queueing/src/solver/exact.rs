//! Open classes with phase-type demand at the LPS stations, by the exact M/PH/c/LPS solution; FIFO with several servers
//! is the case r = c.
//!
//! Exact as far as arrivals are Poisson: at the first station, and behind PS stations and delays. Elsewhere the wait is
//! scaled by what the departures before are instead.

use super::Answer;
use super::approximation::{Stations, of_open};
use super::dispersion::{stretched, waiting_factors};
use super::flow::Flow;
use super::flow::phase_type;
use super::thinned::{self, StationMeans};
use crate::exact_lps::{ExactLps, LEVELS_MAX};
use crate::system::Discipline;

pub(super) fn solve(flow: &Flow<'_>) -> Result<Answer, String> {
    if flow.closed().next().is_some() {
        return Err("there is a closed class: its arrivals depend on the queues".to_owned());
    }
    flow.stable()?;
    if (0..flow.stations()).all(|station| limit_and_room(flow, station).is_none()) {
        return Err("there is no lps station, nor FIFO with several servers or a capacity: the open solver is as exact"
            .to_owned());
    }
    if flow.never_full().is_err() {
        return thinned::solve(flow, station_means, Stations::Phases);
    }
    let throughputs = flow.nominal_mix();
    let mut residences = vec![vec![0.0; flow.stations()]; flow.classes.len()];
    let factors = waiting_factors(flow, &vec![0.0; flow.stations()]);
    for (station, &factor) in factors.iter().enumerate() {
        let solved = station_means(flow, station)?;
        let (wait, slope) = stretched((solved.wait, solved.slope), factor);
        for (class, residence) in flow.classes.iter().zip(&mut residences) {
            residence[station] = class.visits[station] * wait + slope * class.demands[station];
        }
    }
    Ok(flow.answer(&throughputs, &residences, &of_open(flow, Stations::Phases, &factors)))
}

/// The means of a station. Where it is solved as a Markov chain, all visits have the same demand.
pub(super) fn station_means(flow: &Flow<'_>, station: usize) -> Result<StationMeans, String> {
    let Some((limit, capacity)) = limit_and_room(flow, station) else {
        return super::open::station_means(flow, station);
    };
    let (rate, mean, _) = flow.arrivals(station, &flow.nominal_mix());
    if rate == 0.0 {
        return Ok(StationMeans::default());
    }
    let demand = phase_type(flow, station)?;
    if demand.phases() == 1 && limit.max(capacity.unwrap_or(0)) > LEVELS_MAX {
        // Birth and death: as exact, without a matrix for each level.
        return super::open::station_means(flow, station);
    }
    let speed = flow.system.stations[station].service().speed;
    let solved = match capacity {
        Some(capacity) => ExactLps::finite(rate, demand, limit, &speed, capacity),
        None => ExactLps::with_speed(rate, demand, limit, &speed),
    };
    let solved = solved.map_err(|error| error.to_string())?;
    Ok(StationMeans { loss: solved.loss_probability(), wait: solved.mean_response_time() - mean, slope: 1.0 })
}

/// The places in service and K (if any) of a station that is solved as a Markov chain; `None` where the closed forms hold.
fn limit_and_room(flow: &Flow<'_>, station: usize) -> Option<(u32, Option<u32>)> {
    let model = &flow.system.stations[station];
    let capacity = model.capacity.as_ref().map(|capacity| capacity.jobs);
    let phases = phase_type(flow, station).is_ok();
    match model.discipline {
        Discipline::Lps { limit } if phases || model.can_queue() => Some((limit, capacity)),
        Discipline::Fifo if phases && model.servers > 1 => Some((model.servers, capacity)),
        Discipline::Fifo if capacity.is_some() && (phases || model.can_queue()) => {
            Some((model.servers, capacity))
        }
        _ => None,
    }
}
