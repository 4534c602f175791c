//! Tests of import as a whole: damaged real-world logs, and arbitrary bytes, which must not cause a panic.

use std::io::{BufReader, Cursor, Write};
use std::ops::ControlFlow;

use bzip2::Compression as BzLevel;
use bzip2::write::BzEncoder;
use flate2::Compression as GzipLevel;
use flate2::write::GzEncoder;
use lzma_rust2::{XzOptions, XzWriter};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_workload::import::{
    Compression, ImportError, ImportReport, Imported, Options, import, import_to_file,
};
use sojourn_workload::sorting::{Scratch, Spill};
use sojourn_workload::trace::Trace;

fn import_bytes(log: &[u8]) -> Result<Imported, ImportError> {
    import_in_pieces(log, 1 << 16)
}

fn import_in_pieces(log: &[u8], piece: usize) -> Result<Imported, ImportError> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let reader = BufReader::with_capacity(piece, log);
    import(reader, &Options::default(), &mut random, |_| ControlFlow::Continue(()))
}

/// Imports by way of a file, with sorts that hold at most `budget_bytes`.
fn import_spilled(log: &[u8], budget_bytes: usize) -> Result<(Trace, ImportReport), ImportError> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut open = || Ok(Box::new(Cursor::new(Vec::new())) as Box<dyn Scratch>);
    let spill = Spill { budget_bytes, open: &mut open };
    let mut file = Vec::new();
    let go_on = |_| ControlFlow::Continue(());
    let report = import_to_file(log, &Options::default(), &mut random, spill, &mut file, go_on)?;
    Ok((Trace::read(file.as_slice()).expect("a trace was written"), report))
}

/// A line by `client`, `second` seconds after noon.
fn line(client: &str, second: u32, request_and_answer: &str) -> String {
    let (minute, second) = (second / 60, second % 60);
    format!("{client} - - [10/Oct/2000:12:{minute:02}:{second:02} +0000] {request_and_answer}\n")
}

/// The requested documents by session, as `name/size`.
fn sessions(log: &str) -> Vec<Vec<String>> {
    let trace = import_bytes(log.as_bytes()).unwrap().trace;
    let spelled = |document: u32| {
        let document = &trace.documents[document as usize];
        format!("{}/{}", document.name, document.size_bytes)
    };
    let session =
        |session| trace.requests_of(session).iter().map(|request| spelled(request.document)).collect();
    trace.sessions.iter().map(session).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), GzipLevel::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn xz(bytes: &[u8], preset: u32) -> Vec<u8> {
    let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(preset)).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

