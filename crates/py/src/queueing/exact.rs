//! Bindings of exact M/PH/1/LPS-r.

use std::sync::OnceLock;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;
use sojourn_queueing::exact_lps::{self, ExactError, PhaseType, ResponseDistribution};

use super::distribution::Distribution;
use super::{dictionary, refused};
use crate::array::{Array, Values};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ExactLps>()?;
    module.add_function(wrap_pyfunction!(lps_exact, module)?)
}

/// An LPS station with Poisson arrivals and phase-type demand, solved.
#[pyclass(frozen, module = "sojourn._native")]
struct ExactLps {
    solved: exact_lps::ExactLps,
    /// Computed on first use, because it costs more than the mean.
    response_times: OnceLock<Result<ResponseDistribution, ExactError>>,
}

impl ExactLps {
    fn solve(py: Python<'_>, arrival_rate: f64, demand: PhaseType, r: u32) -> PyResult<Self> {
        let solved = py.detach(|| exact_lps::ExactLps::new(arrival_rate, demand, r)).map_err(refused)?;
        Ok(Self { solved, response_times: OnceLock::new() })
    }

    fn response_times(&self, py: Python<'_>) -> PyResult<&ResponseDistribution> {
        let found = py.detach(|| self.response_times.get_or_init(|| self.solved.distribution()));
        found.as_ref().map_err(|error| refused(error.clone()))
    }
}

#[pymethods]
impl ExactLps {
    /// For a phase-type distribution.
    #[staticmethod]
    fn of_law(py: Python<'_>, arrival_rate: f64, demand: &Distribution, r: u32) -> PyResult<Self> {
        let phase_type = PhaseType::of(&demand.inner).ok_or_else(|| refused(ExactError::NotPhaseType))?;
        Self::solve(py, arrival_rate, phase_type, r)
    }

    /// For the phase-type distribution with these moments.
    #[staticmethod]
    fn of_moments(py: Python<'_>, arrival_rate: f64, mean: f64, scv: f64, r: u32) -> PyResult<Self> {
        Self::solve(py, arrival_rate, of_mean_scv(mean, scv)?, r)
    }

    #[getter]
    fn mean_response_time(&self) -> f64 {
        self.solved.mean_response_time()
    }

    #[getter]
    fn mean_wait(&self) -> f64 {
        self.solved.mean_wait()
    }

    /// P(R > t).
    fn survival(&self, py: Python<'_>, times: Values<f64>) -> PyResult<Array<f64>> {
        let (times, found) = (times.0, self.response_times(py)?);
        let survival = |time: &f64| found.survival(*time);
        Ok(Array(py.detach(|| times.iter().map(survival).collect())))
    }

    fn quantile(&self, py: Python<'_>, probabilities: Values<f64>) -> PyResult<Array<f64>> {
        let (probabilities, found) = (probabilities.0, self.response_times(py)?);
        let quantile = |p: &f64| found.quantile(*p);
        Ok(Array(py.detach(|| probabilities.iter().map(quantile).collect())))
    }

    /// `E[R | S = x]`.
    fn conditional_means(&self, py: Python<'_>, demands: Values<f64>) -> Array<f64> {
        Array(py.detach(|| self.solved.conditional_means(&demands.0)))
    }
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

/// An exact solution, with the same keys as a simulation's.
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
    demands: Option<Values<f64>>,
) -> PyResult<Bound<'py, PyAny>> {
    let demands = demands.map_or_else(Vec::new, |demands| demands.0);
    let phase_type = of_mean_scv(mean_demand, scv_demand)?;
    let result = py.detach(|| {
        let station = exact_lps::ExactLps::new(arrival_rate, phase_type, r)?;
        let response_time = station.distribution()?;
        let response_time_seconds = ExactResponseTime {
            mean: station.mean_response_time(),
            p50: response_time.quantile(0.5),
            p90: response_time.quantile(0.9),
            p95: response_time.quantile(0.95),
            p99: response_time.quantile(0.99),
            p999: response_time.quantile(0.999),
        };
        let conditional_mean_seconds = station.conditional_means(&demands);
        let mean_wait_seconds = station.mean_wait();
        Ok(ExactResult { response_time_seconds, mean_wait_seconds, conditional_mean_seconds })
    });
    dictionary(py, &result.map_err(|error: ExactError| refused(error))?)
}

fn of_mean_scv(mean: f64, scv: f64) -> PyResult<PhaseType> {
    PhaseType::from_mean_scv(mean, scv).ok_or_else(|| {
        PyValueError::new_err(format!(
            "scv = {scv} has no phase-type distribution of at most 8 phases: simulate"
        ))
    })
}
