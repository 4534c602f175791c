//! Bindings of the HDR histograms of `sojourn-measure`: latencies in seconds, counts as arrays.

use std::time::{Duration, SystemTime};

use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};
use sojourn_measure::{
    Nanos,
    interval_log::{self, Interval},
};

use crate::array::{Array, Values};

type Row = (String, f64, f64, Py<Histogram>);
type Recorded = (Array<f64>, Array<u64>);

/// Registers this file's names in the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Histogram>()?;
    module.add_function(wrap_pyfunction!(read_interval_log, module)?)?;
    module.add_function(wrap_pyfunction!(write_interval_log, module)?)
}

/// A latency histogram with three significant digits.
#[pyclass(module = "sojourn._native")]
#[derive(Clone, Default)]
pub struct Histogram {
    inner: sojourn_measure::Histogram,
}

#[pymethods]
impl Histogram {
    #[new]
    fn new() -> Histogram {
        Histogram::default()
    }

    /// Records each latency in seconds as often as its count says.
    fn record(&mut self, seconds: Values<f64>, counts: Values<u64>) -> PyResult<()> {
        let (seconds, counts) = (seconds.0, counts.0);
        if seconds.len() != counts.len() {
            let message = format!("{} latencies with {} counts", seconds.len(), counts.len());
            return Err(PyValueError::new_err(message));
        }
        for (seconds, count) in seconds.into_iter().zip(counts) {
            self.inner.record_many(Nanos::from_seconds(seconds), count);
        }
        Ok(())
    }

    /// Adds everything recorded in another histogram.
    fn merge(&mut self, other: PyRef<'_, Histogram>) {
        self.inner.merge(&other.inner);
    }

    /// The recorded latencies in ascending order, in seconds, with their counts.
    fn recorded(&self) -> Recorded {
        let (seconds, counts) =
            self.inner.recorded().map(|(latency, count)| (latency.seconds(), count)).unzip();
        (Array(seconds), Array(counts))
    }

    /// The quantile in seconds; None if nothing was recorded.
    fn quantile(&self, fraction: f64) -> Option<f64> {
        self.inner.quantile_seconds(fraction)
    }

    /// The figures as in results, by key.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let summary = self.inner.summary();
        let figures = PyDict::new(py);
        figures.set_item("count", summary.count)?;
        figures.set_item("mean", summary.mean)?;
        figures.set_item("p50", summary.p50)?;
        figures.set_item("p90", summary.p90)?;
        figures.set_item("p95", summary.p95)?;
        figures.set_item("p99", summary.p99)?;
        figures.set_item("p999", summary.p999)?;
        figures.set_item("max", summary.max)?;
        Ok(figures)
    }

    fn __len__(&self) -> usize {
        self.inner.count() as usize
    }
}

/// The rows of an HDR interval log: tag, start and length in seconds, histogram.
#[pyfunction]
fn read_interval_log(py: Python<'_>, log: &str) -> PyResult<Vec<Row>> {
    let rows = py.detach(|| interval_log::read(log.as_bytes()));
    let rows = rows.map_err(|error| PyValueError::new_err(error.to_string()))?;
    rows.into_iter()
        .map(|row| {
            let histogram = Py::new(py, Histogram { inner: row.histogram })?;
            Ok((row.tag, row.start.seconds(), row.length.seconds(), histogram))
        })
        .collect()
}

/// Writes such rows as a log whose time zero is `start_time`, in seconds since 1970.
#[pyfunction]
fn write_interval_log(py: Python<'_>, start_time: f64, rows: Vec<Row>) -> PyResult<String> {
    let intervals = rows.iter().map(|(tag, start, length, histogram)| Interval {
        tag,
        start: Nanos::from_seconds(*start),
        length: Nanos::from_seconds(*length),
        histogram: histogram.borrow(py).inner.clone(),
    });
    let start_time =
        Duration::try_from_secs_f64(start_time).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let comment = concat!("Written by sojourn ", env!("CARGO_PKG_VERSION"), ", values in nanoseconds");
    let mut log = Vec::new();
    interval_log::write(&mut log, SystemTime::UNIX_EPOCH + start_time, comment, intervals)?;
    Ok(String::from_utf8(log)?)
}
