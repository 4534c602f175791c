//! Imports access logs for Python: options as keywords, files or standard input, progress by callback.
//!
//! Long calls release the interpreter lock and check for signals, so Ctrl-C ends them. Errors with a likely cure end in
//! a line `hint: …`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_workload::import::selection::{self, Pattern, SelectionError};
use sojourn_workload::import::{
    self, Format, FormatError, ImportError, Imported, Keep, Log, Part, Parts, PieceParser, Pieces, Progress,
    SIZE_BYTES_MAX, Selection,
};
use sojourn_workload::sorting::{SORT_BYTES, Scratch, Spill};

use crate::workload::{BUFFER_BYTES, NS_PER_SECOND, Trace, dictionary, named};

/// What is read of a log at once. Whoever reads more takes it without a copy in between.
const READ_BYTES: usize = 64 << 10;

/// Registers this file's names in the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LogOptions>()?;
    module.add_class::<LogParser>()?;
    module.add_function(wrap_pyfunction!(log_parts, module)?)?;
    module.add_function(wrap_pyfunction!(import_log, module)?)?;
    module.add_function(wrap_pyfunction!(import_log_to_file, module)?)?;
    module.add_function(wrap_pyfunction!(requests_of_log, module)?)
}

/// How a log is read and what of it is kept; strings as typed by the user.
#[pyclass(frozen, module = "sojourn._native")]
struct LogOptions(import::Options);

#[pymethods]
impl LogOptions {
    /// Raises ValueError for invalid options, with a cure after `hint: `.
    #[new]
    #[pyo3(signature = (
        *, session_gap_seconds=15.0, log_format=None, json_fields=vec![], statuses=vec![], methods=vec![], paths=vec![],
        hosts=vec![], clients=vec![], begin=None, end=None, path_map=vec![], host_map=vec![], keep_failed=false,
        keep_queries=false, keep_methods=false, assumed_size_bytes=None, parsers=None,
        may_be_empty=false,
    ))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords on the other side")]
    fn new(
        session_gap_seconds: f64,
        log_format: Option<&str>,
        json_fields: Vec<String>,
        statuses: Vec<String>,
        methods: Vec<String>,
        paths: Vec<String>,
        hosts: Vec<String>,
        clients: Vec<String>,
        begin: Option<&str>,
        end: Option<&str>,
        path_map: Vec<String>,
        host_map: Vec<String>,
        keep_failed: bool,
        keep_queries: bool,
        keep_methods: bool,
        assumed_size_bytes: Option<u64>,
        parsers: Option<usize>,
        may_be_empty: bool,
    ) -> PyResult<Self> {
        if !(session_gap_seconds.is_finite() && session_gap_seconds >= 0.0) {
            let message = format!("the session gap must be a number of seconds, not {session_gap_seconds}");
            return Err(PyValueError::new_err(message));
        }
        // Giving JSON fields implies a JSON log.
        let log_format = log_format.or(if json_fields.is_empty() { None } else { Some("json") });
        let format = log_format.map(|text| Format::new(text, &json_fields));
        let selection = Selection {
            statuses: all(&statuses, selection::statuses)?,
            methods,
            paths: all(&paths, Pattern::new)?,
            hosts: all(&hosts, Pattern::new)?,
            clients: all(&clients, Pattern::new)?,
            from: begin.map(selection::Bound::new).transpose().map_err(unselectable)?,
            to: end.map(selection::Bound::new).transpose().map_err(unselectable)?,
            path_map: all(&path_map, selection::map)?,
            host_map: all(&host_map, selection::map)?,
        };
        Ok(LogOptions(import::Options {
            format: format.transpose().map_err(|error| unreadable(&error))?,
            session_gap_ns: (session_gap_seconds * NS_PER_SECOND) as u64,
            selection,
            keep: Keep { failed: keep_failed, with_query: keep_queries, as_get: keep_methods },
            assumed_size_bytes: assumed_size_bytes.map(|bytes| bytes.min(SIZE_BYTES_MAX)),
            parsers: parsers
                .unwrap_or_else(|| thread::available_parallelism().map_or(0, |cores| cores.get() - 1)),
            may_be_empty,
        }))
    }
}

