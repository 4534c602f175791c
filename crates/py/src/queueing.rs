//! Bindings of `sojourn-queueing`: NumPy arrays in, NumPy arrays or plain dictionaries out.
//!
//! Nothing here computes. Long calls release the interpreter lock and look for Ctrl-C from time to time: a
//! simulation then returns what it has, marked `complete: False`.

use std::collections::BTreeMap;

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use serde::Serialize;
use sojourn_queueing::closed_form::{Lps, Mg1};
use sojourn_queueing::distribution::Empirical;
use sojourn_queueing::exact_lps::{ExactError, ExactLps, PhaseType};
use sojourn_queueing::fit;
use sojourn_queueing::simulator::{
    self, JOBS_MAX_DEFAULT, JOBS_MIN_DEFAULT, Plan, PoissonStation, Progress, Trace,
};
use sojourn_queueing::solver;
use sojourn_queueing::station::Service;
use sojourn_queueing::system_file;

/// Adds this file's names to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(lps_mean_response_time, module)?)?;
    module.add_function(wrap_pyfunction!(lps_conditional_mean, module)?)?;
    module.add_function(wrap_pyfunction!(lps_validity, module)?)?;
    module.add_function(wrap_pyfunction!(lps_exact, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_station, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_poisson, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_system, module)?)?;
    module.add_function(wrap_pyfunction!(predict_system, module)?)?;
    module.add_function(wrap_pyfunction!(fit_laws, module)?)?;
    module.add_function(wrap_pyfunction!(fit_tail, module)?)
}

/// Mean response time in seconds by Eq. 2.2: limited processor sharing, `r` jobs in service at most.
#[pyfunction]
#[pyo3(signature = (arrival_rate, mean_demand, second_moment_demand, r=None, delta=0.0))]
fn lps_mean_response_time(
    arrival_rate: f64,
    mean_demand: f64,
    second_moment_demand: f64,
    r: Option<u32>,
    delta: f64,
) -> PyResult<f64> {
    Ok(lps(arrival_rate, mean_demand, second_moment_demand, r, delta)?.mean_response_time())
}

/// Mean response time in seconds of jobs with each of these demands, by Eq. 2.1.
#[pyfunction]
#[pyo3(signature = (demands, arrival_rate, mean_demand, second_moment_demand, r=None, delta=0.0))]
fn lps_conditional_mean<'py>(
    py: Python<'py>,
    demands: PyReadonlyArray1<'py, f64>,
    arrival_rate: f64,
    mean_demand: f64,
    second_moment_demand: f64,
    r: Option<u32>,
    delta: f64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let station = lps(arrival_rate, mean_demand, second_moment_demand, r, delta)?;
    let means: Vec<f64> = demands.as_array().iter().map(|&demand| station.conditional_mean(demand)).collect();
    Ok(means.into_pyarray(py))
}

/// How far Eq. 2.2 can be trusted here: `exact`, `relative_error_max` and a `note`.
#[pyfunction]
#[pyo3(signature = (arrival_rate, mean_demand, second_moment_demand, r=None))]
fn lps_validity<'py>(
    py: Python<'py>,
    arrival_rate: f64,
    mean_demand: f64,
    second_moment_demand: f64,
    r: Option<u32>,
) -> PyResult<Bound<'py, PyAny>> {
    dictionary(py, &lps(arrival_rate, mean_demand, second_moment_demand, r, 0.0)?.validity())
}

/// The percentiles of an exact solution.
#[derive(Serialize)]
struct ExactResponseTime {
    mean: f64,
    p50: f64,
    p90: f64,
    p95: f64,
    p99: f64,
    p999: f64,
}

/// An exact solution, with the keys of a simulation.
#[derive(Serialize)]
struct ExactResult {
    response_time_seconds: ExactResponseTime,
    mean_wait_seconds: f64,
    conditional_mean_seconds: Vec<f64>,
}

