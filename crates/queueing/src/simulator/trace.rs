//! One station driven by given arrivals and demands: the sessions of a log instead of Poisson arrivals.

use super::SimulationError;
use crate::speed::Speed;
use crate::station::{Service, Station};

/// The response time of every job, in the order of arrival and in the unit of the input.
///
/// `arrival_times` must not decrease. The run ends when every job has been served.
///
/// # Errors
/// [`SimulationError`] when the columns differ in length, times decrease, a value is negative or not finite,
/// or the service has no place for a job.
pub fn simulate_station(
    arrival_times: &[f64],
    demands: &[f64],
    service: Service,
) -> Result<Vec<f64>, SimulationError> {
    validate_trace(arrival_times, demands, "demands")?;
    validate_service(&service)?;
    let mut responses = vec![0.0; demands.len()];
    // Time starts at the first arrival, so that finish tags keep their precision for traces stamped in epoch seconds.
    let origin = arrival_times.first().copied().unwrap_or(0.0);
    let mut station: Station<u32> = Station::new(service);
    let mut finish = |station: &mut Station<u32>| {
        let now = station.next_completion();
        if let Some(job) = station.complete() {
            responses[job as usize] = now - (arrival_times[job as usize] - origin);
        }
    };
    for (job, (&time, &demand)) in arrival_times.iter().zip(demands).enumerate() {
        let now = time - origin;
        while station.next_completion() <= now {
            finish(&mut station);
        }
        station.arrive(now, demand, job as u32);
    }
    while station.present() > 0 {
        finish(&mut station);
    }
    Ok(responses)
}

pub(super) fn validate_service(service: &Service) -> Result<(), SimulationError> {
    let refuse = |name, value| Err(SimulationError::Parameter { name, requirement: "at least 1", value });
    if service.limit == 0 {
        return refuse("r", 0.0);
    }
    match service.speed {
        Speed::Servers(servers) if servers.is_nan() || servers < 1.0 => refuse("servers", servers),
        _ => Ok(()),
    }
}

/// Checks a trace of times and one value per arrival (`what`).
pub(super) fn validate_trace(
    times: &[f64],
    values: &[f64],
    what: &'static str,
) -> Result<(), SimulationError> {
    if times.len() != values.len() {
        return Err(SimulationError::TraceLength { times: times.len(), what, values: values.len() });
    }
    if u32::try_from(times.len()).is_err() {
        let (name, requirement) = ("the number of arrivals", "below 2³²");
        return Err(SimulationError::Parameter { name, requirement, value: times.len() as f64 });
    }
    if let Some(index) = times.iter().position(|time| !time.is_finite()) {
        return Err(SimulationError::TraceValue { what: "arrival times", index, value: times[index] });
    }
    if let Some(index) = values.iter().position(|value| !(value.is_finite() && *value >= 0.0)) {
        return Err(SimulationError::TraceValue { what, index, value: values[index] });
    }
    match times.windows(2).position(|pair| pair[1] < pair[0]) {
        Some(index) => Err(SimulationError::TraceOrder { index: index + 1 }),
        None => Ok(()),
    }
}
