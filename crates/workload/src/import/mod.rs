//! Import of access logs: bytes in, a [`Trace`] and a report of what was kept and what was not.
//!
//! A line goes through four hands: `lines` cuts it out of the stream without copying, `format` tells its
//! fields apart, `selection` and `policy` decide whether it is taken and what it counts as, `collector` gives
//! its names numbers. Grouping into sessions comes last, see [`crate::sessions`].
//!
//! Memory grows by sixteen bytes a request and with the distinct names, each within its limit, not with the
//! bytes of the log.

mod apache;
mod clf;
mod collector;
mod compression;
mod detect;
mod entry;
mod error;
mod fields;
mod format;
mod interner;
mod json;
mod lines;
mod names;
mod nginx;
mod policy;
mod report;
pub mod selection;
mod squid;
mod template;
mod time;
mod w3c;

use std::io::{BufRead, Cursor, Read};
use std::ops::ControlFlow;

use rand_xoshiro::Xoshiro256PlusPlus;

pub use collector::{DOCUMENTS_MAX, REQUESTS_MAX};
pub use compression::Compression;
pub use detect::{SAMPLE_BYTES_MAX, SAMPLE_LINES_MAX};
pub use entry::{DURATION_NS_MAX, Entry, HOST_BYTES_MAX, Malformed, SIZE_BYTES_MAX};
pub use error::ImportError;
pub use format::{FORMAT_NAMES, Format, FormatError};
pub use interner::{NAMES_BYTES_MAX, NAMES_MAX};
pub use lines::LINE_BYTES_MAX;
pub use policy::Keep;
pub use report::{
    DetectedBy, ImportReport, MALFORMED_SHOWN_MAX, MALFORMED_TEXT_BYTES_MAX, MalformedLine, Skipped,
};
pub use selection::Selection;

use crate::sessions;
use crate::trace::{Origin, Trace};
use collector::Collector;
use lines::Step;

/// Progress is told every so many lines.
const PROGRESS_LINES: u64 = 1 << 16;

/// How a log is read.
#[derive(Clone, Debug)]
pub struct Options {
    /// The format of its lines; `None` finds it out.
    pub format: Option<Format>,
    /// Requests of one client that are further apart than this are of different sessions.
    pub session_gap_ns: u64,
    /// Which entries are taken.
    pub selection: Selection,
    /// Which of these are kept beside good answers to GET and HEAD for static documents.
    pub keep: Keep,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            format: None,
            session_gap_ns: sessions::SESSION_GAP_NS,
            selection: Selection::default(),
            keep: Keep::default(),
        }
    }
}

/// A log as a trace.
#[derive(Debug)]
pub struct Imported {
    /// Documents and sessions.
    pub trace: Trace,
    /// What the log held and what became of it.
    pub report: ImportReport,
}

/// How far an import is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Lines read so far.
    pub lines: u64,
    /// Bytes read so far, decompressed.
    pub bytes: u64,
}

/// Reads a log, plain, gzip or zstd.
///
/// `progress` is called every few thousand lines, and whenever a read is interrupted; `Break` stops the
/// import.
pub fn import(
    reader: impl BufRead,
    options: &Options,
    random: &mut Xoshiro256PlusPlus,
    mut progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Imported, ImportError> {
    let mut tell = |lines, bytes| match progress(Progress { lines, bytes }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(ImportError::Stopped),
    };
    let (compression, mut reader) = compression::open(reader, || tell(0, 0))?;
    let sample = match options.format {
        Some(_) => Vec::new(),
        None => detect::read_sample(&mut reader, || tell(0, 0))?,
    };
    let mut collector = Collector::new(compression, options, &sample);
    lines::for_each(&mut Cursor::new(sample).chain(reader), |step| {
        let due = match step {
            Step::Line { bytes, text } => {
                collector.line(bytes, text)?;
                collector.report.lines.is_multiple_of(PROGRESS_LINES)
            }
            Step::Interrupted => true,
        };
        if due { tell(collector.report.lines, collector.report.bytes) } else { Ok(()) }
    })?;
    let (documents, rows, mut report) = collector.finish()?;
    let resolution_ns = report.time_resolution_ns;
    let (sessions, requests, unix_ns) = sessions::group(rows, options.session_gap_ns, resolution_ns, random);
    report.sessions = sessions.len() as u64;
    let origin = Origin { unix_ns, utc_offset_seconds: report.utc_offset_seconds };
    Ok(Imported { trace: Trace { documents, sessions, requests, origin }, report })
}
