//! The log's own sessions through the simulator: where `sojourn-workload` meets `sojourn-queueing`.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sojourn_queueing::simulator::{self, ChainedJob, Quota};
use sojourn_queueing::station::Service;
use sojourn_workload::arrivals::{Arrival, Level, Staircase};
use sojourn_workload::trace;

use crate::workload::Trace;

const NS_PER_SECOND: f64 = 1e9;

type Times<'py> = Bound<'py, PyArray1<f64>>;

/// Adds this file's name to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(simulate_sessions, module)?)
}

/// Sessions of the trace, drawn at random at a wanted request rate, through one station.
///
/// `demands` are seconds per request of the trace, in the order of `transfer_sizes`; `r=None` is processor
/// sharing; `latency` is what passes between an answer and the next request of its session at the least;
/// `quota` is seconds of work in each period of so many seconds, as a control group limits a processor;
/// `wakeup` is how much longer a request takes that finds the station empty, in seconds;
/// `client` is the client's work on an answer per second of its demand: it takes them one after the other.
/// Returns when each request left the station and how long it was there, in seconds.
#[pyfunction]
#[pyo3(signature = (trace, requests_per_second, seconds, think_scale, demands, r, latency, seed, quota=None, wakeup=0.0, client=0.0))]
#[allow(clippy::too_many_arguments, reason = "they are keywords on the other side")]
fn simulate_sessions<'py>(
    py: Python<'py>,
    trace: PyRef<'py, Trace>,
    requests_per_second: f64,
    seconds: f64,
    think_scale: f64,
    demands: PyReadonlyArray1<'py, f64>,
    r: Option<u32>,
    latency: f64,
    seed: u64,
    quota: Option<(f64, f64)>,
    wakeup: f64,
    client: f64,
) -> PyResult<(Times<'py>, Times<'py>)> {
    let demands: Vec<f64> = demands.as_array().to_vec();
    if demands.len() != trace.inner.requests.len() {
        let message = format!("{} demands for {} requests", demands.len(), trace.inner.requests.len());
        return Err(PyValueError::new_err(message));
    }
    let levels = vec![Level { start_ns: 0, requests_per_second }];
    let end_ns = (seconds * NS_PER_SECOND) as u64;
    let staircase = Staircase { levels, end_ns, settle_ns: 0, think_scale, seed };
    let service = r.map_or(Service::ps(1), |r| Service::lps(r as usize, 1));
    let quota = quota.map(|(seconds, period_seconds)| Quota { seconds, period_seconds });
    let inner = &trace.inner;
    let answered = py.detach(|| {
        let arrivals = staircase.arrivals(inner).map_err(|error| error.to_string())?;
        let mut chains: Vec<_> =
            arrivals.map(|arrival| chain(inner, &arrival, think_scale, &demands)).collect();
        chains.sort_by(|one, other| one[0].due.total_cmp(&other[0].due));
        simulator::simulate_sessions(chains, service, latency, wakeup, client, quota)
            .map_err(|error| error.to_string())
    });
    let answered = answered.map_err(PyValueError::new_err)?;
    let at: Vec<f64> = answered.iter().map(|job| job.at).collect();
    let times: Vec<f64> = answered.iter().map(|job| job.response_time).collect();
    Ok((at.into_pyarray(py), times.into_pyarray(py)))
}

/// What is still to come of one session, never empty.
fn chain(trace: &trace::Trace, arrival: &Arrival, think_scale: f64, demands: &[f64]) -> Vec<ChainedJob> {
    let session = &trace.sessions[arrival.session as usize];
    let begin = session.first + arrival.first_request;
    let requests = begin as usize..(session.first + session.count) as usize;
    let due = |request: usize| {
        let offset_ns = trace.requests[request].offset_ns as f64 * think_scale;
        (arrival.start_ns as f64 + offset_ns) / NS_PER_SECOND
    };
    requests.map(|request| ChainedJob { due: due(request), demand: demands[request] }).collect()
}