fn all<T>(texts: &[String], parse: fn(&str) -> Result<T, SelectionError>) -> PyResult<Vec<T>> {
    texts.iter().map(|text| parse(text)).collect::<Result<_, _>>().map_err(unselectable)
}

fn unselectable(error: SelectionError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn unreadable(error: &FormatError) -> PyErr {
    PyValueError::new_err(format!("{error}\nhint: {}", error.hint()))
}

/// A path, or several with whether each was found in a folder rather than named.
#[derive(FromPyObject)]
enum Paths {
    One(String),
    Several(Vec<(String, bool)>),
}

/// Imports an access log: a path, or `-` for standard input; plain, gzip, bzip2, xz or zstd. Or several paths, as one
/// log.
///
/// `progress` is called with the number of bytes read and the total (0 if unknown). `pieces` is called with the path of
/// each log that has requests; it returns None, or an iterator of the log's pieces from a `LogParser`, each with the number
/// of stored bytes that it was read from.
#[pyfunction]
#[pyo3(signature = (path, options=None, seed=1, progress=None, pieces=None))]
fn import_log(
    py: Python<'_>,
    path: Paths,
    options: Option<&LogOptions>,
    seed: u64,
    progress: Option<Py<PyAny>>,
    pieces: Option<Py<PyAny>>,
) -> PyResult<Trace> {
    let told = Told { progress, pieces };
    let Imported { trace, report } =
        imported(py, &path, options, seed, told, |logs, options, random, progress| {
            import::import_logs(logs, options, random, progress)
        })?;
    Ok(Trace { inner: trace, report: Some(report) })
}

/// The same into a trace file at `output`, with memory that does not grow with the number of requests; sorting uses a
/// temporary file in `folder`. Returns the import report.
#[pyfunction]
#[pyo3(signature = (path, output, folder, options=None, seed=1, progress=None, pieces=None))]
#[allow(clippy::too_many_arguments, reason = "they are keywords on the other side")]
fn import_log_to_file<'py>(
    py: Python<'py>,
    path: Paths,
    output: &str,
    folder: &str,
    options: Option<&LogOptions>,
    seed: u64,
    progress: Option<Py<PyAny>>,
    pieces: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let writer = File::create(output).map_err(|error| named(output, &error))?;
    let told = Told { progress, pieces };
    let report = imported(py, &path, options, seed, told, |logs, options, random, progress| {
        let mut open = || Ok(Box::new(tempfile::tempfile_in(folder)?) as Box<dyn Scratch>);
        let spill = Spill { budget_bytes: SORT_BYTES, open: &mut open };
        let writer = BufWriter::with_capacity(BUFFER_BYTES, writer);
        import::import_logs_to_file(logs, options, random, spill, writer, progress)
    })?;
    dictionary(py, &report)
}

/// Every distinct method, target and status of a log with its count, including requests that a trace would drop.
#[pyfunction]
#[pyo3(signature = (path, options=None, progress=None))]
fn requests_of_log<'py>(
    py: Python<'py>,
    path: Paths,
    options: Option<&LogOptions>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let told = Told { progress, pieces: None };
    let found = imported(py, &path, options, 0, told, |logs, options, _, progress| {
        import::count_requests(logs, options, progress)
    })?;
    dictionary(py, &found)
}

type Logs<'l> = &'l mut dyn Iterator<Item = Log<'static>>;
type Tell<'t> = &'t mut (dyn FnMut(Progress) -> ControlFlow<()> + Send);

/// What of the import Python is asked and told.
struct Told {
    progress: Option<Py<PyAny>>,
    pieces: Option<Py<PyAny>>,
}

/// The first error of Python, which ends the import.
type Failed = Mutex<Option<PyErr>>;

