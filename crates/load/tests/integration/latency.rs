//! Percentiles against servers of known delay. Sleeping threads wake late, never early, so that lower bounds
//! are sharp. Upper ones have slack for the machine: as much as a thread that only sleeps, beside the test, is
//! woken late. On a machine of its own that is next to nothing.

use crate::scripted;
use std::{
    panic::{self, AssertUnwindSafe},
    sync::{Mutex, OnceLock},
    thread,
    time::{Duration, Instant},
};

use crate::scripted::{MS, Server, closed, open, replay, report, size_in, trace};
use sojourn_load::{Law, Plan, Shape, Think, Transport};
use sojourn_measure::{Histogram, Nanos, Summary};

/// What even an idle machine needs.
const SLACK_SECONDS: f64 = 0.010;
/// Threads that have to wake up for one request: the server's to read, to answer, and the generator's; and
/// the one before in a queue.
const WAKES: f64 = 4.0;
/// How often a machine that others use may disturb a measurement.
const ATTEMPTS: usize = 3;

/// Measures until one measurement is right: what others do to this machine only ever makes latencies longer,
/// now and then, and an error of ours is there each time.
fn undisturbed(measure: impl Fn()) {
    slack_seconds();
    for _ in 1..ATTEMPTS {
        if panic::catch_unwind(AssertUnwindSafe(&measure)).is_ok() {
            return;
        }
    }
    measure();
}

/// How late a request may be for the machine's sake, from what a sleeping thread has met so far.
fn slack_seconds() -> f64 {
    static LATE: OnceLock<Mutex<Histogram>> = OnceLock::new();
    let late = LATE.get_or_init(|| {
        thread::spawn(|| {
            loop {
                let before = Instant::now();
                thread::sleep(Duration::from_millis(1));
                let late = before.elapsed().saturating_sub(Duration::from_millis(1));
                if let Some(histogram) = LATE.get() {
                    histogram.lock().unwrap().record(late.into());
                }
            }
        });
        Mutex::new(Histogram::default())
    });
    SLACK_SECONDS + WAKES * late.lock().unwrap().quantile_seconds(0.999).unwrap_or(0.0)
}

fn check(name: &str, seconds: Option<f64>, expected: f64) {
    let seconds = seconds.unwrap_or_else(|| panic!("{name} is missing"));
    // Three significant digits: the lower edge of a bucket may be a thousandth below.
    let latest = expected * 1.01 + slack_seconds();
    assert!((expected * 0.998..latest).contains(&seconds), "{name}: {seconds}, not {expected} to {latest}");
}

#[test]
fn a_fixed_delay_is_measured_as_it_is() {
    undisturbed(|| {
        let server = Server::delayed(|_| Duration::from_millis(40), 500);
        let report = report(closed(&server, 4, 200, 1500));
        check("p50 first byte", report.figures.time_to_first_byte_seconds.p50, 0.040);
        check("p90 first byte", report.figures.time_to_first_byte_seconds.p90, 0.040);
        check("p50 response", report.figures.response_time_seconds.p50, 0.040);
        check("mean response", report.figures.response_time_seconds.mean, 0.040);
        assert_eq!(report.figures.errors, 0);
        let little = report.steps[0].little.as_ref().unwrap();
        assert!(little.relative_error.abs() < 0.05, "{little:?}");
        assert!((report.steps[0].in_flight_mean.unwrap() - 4.0).abs() < 0.2);
    });
}

#[test]
fn a_bimodal_delay_shows_both_modes() {
    undisturbed(|| {
        // Nine short ones, then a long one: p50 and p99 lie within the modes.
        let delay = |number| Duration::from_millis(if number % 10 == 9 { 80 } else { 20 });
        let server = Server::delayed(delay, 10);
        let report = report(closed(&server, 3, 200, 2000));
        check("p50", report.figures.response_time_seconds.p50, 0.020);
        check("p99", report.figures.response_time_seconds.p99, 0.080);
    });
}

