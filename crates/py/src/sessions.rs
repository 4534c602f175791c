//! Simulates a log's own sessions: connects `sojourn-workload` with `sojourn-queueing`.

use std::ops::Range;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sojourn_queueing::simulator::{
    self, Answered, ChainedJob, Interruption, Quota, SpeedChange, Surroundings,
};
use sojourn_queueing::station::Service;
use sojourn_workload::arrivals::{Arrival, Level, Staircase};
use sojourn_workload::trace;

use crate::array::{Array, Values};
use crate::workload::Trace;

const NS_PER_SECOND: f64 = 1e9;

type Times = Array<f64>;

/// Registers this file's functions in the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(simulate_sessions, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_step, module)?)
}

/// Sessions of the trace, drawn at random at a wanted request rate, through one station.
///
/// `demands` are seconds per request of the trace, in the order of `transfer_sizes`; `r=None` is processor sharing;
/// `latency` is what passes between an answer and the next request of its session at the least; `quota` is seconds of
/// work in each period of so many seconds, as a control group limits a processor; `wakeup` is how much longer a request
/// takes that finds the station empty, in seconds; `client` is the client's work on an answer per second of its demand:
/// it takes them one after the other. Returns each request's departure time and response time in seconds.
#[pyfunction]
#[pyo3(signature = (trace, requests_per_second, seconds, think_scale, demands, r, latency, seed, quota=None, wakeup=0.0, client=0.0, sending=0.0))]
#[allow(clippy::too_many_arguments, reason = "they are keywords on the other side")]
fn simulate_sessions(
    py: Python<'_>,
    trace: PyRef<'_, Trace>,
    requests_per_second: f64,
    seconds: f64,
    think_scale: f64,
    demands: Values<f64>,
    r: Option<u32>,
    latency: f64,
    seed: u64,
    quota: Option<(f64, f64)>,
    wakeup: f64,
    client: f64,
    sending: f64,
) -> PyResult<(Times, Times)> {
    let levels = vec![Level { start_ns: 0, requests_per_second }];
    let staircase = Staircase { levels, end_ns: ns(seconds), settle_ns: 0, think_scale, seed };
    let surroundings =
        Surroundings { latency, wakeup, client, sending, quota: limit(quota), ..Surroundings::default() };
    let answered = simulate(py, &trace.inner, &staircase, 0.0..f64::INFINITY, &demands.0, r, surroundings)?;
    Ok((times(&answered, |job| job.at), times(&answered, |job| job.response_time)))
}

/// The requests of one step of a climb through one station: those that the load generator sends with this seed.
///
/// `rates` are those of all steps so far, each of so many seconds, the first of which settle; the last is simulated. The
/// station and the client stand still during their interruptions: begins and ends in seconds since the climb's start.
/// From the begin of each of their speeds on, they work at so many times their usual speed.
/// The rest is as for `simulate_sessions`. Returns, in seconds since the climb's start, when each request left the station,
/// how long it was there, and its demand.
#[pyfunction]
#[pyo3(signature = (trace, rates, step_seconds, settle_seconds, think_scale, demands, r, latency, seed, quota=None, wakeup=0.0, client=0.0, sending=0.0, station_interruptions=vec![], client_interruptions=vec![], station_speeds=vec![], client_speeds=vec![]))]
#[allow(clippy::too_many_arguments, reason = "they are keywords on the other side")]
fn simulate_step(
    py: Python<'_>,
    trace: PyRef<'_, Trace>,
    rates: Vec<f64>,
    step_seconds: f64,
    settle_seconds: f64,
    think_scale: f64,
    demands: Values<f64>,
    r: Option<u32>,
    latency: f64,
    seed: u64,
    quota: Option<(f64, f64)>,
    wakeup: f64,
    client: f64,
    sending: f64,
    station_interruptions: Vec<(f64, f64)>,
    client_interruptions: Vec<(f64, f64)>,
    station_speeds: Vec<(f64, f64)>,
    client_speeds: Vec<(f64, f64)>,
) -> PyResult<(Times, Times, Times)> {
    let staircase = Staircase::in_steps(&rates, ns(step_seconds), ns(settle_seconds), think_scale, seed);
    let from = step_seconds * rates.len().saturating_sub(1) as f64;
    let surroundings = Surroundings {
        latency,
        wakeup,
        client,
        sending,
        quota: limit(quota),
        station_interruptions: spans(station_interruptions),
        client_interruptions: spans(client_interruptions),
        station_speeds: speeds(station_speeds),
        client_speeds: speeds(client_speeds),
    };
    let due = from..from + step_seconds;
    let answered = simulate(py, &trace.inner, &staircase, due, &demands.0, r, surroundings)?;
    let of = |figure: fn(&Answered) -> f64| times(&answered, figure);
    Ok((of(|job| job.at), of(|job| job.response_time), of(|job| job.demand)))
}

fn limit(quota: Option<(f64, f64)>) -> Option<Quota> {
    quota.map(|(seconds, period_seconds)| Quota { seconds, period_seconds })
}

fn spans(spans: Vec<(f64, f64)>) -> Vec<Interruption> {
    spans.into_iter().map(|(begin, end)| Interruption { begin, end }).collect()
}

fn speeds(changes: Vec<(f64, f64)>) -> Vec<SpeedChange> {
    changes.into_iter().map(|(begin, speed)| SpeedChange { begin, speed }).collect()
}

/// The requests that are due in a span.
fn simulate(
    py: Python<'_>,
    trace: &trace::Trace,
    staircase: &Staircase,
    due: Range<f64>,
    demands: &[f64],
    r: Option<u32>,
    surroundings: Surroundings,
) -> PyResult<Vec<Answered>> {
    if demands.len() != trace.requests.len() {
        let message = format!("{} demands for {} requests", demands.len(), trace.requests.len());
        return Err(PyValueError::new_err(message));
    }
    let service = r.map_or(Service::ps(1), |r| Service::lps(r as usize, 1));
    let answered = py.detach(|| {
        let arrivals = staircase.arrivals(trace).map_err(|error| error.to_string())?;
        let chains = arrivals.map(|arrival| chain(trace, &arrival, staircase.think_scale, demands, &due));
        let mut chains: Vec<_> = chains.filter(|chain| !chain.is_empty()).collect();
        chains.sort_by(|one, other| one[0].due.total_cmp(&other[0].due));
        simulator::simulate_sessions(chains, service, surroundings).map_err(|error| error.to_string())
    });
    answered.map_err(PyValueError::new_err)
}

fn ns(seconds: f64) -> u64 {
    (seconds * NS_PER_SECOND).round() as u64
}

fn times(answered: &[Answered], figure: fn(&Answered) -> f64) -> Times {
    answered.iter().map(figure).collect()
}

/// The remaining requests of one session that fall due in the span.
fn chain(
    trace: &trace::Trace,
    arrival: &Arrival,
    think_scale: f64,
    demands: &[f64],
    span: &Range<f64>,
) -> Vec<ChainedJob> {
    let session = &trace.sessions[arrival.session as usize];
    let begin = session.first + arrival.first_request;
    let requests = begin as usize..(session.first + session.count) as usize;
    let due = |request: usize| {
        let offset_ns = trace.requests[request].offset_ns as f64 * think_scale;
        (arrival.start_ns as f64 + offset_ns) / NS_PER_SECOND
    };
    let jobs = requests.map(|request| ChainedJob { due: due(request), demand: demands[request] });
    jobs.filter(|job| span.contains(&job.due)).collect()
}
