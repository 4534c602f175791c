//! Open classes only: solves every station in isolation, under Poisson arrivals; the wait is then scaled by what the
//! departures before are instead.

use super::Answer;
use super::approximation::{Stations, of_open};
use super::dispersion::{stretched, waiting_factors};
use super::flow::{Flow, phase_type};
use super::product_form::{finite_levels, open_limited, open_mean};
use super::thinned::{self, StationMeans};
use crate::closed_form::{Lps, Mg1, erlang_c};
use crate::system::{Discipline, StationModel};

pub(super) fn solve(flow: &Flow<'_>) -> Result<Answer, String> {
    if flow.closed().next().is_some() {
        return Err("there is a closed class: its arrivals depend on the queues".to_owned());
    }
    flow.stable()?;
    if flow.never_full().is_err() {
        return thinned::solve(flow, station_means, Stations::Closed);
    }
    let throughputs: Vec<f64> = {
        let mut rates = vec![0.0; flow.classes.len()];
        flow.open().for_each(|(class, rate)| rates[class] = rate);
        rates
    };
    let mut residences = vec![vec![0.0; flow.stations()]; flow.classes.len()];
    let factors = waiting_factors(flow, &vec![0.0; flow.stations()]);
    for (station, &factor) in factors.iter().enumerate() {
        let (wait, slope) = stretched(wait_and_slope(flow, station, &throughputs)?, factor);
        for (class, residence) in flow.classes.iter().zip(&mut residences) {
            residence[station] = class.visits[station] * wait + slope * class.demands[station];
        }
    }
    Ok(flow.answer(&throughputs, &residences, &of_open(flow, Stations::Closed, &factors)))
}

/// The means of a station from the moments of its demand.
pub(super) fn station_means(flow: &Flow<'_>, station: usize) -> Result<StationMeans, String> {
    let throughputs = flow.nominal_mix();
    match &flow.system.stations[station].capacity {
        Some(capacity) => finite(flow, station, capacity.jobs as usize, &throughputs),
        None => {
            let (wait, slope) = wait_and_slope(flow, station, &throughputs)?;
            Ok(StationMeans { loss: 0.0, wait, slope })
        }
    }
}

/// Room for K jobs: a birth-death chain. Where all jobs present are in service it holds whatever the demand: PS and delays,
/// and stations with no place to wait (Erlang's loss system).
fn finite(
    flow: &Flow<'_>,
    station: usize,
    capacity: usize,
    throughputs: &[f64],
) -> Result<StationMeans, String> {
    let (rate, mean, _) = flow.arrivals(station, throughputs);
    let model = &flow.system.stations[station];
    if rate == 0.0 || mean == 0.0 {
        return Ok(StationMeans { loss: 0.0, wait: 0.0, slope: 1.0 });
    }
    if model.can_queue() && phase_type(flow, station).map_or(true, |demand| demand.phases() > 1) {
        return Err(format!(
            "no closed form for a capacity and demand that is not exponential at {}; see exact-lps, or simulate",
            model.place()
        ));
    }
    let service = model.service();
    let levels = finite_levels(rate * mean, &service, capacity);
    let sum = |of: &dyn Fn(usize) -> usize| -> f64 {
        levels.iter().enumerate().map(|(jobs, probability)| of(jobs) as f64 * probability).sum()
    };
    let (present, in_service) = (sum(&|jobs| jobs), sum(&|jobs| jobs.min(service.limit)));
    let loss = levels[capacity];
    let accepted = rate * (1.0 - loss);
    Ok(StationMeans { loss, wait: (present - in_service) / accepted, slope: in_service / accepted / mean })
}

/// `E[R|x]` = wait + slope·x at a station, for these throughputs by class.
pub(super) fn wait_and_slope(
    flow: &Flow<'_>,
    station: usize,
    throughputs: &[f64],
) -> Result<(f64, f64), String> {
    let (rate, mean, second) = flow.arrivals(station, throughputs);
    let model = &flow.system.stations[station];
    if rate == 0.0 || mean == 0.0 || model.discipline == Discipline::Is {
        return Ok((0.0, 1.0));
    }
    if model.speed.is_some() && matches!(model.discipline, Discipline::Lps { .. }) {
        // Eq. 2.2 at any speed: in service and waiting as with exponential demand, and the wait (1 + C²)/2 times as long.
        let (in_service, waiting) = open_limited(rate * mean, &model.service())?;
        return Ok((waiting / rate * second / (2.0 * mean * mean), in_service / (rate * mean)));
    }
    if model.speed.is_some() {
        // PS at any speed: E[R|x] is proportional to x, and E[N] insensitive to the distribution of demand.
        let present = open_mean(rate * mean, &model.service())?;
        return Ok((0.0, present / (rate * mean)));
    }
    if model.servers > 1 {
        return Ok(several_servers(model, rate, mean, second));
    }
    let station = Mg1::new(rate, mean, second).map_err(|error| error.to_string())?;
    let limit = match model.discipline {
        Discipline::Fifo => Some(1),
        Discipline::Lps { limit } => Some(limit),
        Discipline::Ps | Discipline::Is => None,
    };
    let lps = Lps::new(station, limit, 0.0).map_err(|error| error.to_string())?;
    let wait = lps.mean_wait();
    Ok((wait, (lps.mean_response_time() - wait) / mean))
}

/// PS keeps the mean of M/M/c; FIFO waits (1 + C²)/2 times as long (Allen & Cunneen), and so does LPS for one of its places.
fn several_servers(model: &StationModel, rate: f64, mean: f64, second: f64) -> (f64, f64) {
    let servers = f64::from(model.servers);
    let utilisation = rate * mean / servers;
    let extra = erlang_c(model.servers, rate * mean) / (servers * (1.0 - utilisation));
    match model.discipline {
        Discipline::Ps | Discipline::Is => (0.0, 1.0 + extra),
        Discipline::Lps { .. } | Discipline::Fifo => {
            // M/M/c does not see the limit: jobs that wait beyond r would not be served faster within it.
            let places = model.service().limit - model.servers as usize;
            let waiting = extra * utilisation.powi(i32::try_from(places).unwrap_or(i32::MAX));
            (mean * waiting * (second / (mean * mean)) / 2.0, 1.0 + (extra - waiting))
        }
    }
}