/// Runs `import` on the logs without the interpreter lock.
fn imported<T: Send>(
    py: Python<'_>,
    paths: &Paths,
    options: Option<&LogOptions>,
    seed: u64,
    told: Told,
    import: impl FnOnce(Logs<'_>, &import::Options, &mut Xoshiro256PlusPlus, Tell<'_>) -> Result<T, ImportError>
    + Send,
) -> PyResult<T> {
    let options = options.map_or_else(import::Options::default, |options| options.0.clone());
    let sources = Source::all(paths)?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let failed = Arc::new(Failed::default());
    let read_bytes = Arc::new(AtomicU64::new(0));
    let all_known = sources.iter().all(|source| source.bytes > 0);
    let total_bytes = if all_known { sources.iter().map(|source| source.bytes).sum() } else { 0 };
    let Told { progress, pieces } = told;
    let result = py.detach(|| {
        let mut logs = sources.into_iter().map(|source| source.open(&read_bytes, pieces.as_ref(), &failed));
        import(&mut logs, &options, &mut random, &mut |_| {
            let told = Python::attach(|py| {
                py.check_signals()?;
                let done = read_bytes.load(Ordering::Relaxed);
                progress.as_ref().map_or(Ok(()), |call| call.call1(py, (done, total_bytes)).map(drop))
            });
            match told {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    fail(&failed, error);
                    ControlFlow::Break(())
                }
            }
        })
    });
    let failure = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (result, failure) {
        (_, Some(failure)) => Err(failure),
        (Ok(imported), None) => Ok(imported),
        (Err(error), None) => Err(import_failure(&error)),
    }
}

fn fail(failed: &Failed, error: PyErr) {
    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
}

/// A log that is opened when its turn comes.
struct Source {
    path: String,
    /// Its name in messages; empty for a single log.
    name: String,
    is_found: bool,
    /// Its length as stored, compressed or not; 0 if unknown.
    bytes: u64,
}

impl Source {
    /// All logs; a missing one is an error.
    fn all(paths: &Paths) -> PyResult<Vec<Source>> {
        let source = |path: &str, name: &str, is_found: bool| -> PyResult<Source> {
            let bytes = if path == "-" { 0 } else { length(path).map_err(|error| named(path, &error))? };
            Ok(Source { path: path.to_owned(), name: name.to_owned(), is_found, bytes })
        };
        match paths {
            Paths::One(path) => Ok(vec![source(path, "", false)?]),
            Paths::Several(paths) => {
                paths.iter().map(|(path, is_found)| source(path, path, *is_found)).collect()
            }
        }
    }

