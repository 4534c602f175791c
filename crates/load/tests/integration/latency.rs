//! Latencies against servers with known delays, on any machine.
//!
//! Sleeping threads wake late, never early, so that lower bounds are sharp. How late they wake is the machine's doing,
//! so that what would be an upper bound is an identity between figures: Little's law, the parts that a latency is the
//! sum of, or a delay so long that what must not be counted would show. `truth` has the upper bounds to one per cent.

use crate::scripted;
use std::{thread, time::Duration};

use crate::scripted::{MS, Server, closed, due, open, replay, report, size_in, trace};
use sojourn_load::{Distribution, Plan, Report, Shape, Think, Transport};
use sojourn_measure::{Nanos, Summary};

/// Histograms keep three significant digits.
const PRECISION: f64 = 0.002;

fn check_least(name: &str, seconds: Option<f64>, least: f64) {
    let seconds = seconds.unwrap_or_else(|| panic!("{name} is missing"));
    assert!(seconds >= least * (1.0 - PRECISION), "{name}: {seconds} is less than {least}");
}

/// Clients are N = X (R + Z) in a closed loop, apart from requests at both ends of the measurement. This detects
/// latencies that count too much, and time that is in none.
fn check_little(report: &Report) {
    let step = &report.steps[0];
    let longest = report.figures.response_time_seconds.max.unwrap();
    let ends = 2.0 * longest / report.figures.duration_seconds;
    let little = step.little.as_ref().unwrap();
    assert!(little.relative_error.abs() < 0.03 + ends, "{little:?}, {ends}");
}

fn mean(summary: &Summary) -> f64 {
    summary.mean.unwrap()
}

/// A whole is the sum of its parts, within the precision of a histogram.
fn check_sum(whole: &Summary, parts: [&Summary; 2]) {
    assert!(parts.iter().all(|part| part.count == whole.count), "{whole:?} of {parts:?}");
    let sum = parts.iter().map(|part| mean(part)).sum::<f64>();
    let tolerance = PRECISION * (mean(whole) + sum);
    assert!((mean(whole) - sum).abs() <= tolerance, "{whole:?} of {parts:?}");
}

#[test]
fn a_fixed_delay_is_measured_as_it_is() {
    let server = Server::delayed(|_| Duration::from_millis(40), 500);
    let report = report(closed(&server, 4, 200, 1500));
    let figures = &report.figures;
    assert_eq!(figures.errors, 0);
    check_least("p50 first byte", figures.time_to_first_byte_seconds.p50, 0.040);
    check_least("p90 first byte", figures.time_to_first_byte_seconds.p90, 0.040);
    check_least("p50 response", figures.response_time_seconds.p50, 0.040);
    check_least("mean response", figures.response_time_seconds.mean, 0.040);
    check_little(&report);
    assert!(report.steps[0].in_flight_mean.unwrap() < 4.001, "four clients ask once each");
}

#[test]
fn a_bimodal_delay_shows_both_modes() {
    // Nine short ones, then a long one: p50 and p99 lie within the modes.
    let delay = |number| Duration::from_millis(if number % 10 == 9 { 150 } else { 20 });
    let server = Server::delayed(delay, 10);
    let report = report(closed(&server, 3, 200, 2000));
    let times = &report.figures.response_time_seconds;
    check_least("p50", times.p50, 0.020);
    check_least("p99", times.p99, 0.150);
    assert!(times.p50 < Some(0.150), "the short ones are not mixed with the long: {times:?}");
    check_little(&report);
}

#[test]
fn think_time_is_no_part_of_the_response() {
    let server = Server::delayed(|_| Duration::from_millis(20), 10);
    let think = Think::AfterAnswer(Distribution { mean: Nanos(80 * MS), shape: Shape::Constant });
    let report = report(Plan { think, ..closed(&server, 5, 200, 2000) });
    let times = &report.figures.response_time_seconds;
    check_least("p50", times.p50, 0.020);
    assert!(times.p50 < Some(0.100), "with the think time it would be at least 100 ms: {times:?}");
    check_little(&report);
    assert!(due(&report.figures) <= 105, "five clients, 100 ms a round at least: {:?}", report.figures);
}

