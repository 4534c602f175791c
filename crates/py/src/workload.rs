//! Bindings of `sojourn-workload`: files and callbacks in, arrays and dictionaries out.
//!
//! Long work releases the interpreter lock and looks for signals now and then, so Ctrl-C ends it. Errors
//! with a likely cure end in a line `hint: …`.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use numpy::{PyArray1, ToPyArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use sojourn_workload::characterise::characterise;
use sojourn_workload::import::{self, ImportError, ImportReport, Imported};
use sojourn_workload::synthesis::{Synthesis, SynthesisError, synthesise};
use sojourn_workload::trace::{self, site_path};
use sojourn_workload::trace_file::TraceFileError;

const BUFFER_BYTES: usize = 256 * 1024;
const NS_PER_SECOND: f64 = 1e9;

/// Adds this file's names to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Trace>()?;
    module.add_function(wrap_pyfunction!(import_log, module)?)?;
    module.add_function(wrap_pyfunction!(synthesise_log, module)?)
}

/// Documents and sessions of a log.
#[pyclass(frozen, module = "sojourn._native")]
pub struct Trace {
    pub(crate) inner: trace::Trace,
    /// What its import reported; a trace from a file has none.
    report: Option<ImportReport>,
}

#[pymethods]
impl Trace {
    /// Reads a trace that `save` wrote.
    #[staticmethod]
    fn load(py: Python<'_>, path: &str) -> PyResult<Self> {
        let read = || {
            let file = File::open(path).map_err(TraceFileError::Io)?;
            trace::Trace::read(BufReader::with_capacity(BUFFER_BYTES, file))
        };
        let inner = py.detach(read).map_err(|error| match error {
            TraceFileError::Io(error) => named(path, &error),
            other => PyValueError::new_err(format!("{path}: {other}")),
        })?;
        Ok(Trace { inner, report: None })
    }

    /// Writes the trace to a file, for `load` and for the engine.
    fn save(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        let write = || self.inner.write(BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?));
        py.detach(write).map_err(|error| named(path, &error))
    }

    /// What the import counted; None for a trace from a file.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.report.as_ref().map(|report| dictionary(py, report)).transpose()
    }

    /// Rates, sizes, popularity, rhythm and sessions.
    fn characterise<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match py.detach(|| characterise(&self.inner)) {
            Some(characteristics) => dictionary(py, &characteristics),
            None => Err(PyValueError::new_err("the trace holds no request")),
        }
    }

    /// Name, size in bytes, path on a built site, and requests of every document.
    fn documents(&self) -> Vec<(&str, u64, String, u32)> {
        let documents = self.inner.documents.iter().zip(self.inner.requests_per_document());
        let rows = documents.enumerate().map(|(index, (document, requests))| {
            let path = site_path(index as u32, document.size_bytes);
            (document.name.as_str(), document.size_bytes, path, requests)
        });
        rows.collect()
    }

    /// The size in bytes of every request's document, session by session.
    fn transfer_sizes<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        let size = |request: &trace::Request| self.inner.documents[request.document as usize].size_bytes;
        self.inner.requests.iter().map(size).collect::<Vec<_>>().to_pyarray(py)
    }

    /// Whether a request is the first of its session, in the order of `transfer_sizes`.
    fn first_in_session<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        let mut firsts = vec![false; self.inner.requests.len()];
        for session in &self.inner.sessions {
            firsts[session.first as usize] = true;
        }
        firsts.to_pyarray(py)
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

/// Imports an access log: a path, or `-` for standard input; plain, gzip or zstd.
///
/// `progress` is called with the bytes read of the file and its length (0 where unknown).
#[pyfunction]
#[pyo3(signature = (path, session_gap_seconds=15.0, seed=1, progress=None))]
fn import_log(
    py: Python<'_>,
    path: &str,
    session_gap_seconds: f64,
    seed: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Trace> {
    if !(session_gap_seconds.is_finite() && session_gap_seconds >= 0.0) {
        let message = format!("the session gap must be a number of seconds, not {session_gap_seconds}");
        return Err(PyValueError::new_err(message));
    }
    let session_gap_ns = (session_gap_seconds * NS_PER_SECOND) as u64;
    let source = Source::open(path).map_err(|error| named(path, &error))?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut failure = None;
    let Source { reader, read_bytes, total_bytes } = source;
    let result = py.detach(|| {
        import::import(reader, session_gap_ns, &mut random, |_| {
            let told = Python::attach(|py| {
                py.check_signals()?;
                let done = read_bytes.load(Ordering::Relaxed);
                progress.as_ref().map_or(Ok(()), |call| call.call1(py, (done, total_bytes)).map(drop))
            });
            match told {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        })
    });
    match (result, failure) {
        (_, Some(failure)) => Err(failure),
        (Ok(Imported { trace, report }), None) => Ok(Trace { inner: trace, report: Some(report) }),
        (Err(error), None) => Err(import_failure(&error)),
    }
}

/// Writes a day of Combined Log Format made from published statistics; the same seed gives the same bytes.
#[pyfunction]
#[pyo3(signature = (path, seed, requests=80_000, documents=3_500))]
fn synthesise_log(py: Python<'_>, path: &str, seed: u64, requests: u32, documents: u32) -> PyResult<()> {
    let options = Synthesis { requests, documents, ..Synthesis::default() };
    let write = || {
        let writer = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
        synthesise(&options, &mut Xoshiro256PlusPlus::seed_from_u64(seed), writer)
    };
    py.detach(write).map_err(|error| match error {
        SynthesisError::Io(error) => named(path, &error),
        other => PyValueError::new_err(other.to_string()),
    })
}

/// A log as bytes, and how many of them there are.
struct Source {
    reader: Box<dyn BufRead + Send>,
    /// Bytes read so far, compressed as they are.
    read_bytes: Arc<AtomicU64>,
    total_bytes: u64,
}

impl Source {
    fn open(path: &str) -> io::Result<Self> {
        let read_bytes = Arc::new(AtomicU64::new(0));
        let (inner, total_bytes): (Box<dyn Read + Send>, u64) = if path == "-" {
            (Box::new(io::stdin()), 0)
        } else {
            let file = File::open(path)?;
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            (Box::new(file), metadata.len())
        };
        let counting = Counting { inner, read_bytes: read_bytes.clone() };
        let reader = Box::new(BufReader::with_capacity(BUFFER_BYTES, counting));
        Ok(Source { reader, read_bytes, total_bytes })
    }
}

/// Counts what is read.
struct Counting {
    inner: Box<dyn Read + Send>,
    read_bytes: Arc<AtomicU64>,
}

impl Read for Counting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

fn import_failure(error: &ImportError) -> PyErr {
    let hint = error.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    let message = format!("{error}{hint}");
    match error {
        ImportError::Read { source, .. } => io::Error::new(source.kind(), message).into(),
        _ => PyValueError::new_err(message),
    }
}

/// The `OSError` of its kind, with the path in its message.
fn named(path: &str, error: &io::Error) -> PyErr {
    io::Error::new(error.kind(), format!("{path}: {error}")).into()
}

/// A result as Python's dictionaries and lists.
fn dictionary<'py>(py: Python<'py>, result: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let refused = |error: &dyn Display| PyValueError::new_err(error.to_string());
    let text = serde_json::to_string(result).map_err(|error| refused(&error))?;
    py.import("json")?.call_method1("loads", (text,))
}