#[test]
fn a_request_up_to_the_gap_after_the_prior_one_belongs_to_its_session() {
    let log = [(0, "/a"), (15, "/b"), (31, "/c")]
        .map(|(second, path)| line("h", second, &format!(r#""GET {path} HTTP/1.0" 200 1"#)))
        .concat();
    assert_eq!(sessions(&log), [vec!["/a/1", "/b/1"], vec!["/c/1"]]);
}

#[test]
fn clients_do_not_share_sessions_and_unsorted_lines_are_sorted() {
    let log = line("late", 9, r#""GET /3 HTTP/1.0" 200 1"#)
        + &line("early", 2, r#""GET /2 HTTP/1.0" 200 1"#)
        + &line("early", 1, r#""GET /1 HTTP/1.0" 200 1"#);
    assert_eq!(sessions(&log), [vec!["/1/1", "/2/1"], vec!["/3/1"]]);
    let report = import_bytes(log.as_bytes()).unwrap().report;
    assert_eq!((report.out_of_order_lines, report.largest_backward_jump_seconds), (2, 8));
}

#[test]
fn answers_without_a_size_take_the_document_by_its_name() {
    let log = line("h", 0, r#""GET /a HTTP/1.0" 304 -"#)
        + &line("h", 2, r#""GET /a HTTP/1.0" 200 5"#)
        + &line("h", 4, r#""GET /a HTTP/1.0" 200 7"#)
        + &line("h", 6, r#""HEAD /a HTTP/1.0" 200 0"#)
        + &line("h", 8, r#""GET /never HTTP/1.0" 304 0"#);
    assert_eq!(sessions(&log), [["/a/5", "/a/5", "/a/7", "/a/7"]]);
    let report = import_bytes(log.as_bytes()).unwrap().report;
    assert_eq!((report.by_name_requests, report.skipped.of_unknown_size), (2, 1));
}

#[test]
fn compressed_logs_are_the_same_as_plain_ones() {
    let log: String = (0..500).map(|second| line("h", second, r#""GET /a HTTP/1.0" 200 5"#)).collect();
    let (first, second) = log.as_bytes().split_at(1000);
    let plain = import_bytes(log.as_bytes()).unwrap();
    let check = |bytes: &[u8], compression: Compression| {
        let imported = import_in_pieces(bytes, 7).unwrap();
        assert_eq!(imported.trace, plain.trace);
        assert_eq!(imported.report.compression, compression);
        assert_eq!(imported.report.bytes, log.len() as u64);
    };
    check(&gzip(log.as_bytes()), Compression::Gzip);
    check(&[gzip(first), gzip(second)].concat(), Compression::Gzip);
    let bzip2 = |bytes: &[u8]| {
        let mut encoder = BzEncoder::new(Vec::new(), BzLevel::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    check(&bzip2(log.as_bytes()), Compression::Bzip2);
    check(&[bzip2(first), bzip2(second)].concat(), Compression::Bzip2);
    check(&xz(log.as_bytes(), 6), Compression::Xz);
    check(&[xz(first, 1), xz(second, 9)].concat(), Compression::Xz);
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    check(&zstd(log.as_bytes()), Compression::Zstd);
    check(&[zstd(first), zstd(second)].concat(), Compression::Zstd);
}

#[test]
fn bad_logs_are_refused_with_a_cure() {
    let check = |log: &[u8], expected: &str| {
        let error = import_bytes(log).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.hint().is_some(), "{error}");
    };
    check(b"", "the log is empty");
    check(b"{\"time\": 1}\n\n", "none of the log's 2 lines");
    check(line("h", 0, r#""GET /?q HTTP/1.0" 200 1"#).as_bytes(), "none of the log's 1 requests");
    let cut = gzip(line("h", 0, r#""GET / HTTP/1.0" 200 1"#).as_bytes());
    check(&cut[..cut.len() - 9], "cannot be read beyond line");
    let cut = xz(line("h", 0, r#""GET / HTTP/1.0" 200 1"#).as_bytes(), 6);
    check(&cut[..cut.len() - 9], "cannot be read beyond line");
    let mut encoder = BzEncoder::new(Vec::new(), BzLevel::fast());
    encoder.write_all(line("h", 0, r#""GET / HTTP/1.0" 200 1"#).as_bytes()).unwrap();
    let cut = encoder.finish().unwrap();
    check(&cut[..cut.len() - 9], "cannot be read beyond line");
}

#[test]
fn an_xz_log_that_wants_too_much_memory_is_refused() {
    let mut options = XzOptions::with_preset(6);
    options.lzma_options.dict_size = 512 << 20;
    let mut writer = XzWriter::new(Vec::new(), options).unwrap();
    writer.write_all(line("h", 0, r#""GET / HTTP/1.0" 200 1"#).as_bytes()).unwrap();
    let error = import_bytes(&writer.finish().unwrap()).unwrap_err();
    assert!(error.to_string().contains("memory"), "{error}");
    assert!(error.hint().is_some(), "{error}");
}

#[test]
fn a_log_that_is_not_what_it_seems_is_warned_of() {
    let check = |lines: [String; 2], expected: &str| {
        let report = import_bytes(lines.concat().as_bytes()).unwrap().report;
        assert_eq!(report.warnings.len(), 1, "{:?}", report.warnings);
        assert!(report.warnings[0].contains(expected), "{:?}", report.warnings);
    };
    let plain = line("h", 0, r#""GET /a HTTP/1.0" 200 1"#);
    check([plain.repeat(1000), String::new()], "only 1 distinct clients");
    check([plain.repeat(50), "damaged\n".into()], "2.0 % of the lines are malformed");
    check([plain.repeat(80), line("h", 0, r#""GET /?q HTTP/1.0" 200 1"#).repeat(20)], "20 % of the requests");
}

#[test]
fn progress_can_stop_an_import() {
    let log = line("h", 0, r#""GET / HTTP/1.0" 200 1"#).repeat(100_000);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let stopped = import(log.as_bytes(), &Options::default(), &mut random, |progress| {
        assert_eq!(progress.bytes, progress.lines * log.len() as u64 / 100_000);
        ControlFlow::Break(())
    });
    assert!(matches!(stopped, Err(ImportError::Stopped)));
}

/// Pieces of lines in random order, so that the input resembles a log.
fn nearly_a_log() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&[u8]> = vec![
        b"h - - ",
        b"[10/Oct/2000:13:55:36 -0700]",
        b" \"GET /a HTTP/1.0\" ",
        b"200 5",
        b"304 -",
        b"\n",
        b"[",
        b"\"",
        b" ",
        b"\xff\x00",
        b"g - - [10/Oct/2000:13:55:37 -0700] \"GET /a HTTP/1.0\" 200 5\n",
    ];
    let piece = prop_oneof![
        4 => proptest::sample::select(pieces).prop_map(<[u8]>::to_vec),
        1 => proptest::collection::vec(any::<u8>(), 0..8),
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_imported_or_refused(log in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = import_bytes(&log);
    }

    #[test]
    fn any_log_is_the_same_however_it_is_read(log in nearly_a_log(), piece in 1_usize..50) {
        match (import_bytes(&log), import_in_pieces(&log, piece)) {
            (Ok(whole), Ok(pieces)) => {
                prop_assert_eq!(&whole.trace, &pieces.trace);
                prop_assert_eq!(&whole.report, &pieces.report);
                let skipped = whole.report.skipped;
                let kept_or_not = whole.report.requests + skipped.with_query + skipped.other_method
                    + skipped.failed + skipped.partial + skipped.without_size + skipped.of_unknown_size
                    + skipped.without_target + whole.report.malformed;
                prop_assert_eq!(kept_or_not, whole.report.lines);
            }
            (Err(whole), Err(pieces)) => prop_assert_eq!(whole.to_string(), pieces.to_string()),
            (whole, pieces) => prop_assert!(false, "{whole:?} {pieces:?}"),
        }
    }

    #[test]
    fn any_log_gives_the_same_with_little_memory(log in nearly_a_log(), budget_bytes in 1_usize..400) {
        match (import_bytes(&log), import_spilled(&log, budget_bytes)) {
            (Ok(held), Ok((trace, report))) => {
                prop_assert_eq!(held.trace, trace);
                prop_assert_eq!(held.report, report);
            }
            (Err(held), Err(spilled)) => prop_assert_eq!(held.to_string(), spilled.to_string()),
            (held, spilled) => prop_assert!(false, "{held:?} {spilled:?}"),
        }
    }

    #[test]
    fn many_clients_out_of_order_give_the_same_with_little_memory(
        requests in proptest::collection::vec((0_u32..3000, 0_u8..9, 0_u8..4), 1..200), budget_bytes in 1_usize..4000,
    ) {
        let answer = |document: u8| match document {
            0 => r#""GET /0 HTTP/1.0" 304 -"#.to_owned(),
            _ => format!(r#""GET /{} HTTP/1.0" 200 {document}"#, document / 3),
        };
        let log: String = requests
            .iter()
            .map(|(second, client, document)| line(&format!("client{client}"), *second, &answer(*document)))
            .collect();
        match (import_bytes(log.as_bytes()), import_spilled(log.as_bytes(), budget_bytes)) {
            (Ok(held), Ok((trace, report))) => prop_assert_eq!((held.trace, held.report), (trace, report)),
            (held, spilled) => prop_assert_eq!(held.is_err(), spilled.is_err()),
        }
    }

    #[test]
    fn sessions_keep_the_seconds_of_the_log(seconds in proptest::collection::vec((0_u32..3000, 0_u8..3), 1..80)) {
        let request = r#""GET /a HTTP/1.0" 200 1"#;
        let log: String =
            seconds.iter().map(|(second, client)| line(&format!("client{client}"), *second, request)).collect();
        let trace = import_bytes(log.as_bytes()).unwrap().trace;
        let mut logged: Vec<_> = seconds.iter().map(|(second, _)| u64::from(*second)).collect();
        logged.sort_unstable();
        let noon_ns = 971_179_200 * 1_000_000_000_i64; // date -d '10 Oct 2000 12:00 UTC' +%s
        let mut drawn: Vec<_> = trace.sessions.iter().flat_map(|session| {
            let begin_ns = session.start_ns + (trace.origin.unix_ns - noon_ns) as u64;
            let requests = trace.requests_of(session);
            assert!(requests.is_sorted_by_key(|request| request.offset_ns));
            assert_eq!(requests[0].offset_ns, 0);
            requests.iter().map(move |request| (begin_ns + request.offset_ns) / 1_000_000_000)
        }).collect();
        drawn.sort_unstable();
        prop_assert_eq!(drawn, logged);
        prop_assert!(trace.sessions.is_sorted_by_key(|session| session.start_ns));
        prop_assert_eq!(trace.sessions[0].start_ns, 0);
    }
}
