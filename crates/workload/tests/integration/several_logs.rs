//! Tests of several logs as one: sessions across file borders, different formats and compressions, and files that are
//! not logs.

use std::io::{self, BufRead, Cursor, Write};
use std::ops::ControlFlow;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_workload::import::selection::{Pattern, map};
use sojourn_workload::import::{
    Compression, ImportError, Imported, Keep, Log, Options, Part, Parts, PieceParser, Selection, import,
    import_logs, import_logs_to_file, parts,
};
use sojourn_workload::sorting::{Scratch, Spill};
use sojourn_workload::trace::Trace;

fn log<'l>(name: &str, bytes: &'l [u8]) -> Log<'l> {
    Log { name: name.into(), may_read_ahead: true, ..Log::only(bytes) }
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
fn the_finest_time_of_a_log_tells_its_resolution() {
    let json = |times: &[&str]| -> String {
        let line = |time: &&str| {
            format!("{{\"ts\":{time},\"method\":\"GET\",\"uri\":\"/\",\"status\":200,\"size\":5}}\n")
        };
        times.iter().map(line).collect()
    };
    let micros = json(&["971179200.5", "971179201.123456", "971179202"]);
    let of_one = imported([log("a", micros.as_bytes())]).unwrap().report.time_resolution_ns;
    assert_eq!(of_one, 1000);
    let seconds = line("c", 3, "/");
    let of_both = imported([log("a", micros.as_bytes()), log("b", seconds.as_bytes())]).unwrap();
    assert_eq!(of_both.report.time_resolution_ns, 1_000_000_000);
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
        pieces: None,
    };
    let error = imported([log("a", good.as_bytes()), missing]).unwrap_err();
    assert!(error.to_string().starts_with("gone: the log cannot be read"), "{error}");
}

/// Imports the logs with so many threads ahead; the trace file's bytes and the report as JSON.
fn parsed_by(parsers: usize, logs: &[(&str, Vec<u8>)]) -> (Vec<u8>, String) {
    let options = Options { parsers, ..Options::default() };
    imported_to_file(logs.iter().map(|(name, bytes)| log(name, bytes)), &options)
}

fn imported_to_file<'l>(logs: impl Iterator<Item = Log<'l>>, options: &Options) -> (Vec<u8>, String) {
    let mut open = || Ok(Box::new(Cursor::new(Vec::new())) as Box<dyn Scratch>);
    let spill = Spill { budget_bytes: 1 << 20, open: &mut open };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut file = Vec::new();
    let go_on = |_| ControlFlow::Continue(());
    let report = import_logs_to_file(logs, options, &mut random, spill, &mut file, go_on).unwrap();
    (file, serde_json::to_string(&report).unwrap())
}

/// All pieces of a log: of its parts of so many bytes, where it has parts.
fn pieces(log: &[u8], part_bytes: u64, options: &Options) -> Vec<Vec<u8>> {
    let found = match parts(log, options, || Ok(())).unwrap() {
        Parts::None => panic!("it is no log"),
        Parts::Whole => vec![None],
        Parts::Every(unit) => {
            let step = part_bytes / unit * unit;
            (0..log.len() as u64).step_by(step as usize).map(|begin| Some(begin..begin + step)).collect()
        }
    };
    let parsed = |range: Option<std::ops::Range<u64>>| {
        let part = range.map(|range| Part {
            reader: Box::new(&log[range.start.saturating_sub(1) as usize..]) as Box<dyn BufRead + Send>,
            range,
        });
        let mut parser = PieceParser::new(log, part, options, || Ok(())).unwrap();
        std::iter::from_fn(move || parser.piece(part_bytes))
    };
    found.into_iter().flat_map(parsed).collect()
}

/// The log, whose lines come in pieces.
fn in_pieces<'l>(name: &str, bytes: &'l [u8], part_bytes: u64, options: &Options) -> Log<'l> {
    let pieces = pieces(bytes, part_bytes, options);
    Log { pieces: Some(Box::new(pieces.into_iter().map(Ok))), ..log(name, bytes) }
}

#[test]
fn pieces_that_were_parsed_elsewhere_change_nothing() {
    let logs = logs_of_several_formats();
    let options = Options::default();
    let alone = parsed_by(0, &logs);
    for part_bytes in [20_000, 333_333, 1 << 20] {
        let logs = logs.iter().map(|(name, bytes)| in_pieces(name, bytes, part_bytes, &options));
        let imported = imported_to_file(logs, &options);
        assert!(imported.0 == alone.0, "parts of {part_bytes} bytes give another trace");
        assert_eq!(imported.1, alone.1, "parts of {part_bytes} bytes give another report");
    }
}

