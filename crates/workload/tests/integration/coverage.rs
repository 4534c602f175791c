//! Tests of coverage: which requests of a log a static copy can answer, by class, overall and in the busiest minute.

use std::ops::ControlFlow;

use proptest::prelude::*;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_workload::import::{Class, ClassCount, Coverage, ImportReport, Keep, Options, import};
use sojourn_workload::trace::Trace;

fn imported(log: &str, keep: Keep) -> ImportReport {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let options = Options { keep, ..Options::default() };
    import(log.as_bytes(), &options, &mut random, |_| ControlFlow::Continue(())).unwrap().report
}

fn coverage(log: &str) -> Coverage {
    imported(log, Keep::default()).coverage
}

/// A line by `client`, `second` seconds after noon.
fn line(client: &str, second: u32, request_and_answer: &str) -> String {
    let (minute, second) = (second / 60, second % 60);
    format!("{client} - - [10/Oct/2000:12:{minute:02}:{second:02} +0000] {request_and_answer}\n")
}

/// Formats classes as `name requests bytes: path requests, …`.
fn spelled(classes: &[ClassCount]) -> Vec<String> {
    let spelled = |class: &ClassCount| {
        let paths: Vec<_> =
            class.top_paths.iter().map(|path| format!("{} {}", path.path, path.requests)).collect();
        let name = serde_json::to_string(&class.class).unwrap();
        format!("{} {} {}: {}", name.trim_matches('"'), class.requests, class.bytes, paths.join(", "))
    };
    classes.iter().map(spelled).collect()
}

