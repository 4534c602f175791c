//! `sojourn._native`: log import, histograms and queueing for the Python face. Conversions only, no logic.

use pyo3::prelude::*;

mod cache;
mod histogram;
mod log;
mod queueing;
mod sessions;
mod workload;

/// The native half of Sojourn's Python face.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    cache::register(module)?;
    workload::register(module)?;
    histogram::register(module)?;
    log::register(module)?;
    queueing::register(module)?;
    sessions::register(module)
}
