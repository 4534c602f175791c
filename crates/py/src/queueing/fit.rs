//! Bindings of the fits of laws to measured values.

use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use sojourn_queueing::fit;

use super::{dictionary, refused};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(fit_laws, module)?)?;
    module.add_function(wrap_pyfunction!(fit_tail, module)?)
}

/// Laws fitted to positive values by maximum likelihood, the best (by AIC) first.
#[pyfunction]
fn fit_laws<'py>(py: Python<'py>, values: PyReadonlyArray1<'py, f64>) -> PyResult<Bound<'py, PyAny>> {
    let values = super::values(&values);
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
    let values = super::values(&values);
    dictionary(py, &fit::fit_tail(&values, fraction).map_err(refused)?)
}
