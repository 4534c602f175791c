//! Tests of several logs as one: sessions across file borders, different formats and compressions, and files that are
//! not logs.

use std::io::{self, BufRead, Cursor, Write};
use std::ops::ControlFlow;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_workload::import::{
    Compression, ImportError, Imported, Log, Options, import, import_logs, import_logs_to_file,
};
use sojourn_workload::sorting::{Scratch, Spill};
use sojourn_workload::trace::Trace;

fn log<'l>(name: &str, bytes: &'l [u8]) -> Log<'l> {
    Log { name: name.into(), reader: Ok(Box::new(bytes)), may_read_ahead: true, is_found: false }
}

fn found<'l>(name: &str, bytes: &'l [u8]) -> Log<'l> {
    Log { is_found: true, ..log(name, bytes) }
}

fn imported<'l>(logs: impl IntoIterator<Item = Log<'l>>) -> Result<Imported, ImportError> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    import_logs(logs.into_iter(), &Options::default(), &mut random, |_| ControlFlow::Continue(()))
}

/// A line by `client`, `second` seconds after noon.
fn line(client: &str, second: u32, path: &str) -> String {
    let (minute, second) = (second / 60, second % 60);
    format!("{client} - - [10/Oct/2000:12:{minute:02}:{second:02} +0000] \"GET {path} HTTP/1.0\" 200 5\n")
}

#[test]
fn rotated_logs_are_one_however_they_are_named_in_order() {
    let lines: Vec<String> = (0..600)
        .map(|second| line(&format!("c{}", second % 7), second, &format!("/{}", second % 5)))
        .collect();
    let whole = lines.concat();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let one =
        import(whole.as_bytes(), &Options::default(), &mut random, |_| ControlFlow::Continue(())).unwrap();
    let (older, newer) = (lines[..250].concat(), lines[250..].concat());
    let several = imported([log("older", older.as_bytes()), log("newer", newer.as_bytes())]).unwrap();
    assert_eq!(several.trace, one.trace);
    assert_eq!(several.report.coverage, one.report.coverage);
    let lines: Vec<_> = several.report.logs.iter().map(|log| (log.name.as_str(), log.lines)).collect();
    assert_eq!(lines, [("older", 250), ("newer", 350)]);
    assert!(one.report.logs.is_empty());
    // In the other order the same requests give the same sessions; only the names are numbered differently.
    let turned = imported([log("newer", newer.as_bytes()), log("older", older.as_bytes())]).unwrap();
    assert_eq!(turned.report.sessions, one.report.sessions);
    assert_eq!(turned.report.out_of_order_lines, 0, "each is in order");
    let starts = |trace: &Trace| -> Vec<_> {
        trace.sessions.iter().map(|session| (session.start_ns / 1_000_000_000, session.count)).collect()
    };
    assert_eq!(starts(&turned.trace).len(), starts(&one.trace).len());
    let mut open = || Ok(Box::new(Cursor::new(Vec::new())) as Box<dyn Scratch>);
    let spill = Spill { budget_bytes: 64, open: &mut open };
    let mut file = Vec::new();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let logs = [log("older", older.as_bytes()), log("newer", newer.as_bytes())];
    let go_on = |_| ControlFlow::Continue(());
    import_logs_to_file(logs.into_iter(), &Options::default(), &mut random, spill, &mut file, go_on).unwrap();
    assert_eq!(Trace::read(file.as_slice()).unwrap(), one.trace);
}

