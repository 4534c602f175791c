//! Import of access logs: bytes in, a [`Trace`] and a report of what was kept and what was not.
//!
//! A line goes through four hands: `lines` cuts it out of the stream without copying, `clf` tells its
//! fields apart, `policy` decides what it counts as, `collector` gives its names numbers. Grouping into
//! sessions comes last, see [`crate::sessions`].

mod clf;
mod collector;
mod compression;
mod error;
mod interner;
mod lines;
mod policy;
mod report;

use std::io::BufRead;
use std::ops::ControlFlow;

use rand_xoshiro::Xoshiro256PlusPlus;

pub use clf::Malformed;
pub use collector::{DOCUMENTS_MAX, REQUESTS_MAX};
pub use compression::Compression;
pub use error::ImportError;
pub use interner::{NAMES_BYTES_MAX, NAMES_MAX};
pub use lines::LINE_BYTES_MAX;
pub use report::{ImportReport, MALFORMED_SHOWN_MAX, MALFORMED_TEXT_BYTES_MAX, MalformedLine, Skipped};

use crate::sessions;
use crate::trace::{Origin, Trace};
use collector::Collector;
use lines::Step;

/// Progress is told every so many lines.
const PROGRESS_LINES: u64 = 1 << 16;

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

/// Reads a log in Common or Combined Log Format, plain, gzip or zstd.
///
/// Requests of one client less than or exactly `session_gap_ns` apart form a session. `progress` is
/// called every few thousand lines, and whenever a read is interrupted; `Break` stops the import.
pub fn import(
    reader: impl BufRead,
    session_gap_ns: u64,
    random: &mut Xoshiro256PlusPlus,
    mut progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Imported, ImportError> {
    let mut tell = |lines, bytes| match progress(Progress { lines, bytes }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(ImportError::Stopped),
    };
    let (compression, mut reader) = compression::open(reader, || tell(0, 0))?;
    let mut collector = Collector::new(compression);
    lines::for_each(&mut reader, |step| {
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
    let (sessions, requests, unix_ns) = sessions::group(rows, session_gap_ns, random);
    report.sessions = sessions.len() as u64;
    let origin = Origin { unix_ns, utc_offset_seconds: report.utc_offset_seconds };
    Ok(Imported { trace: Trace { documents, sessions, requests, origin }, report })
}
