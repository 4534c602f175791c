//! Bindings of `sojourn-queueing`: NumPy arrays in, NumPy arrays or plain dictionaries out; a file per subject.
//!
//! Nothing is computed here. Long calls release the interpreter lock and check for Ctrl-C: a simulation then returns
//! what it has, marked `complete: False`.

mod closed_form;
mod distribution;
mod exact;
mod fit;
mod simulation;
mod system;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;

/// Registers this folder's names in the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    distribution::register(module)?;
    closed_form::register(module)?;
    exact::register(module)?;
    simulation::register(module)?;
    system::register(module)?;
    fit::register(module)
}

fn refused(error: impl std::error::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A result as Python dictionaries and lists, with the keys of its JSON form.
fn dictionary<'py>(py: Python<'py>, result: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(result).map_err(refused)?;
    py.import("json")?.call_method1("loads", (text,))
}
