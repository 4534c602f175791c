//! Bindings of `sojourn-workload`: traces as arrays and dictionaries; `log` imports them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufReader, BufWriter};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use sojourn_workload::characterise::{
    Characteristics, Source, StoredTrace as Stored, characterise, characterise_from,
};
use sojourn_workload::import::ImportReport;
use sojourn_workload::synthesis::shape::{self, SHAPES, Shape};
use sojourn_workload::synthesis::{Synthesis, SynthesisError, synthesise};
use sojourn_workload::trace::{self, Document, site_path};
use sojourn_workload::trace_file::TraceFileError;
use sojourn_workload::web99;

use crate::array::Array;

pub(crate) const BUFFER_BYTES: usize = 256 * 1024;
pub(crate) const NS_PER_SECOND: f64 = 1e9;

/// Registers this file's names in the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Trace>()?;
    module.add_class::<StoredTrace>()?;
    module.add_function(wrap_pyfunction!(log_shapes, module)?)?;
    module.add_function(wrap_pyfunction!(synthesise_log, module)?)?;
    module.add_function(wrap_pyfunction!(synthesise_shape, module)?)?;
    module.add_function(wrap_pyfunction!(web99_files, module)?)
}

/// The documents and sessions of a log.
#[pyclass(frozen, module = "sojourn._native")]
pub struct Trace {
    pub(crate) inner: trace::Trace,
    /// The import report; None for a trace from a file.
    pub(crate) report: Option<ImportReport>,
}

#[pymethods]
impl Trace {
    /// Reads a trace written by `save`.
    #[staticmethod]
    fn load(py: Python<'_>, path: &str) -> PyResult<Self> {
        let read = || {
            let file = File::open(path).map_err(TraceFileError::Io)?;
            trace::Trace::read(BufReader::with_capacity(BUFFER_BYTES, file))
        };
        let inner = py.detach(read).map_err(|error| unread(path, error))?;
        Ok(Trace { inner, report: None })
    }

    /// Writes the trace to a file for `load` and for the engine.
    fn save(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        let write = || self.inner.write(BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?));
        py.detach(write).map_err(|error| named(path, &error))
    }

    /// The import report; None for a trace from a file.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.report.as_ref().map(|report| dictionary(py, report)).transpose()
    }

    /// Rates, sizes, popularity, daily rhythm and sessions.
    fn characterise<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        characteristics(py, py.detach(|| characterise(&self.inner)).as_ref())
    }

    /// Name, size in bytes, path on a built site, and requests of every successfully requested document.
    fn documents(&self) -> Vec<(&str, u64, String, u32)> {
        documents_got(&self.inner.documents, &self.inner.requests_per_document())
    }

    /// The document size of every request in bytes, session by session.
    fn transfer_sizes(&self) -> Array<u64> {
        let size = |request: &trace::Request| self.inner.documents[request.document as usize].size_bytes;
        self.inner.requests.iter().map(size).collect()
    }

    /// Whether a request is the first of its session, in the order of `transfer_sizes`.
    fn first_in_session<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut firsts = vec![0_u8; self.inner.requests.len()];
        for session in &self.inner.sessions {
            firsts[session.first as usize] = 1;
        }
        Array(firsts).into_pyobject(py)?.call_method1("view", ("bool",))
    }

    /// Every document's name, whether it was requested successfully or not.
    fn names(&self) -> Vec<&str> {
        self.inner.documents.iter().map(|document| document.name.as_str()).collect()
    }

    /// Every request's document, by its place among the names, and when it came after the first of its session, in
    /// seconds; in the order of `transfer_sizes`.
    fn requests(&self) -> (Array<u32>, Array<f64>) {
        let requests = &self.inner.requests;
        let documents = requests.iter().map(|request| request.document).collect();
        let offsets = requests.iter().map(|request| request.offset_ns as f64 / NS_PER_SECOND).collect();
        (documents, offsets)
    }

    #[getter]
    fn mean_requests_per_session(&self) -> f64 {
        self.inner.mean_requests_per_session()
    }

    #[getter]
    fn mean_session_duration_seconds(&self) -> f64 {
        self.inner.mean_session_duration_ns() / NS_PER_SECOND
    }

    /// The number of requests.
    fn __len__(&self) -> usize {
        self.inner.requests.len()
    }

    fn __repr__(&self) -> String {
        let trace::Trace { documents, sessions, requests, .. } = &self.inner;
        let (documents, sessions, requests) = (documents.len(), sessions.len(), requests.len());
        format!("<Trace: {requests} requests in {sessions} sessions for {documents} documents>")
    }
}

/// Path, size, class and share of requests of each file of a SPECweb99-like set for this many connections.
#[pyfunction]
fn web99_files(load: u32) -> PyResult<Vec<(String, u64, usize, f64)>> {
    if !(1..=web99::LOAD_MAX).contains(&load) {
        return Err(PyValueError::new_err(format!(
            "a load of {load} connections is not one from 1 to {}",
            web99::LOAD_MAX
        )));
    }
    Ok(web99::files(load).map(|file| (file.path, file.size_bytes, file.class, file.share)).collect())
}

