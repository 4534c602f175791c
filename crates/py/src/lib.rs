//! `sojourn._native`: log import, histograms and queueing for Python. Conversions only, no logic.

use pyo3::prelude::*;

mod array;
mod cache;
mod histogram;
mod log;
mod queueing;
mod sessions;
mod workload;

/// The native module of Sojourn.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    cache::register(module)?;
    workload::register(module)?;
    histogram::register(module)?;
    log::register(module)?;
    queueing::register(module)?;
    sessions::register(module)
}
