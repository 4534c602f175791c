//! What must hold for any bytes given as a log or as a trace file.

use std::io::{BufReader, Cursor};
use std::ops::ControlFlow;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use sojourn_workload::characterise::{StoredTrace, characterise, characterise_from};
use sojourn_workload::import::{
    DURATION_NS_MAX, Format, ImportError, Imported, Log, Options, Part, Parts, PieceParser, SIZE_BYTES_MAX,
    import, import_logs, import_to_file, parts,
};
use sojourn_workload::sorting::{Scratch, Spill};
use sojourn_workload::trace::Trace;

/// The import of a log has the same result if the log is read at once, in parts, with next to no memory, or parsed
/// elsewhere; a trace from a log can be written and read.
pub fn log_line(bytes: &[u8]) {
    match (import_in_pieces(bytes, 1 << 16), import_in_pieces(bytes, 7)) {
        (Ok(whole), Ok(pieces)) => {
            assert_eq!(whole.trace, pieces.trace);
            assert_eq!(whole.report, pieces.report);
            let kept = Trace::read(written(&whole.trace).as_slice()).expect("a trace from a log is a trace");
            assert_eq!(kept, whole.trace);
            assert_eq!(spilled(bytes), written(&whole.trace));
            let elsewhere = import_parsed(bytes, parsed_in_parts(bytes)).expect("it was imported before");
            assert_eq!(elsewhere.trace, whole.trace);
            assert_eq!(elsewhere.report, whole.report);
        }
        // The number of lines before the damage of a file depends on the decompressor.
        (Err(ImportError::Read { source: whole, .. }), Err(ImportError::Read { source: pieces, .. })) => {
            assert_eq!(whole.to_string(), pieces.to_string());
        }
        (Err(whole), Err(pieces)) => assert_eq!(whole.to_string(), pieces.to_string()),
        (whole, pieces) => panic!("at once {whole:?}, in pieces {pieces:?}"),
    }
}

fn import_in_pieces(log: &[u8], piece: usize) -> Result<Imported, ImportError> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let reader = BufReader::with_capacity(piece, log);
    import(reader, &Options::default(), &mut random, |_| ControlFlow::Continue(()))
}

/// The trace file of an import whose sorts hold a few rows.
fn spilled(log: &[u8]) -> Vec<u8> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut open = || Ok(Box::new(Cursor::new(Vec::new())) as Box<dyn Scratch>);
    let spill = Spill { budget_bytes: 64, open: &mut open };
    let mut file = Vec::new();
    let go_on = |_| ControlFlow::Continue(());
    import_to_file(log, &Options::default(), &mut random, spill, &mut file, go_on)
        .expect("it was imported before");
    file
}

/// The pieces of a log, of short parts where it has parts.
fn parsed_in_parts(log: &[u8]) -> Vec<Vec<u8>> {
    let options = Options::default();
    let whole = |part| PieceParser::new(log, part, &options, || Ok(())).expect("it was read before");
    let mut parsers = match parts(log, &options, || Ok(())).expect("it was read before") {
        Parts::None | Parts::Whole => vec![whole(None)],
        Parts::Every(unit) => (0..log.len() as u64)
            .step_by(40 * unit as usize)
            .map(|begin| {
                let reader = Box::new(&log[begin.saturating_sub(1) as usize..]);
                whole(Some(Part { range: begin..begin + 40 * unit, reader }))
            })
            .collect(),
    };
    parsers.iter_mut().flat_map(|parser| std::iter::from_fn(move || parser.piece(100))).collect()
}

fn import_parsed(log: &[u8], pieces: Vec<Vec<u8>>) -> Result<Imported, ImportError> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let log = Log { pieces: Some(Box::new(pieces.into_iter().map(Ok))), ..Log::only(log) };
    import_logs(std::iter::once(log), &Options::default(), &mut random, |_| ControlFlow::Continue(()))
}

/// Pieces from elsewhere are collected or refused, and the trace from them can be written and read.
pub fn parsed_piece(bytes: &[u8]) {
    const LINE: &[u8] = b"a - - [10/Oct/2000:12:00:00 +0000] \"GET / HTTP/1.0\" 200 5\n";
    if let Ok(Imported { trace, .. }) = import_parsed(LINE, vec![bytes.to_vec()]) {
        assert_eq!(Trace::read(written(&trace).as_slice()).expect("a trace from pieces is a trace"), trace);
    }
}

/// A format string is compiled or refused. The compiled format reads the rest of the bytes without a panic, and never
/// returns more than the line has. The first line is the format, the others are the log.
pub fn log_format(bytes: &[u8]) {
    let split = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let (first, log) = bytes.split_at(split);
    let Ok(text) = std::str::from_utf8(first) else { return };
    let Ok(mut format) = Format::new(text, &[]) else { return };
    for line in log.split(|&byte| byte == b'\n') {
        let Ok(Some(entry)) = format.read(line) else { continue };
        assert!(
            entry.unix_ns <= entry.logged_unix_ns && entry.unix_ns >= entry.logged_unix_ns - DURATION_NS_MAX
        );
        assert!(entry.size_bytes.is_none_or(|size| size <= SIZE_BYTES_MAX));
        let is_time = |ns: i64| (0..=DURATION_NS_MAX).contains(&ns);
        assert!(entry.duration_ns.is_none_or(is_time) && entry.upstream_ns.is_none_or(is_time));
        assert!((0..1000).contains(&entry.status) && entry.resolution_ns > 0);
        assert!(entry.target.len() <= line.len() + 1 && !entry.target.contains(&b'\n'));
    }
}

/// A trace that was read is written as the same bytes, its sums do not overflow, and reading it from a file gives the
/// same.
pub fn trace_file(bytes: &[u8]) {
    let Ok(trace) = Trace::read(bytes) else { return };
    assert_eq!(written(&trace), bytes);
    let stored = StoredTrace::open(Cursor::new(bytes)).and_then(|mut stored| characterise_from(&mut stored));
    assert_eq!(stored.expect("it was read before"), characterise(&trace));
    assert!(trace.mean_session_duration_ns() >= 0.0);
    let requests: u64 = trace.requests_per_document().iter().map(|count| u64::from(*count)).sum();
    assert_eq!(requests, trace.requests.len() as u64);
}

fn written(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    trace.write(&mut bytes).expect("memory can be written");
    bytes
}