/// A trace file with only its documents in memory; sessions are read from disk as needed.
#[pyclass(module = "sojourn._native")]
pub struct StoredTrace {
    path: String,
    inner: Stored<File>,
}

#[pymethods]
impl StoredTrace {
    /// Opens a trace file and reads its documents.
    #[staticmethod]
    fn open(py: Python<'_>, path: &str) -> PyResult<Self> {
        let inner = py.detach(|| Stored::open(File::open(path).map_err(TraceFileError::Io)?));
        Ok(StoredTrace { inner: inner.map_err(|error| unread(path, error))?, path: path.to_owned() })
    }

    /// Rates, sizes, popularity, daily rhythm and sessions.
    fn characterise<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let inner = &mut self.inner;
        let found = py.detach(|| characterise_from(inner));
        characteristics(py, found.map_err(|error| unread(&self.path, error))?.as_ref())
    }

    /// How long the log's requests took; None if it does not say.
    fn request_times<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.inner.times().map(|times| dictionary(py, times)).transpose()
    }

    /// Name, size in bytes, path on a built site, and requests of every successfully requested document.
    fn documents(&mut self, py: Python<'_>) -> PyResult<Vec<(&str, u64, String, u32)>> {
        let mut counts = vec![0; self.inner.documents().len()];
        let inner = &mut self.inner;
        let counted = py.detach(|| {
            inner.for_each_session(&mut |_, requests| {
                requests.iter().for_each(|request| counts[request.document as usize] += 1);
            })
        });
        counted.map_err(|error| unread(&self.path, error))?;
        Ok(documents_got(self.inner.documents(), &counts))
    }

    /// The number of requests.
    fn __len__(&self) -> usize {
        self.inner.head().requests as usize
    }
}

/// Name, size in bytes, path on a built site, and requests of every successfully requested document.
fn documents_got<'d>(documents: &'d [Document], requests: &[u32]) -> Vec<(&'d str, u64, String, u32)> {
    let documents = documents.iter().zip(requests).enumerate();
    let got = documents.filter(|(_, (document, _))| !document.is_failed());
    let rows = got.map(|(index, (document, requests))| {
        let path = site_path(index as u32, document.size_bytes);
        (document.name.as_str(), document.size_bytes, path, *requests)
    });
    rows.collect()
}

fn characteristics<'py>(py: Python<'py>, found: Option<&Characteristics>) -> PyResult<Bound<'py, PyAny>> {
    match found {
        Some(found) => dictionary(py, found),
        None => Err(PyValueError::new_err("the trace contains no requests")),
    }
}

fn unread(path: &str, error: TraceFileError) -> PyErr {
    match error {
        TraceFileError::Io(error) => named(path, &error),
        other => PyValueError::new_err(format!("{path}: {other}")),
    }
}

/// Writes a synthetic day in Combined Log Format from published statistics; the same seed gives the same bytes.
#[pyfunction]
#[pyo3(signature = (path, seed, requests=80_000, documents=3_500))]
fn synthesise_log(py: Python<'_>, path: &str, seed: u64, requests: u32, documents: u32) -> PyResult<()> {
    let options = Synthesis { requests, documents, ..Synthesis::default() };
    let write = || {
        let writer = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
        synthesise(&options, &mut Xoshiro256PlusPlus::seed_from_u64(seed), writer)
    };
    py.detach(write).map_err(|error| not_synthesised(path, &error))
}

/// The figures of published logs by name.
#[pyfunction]
fn log_shapes(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    dictionary(py, &SHAPES.iter().copied().collect::<BTreeMap<_, _>>())
}

/// Writes a synthetic day with these figures, of which `share` is made, in Common Log Format; returns the figures that it is
/// to have.
#[pyfunction]
fn synthesise_shape<'py>(
    py: Python<'py>,
    path: &str,
    seed: u64,
    figures: &str,
    share: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let shape: Shape =
        serde_json::from_str(figures).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let shape = shape.scaled(share);
    let write = || {
        let writer = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
        shape::write(&shape, &mut Xoshiro256PlusPlus::seed_from_u64(seed), writer)
    };
    py.detach(write).map_err(|error| not_synthesised(path, &error))?;
    dictionary(py, &shape)
}

fn not_synthesised(path: &str, error: &SynthesisError) -> PyErr {
    match error {
        SynthesisError::Io(error) => named(path, error),
        other => PyValueError::new_err(other.to_string()),
    }
}

/// An `OSError` of this kind, with the path in its message.
pub(crate) fn named(path: &str, error: &io::Error) -> PyErr {
    io::Error::new(error.kind(), format!("{path}: {error}")).into()
}

/// A result as Python dictionaries and lists.
pub(crate) fn dictionary<'py>(py: Python<'py>, result: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let refused = |error: &dyn Display| PyValueError::new_err(error.to_string());
    let text = serde_json::to_string(result).map_err(|error| refused(&error))?;
    py.import("json")?.call_method1("loads", (text,))
}