#[test]
fn logs_may_differ_in_format_and_compression() {
    let combined = line("10.0.0.1", 0, r"/\x5C").replace(" 5\n", " 5 \"-\" \"agent\"\n");
    let json = r#"{"ts":971179205,"remote_ip":"10.0.0.1","method":"GET","uri":"/\\","status":200,"size":5}"#;
    let mut xz = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(1)).unwrap();
    xz.write_all(json.as_bytes()).unwrap();
    let xz = xz.finish().unwrap();
    let Imported { trace, report } = imported([log("a", combined.as_bytes()), log("b", &xz)]).unwrap();
    let formats: Vec<_> = report.logs.iter().map(|log| (log.format.as_str(), log.compression)).collect();
    assert_eq!(formats, [("combined", Compression::Plain), ("json", Compression::Xz)]);
    // One document, however its log escapes a backslash, and one session.
    assert_eq!(trace.documents.iter().map(|document| document.name.as_str()).collect::<Vec<_>>(), [r"/\"]);
    assert_eq!((trace.sessions.len(), trace.requests.len()), (1, 2));
}

#[test]
fn files_that_are_no_logs_are_skipped_where_they_were_found_and_refused_where_they_were_named() {
    let good = line("h", 0, "/");
    let report = imported([
        found("d/access.log", good.as_bytes()),
        found("d/notes.txt", b"nothing\nof note\n"),
        found("d/empty.log", b""),
    ]);
    let report = report.unwrap().report;
    let skipped: Vec<_> =
        report.not_logs.iter().map(|file| (file.name.as_str(), file.why.as_str())).collect();
    assert_eq!(
        skipped,
        [("d/notes.txt", "line 1: no [date] after the client"), ("d/empty.log", "it is empty")]
    );
    assert_eq!((report.lines, report.malformed), (1, 0));
    let error = imported([log("a.log", good.as_bytes()), log("notes.txt", b"nothing\n")]).unwrap_err();
    assert!(error.to_string().starts_with("notes.txt: none of"), "{error}");
    assert!(error.hint().unwrap().contains("folder"), "{error}");
    let error = imported([found("x", b"nothing\n"), found("y", b"")]).unwrap_err();
    assert_eq!(error.to_string(), "none of the 2 files is a log; x: line 1: no [date] after the client");
    assert!(error.hint().is_some());
    // An empty log is no error, because logs are rotated.
    assert_eq!(imported([log("a", good.as_bytes()), log("b", b"")]).unwrap().report.not_logs.len(), 1);
}

#[test]
fn what_is_wrong_is_said_with_the_name_of_its_log() {
    let good = line("h", 0, "/");
    let second = good.clone() + "damaged\n";
    let report = imported([log("a", good.as_bytes()), log("b", second.as_bytes())]).unwrap().report;
    let example = &report.malformed_examples[0];
    assert_eq!((example.log.as_str(), example.line), ("b", 2));
    let missing = Log {
        name: "gone".into(),
        reader: Err(io::Error::from(io::ErrorKind::NotFound)) as io::Result<Box<dyn BufRead + Send>>,
        may_read_ahead: false,
        is_found: true,
    };
    let error = imported([log("a", good.as_bytes()), missing]).unwrap_err();
    assert!(error.to_string().starts_with("gone: the log cannot be read"), "{error}");
}

/// Imports the logs with so many threads ahead; the trace file's bytes and the report as JSON.
fn parsed_by(parsers: usize, logs: &[(&str, Vec<u8>)]) -> (Vec<u8>, String) {
    let options = Options { parsers, ..Options::default() };
    let mut open = || Ok(Box::new(Cursor::new(Vec::new())) as Box<dyn Scratch>);
    let spill = Spill { budget_bytes: 1 << 20, open: &mut open };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut file = Vec::new();
    let logs = logs.iter().map(|(name, bytes)| log(name, bytes));
    let go_on = |_| ControlFlow::Continue(());
    let report = import_logs_to_file(logs, &options, &mut random, spill, &mut file, go_on).unwrap();
    (file, serde_json::to_string(&report).unwrap())
}

#[test]
fn threads_that_parse_ahead_change_nothing() {
    // Several blocks of each log, with lines that are malformed, escaped or too long.
    let mut clf = String::new();
    for second in 0..12_000 {
        clf += &line(
            &format!("c{}", second % 97),
            second % 3600,
            &format!(r"/{}/\x41{}", second % 389, second % 11),
        );
        if second % 1000 == 7 {
            clf += "damaged\n";
        }
        if second == 5000 {
            clf += &format!("{}\n", "x".repeat(1 << 17));
        }
    }
    let mut w3c = "#Fields: date time c-ip cs-method cs-uri-stem sc-status sc-bytes\n".to_owned();
    for second in 0..4000 {
        w3c += &format!(
            "2000-10-10 13:{:02}:{:02} c{} GET /{} 200 9\n",
            second / 60 % 60,
            second % 60,
            second % 5,
            second % 50
        );
    }
    let json: String = (0..4000)
        .map(|second| {
            let time = 971_182_805 + second;
            let client = second % 7;
            format!("{{\"ts\":{time},\"remote_ip\":\"c{client}\",\"method\":\"GET\",\"uri\":\"/\\u0041\",\"status\":200,\"size\":5}}\n")
        })
        .collect();
    let mut zstd = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    zstd.write_all(json.as_bytes()).unwrap();
    let logs = [
        ("clf", clf.into_bytes()),
        ("w3c", w3c.into_bytes()),
        ("json", zstd.finish().unwrap()),
        ("worldcup", world_cup(0..40_000)),
    ];
    let alone = parsed_by(0, &logs);
    for parsers in [1, 2, 5] {
        let ahead = parsed_by(parsers, &logs);
        assert!(ahead.0 == alone.0, "{parsers} threads give another trace");
        assert_eq!(ahead.1, alone.1, "{parsers} threads give another report");
    }
}

#[test]
fn an_error_of_the_collector_or_the_reader_ends_the_threads() {
    let lines: String = (0..80_000).map(|second| line("c", second % 3600, "/")).collect();
    let options = Options { parsers: 2, ..Options::default() };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let logs = || std::iter::once(log("a", lines.as_bytes()));
    let stop = |_| ControlFlow::Break(());
    assert!(matches!(import_logs(logs(), &options, &mut random, stop), Err(ImportError::Stopped)));
    // A gzip stream that is cut off.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(lines.as_bytes()).unwrap();
    let mut cut = gzip.finish().unwrap();
    cut.truncate(cut.len() - 20);
    let failed =
        import_logs(std::iter::once(log("a", &cut)), &options, &mut random, |_| ControlFlow::Continue(()));
    let Err(ImportError::In { source, .. }) = failed else { panic!("a damaged log was read") };
    let options = Options::default();
    let alone =
        import_logs(std::iter::once(log("a", &cut)), &options, &mut random, |_| ControlFlow::Continue(()));
    assert_eq!(alone.unwrap_err().to_string(), format!("a: {source}"), "the same line is named");
}

/// Records of the World Cup 1998 logs, one for each number.
fn world_cup(numbers: std::ops::Range<u32>) -> Vec<u8> {
    let record = |number: u32| {
        let object = number % 331;
        let fields = [894_000_000 + number / 10, number % 61, object, 100 + object].map(u32::to_be_bytes);
        [fields.as_flattened(), &[0, 0x42, u8::from(object.is_multiple_of(3)), 0x25]].concat()
    };
    numbers.flat_map(record).collect()
}

#[test]
fn sessions_of_world_cup_logs_cross_the_borders_of_files() {
    let whole = world_cup(0..5000);
    let one = imported([log("wc_day50_1", &whole)]).unwrap();
    assert_eq!(one.report.logs[0].format, "worldcup98");
    assert_eq!((one.report.lines, one.report.malformed, one.report.requests), (5000, 0, 5000));
    let (first, second) = (world_cup(0..2345), world_cup(2345..5000));
    let two = imported([log("wc_day50_1", &first), log("wc_day50_2", &second)]).unwrap();
    assert_eq!(two.trace, one.trace);
    // Each of the 61 clients asks every 6.1 s: one session.
    assert_eq!(two.report.sessions, 61);
    let cut = imported([log("cut", &whole[..whole.len() - 1])]).unwrap();
    assert_eq!((cut.report.lines, cut.report.malformed), (5000, 1));
    let renamed = one
        .trace
        .documents
        .iter()
        .all(|document| document.name.starts_with("/html/") || document.name.starts_with("/image/"));
    assert!(renamed);
}
