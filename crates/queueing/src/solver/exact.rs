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
use super::open::wait_and_slope;
use super::thinned::{self, StationMeans};
use crate::exact_lps::ExactLps;
use crate::system::Discipline;

pub(super) fn solve(flow: &Flow<'_>) -> Result<Answer, String> {
    if flow.closed().next().is_some() {
        return Err("there is a closed class: its arrivals depend on the queues".to_owned());
    }
    flow.stable()?;
    if flow.never_full().is_err() {
        if (0..flow.stations()).all(|station| limit_and_room(flow, station).is_none()) {
            return Err("there is no lps station, nor fifo: the open solver is as exact".to_owned());
        }
        return thinned::solve(flow, station_means, Stations::Phases);
    }
    let places = |station: usize| places(flow, station);
    if (0..flow.stations()).all(|station| places(station).is_none()) {
        return Err(
            "there is no lps station, nor FIFO with several servers: the open solver is as exact".to_owned()
        );
    }
    let throughputs = flow.nominal_mix();
    let mut residences = vec![vec![0.0; flow.stations()]; flow.classes.len()];
    let factors = waiting_factors(flow, &vec![0.0; flow.stations()]);
    for (station, &factor) in factors.iter().enumerate() {
        let solved = match places(station) {
            // All visits have the same demand, so they take the same time on average.
            Some(limit) => (mean_wait(flow, station, limit, &throughputs)?, 1.0),
            None => wait_and_slope(flow, station, &throughputs)?,
        };
        let (wait, slope) = stretched(solved, factor);
        for (class, residence) in flow.classes.iter().zip(&mut residences) {
            residence[station] = class.visits[station] * wait + slope * class.demands[station];
        }
    }
    Ok(flow.answer(&throughputs, &residences, &of_open(flow, Stations::Phases, &factors)))
}

/// The number of places in service for the exact solution: r of an lps station, c of FIFO with several servers and
/// phase-type demand; `None` where the closed forms hold.
fn places(flow: &Flow<'_>, station: usize) -> Option<u32> {
    let model = &flow.system.stations[station];
    match model.discipline {
        Discipline::Lps { limit } => Some(limit),
        Discipline::Fifo if model.servers > 1 => phase_type(flow, station).ok().map(|_| model.servers),
        _ => None,
    }
}

/// The mean time of a visit beyond its own demand.
fn mean_wait(flow: &Flow<'_>, station: usize, limit: u32, throughputs: &[f64]) -> Result<f64, String> {
    let (rate, mean, _) = flow.arrivals(station, throughputs);
    if rate == 0.0 {
        return Ok(0.0);
    }
    let demand = phase_type(flow, station)?;
    let speed = flow.system.stations[station].service().speed;
    let solved = ExactLps::with_speed(rate, demand, limit, &speed).map_err(|error| error.to_string())?;
    Ok(solved.mean_response_time() - mean)
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
    let speed = flow.system.stations[station].service().speed;
    let solved = match capacity {
        Some(capacity) => ExactLps::finite(rate, demand, limit, &speed, capacity),
        None => ExactLps::with_speed(rate, demand, limit, &speed),
    };
    let solved = solved.map_err(|error| error.to_string())?;
    Ok(StationMeans { loss: solved.loss_probability(), wait: solved.mean_response_time() - mean, slope: 1.0 })
}

/// r and K (if any) of a station that is solved as a Markov chain.
fn limit_and_room(flow: &Flow<'_>, station: usize) -> Option<(u32, Option<u32>)> {
    let model = &flow.system.stations[station];
    let capacity = model.capacity.as_ref().map(|capacity| capacity.jobs);
    match model.discipline {
        Discipline::Lps { limit } => Some((limit, capacity)),
        Discipline::Fifo if capacity.is_some() => Some((model.servers, capacity)),
        _ => None,
    }
}