#[test]
fn the_body_is_no_part_of_the_first_byte() {
    let server = Server::start(|stream, _, _| {
        scripted::answer(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
        thread::sleep(Duration::from_millis(100));
        scripted::answer(stream, b"hello")
    });
    let figures = report(closed(&server, 2, 100, 1000)).figures;
    check_least("response", figures.response_time_seconds.p50, 0.100);
    // A client that sees the first byte late sees it less than 100 ms late, half of the time.
    let first_byte = figures.time_to_first_byte_seconds;
    assert!(first_byte.p50 < Some(0.100), "{first_byte:?}");
    check_sum(
        &figures.response_time_seconds,
        [&figures.time_to_first_byte_intended_seconds, &figures.transfer_time_seconds],
    );
}

#[test]
fn a_stall_shows_under_sessions_that_do_not_wait_for_it() {
    // A session every 5 ms for two seconds, and a server that stands still for half a second of them. The
    // 100 sessions that come meanwhile wait 250 ms on average; a closed loop would have seen one or two.
    let server = Server::start(|stream, head, _| scripted::answer(stream, &scripted::ok(size_in(head))));
    let trace = trace(400, 5 * MS, &[0], 300);
    let pause = std::sync::Arc::clone(&server.pause);
    let stall = thread::spawn(move || {
        thread::sleep(Duration::from_millis(700));
        let guard = pause.write().unwrap();
        thread::sleep(Duration::from_millis(500));
        drop(guard);
    });
    let figures = report(replay(&server, &trace, 10_000)).figures;
    stall.join().unwrap();
    assert_eq!((figures.requests, figures.errors, figures.unfinished), (400, 0, 0));
    let times = &figures.time_to_first_byte_intended_seconds;
    check_least("max", times.max, 0.495);
    let p90 = times.p90.unwrap();
    assert!(p90 >= 0.25, "100 of 400 wait for 0 to 500 ms, so that 10 % wait for over 300: {p90}");
}

#[test]
fn requests_of_a_session_wait_for_the_one_before_but_count_from_when_they_could_go() {
    // Due at 0, 10 and 20 ms, each answered after 100: the second goes at 100, the third at 200.
    let server = Server::start(|stream, head, _| {
        thread::sleep(Duration::from_millis(100));
        scripted::answer(stream, &scripted::ok(size_in(head)))
    });
    let trace = trace(4, 300 * MS, &[0, 10 * MS, 20 * MS], 100);
    let report = report(replay(&server, &trace, 10_000));
    let figures = &report.figures;
    assert_eq!((figures.requests, report.steps[0].connections_opened), (12, 4));
    check_least("least", figures.time_to_first_byte_intended_seconds.p50, 0.100);
    // Counted from when they were due, eight of twelve would be 90 or 180 ms late.
    assert!(figures.send_lag_seconds.p50 < Some(0.080), "{:?}", figures.send_lag_seconds);
}

#[test]
fn what_is_put_off_counts_from_the_intended_start_and_not_from_the_send() {
    let server = Server::delayed(|_| Duration::ZERO, 10);
    let slack = Nanos(10 * MS);
    let figures = report(open(&server, 2000.0, slack, 1000)).figures;
    // Arrivals are put off by up to 10 ms, half of it on average, and more where the machine is busy.
    assert!(mean(&figures.send_lag_seconds) > 0.003, "{:?}", figures.send_lag_seconds);
    check_sum(
        &figures.response_time_seconds,
        [&figures.send_lag_seconds, &figures.response_time_sent_seconds],
    );
    // Answers lie there until the next turn.
    let Some(waited) = figures.receive_lag_seconds.value() else { return };
    assert!(mean(waited) > 0.001, "{waited:?}");
}

#[test]
fn answers_that_waited_for_the_generator_show_with_kernel_timestamps() {
    let server = Server::delayed(|_| Duration::from_millis(100), 10);
    let transport = Transport { timestamps: true, ..Transport::default() };
    let figures = report(Plan { transport, ..closed(&server, 4, 100, 1000) }).figures;
    check_least("p50 first byte", figures.time_to_first_byte_seconds.p50, 0.100);
    // Some kernels and sandboxes give none: then the report says so and this machine cannot tell.
    let Some(lag) = figures.receive_lag_seconds.value() else { return };
    assert!(lag.count >= figures.requests, "{lag:?}");
    assert!(lag.p50 < Some(0.100), "the server's time is no part of it: {lag:?}");
}