#[test]
fn a_log_of_forms_is_hardly_covered() {
    let mut log = String::new();
    for number in 0..5696 {
        let request = if number % 29 == 0 && number / 29 < 197 {
            r#""GET /logo.png HTTP/1.1" 200 1000"#.to_owned()
        } else {
            format!(r#""POST /form{} HTTP/1.1" 200 10"#, number % 2)
        };
        log += &line(&format!("10.0.0.{}", number % 50), number / 4, &request);
    }
    let found = coverage(&log);
    assert_eq!((found.requests, found.covered_requests), (5696, 197));
    assert_eq!((found.bytes, found.covered_bytes), (197_000 + 54_990, 197_000));
    assert_eq!(format!("{:.1} %", 100.0 * 197.0 / 5696.0), "3.5 %");
    assert_eq!(found.peak_requests_per_second, 4.0);
    assert_eq!(
        (found.busiest_minute.requests, found.busiest_minute.begins.as_str()),
        (240, "2000-10-10T12:00:00+00:00")
    );
    assert_eq!(found.busiest_minute.covered_requests, 9, "each 29th of 240, the first too");
    assert_eq!(found.busiest_minute.dynamic_requests, 231);
    assert_eq!(found.dynamic.len(), 1);
    assert_eq!((found.dynamic[0].class, found.dynamic[0].requests), (Class::Method, 5499));
    assert!(found.left_out.is_empty());
}

#[test]
fn a_log_without_anything_to_replay_can_still_be_counted() {
    let log = line("a", 0, r#""POST /form HTTP/1.1" 200 1"#) + &line("b", 1, r#""GET /?q HTTP/1.1" 200 2"#);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let options = Options { may_be_empty: true, ..Options::default() };
    let found = import(log.as_bytes(), &options, &mut random, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((found.trace.requests.len(), found.report.requests), (0, 0));
    assert_eq!((found.report.coverage.requests, found.report.coverage.covered_requests), (2, 0));
    let mut bytes = Vec::new();
    found.trace.write(&mut bytes).unwrap();
    assert_eq!(Trace::read(bytes.as_slice()).unwrap(), found.trace);
}

#[test]
fn requests_are_told_apart_by_their_lines() {
    let log = line("a", 0, r#""GET /a.png HTTP/1.1" 200 100"#)
        + &line("a", 1, r#""GET /a.png HTTP/1.1" 304 -"#)
        + &line("a", 2, r#""GET /find?q=1 HTTP/1.1" 200 10"#)
        + &line("a", 3, r#""GET /find?q=2 HTTP/1.1" 404 20"#)
        + &line("a", 4, r#""PUT /a.png HTTP/1.1" 201 1"#)
        + &line("a", 5, r#""GET /moved HTTP/1.1" 301 2"#)
        + &line("a", 6, r#""GET /gone HTTP/1.1" 404 3"#)
        + &line("a", 7, r#""GET /film HTTP/1.1" 206 4"#)
        + &line("a", 8, r#""GET /never HTTP/1.1" 304 -"#)
        + &line("a", 9, r#""-" 408 -"#);
    let found = coverage(&log);
    assert_eq!((found.requests, found.covered_requests), (9, 2), "what is no request counts nowhere");
    assert_eq!(spelled(&found.dynamic), ["query 2 30: /find 2", "method 1 1: /a.png 1"]);
    assert_eq!(
        spelled(&found.left_out),
        [
            "failed 1 3: /gone 1",
            "redirected 1 2: /moved 1",
            "partial 1 4: /film 1",
            "of_unknown_size 1 0: /never 1"
        ]
    );
    let minute = &found.busiest_minute;
    assert_eq!((minute.requests, minute.covered_requests, minute.dynamic_requests), (9, 2, 3));
    assert_eq!((minute.bytes, minute.covered_bytes), (140, 100));
}

#[test]
fn keeping_more_does_not_cover_more() {
    let log = line("a", 0, r#""GET /a HTTP/1.1" 200 1"#)
        + &line("a", 1, r#""GET /a?q HTTP/1.1" 200 2"#)
        + &line("a", 2, r#""POST /a HTTP/1.1" 200 3"#)
        + &line("a", 3, r#""GET /b HTTP/1.1" 404 4"#);
    let everything = Keep { failed: true, with_query: true, as_get: true };
    let report = imported(&log, everything);
    assert_eq!(report.requests, 4);
    assert_eq!(report.coverage, coverage(&log));
    assert_eq!(report.coverage.covered_requests, 1);
}

#[test]
fn pages_made_for_the_request_are_not_covered_although_they_look_like_files() {
    let mut log = String::new();
    for number in 0..60 {
        let (client, second) = (format!("10.0.0.{}", number % 7), 2 * number);
        log += &line(&client, second, &format!(r#""GET /news HTTP/1.1" 200 {}"#, 1000 + number * 7 % 31));
        log += &line(&client, second, r#""GET /logo.png HTTP/1.1" 200 500"#);
        log += &line(&client, second, r#""GET /logo.png HTTP/1.1" 304 -"#);
    }
    // Forms whose results the posting client requests; another client's visit does not count.
    for number in 0..4 {
        log += &line("10.1.0.1", 200 + 20 * number, r#""POST /order HTTP/1.1" 303 0"#);
        log += &line("10.1.0.2", 200 + 20 * number, r#""GET /terms HTTP/1.1" 200 70"#);
        log += &line("10.1.0.1", 201 + 20 * number, r#""GET /thanks HTTP/1.1" 200 80"#);
        log += &line("10.1.0.1", 202 + 20 * number, r#""GET /terms HTTP/1.1" 200 70"#);
    }
    let found = coverage(&log);
    assert_eq!(
        spelled(&found.dynamic),
        [
            format!("varying_size 60 {}: /news 60", (0..60).map(|n| 1000 + n * 7 % 31).sum::<u32>()),
            "method 4 0: /order 4".into(),
            "after_post 4 320: /thanks 4".into()
        ]
    );
    assert_eq!(found.covered_requests, 60 + 60 + 8);
    let minute = &found.busiest_minute;
    assert_eq!((minute.requests, minute.covered_requests, minute.dynamic_requests), (90, 60, 30));
    assert_eq!(minute.covered_bytes, 30 * 500);
}

#[test]
fn a_burst_shorter_than_a_minute_has_the_rate_of_its_span() {
    let log: String = (0..10).map(|second| line("a", second, r#""GET /a HTTP/1.1" 200 1"#)).collect();
    assert!((coverage(&log).peak_requests_per_second - 10.0 / 9.0).abs() < 1e-9);
}

proptest! {
    /// Every request has one class, overall and in every minute, and bytes follow requests.
    #[test]
    fn classes_add_up(
        requests in proptest::collection::vec((0_u32..300, 0_u8..4, 0_u8..6, 0_u32..8, 0_u8..7), 1..150),
    ) {
        let mut log = line("a", 0, r#""GET /a HTTP/1.1" 200 1"#);
        for (second, client, path, size, kind) in &requests {
            let (method, status, query) = match kind {
                0 => ("POST", 302, ""),
                1 => ("GET", 200, "?q"),
                2 => ("GET", 304, ""),
                3 => ("HEAD", 200, ""),
                4 => ("GET", 404, ""),
                _ => ("GET", 200, ""),
            };
            let request = format!(r#""{method} /{path}{query} HTTP/1.1" {status} {size}"#);
            log += &line(&format!("client{client}"), *second, &request);
        }
        let found = coverage(&log);
        let others = || found.dynamic.iter().chain(&found.left_out);
        prop_assert_eq!(found.requests, requests.len() as u64 + 1);
        prop_assert_eq!(found.covered_requests + others().map(|class| class.requests).sum::<u64>(), found.requests);
        prop_assert_eq!(found.covered_bytes + others().map(|class| class.bytes).sum::<u64>(), found.bytes);
        for class in others() {
            prop_assert_eq!(class.top_paths.iter().map(|path| path.requests).sum::<u64>(), class.requests);
        }
        let minute = &found.busiest_minute;
        prop_assert!(minute.covered_requests + minute.dynamic_requests <= minute.requests);
        prop_assert!(minute.covered_requests <= found.covered_requests && minute.covered_bytes <= minute.bytes);
    }
}