/// Exact M/PH/1/LPS-r for the phase-type demand with this mean and squared coefficient of variation: mean and
/// percentiles of the response time, and its mean for each of `demands`, in seconds.
#[pyfunction]
#[pyo3(signature = (arrival_rate, mean_demand, scv_demand, r, demands=None))]
fn lps_exact<'py>(
    py: Python<'py>,
    arrival_rate: f64,
    mean_demand: f64,
    scv_demand: f64,
    r: u32,
    demands: Option<PyReadonlyArray1<'py, f64>>,
) -> PyResult<Bound<'py, PyAny>> {
    let demands = demands.map_or_else(Vec::new, |demands| values(&demands));
    let phase_type = PhaseType::from_mean_scv(mean_demand, scv_demand).ok_or_else(|| {
        let message =
            format!("scv_demand = {scv_demand} has no phase-type law of at most 8 phases: simulate");
        PyValueError::new_err(message)
    })?;
    let result = py.detach(|| {
        let station = ExactLps::new(arrival_rate, phase_type, r)?;
        let law = station.distribution();
        let response_time_seconds = ExactResponseTime {
            mean: station.mean_response_time(),
            p50: law.quantile(0.5),
            p90: law.quantile(0.9),
            p95: law.quantile(0.95),
            p99: law.quantile(0.99),
            p999: law.quantile(0.999),
        };
        let conditional_mean_seconds = station.conditional_means(&demands);
        let mean_wait_seconds = station.mean_wait();
        Ok(ExactResult { response_time_seconds, mean_wait_seconds, conditional_mean_seconds })
    });
    dictionary(py, &result.map_err(|error: ExactError| refused(error))?)
}

/// Response time in seconds of every job of a trace at one station; `r=None` is processor sharing.
#[pyfunction]
#[pyo3(signature = (arrival_times, demands, r=None, servers=1))]
fn simulate_station<'py>(
    py: Python<'py>,
    arrival_times: PyReadonlyArray1<'py, f64>,
    demands: PyReadonlyArray1<'py, f64>,
    r: Option<u32>,
    servers: u32,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (times, demands) = (values(&arrival_times), values(&demands));
    let responses = py.detach(|| simulator::simulate_station(&times, &demands, service(r, servers)));
    Ok(responses.map_err(refused)?.into_pyarray(py))
}

/// Simulates one station under Poisson arrivals whose demands are drawn from the given values.
#[pyfunction]
#[pyo3(signature = (
    arrival_rate, demands, r=None, half_width=0.02, jobs_max=JOBS_MAX_DEFAULT, seed=1, *,
    weights=None, servers=1, delta=0.0, jobs_min=JOBS_MIN_DEFAULT, progress=None
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
fn simulate_poisson<'py>(
    py: Python<'py>,
    arrival_rate: f64,
    demands: PyReadonlyArray1<'py, f64>,
    r: Option<u32>,
    half_width: f64,
    jobs_max: u64,
    seed: u64,
    weights: Option<PyReadonlyArray1<'py, f64>>,
    servers: u32,
    delta: f64,
    jobs_min: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let demands = values(&demands);
    let law = match weights {
        Some(weights) => Empirical::weighted(&demands, &values(&weights)),
        None => Empirical::new(&demands),
    };
    let model = PoissonStation {
        arrival_rate,
        demand: law.map_err(refused)?.into(),
        service: service(r, servers),
        delta,
    };
    let plan = Plan { relative_half_width: half_width, jobs_min, jobs_max, seed };
    let mut watch = Watch { progress, failure: None };
    let result = py.detach(|| simulator::simulate_poisson(&model, &plan, &mut |now| watch.go_on(now)));
    watch.check()?;
    dictionary(py, &result.map_err(refused)?)
}

/// Arrival times and document sizes of each traced class.
type Traces<'py> = BTreeMap<String, (PyReadonlyArray1<'py, f64>, PyReadonlyArray1<'py, f64>)>;

