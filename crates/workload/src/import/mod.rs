//! Imports access logs: turns bytes into a [`Trace`] and a report of the lines kept and skipped.
//!
//! `lines` splits the stream without copying, `format` parses the fields, `judged` decides what an entry counts as (by
//! `selection`, `class` and `policy`), `collector` numbers its names, and `grouped` makes sessions (see
//! [`crate::sessions`]).
//!
//! All up to `judged` can be done elsewhere, in any order: `parse_ahead` does it on other threads, and `pieces` wherever its
//! callers run it. Both hand a [`parsed_block`] to the collector.
//!
//! [`import`] returns a trace in memory. [`import_to_file`] writes one; its memory grows only with the distinct names,
//! each within its limit. Both give the same trace.

mod alb;
mod apache;
mod class;
mod clf;
mod collector;
mod compression;
mod coverage;
mod detect;
mod durations;
mod dynamic_paths;
mod entry;
mod envoy;
mod error;
mod fields;
mod format;
mod grouped;
mod haproxy;
mod interner;
mod json;
mod judged;
mod lines;
mod logs;
mod names;
mod nginx;
mod parse_ahead;
mod parsed_block;
mod pieces;
mod policy;
mod report;
mod request_counts;
mod s3;
pub mod selection;
mod squid;
mod template;
mod text_blocks;
mod time;
mod told_texts;
mod w3c;
mod worldcup;

use std::io::{BufRead, Write};
use std::ops::ControlFlow;

use rand_xoshiro::Xoshiro256PlusPlus;

pub use crate::limits::{DOCUMENTS_MAX, HOST_BYTES_MAX, LINE_BYTES_MAX, NAMES_MAX, REQUESTS_MAX};
pub use class::Class;
pub use coverage::{BusiestMinute, ClassCount, Coverage, PATHS_MAX, PathCount, TOP_PATHS_MAX};
pub use detect::{SAMPLE_BYTES_MAX, SAMPLE_LINES_MAX};
pub use entry::{DURATION_NS_MAX, Entry, Malformed, SIZE_BYTES_MAX};
pub use error::ImportError;
pub use format::{FORMAT_NAMES, Format, FormatError};
pub use interner::NAMES_BYTES_MAX;
pub use logs::{Log, Pieces};
pub use parse_ahead::PARSERS_MAX;
pub use pieces::{Part, Parts, PieceParser, parts};
pub use policy::Keep;
pub use report::{
    Compression, DetectedBy, ImportReport, LogReport, MALFORMED_SHOWN_MAX, MALFORMED_TEXT_BYTES_MAX,
    MalformedLine, NotALog, Skipped,
};
pub use request_counts::{DISTINCT_REQUESTS_MAX, RequestCount, Requests, count_requests};
pub use selection::Selection;

use crate::sessions;
use crate::sorting::Spill;
use crate::trace::{Request, Session, Trace};
use crate::trace_file::TraceWriter;
use grouped::{GroupedLog, grouped};

#[derive(Clone, Debug)]
pub struct Options {
    /// The format of its lines; `None` to detect it.
    pub format: Option<Format>,
    /// A longer gap between two requests of a client starts a new session.
    pub session_gap_ns: u64,
    pub selection: Selection,
    /// Entries to keep besides successful GET and HEAD of static documents.
    pub keep: Keep,
    /// The size assumed for documents without a logged size; without it they are left out.
    pub assumed_size_bytes: Option<u64>,
    /// Threads that read, parse and sort beside the caller's, each file after the other; 0 to do it all on the caller's.
    /// The result is the same.
    pub parsers: usize,
    /// Set to import a log even if no request can be kept, because its report is still useful.
    pub may_be_empty: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            format: None,
            session_gap_ns: sessions::SESSION_GAP_NS,
            selection: Selection::default(),
            keep: Keep::default(),
            assumed_size_bytes: None,
            parsers: 0,
            may_be_empty: false,
        }
    }
}

/// An imported log with its report.
#[derive(Debug)]
pub struct Imported {
    pub trace: Trace,
    pub report: ImportReport,
}

#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub lines: u64,
    /// Bytes read so far, decompressed.
    pub bytes: u64,
}

/// Reads a log into memory, whatever its compression.
///
/// `progress` is called every few thousand lines, and whenever a read is interrupted; `Break` stops the
/// import.
pub fn import(
    reader: impl BufRead + Send,
    options: &Options,
    random: &mut Xoshiro256PlusPlus,
    progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Imported, ImportError> {
    import_logs(std::iter::once(Log::only(reader)), options, random, progress)
}

/// As [`import`] for several logs as if they were one: a session may start in one and end in another.
pub fn import_logs<'l>(
    logs: impl Iterator<Item = Log<'l>>,
    options: &Options,
    random: &mut Xoshiro256PlusPlus,
    progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Imported, ImportError> {
    let GroupedLog { documents, sessions, report, head, times } =
        grouped(logs, options, random, &mut None, progress)?;
    let mut trace = Trace {
        documents: documents.iter().collect(),
        sessions: Vec::with_capacity(head.sessions as usize),
        requests: Vec::with_capacity(head.requests as usize),
        origin: head.origin,
        times,
    };
    GroupedLog::for_each_session(sessions, &head, |start_ns, requests| {
        let first = trace.requests.len() as u32;
        trace.requests.extend(requests.as_chunks().0.iter().map(|encoded| Request::decoded(*encoded)));
        trace.sessions.push(Session { start_ns, first, count: trace.requests.len() as u32 - first });
        Ok(())
    })?;
    Ok(Imported { trace, report })
}

/// As [`import`], but writes a trace file and spills sorting to `spill`. Give a buffered writer.
pub fn import_to_file(
    reader: impl BufRead + Send,
    options: &Options,
    random: &mut Xoshiro256PlusPlus,
    spill: Spill<'_>,
    writer: impl Write,
    progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<ImportReport, ImportError> {
    import_logs_to_file(std::iter::once(Log::only(reader)), options, random, spill, writer, progress)
}

/// As [`import_to_file`] for several logs.
pub fn import_logs_to_file<'l>(
    logs: impl Iterator<Item = Log<'l>>,
    options: &Options,
    random: &mut Xoshiro256PlusPlus,
    spill: Spill<'_>,
    writer: impl Write,
    progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<ImportReport, ImportError> {
    let GroupedLog { documents, sessions, report, head, times } =
        grouped(logs, options, random, &mut Some(spill), progress)?;
    let mut writer = TraceWriter::with_times(writer, &head, times.as_ref()).map_err(ImportError::Write)?;
    documents.iter().try_for_each(|document| writer.document(&document)).map_err(ImportError::Write)?;
    GroupedLog::for_each_session(sessions, &head, |start_ns, requests| {
        writer.encoded_session(start_ns, requests).map_err(ImportError::Write)
    })?;
    writer.finish().map_err(ImportError::Write)?;
    Ok(report)
}