    fn open(
        self,
        read_bytes: &Arc<AtomicU64>,
        pieces: Option<&Py<PyAny>>,
        failed: &Arc<Failed>,
    ) -> Log<'static> {
        // Only a file has a length; the descriptor of a pipe has none.
        let is_file = self.bytes > 0;
        let pieces = pieces.filter(|_| is_file).and_then(|pieces| {
            PythonPieces::of(pieces, &self.path, read_bytes, failed)
                .map(|given| given.map(|pieces| -> Pieces<'static> { Box::new(pieces) }))
                .unwrap_or_else(|error| {
                    fail(failed, error);
                    Some(Box::new(std::iter::once(Err(ImportError::Stopped))))
                })
        });
        // Of a log that comes in pieces, only the first bytes are read here.
        let read_bytes = if pieces.is_some() { &Arc::default() } else { read_bytes };
        Log {
            reader: open(&self.path, 0, read_bytes),
            may_read_ahead: is_file,
            name: self.name,
            is_found: self.is_found,
            pieces,
        }
    }
}

/// Opens a file, or standard input, from a byte on.
fn open(path: &str, from: u64, read_bytes: &Arc<AtomicU64>) -> io::Result<Box<dyn BufRead + Send>> {
    let inner: Box<dyn Read + Send> = if path == "-" {
        Box::new(io::stdin())
    } else {
        let mut file = File::open(path)?;
        if from > 0 {
            file.seek(SeekFrom::Start(from))?;
        }
        Box::new(file)
    };
    let counting = Counting { inner, read_bytes: read_bytes.clone() };
    Ok(Box::new(BufReader::with_capacity(READ_BYTES, counting)))
}

/// The pieces of a log that an iterator of Python gives.
struct PythonPieces {
    iterator: Py<PyIterator>,
    read_bytes: Arc<AtomicU64>,
    failed: Arc<Failed>,
}

impl PythonPieces {
    /// Asks for those of a log; `None` where it is to be read here.
    fn of(
        pieces: &Py<PyAny>,
        path: &str,
        read_bytes: &Arc<AtomicU64>,
        failed: &Arc<Failed>,
    ) -> PyResult<Option<Self>> {
        Python::attach(|py| {
            let given = pieces.bind(py).call1((path,))?;
            if given.is_none() {
                return Ok(None);
            }
            let (read_bytes, failed) = (read_bytes.clone(), failed.clone());
            Ok(Some(PythonPieces { iterator: given.try_iter()?.unbind(), read_bytes, failed }))
        })
    }
}

impl Iterator for PythonPieces {
    type Item = Result<Vec<u8>, ImportError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = Python::attach(|py| {
            let mut iterator = self.iterator.bind(py).clone();
            let next =
                iterator.next().map(|given| given?.extract::<(Bound<'_, PyBytes>, u64)>()).transpose()?;
            Ok(next.map(|(piece, stored_bytes)| (piece.as_bytes().to_vec(), stored_bytes)))
        });
        match next {
            Ok(given) => given.map(|(piece, stored_bytes)| {
                self.read_bytes.fetch_add(stored_bytes, Ordering::Relaxed);
                Ok(piece)
            }),
            Err(error) => {
                fail(&self.failed, error);
                Some(Err(ImportError::Stopped))
            }
        }
    }
}

/// How a log can be parsed in parts: 0 for none because it is no log, a number for parts that begin at its multiples, None
/// for a whole. Only its first bytes are read.
#[pyfunction]
#[pyo3(signature = (path, options=None))]
fn log_parts(py: Python<'_>, path: &str, options: Option<&LogOptions>) -> PyResult<Option<u64>> {
    let options = options.map_or_else(import::Options::default, |options| options.0.clone());
    let found = py.detach(|| {
        let reader =
            open(path, 0, &Arc::default()).map_err(|source| ImportError::Read { line: 0, source })?;
        import::parts(reader, &options, || Ok(()))
    });
    match found.map_err(|error| import_failure(&error))? {
        Parts::None => Ok(Some(0)),
        Parts::Whole => Ok(None),
        Parts::Every(bytes) => Ok(Some(bytes)),
    }
}

/// Parses a log, or of a plain one the lines that begin in a range of its bytes, for an import that takes pieces.
#[pyclass(frozen, module = "sojourn._native")]
struct LogParser {
    parser: Mutex<PieceParser<'static>>,
    read_bytes: Arc<AtomicU64>,
}

#[pymethods]
impl LogParser {
    #[new]
    #[pyo3(signature = (path, options=None, begin=0, end=None))]
    fn new(
        py: Python<'_>,
        path: &str,
        options: Option<&LogOptions>,
        begin: u64,
        end: Option<u64>,
    ) -> PyResult<Self> {
        let options = options.map_or_else(import::Options::default, |options| options.0.clone());
        let read_bytes = Arc::default();
        let parser = py.detach(|| {
            let unread = |source| ImportError::Read { line: 0, source };
            let part = end.map(|end| {
                let reader = open(path, begin.saturating_sub(1), &Arc::default()).map_err(unread)?;
                Ok(Part { range: begin..end, reader })
            });
            let reader = open(path, 0, &read_bytes).map_err(unread)?;
            PieceParser::new(reader, part.transpose()?, &options, || Ok(()))
        });
        let parser = Mutex::new(parser.map_err(|error| import_failure(&error))?);
        Ok(LogParser { parser, read_bytes })
    }

    /// The next piece, of about so many bytes of text; None at the end.
    fn piece<'py>(&self, py: Python<'py>, text_bytes: u64) -> Option<Bound<'py, PyBytes>> {
        let piece =
            py.detach(|| self.parser.lock().unwrap_or_else(PoisonError::into_inner).piece(text_bytes));
        piece.map(|piece| PyBytes::new(py, &piece))
    }

    /// The stored bytes of a whole log that have been read.
    #[getter]
    fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }
}

fn length(path: &str) -> io::Result<u64> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(metadata.len()) }
}

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
    let cause = if let ImportError::In { source, .. } = error { source } else { error };
    match cause {
        ImportError::Read { source, .. } | ImportError::Scratch(source) | ImportError::Write(source) => {
            io::Error::new(source.kind(), message).into()
        }
        _ => PyValueError::new_err(message),
    }
}