#[test]
fn think_time_is_no_part_of_the_response() {
    undisturbed(|| {
        let server = Server::delayed(|_| Duration::from_millis(20), 10);
        let think = Think::AfterAnswer(Law { mean: Nanos(80 * MS), shape: Shape::Constant });
        let report = report(Plan { think, ..closed(&server, 5, 200, 2000) });
        check("p50", report.figures.response_time_seconds.p50, 0.020);
        let rate = report.figures.requests_per_second.unwrap();
        assert!((40.0..50.5).contains(&rate), "five clients, 100 ms a round: {rate}");
    });
}

#[test]
fn the_body_is_no_part_of_the_first_byte() {
    undisturbed(|| {
        let server = Server::start(|stream, _, _| {
            scripted::answer(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
            thread::sleep(Duration::from_millis(50));
            scripted::answer(stream, b"hello")
        });
        let report = report(closed(&server, 2, 100, 800));
        assert!(report.figures.time_to_first_byte_seconds.p50.unwrap() < 0.020 + slack_seconds());
        check("response", report.figures.response_time_seconds.p50, 0.050);
    });
}

#[test]
fn a_stall_shows_under_sessions_that_do_not_wait_for_it() {
    undisturbed(|| {
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
        let report = report(replay(&server, &trace, 2010));
        stall.join().unwrap();
        let figures = &report.figures;
        assert_eq!((figures.requests, figures.errors, figures.unfinished), (400, 0, 0));
        check("max", figures.time_to_first_byte_intended_seconds.max, 0.495);
        let p90 = figures.time_to_first_byte_intended_seconds.p90.unwrap();
        assert!(
            (0.25..0.40 + slack_seconds()).contains(&p90),
            "100 of 400 wait for 0 to 500 ms, so that 10 % wait for over 300: {p90}"
        );
        assert!(figures.time_to_first_byte_intended_seconds.p50.unwrap() < 0.05 + slack_seconds());
    });
}

#[test]
fn requests_of_a_session_wait_for_the_one_before_but_count_from_when_they_could_go() {
    undisturbed(|| {
        // Due at 0, 10 and 20 ms, each answered after 50: the second goes at 50, the third at 100.
        let server = Server::start(|stream, head, _| {
            thread::sleep(Duration::from_millis(50));
            scripted::answer(stream, &scripted::ok(size_in(head)))
        });
        let trace = trace(4, 300 * MS, &[0, 10 * MS, 20 * MS], 100);
        let report = report(replay(&server, &trace, 1500));
        assert_eq!(report.figures.requests, 12);
        check("max", report.figures.time_to_first_byte_intended_seconds.max, 0.050);
        assert_eq!(report.steps[0].connections_opened, 4);
        assert!(report.figures.send_lag_seconds.p50.unwrap() < slack_seconds());
    });
}

#[test]
fn what_is_put_off_counts_from_the_intended_start_and_not_from_the_send() {
    undisturbed(|| {
        let server = Server::delayed(|_| Duration::ZERO, 10);
        let slack = Nanos(10 * MS);
        let figures = report(open(&server, 2000.0, slack, 1000)).figures;
        // Arrivals are put off by up to 10 ms, answers lie there for as long: half of it on average.
        let mean = |summary: &Summary| summary.mean.unwrap();
        let lag = mean(&figures.send_lag_seconds);
        assert!((0.003..0.010 + slack_seconds()).contains(&lag), "{lag}");
        let hidden = mean(&figures.response_time_seconds) - mean(&figures.response_time_sent_seconds);
        assert!((hidden / lag - 1.0).abs() < 0.01, "{hidden} of {lag}");
        let Some(waited) = figures.receive_lag_seconds.value() else { return };
        assert!(mean(waited) > 0.003, "{waited:?}");
    });
}

#[test]
fn answers_that_waited_for_the_generator_show_with_kernel_timestamps() {
    undisturbed(|| {
        let server = Server::delayed(|_| Duration::from_millis(5), 10);
        let transport = Transport { timestamps: true, ..Transport::default() };
        let figures = report(Plan { transport, ..closed(&server, 4, 100, 500) }).figures;
        // Some kernels and sandboxes give none: then the report says so and this machine cannot tell.
        let Some(lag) = figures.receive_lag_seconds.value() else { return };
        assert!(lag.count >= figures.requests, "{lag:?}");
        assert!(lag.p50.is_some_and(|p50| p50 < slack_seconds()), "{lag:?}");
    });
}
