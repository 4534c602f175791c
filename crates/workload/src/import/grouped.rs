//! Reads a log's bytes and yields its sessions in order of start, without holding them all in memory.
//!
//! It sorts twice: rows by client and time, to split sessions one after the other, then sessions by their starts.

use crate::limits::REQUESTS_MAX;
use std::ops::ControlFlow;

use rand_xoshiro::Xoshiro256PlusPlus;

use super::collector::{Collected, Collector, Documents};
use super::lines::{self, Step};
use super::logs::{Log, Opened, Unreadable};
use super::parse_ahead::{self, Parsed};
use super::parsed_block::{Decoded, Decoder, ParsedBlock, Parser, Seen};
use super::{ImportError, ImportReport, NotALog, Options, Progress, judged};
use crate::request_times::RequestTimes;
use crate::sessions::{self, Grouped, Grouping};
use crate::sorting::{Record, Sorted, Sorter, Spill};
use crate::trace::Origin;
use crate::trace_file::Head;

/// The number of lines or sessions between two progress reports.
const PROGRESS_LINES: u64 = 1 << 16;

/// A log in the form in which a trace file is written.
pub struct GroupedLog {
    pub documents: Documents,
    pub sessions: Sorted<Grouped>,
    pub report: ImportReport,
    pub head: Head,
    pub times: Option<RequestTimes>,
}

impl GroupedLog {
    /// Calls `visit` with each session's start after the trace's origin, and its encoded requests.
    pub fn for_each_session(
        sessions: Sorted<Grouped>,
        head: &Head,
        mut visit: impl FnMut(u64, &[u8]) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        for batch in sessions {
            let batch = batch.map_err(ImportError::Scratch)?;
            for session in &batch.records {
                visit((session.start_ns - head.origin.unix_ns) as u64, &batch.tails[session.tail()])?;
            }
        }
        Ok(())
    }
}

/// Reads logs; spills what does not fit in memory to `spill`, if given.
pub fn grouped<'l>(
    logs: impl Iterator<Item = Log<'l>>,
    options: &Options,
    random: &mut Xoshiro256PlusPlus,
    spill: &mut Option<Spill<'_>>,
    mut progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<GroupedLog, ImportError> {
    let mut tell = |lines, bytes| match progress(Progress { lines, bytes }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(ImportError::Stopped),
    };
    let Collected { documents, mut rows, by_name, mut report, entries, times } =
        collected(logs, options, spill, &mut tell)?;
    let mut sessions = Sorter::new(options.parsers);
    let mut first_ns = i64::MAX;
    let grouping = Grouping { gap_ns: options.session_gap_ns, resolution_ns: report.time_resolution_ns };
    let (lines, bytes) = (report.lines, report.bytes);
    sessions::group(&mut rows, grouping, random, |session, rows| {
        report.requests += u64::from(session.count);
        first_ns = first_ns.min(session.start_ns);
        let encode = |bytes: &mut Vec<u8>| session.encode_requests(rows, bytes);
        sessions.push_with(session, encode, spill).map_err(ImportError::Scratch)?;
        if sessions.count().is_multiple_of(PROGRESS_LINES) { tell(lines, bytes) } else { Ok(()) }
    })?;
    report.by_name_requests -= rows.unknown;
    report.skipped.of_unknown_size = rows.unknown;
    report.coverage = rows.into_coverage(&by_name, report.utc_offset_seconds);
    if report.requests == 0 && !options.may_be_empty {
        return Err(ImportError::NoStaticRequest { requests: entries, skipped: report.skipped });
    }
    report.sessions = sessions.count();
    report.warn();
    let head = Head {
        origin: Origin {
            unix_ns: if report.requests == 0 { 0 } else { first_ns },
            utc_offset_seconds: report.utc_offset_seconds,
        },
        documents: documents.len() as u32,
        sessions: report.sessions as u32,
        requests: report.requests as u32,
    };
    debug_assert!(report.requests <= REQUESTS_MAX as u64, "more are refused as they come");
    let sessions = sessions.finish(spill).map_err(ImportError::Scratch)?;
    Ok(GroupedLog { documents, sessions, report, head, times })
}

