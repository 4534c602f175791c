//! Bindings of the fits of distributions to measured values.

use pyo3::prelude::*;
use sojourn_queueing::fit;

use super::{dictionary, refused};
use crate::array::Values;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(fit_laws, module)?)?;
    module.add_function(wrap_pyfunction!(fit_moments, module)?)?;
    module.add_function(wrap_pyfunction!(fit_tail, module)?)?;
    module.add_function(wrap_pyfunction!(fit_usl, module)?)
}

/// Distributions fitted to positive values by maximum likelihood, the best (by AIC) first.
#[pyfunction]
fn fit_laws<'py>(py: Python<'py>, values: Values<f64>) -> PyResult<Bound<'py, PyAny>> {
    let fits = py.detach(|| fit::fit(&values.0));
    dictionary(py, &fits.map_err(refused)?)
}

/// The phase-type distribution with the values' first two moments.
#[pyfunction]
fn fit_moments<'py>(py: Python<'py>, values: Values<f64>) -> PyResult<Bound<'py, PyAny>> {
    dictionary(py, &fit::fit_moments(&values.0).map_err(refused)?)
}

/// A Pareto tail fitted to the largest `fraction` of the values.
#[pyfunction]
#[pyo3(signature = (values, fraction=0.05))]
fn fit_tail<'py>(py: Python<'py>, values: Values<f64>, fraction: f64) -> PyResult<Bound<'py, PyAny>> {
    dictionary(py, &fit::fit_tail(&values.0, fraction).map_err(refused)?)
}

/// The universal scalability law fitted to throughputs at loads, weighted by 1/variance.
#[pyfunction]
#[pyo3(signature = (loads, throughputs, weights=None))]
fn fit_usl<'py>(
    py: Python<'py>,
    loads: Values<f64>,
    throughputs: Values<f64>,
    weights: Option<Values<f64>>,
) -> PyResult<Bound<'py, PyAny>> {
    let weights = weights.map(|weights| weights.0);
    let fit = py.detach(|| fit::fit_usl(&loads.0, &throughputs.0, weights.as_deref()));
    dictionary(py, &fit.map_err(refused)?)
}
