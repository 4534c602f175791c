//! Bindings of the closed forms of limited processor sharing: Eq. 2.1, Eq. 2.2, their validity, heavy traffic.

use pyo3::prelude::*;
use sojourn_queueing::closed_form::{Lps, Mg1};

use super::{dictionary, refused};
use crate::array::{Array, Values};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(lps_mean_response_time, module)?)?;
    module.add_function(wrap_pyfunction!(lps_conditional_mean, module)?)?;
    module.add_function(wrap_pyfunction!(lps_validity, module)?)?;
    module.add_function(wrap_pyfunction!(lps_heavy_traffic_mean, module)?)
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
fn lps_conditional_mean(
    demands: Values<f64>,
    arrival_rate: f64,
    mean_demand: f64,
    second_moment_demand: f64,
    r: Option<u32>,
    delta: f64,
) -> PyResult<Array<f64>> {
    let station = lps(arrival_rate, mean_demand, second_moment_demand, r, delta)?;
    Ok(demands.0.iter().map(|&demand| station.conditional_mean(demand)).collect())
}

/// How far Eq. 2.2 can be trusted here: `exact`, `relative_error_max`, `relative_error_found` and a `note`.
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

/// The heavy-traffic mean response time in seconds, which errs low where Eq. 2.2 errs high.
#[pyfunction]
#[pyo3(signature = (arrival_rate, mean_demand, second_moment_demand, r=None))]
fn lps_heavy_traffic_mean(
    arrival_rate: f64,
    mean_demand: f64,
    second_moment_demand: f64,
    r: Option<u32>,
) -> PyResult<f64> {
    let station = lps(arrival_rate, mean_demand, second_moment_demand, r, 0.0)?;
    Ok(station.heavy_traffic_mean_response_time())
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
