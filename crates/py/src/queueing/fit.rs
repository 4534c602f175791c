//! Bindings of the fits of distributions to measured values.

use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use sojourn_queueing::fit;

use super::{dictionary, refused};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(fit_laws, module)?)?;
    module.add_function(wrap_pyfunction!(fit_moments, module)?)?;
    module.add_function(wrap_pyfunction!(fit_tail, module)?)?;
    module.add_function(wrap_pyfunction!(fit_usl, module)?)
}

/// Distributions fitted to positive values by maximum likelihood, the best (by AIC) first.
#[pyfunction]
fn fit_laws<'py>(py: Python<'py>, values: PyReadonlyArray1<'py, f64>) -> PyResult<Bound<'py, PyAny>> {
    let values = super::values(&values);
    let fits = py.detach(|| fit::fit(&values));
    dictionary(py, &fits.map_err(refused)?)
}

/// The phase-type distribution with the values' first two moments.
#[pyfunction]
fn fit_moments<'py>(py: Python<'py>, values: PyReadonlyArray1<'py, f64>) -> PyResult<Bound<'py, PyAny>> {
    let values = super::values(&values);
    dictionary(py, &fit::fit_moments(&values).map_err(refused)?)
}

/// A Pareto tail fitted to the largest `fraction` of the values.
#[pyfunction]
#[pyo3(signature = (values, fraction=0.05))]
fn fit_tail<'py>(
    py: Python<'py>,
    values: PyReadonlyArray1<'py, f64>,
    fraction: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let values = super::values(&values);
    dictionary(py, &fit::fit_tail(&values, fraction).map_err(refused)?)
}

/// The universal scalability law fitted to throughputs at loads, weighted by 1/variance.
#[pyfunction]
#[pyo3(signature = (loads, throughputs, weights=None))]
fn fit_usl<'py>(
    py: Python<'py>,
    loads: PyReadonlyArray1<'py, f64>,
    throughputs: PyReadonlyArray1<'py, f64>,
    weights: Option<PyReadonlyArray1<'py, f64>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (loads, throughputs) = (super::values(&loads), super::values(&throughputs));
    let weights = weights.as_ref().map(super::values);
    let fit = py.detach(|| fit::fit_usl(&loads, &throughputs, weights.as_deref()));
    dictionary(py, &fit.map_err(refused)?)
}