#[test]
fn options_count_where_a_log_is_parsed() {
    let mut log = String::new();
    for second in 0..3000 {
        let status = [200, 302, 404][second as usize % 3];
        let request = ["GET /a?b", "POST /form", "GET /c"][second as usize % 7 % 3];
        log += &line(&format!("c{}", second % 5), second, "/")
            .replace("GET /", request)
            .replace("200", &status.to_string());
    }
    let selection = Selection {
        clients: vec![Pattern::new("c[0-3]").unwrap(), Pattern::new("~^c[12]$").unwrap()],
        path_map: vec![map("/a=/b").unwrap()],
        host_map: vec![map("*=example").unwrap()],
        ..Selection::default()
    };
    let keep = Keep { failed: true, with_query: true, as_get: true };
    let options = Options { selection, keep, assumed_size_bytes: Some(7), ..Options::default() };
    let alone = imported_to_file(std::iter::once(self::log("a", log.as_bytes())), &options);
    let pieces = in_pieces("a", log.as_bytes(), 10_000, &options);
    assert_eq!(imported_to_file(std::iter::once(pieces), &options), alone);
    let ahead = Options { parsers: 3, ..options };
    assert_eq!(imported_to_file(std::iter::once(self::log("a", log.as_bytes())), &ahead), alone);
}

#[test]
fn damage_is_told_alike_wherever_it_is_met() {
    let lines: String = (0..20_000).map(|second| line("c", second % 3600, "/")).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(lines.as_bytes()).unwrap();
    let mut cut = gzip.finish().unwrap();
    cut.truncate(cut.len() - 20);
    let alone = imported([log("a", &cut)]).unwrap_err();
    let pieces = in_pieces("a", &cut, 100_000, &Options::default());
    let elsewhere = imported([pieces]).unwrap_err();
    assert_eq!((elsewhere.to_string(), elsewhere.hint()), (alone.to_string(), alone.hint()));
    // A piece that was damaged on its way, and one that could not be had.
    let damaged = || Log {
        pieces: Some(Box::new(std::iter::once(Ok(b"SJB1\x01".to_vec())))),
        ..log("a", lines.as_bytes())
    };
    let error = imported([damaged()]).unwrap_err();
    assert!(error.to_string().contains("a parsed piece of the log is damaged"), "{error}");
    let stopped = Log { pieces: Some(Box::new(std::iter::once(Err(ImportError::Stopped)))), ..damaged() };
    assert!(matches!(imported([stopped]), Err(ImportError::Stopped)));
}

#[test]
fn threads_that_parse_ahead_change_nothing() {
    let logs = logs_of_several_formats();
    let alone = parsed_by(0, &logs);
    for parsers in [1, 2, 5] {
        let ahead = parsed_by(parsers, &logs);
        assert!(ahead.0 == alone.0, "{parsers} threads give another trace");
        assert_eq!(ahead.1, alone.1, "{parsers} threads give another report");
    }
}

/// Several blocks of each log, with lines that are malformed, escaped or too long.
fn logs_of_several_formats() -> Vec<(&'static str, Vec<u8>)> {
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
    vec![
        ("clf", clf.into_bytes()),
        ("w3c", w3c.into_bytes()),
        ("json", zstd.finish().unwrap()),
        ("worldcup", world_cup(0..40_000)),
        ("marked", [&b"\xef\xbb\xbf"[..], line("c1", 1, "/first").as_bytes()].concat()),
    ]
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

#[test]
#[should_panic]
fn a_reader_that_panics_leaves_no_thread_waiting() {
    struct Panics;
    impl io::Read for Panics {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            panic!("as it should");
        }
    }
    let lines: String = (0..4000).map(|second| line("c", second % 3600, "/")).collect();
    let reader = io::Read::chain(lines.as_bytes(), Panics);
    let log = Log { may_read_ahead: true, ..Log::only(io::BufReader::new(reader)) };
    let options = Options { parsers: 2, ..Options::default() };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let _ = import_logs(std::iter::once(log), &options, &mut random, |_| ControlFlow::Continue(()));
}

#[test]
fn of_a_damaged_log_the_same_lines_are_read_by_threads_and_in_pieces() {
    let lines: String = (0..20_000)
        .map(|second| {
            line(&format!("c{}", second * 7 % 1009), second % 3600, &format!("/{}", second * second % 7919))
        })
        .collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(lines.as_bytes()).unwrap();
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip2.write_all(lines.as_bytes()).unwrap();
    let mut xz = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(1)).unwrap();
    xz.write_all(lines.as_bytes()).unwrap();
    let mut zstd = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    zstd.include_checksum(true).unwrap();
    zstd.write_all(lines.as_bytes()).unwrap();
    let (gzip, bzip2) = (gzip.finish().unwrap(), bzip2.finish().unwrap());
    for whole in [gzip, bzip2, xz.finish().unwrap(), zstd.finish().unwrap()] {
        for sixth in 2..6 {
            let mut damaged = whole.clone();
            damaged[whole.len() * sixth / 6] ^= 0x55;
            let read = |log, parsers| {
                let options = Options { parsers, ..Options::default() };
                let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
                let read =
                    import_logs(std::iter::once(log), &options, &mut random, |_| ControlFlow::Continue(()));
                read.map(|imported| imported.report.lines).map_err(|error| error.to_string())
            };
            let alone = read(log("a", &damaged), 0);
            assert_eq!(read(log("a", &damaged), 2), alone, "{sixth} sixths in");
            let pieces = in_pieces("a", &damaged, 100_000, &Options::default());
            assert_eq!(read(pieces, 0), alone, "{sixth} sixths in");
        }
    }
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