/// Collects all lines of all logs.
fn collected<'l>(
    logs: impl Iterator<Item = Log<'l>>,
    options: &Options,
    spill: &mut Option<Spill<'_>>,
    mut tell: impl FnMut(u64, u64) -> Result<(), ImportError>,
) -> Result<Collected, ImportError> {
    let mut collector = Collector::new(options);
    for log in logs {
        let name = log.name.clone();
        read(log, &mut collector, options, spill, &mut tell).map_err(|error| match error {
            ImportError::Stopped => ImportError::Stopped,
            error if name.is_empty() => error,
            error => ImportError::In { log: name, source: Box::new(error) },
        })?;
    }
    collector.finish(spill)
}

fn read(
    log: Log<'_>,
    collector: &mut Collector<'_>,
    options: &Options,
    spill: &mut Option<Spill<'_>>,
    mut tell: impl FnMut(u64, u64) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let reader = log.reader.map_err(|source| ImportError::Read { line: 0, source })?;
    let (lines, bytes) = (collector.report.lines, collector.report.bytes);
    let mut opened = Opened::new(reader, options, || tell(lines, bytes))?;
    // A single log is read to its end before it is refused, because only its first lines may be damaged.
    match opened.unreadable.take().filter(|_| !log.name.is_empty()) {
        None => {}
        Some(Unreadable::Empty) => {
            collector.report.not_logs.push(NotALog { name: log.name, why: "it is empty".into() });
            return Ok(());
        }
        Some(Unreadable::NoEntry(first)) if log.is_found => {
            let why = format!("line {}: {}", first.line, first.message);
            collector.report.not_logs.push(NotALog { name: log.name, why });
            return Ok(());
        }
        Some(Unreadable::NoEntry(first)) => {
            let format = options.format.as_ref().map(|format| format.name().to_owned());
            return Err(ImportError::NotALog { lines: first.line, format, first });
        }
    }
    collector.begin(log.name, &opened);
    let mut told_lines = collector.report.lines;
    let mut tell_if_due = |collector: &Collector<'_>, is_interrupted: bool| {
        let lines = collector.report.lines;
        if is_interrupted || lines - told_lines >= PROGRESS_LINES {
            told_lines = lines;
            tell(lines, collector.report.bytes)
        } else {
            Ok(())
        }
    };
    let failed =
        |collector: &Collector<'_>, source| ImportError::Read { line: collector.log_lines(), source };
    if let Some(pieces) = log.pieces {
        let mut block = ParsedBlock::default();
        for piece in pieces {
            let piece = piece?;
            let mut seen = Seen::default();
            let mut decoder = Decoder::new(&piece).map_err(|error| failed(collector, error))?;
            loop {
                match decoder.next(&mut block).map_err(|error| failed(collector, error))? {
                    Decoded::Block => collector.block(&block, &mut seen, spill)?,
                    Decoded::Failure(error) => return Err(failed(collector, error)),
                    Decoded::End => break,
                }
                tell_if_due(collector, false)?;
            }
        }
        return Ok(());
    }
    if options.parsers > 0 && log.may_read_ahead && opened.format.is_stateless() {
        let format = opened.format.clone();
        let parser = || Parser::new(format.clone(), options.clone());
        let failure =
            parse_ahead::for_each(opened.into_blocks(), options.parsers, parser, |parsed| match parsed {
                Parsed::Block(block, seen) => {
                    collector.block(block, seen, spill)?;
                    tell_if_due(collector, false)
                }
                Parsed::Nothing => tell_if_due(collector, true),
            })?;
        return failure.map_or(Ok(()), |error| Err(failed(collector, error)));
    }
    let Opened { mut reader, mut format, .. } = opened;
    let record_bytes = format.record_bytes();
    lines::for_each(&mut reader, record_bytes, |step| match step {
        Step::Line { bytes, text } => {
            collector.report.bytes += bytes;
            judged::read(&mut format, options, text, |line| collector.single_line(line, spill))?;
            tell_if_due(collector, false)
        }
        Step::Interrupted => tell_if_due(collector, true),
    })
}
