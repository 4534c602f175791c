//! Tests of request durations: from the log to the trace file and the characteristics.

use std::io::Cursor;
use std::ops::ControlFlow;

use proptest::prelude::*;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_workload::characterise::{StoredTrace, characterise, characterise_from};
use sojourn_workload::import::{Format, Imported, Options, import, import_to_file};
use sojourn_workload::request_times::PATHS_MAX;
use sojourn_workload::sorting::{Scratch, Spill};
use sojourn_workload::trace::Trace;

const NGINX: &str =
    r#"$remote_addr [$time_local] "$request" $status $body_bytes_sent $request_time $upstream_response_time"#;

fn options() -> Options {
    Options { format: Some(Format::new(NGINX, &[]).unwrap()), ..Options::default() }
}

fn imported(log: &str) -> Imported {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    import(log.as_bytes(), &options(), &mut random, |_| ControlFlow::Continue(())).unwrap()
}

fn line(second: u32, request: &str, request_ms: u32, upstream: &str) -> String {
    let (minute, second) = (second / 60 % 60, second % 60);
    format!(
        "h [10/Oct/2000:12:{minute:02}:{second:02} +0000] \"{request} HTTP/1.1\" 200 5 {}.{:03} {upstream}\n",
        request_ms / 1000,
        request_ms % 1000
    )
}

/// A log whose static requests take 1 to 100 ms and whose posted forms take a second.
fn log() -> String {
    let mut log: String = (1..=100).map(|ms| line(ms, "GET /logo.png", ms, "-")).collect();
    for number in 0..10 {
        log += &line(200 + number, &format!("POST /form?n={number}"), 1000, "0.900");
    }
    log
}

#[test]
fn times_are_of_all_requests_and_of_the_paths_that_took_the_most() {
    let trace = imported(&log()).trace;
    let times = trace.times.as_ref().unwrap();
    let all = times.all.request_time_seconds.unwrap();
    assert_eq!((all.count, all.max_ns), (110, 1_000_000_000));
    assert_eq!(all.mean_ns, (5050 + 10_000) * 1_000_000 / 110);
    assert_eq!((all.p50_ns, all.p90_ns), (55_000_000, 99_000_000), "the 55th and the 99th of 110");
    let upstream = times.all.upstream_time_seconds.unwrap();
    assert_eq!((upstream.count, upstream.p50_ns), (10, 900_000_000));
    let paths: Vec<_> = times.paths.iter().map(|path| path.path.as_str()).collect();
    assert_eq!(paths, ["/form", "/logo.png"]);
    assert_eq!(times.paths[1].times.request_time_seconds.unwrap().p99_ns, 99_000_000);
    assert_eq!(times.paths[1].times.upstream_time_seconds, None);
    // The trace contains only the static requests.
    assert_eq!(trace.requests.len(), 100);
    let json = serde_json::to_value(characterise(&trace).unwrap()).unwrap();
    assert_eq!(json["request_times"]["request_time_seconds"]["p90"], 0.099);
    assert_eq!(json["request_times"]["paths"][0]["upstream_time_seconds"]["max"], 0.9);
}

#[test]
fn a_log_without_times_is_a_file_that_older_versions_read() {
    let log: String = log()
        .lines()
        .map(|line| line.rsplit_once(' ').unwrap().0.rsplit_once(' ').unwrap().0.to_owned() + "\n")
        .collect();
    let format = NGINX.replace(" $request_time $upstream_response_time", "");
    let options = Options { format: Some(Format::new(&format, &[]).unwrap()), ..Options::default() };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let trace = import(log.as_bytes(), &options, &mut random, |_| ControlFlow::Continue(())).unwrap().trace;
    let mut bytes = Vec::new();
    trace.write(&mut bytes).unwrap();
    assert_eq!((trace.times, &bytes[..8]), (None, &b"SJTRACE3"[..]));
}

#[test]
fn a_file_keeps_them_however_little_memory_there_was() {
    let held = imported(&log()).trace;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut open = || Ok(Box::new(Cursor::new(Vec::new())) as Box<dyn Scratch>);
    let spill = Spill { budget_bytes: 100, open: &mut open };
    let mut file = Vec::new();
    let go_on = |_| ControlFlow::Continue(());
    import_to_file(log().as_bytes(), &options(), &mut random, spill, &mut file, go_on).unwrap();
    assert_eq!(&file[..8], b"SJTRACE4");
    assert_eq!(Trace::read(file.as_slice()).unwrap(), held);
    let mut stored = StoredTrace::open(Cursor::new(&file)).unwrap();
    assert_eq!(characterise_from(&mut stored).unwrap(), characterise(&held));
    assert_eq!(held.without_failed().times, held.times);
}

#[test]
fn times_that_cannot_be_are_refused() {
    let mut good = Vec::new();
    imported(&log()).trace.write(&mut good).unwrap();
    // After the 32 bytes of the head: the number of paths, then of all requests count, mean, p50, p90, …
    let check = |at: usize, bytes: &[u8], expected: &str| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        let error = Trace::read(bad.as_slice()).unwrap_err().to_string();
        assert!(error.contains(expected), "{at}: {error}");
    };
    check(32, &(PATHS_MAX as u32 + 1).to_le_bytes(), "the count of paths with times");
    check(52, &u64::MAX.to_le_bytes(), "percentiles that no times have");
    check(44, &u64::MAX.to_le_bytes(), "percentiles that no times have");
    let cut = Trace::read(&good[..60]).unwrap_err().to_string();
    assert!(cut.contains("ends in the middle of its times"), "{cut}");
}

proptest! {
    #[test]
    fn percentiles_are_those_of_the_sorted_times(taken in proptest::collection::vec(0_u32..2000, 1..80)) {
        let log: String =
            taken.iter().zip(0..).map(|(ms, second)| line(second, "GET /a", *ms, "0.001")).collect();
        let times = imported(&log).trace.times.unwrap();
        let mut sorted: Vec<u64> = taken.iter().map(|ms| u64::from(*ms) * 1_000_000).collect();
        sorted.sort_unstable();
        let at = |share: f64| sorted[((sorted.len() as f64 * share - 1e-9).ceil() as usize).max(1) - 1];
        for found in [times.all.request_time_seconds.unwrap(), times.paths[0].times.request_time_seconds.unwrap()] {
            prop_assert_eq!(found.count, taken.len() as u64);
            prop_assert_eq!((found.p50_ns, found.p95_ns, found.p99_ns), (at(0.5), at(0.95), at(0.99)));
            prop_assert_eq!((found.max_ns, found.mean_ns), (sorted[sorted.len() - 1], sorted.iter().sum::<u64>() / sorted.len() as u64));
        }
    }
}