/// Simulates the system of a system file; `traces` maps an open class to its arrival times in seconds and
/// document sizes in bytes.
#[pyfunction]
#[pyo3(signature = (
    system, half_width=0.02, jobs_max=JOBS_MAX_DEFAULT, seed=1, *,
    jobs_min=JOBS_MIN_DEFAULT, traces=None, progress=None
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
fn simulate_system<'py>(
    py: Python<'py>,
    system: &str,
    half_width: f64,
    jobs_max: u64,
    seed: u64,
    jobs_min: u64,
    traces: Option<Traces<'py>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let system = system_file::parse(system).map_err(refused)?;
    let columns: Vec<(String, Vec<f64>, Vec<f64>)> = traces
        .iter()
        .flatten()
        .map(|(class, (times, sizes))| (class.clone(), values(times), values(sizes)))
        .collect();
    let plan = Plan { relative_half_width: half_width, jobs_min, jobs_max, seed };
    let mut watch = Watch { progress, failure: None };
    let result = py.detach(|| {
        let traces: Vec<Trace<'_>> =
            columns.iter().map(|(class, times, sizes)| Trace { class, times, sizes }).collect();
        simulator::simulate_system(&system, &plan, &traces, &mut |now| watch.go_on(now))
    });
    watch.check()?;
    dictionary(py, &result.map_err(refused)?)
}

/// Every analytic solver's answer or refusal for the system of a system file, with its bottleneck.
#[pyfunction]
fn predict_system<'py>(py: Python<'py>, system: &str) -> PyResult<Bound<'py, PyAny>> {
    let system = system_file::parse(system).map_err(refused)?;
    let prediction = py.detach(|| solver::predict(&system));
    dictionary(py, &prediction)
}

/// Laws fitted to positive values by maximum likelihood, the best (by AIC) first.
#[pyfunction]
fn fit_laws<'py>(py: Python<'py>, values: PyReadonlyArray1<'py, f64>) -> PyResult<Bound<'py, PyAny>> {
    let values = self::values(&values);
    let fits = py.detach(|| fit::fit(&values));
    dictionary(py, &fits.map_err(refused)?)
}

/// A Pareto tail fitted to the largest `fraction` of the values.
#[pyfunction]
#[pyo3(signature = (values, fraction=0.05))]
fn fit_tail<'py>(
    py: Python<'py>,
    values: PyReadonlyArray1<'py, f64>,
    fraction: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let values = self::values(&values);
    dictionary(py, &fit::fit_tail(&values, fraction).map_err(refused)?)
}

/// Stands between a simulation and the interpreter: reports progress, notices Ctrl-C.
struct Watch {
    progress: Option<Py<PyAny>>,
    failure: Option<PyErr>,
}

impl Watch {
    fn go_on(&mut self, progress: &Progress) -> bool {
        let outcome = Python::attach(|py| {
            if let Some(callback) = &self.progress {
                callback.call1(py, (progress.jobs, progress.jobs_max, progress.relative_half_width))?;
            }
            py.check_signals()
        });
        let going = outcome.is_ok();
        self.failure = outcome.err();
        going
    }

    /// Ctrl-C ends a simulation without an exception: its result says that it is not complete.
    fn check(self) -> PyResult<()> {
        match self.failure {
            Some(error) if !Python::attach(|py| error.is_instance_of::<PyKeyboardInterrupt>(py)) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }
}

fn lps(
    arrival_rate: f64,
    mean_demand: f64,
    second_moment_demand: f64,
    r: Option<u32>,
    delta: f64,
) -> PyResult<Lps> {
    let station = Mg1::new(arrival_rate, mean_demand, second_moment_demand).map_err(refused)?;
    Lps::new(station, r, delta).map_err(refused)
}

fn service(r: Option<u32>, servers: u32) -> Service {
    r.map_or_else(|| Service::ps(servers), |limit| Service::lps(limit as usize, servers))
}

/// A copy, so that the lock can be released while it is read.
fn values(array: &PyReadonlyArray1<'_, f64>) -> Vec<f64> {
    array.as_array().iter().copied().collect()
}

fn refused(error: impl std::error::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A result as Python dictionaries and lists, with the keys of its JSON form.
fn dictionary<'py>(py: Python<'py>, result: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(result).map_err(refused)?;
    py.import("json")?.call_method1("loads", (text,))
}
