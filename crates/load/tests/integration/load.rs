//! Clients, connections and steps against a server that does nothing wrong.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use crate::scripted::{
    MS, Server, Then, answer, closed, closing, due, logged, ok, open, replay, report, size_in, trace,
};
use sojourn_load::{
    ArrivalProcess, Arrivals, Catalogue, Connections, Count, Form, Limits, Observe, Plan, Requests, Schedule,
    StepLimit, StopRule, Version, run,
};
use sojourn_measure::Nanos;
use sojourn_workload::{
    arrivals::{Level, Staircase},
    trace::Trace,
};

fn sized() -> Server {
    Server::start(|stream, head, _| answer(stream, &ok(size_in(head))))
}

#[test]
fn bodies_of_every_framing_and_size() {
    let large = ok(3_000_000);
    let server = Server::start(move |stream, head, _| match head.split(' ').nth(1).unwrap() {
        "/page/large" => answer(stream, &large),
        "/page/chunked" => {
            answer(stream, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab");
            thread::sleep(Duration::from_millis(1));
            answer(stream, b"c\r\n0\r\n\r\n")
        }
        "/page/none" => answer(stream, b"HTTP/1.1 204 No Content\r\n\r\n"),
        _ => {
            answer(stream, b"HTTP/1.0 200 OK\r\n\r\nuntil the end");
            Then::Close
        }
    });
    let list = "/large 1 #3000000\n/chunked 1 #3\n/none 1 #0\n/end 1 #13\n";
    let plan = closed(&server, 2, 0, 60_000);
    let form = Form::get(&plan.target, Version::Http11, Connections::KeepAlive);
    let (catalogue, pick) = Catalogue::mix(&form, list).unwrap();
    let stop = StopRule::Requests(100);
    let report = report(Plan { catalogue, requests: Requests::Pick(pick), stop, ..plan });
    assert_eq!((report.figures.requests, report.figures.errors), (100, 0), "{:?}", report.figures);
}

#[test]
fn closing_connections_serve_one_request_each() {
    let server = Server::start(|stream, head, _| {
        assert!(head.contains("Connection: close\r\n"));
        answer(stream, b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        Then::Close
    });
    let report = report(closing(closed(&server, 4, 100, 500)));
    assert_eq!(report.figures.errors, 0);
    let opened = report.steps[0].connections_opened;
    assert!(opened.abs_diff(report.figures.requests) <= 8, "{opened} for {}", report.figures.requests);
    assert!(report.figures.connect_time_seconds.count.abs_diff(opened) <= 8);
}

#[test]
fn connections_serve_as_many_requests_as_they_may() {
    let server = Server::delayed(|_| Duration::from_millis(1), 10);
    let connections = Connections::Requests(Count::Constant(5));
    let plan = Plan { connections, stop: StopRule::Requests(200), ..closed(&server, 2, 0, 60_000) };
    let report = report(plan);
    assert_eq!((report.figures.requests, report.figures.errors), (200, 0));
    let connections = server.connections.load(Ordering::SeqCst);
    assert!((40..=42).contains(&connections), "200 requests on {connections}");
}

#[test]
fn a_log_is_replayed_to_its_last_request() {
    let server = sized();
    let trace = trace(50, 10 * MS, &[0, 5 * MS, 300 * MS], 1234);
    let report = report(replay(&server, &trace, 5000));
    assert_eq!((report.figures.requests, report.figures.errors), (150, 0));
    assert!(report.figures.duration_seconds < 4.5, "it ends with the last session, not with the schedule");
    assert_eq!(report.steps[0].response_bytes_mean, Some(1234.0));
    assert_eq!((report.steps[0].sessions_started, report.steps[0].connections_opened), (50, 50));
}

fn staircase<'a>(server: &Server, trace: &'a Trace, rates: &[f64], seed: u64) -> Plan<'a> {
    let schedule = Schedule::staircase(rates, Nanos(1000 * MS), Nanos(200 * MS));
    let levels = schedule.steps().iter().zip(rates);
    let staircase = Staircase {
        levels: levels
            .map(|(step, &requests_per_second)| Level {
                start_ns: step.start.0 + 100 * MS,
                requests_per_second,
            })
            .collect(),
        end_ns: schedule.end().0,
        settle_ns: 100 * MS,
        think_scale: 1.0,
        seed,
    };
    let arrivals = logged(trace, staircase.arrivals(trace).unwrap());
    let plan = replay(server, trace, 0);
    Plan { schedule, arrivals, stop: StopRule::ScheduleEnd, ..plan }
}

#[test]
fn a_rate_is_offered_for_all_of_its_duration_however_early_the_last_arrival_is() {
    let server = Server::delayed(|_| Duration::from_millis(1), 10);
    for seed in 1..=4 {
        let plan = open(&server, 2.0, Nanos::ZERO, 1500);
        let Arrivals::Open { segments, under_way_max, .. } = plan.arrivals else { unreachable!() };
        let arrivals = Arrivals::Open { segments, process: ArrivalProcess::Poisson, under_way_max };
        let report = report(Plan { arrivals, seed, ..plan });
        let figures = &report.figures;
        assert!((figures.duration_seconds - 1.5).abs() < 0.1, "seed {seed}: {}", figures.duration_seconds);
        let rate = figures.requests_per_second.unwrap();
        assert!(
            (rate * 1.5 - figures.requests as f64).abs() < 0.1 * (1.0 + figures.requests as f64),
            "{rate}"
        );
        assert!(report.complete && figures.errors == 0, "{figures:?}");
    }
}

#[test]
fn an_answer_that_is_under_way_at_the_end_is_waited_for() {
    let server = Server::delayed(|_| Duration::from_millis(400), 10);
    // Every 500 ms from a random phase on, so that the last arrival is less than 500 ms before the end.
    let report = report(open(&server, 2.0, Nanos::ZERO, 1200));
    let figures = &report.figures;
    assert!((figures.duration_seconds - 1.2).abs() < 0.1, "{}", figures.duration_seconds);
    assert!((2..=3).contains(&figures.requests), "{figures:?}");
    assert_eq!((figures.errors, figures.unfinished), (0, 0));
}

#[test]
fn a_number_of_requests_ends_a_rate_early() {
    let server = Server::delayed(|_| Duration::from_millis(1), 10);
    let plan = Plan { stop: StopRule::Requests(10), ..open(&server, 100.0, Nanos::ZERO, 60_000) };
    let report = report(plan);
    assert_eq!(report.figures.requests, 10);
    assert!(report.figures.duration_seconds < 5.0, "{}", report.figures.duration_seconds);
}

#[test]
fn each_step_offers_its_rate_from_its_first_moment() {
    let server = sized();
    let trace = trace(1, 0, &[0, 100 * MS, 400 * MS, 2000 * MS], 500);
    let report = report(staircase(&server, &trace, &[200.0, 800.0], 3));
    assert_eq!(report.steps.len(), 2);
    for step in &report.steps {
        let offered = step.offered_requests_per_second.unwrap();
        let (requests, expected) = (due(&step.figures) as f64, offered * 0.8);
        // Four requests a session: the spread of the count is at most twice that of independent requests.
        let slack = 4.0 * 2.0 * expected.sqrt();
        assert!((requests - expected).abs() < slack, "{requests} of {expected}");
        assert_eq!((step.figures.errors, step.figures.skipped), (0, 0));
        let sessions = step.offered_requests_per_second.unwrap() / 4.0 * 2.0;
        let open = step.connections_open_mean.unwrap();
        assert!(
            (open - sessions).abs() < 6.0 * sessions.sqrt(),
            "{open} connections for {sessions} sessions"
        );
    }
    // Marks are taken at their time or, by a late generator, after it.
    for (step, (start, end)) in report.steps.iter().zip([(0.2, 1.0), (1.2, 2.0)]) {
        let measured_until = step.start_seconds + step.figures.duration_seconds;
        assert!(step.start_seconds >= start && measured_until >= end, "{measured_until}");
    }
    assert_eq!(report.figures.requests, report.steps.iter().map(|step| step.figures.requests).sum::<u64>());
}

#[test]
fn the_settle_part_counts_nowhere() {
    let server = sized();
    // Twenty requests in the first 200 ms, ten later.
    let mut offsets: Vec<u64> = (0..20).map(|number| number * 10 * MS).collect();
    offsets.extend((0..10).map(|number| (300 + number * 10) * MS));
    let trace = trace(1, 0, &offsets, 500);
    let plan = replay(&server, &trace, 0);
    let report = report(Plan { schedule: Schedule::single(Nanos(250 * MS), Nanos(500 * MS), None), ..plan });
    assert_eq!(report.figures.requests, 10);
    assert_eq!(server.requests.load(Ordering::SeqCst), 30);
}

#[test]
fn a_failing_server_ends_the_staircase() {
    // Every answer takes 50 ms: no step can meet 20 ms.
    let server = Server::start(|stream, head, _| {
        thread::sleep(Duration::from_millis(50));
        answer(stream, &ok(size_in(head)))
    });
    let trace = trace(1, 0, &[0], 500);
    let plan = staircase(&server, &trace, &[50.0, 100.0, 200.0], 1);
    let limits = Limits { target_p95: Some(Nanos(20 * MS)), ..plan.limits };
    let report = report(Plan { stop: StopRule::Failing, limits, ..plan });
    assert_eq!(report.steps.len(), 1);
    assert!(report.complete && report.stopped_because.unwrap().starts_with("step 1: "));
    // On a busy machine the generator is the limit, or too few answers come, and the step says so.
    let limits = [StepLimit::TimeToFirstByte, StepLimit::Generator, StepLimit::Throughput];
    assert!(
        report.steps[0].limit.is_some_and(|limit| limits.contains(&limit)),
        "{:?}",
        report.steps[0].limit
    );
}

#[test]
fn the_timeline_and_the_progress_follow_the_run() {
    let server = Server::delayed(|_| Duration::from_millis(2), 10);
    let pids = vec![std::process::id()];
    let interval = Some(Nanos(500 * MS));
    let observe = Observe { timeline: true, interval, pids, core: Some(0), ..Observe::default() };
    let plan = Plan { observe, ..closed(&server, 2, 500, 2000) };
    let mut seen = Vec::new();
    let mut note = |progress: &sojourn_load::Progress| seen.push(progress.clone());
    let outcome = run(plan, &AtomicBool::new(false), Some(&mut note)).unwrap();
    // Once a second, or less often where the machine keeps the generator from its core.
    assert!((1..=2).contains(&seen.len()), "{seen:?}");
    assert!(seen.is_sorted_by(|one, next| one.fraction < next.fraction));
    assert!(seen.iter().any(|each| each.requests_per_second > 0.0 && each.time_to_first_byte.p95.is_some()));
    assert_eq!(seen[0].step, Some(0));
    assert!(outcome.timeline().is_some());
    let mut log = Vec::new();
    outcome.write_histograms(&mut log).unwrap();
    assert!(String::from_utf8(log).unwrap().contains("Tag=response_time,"));
    let mut log = Vec::new();
    outcome.write_intervals(&mut log).unwrap();
    assert_eq!(String::from_utf8(log).unwrap().matches("Tag=response_time,").count(), 4);
    let server_use = outcome.report().steps.remove(0).server.unwrap();
    assert!(server_use.cpu_seconds.value().is_some_and(|&seconds| seconds > 0.0));
    assert!(server_use.core_busy_fraction.value().is_some());
}

#[test]
fn the_same_seed_asks_the_same() {
    let order = |seed| {
        let paths = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = std::sync::Arc::clone(&paths);
        let server = Server::start(move |stream, head, _| {
            seen.lock().unwrap().push(head.split(' ').nth(1).unwrap().to_owned());
            answer(stream, &ok(10))
        });
        let plan = closed(&server, 1, 0, 60_000);
        let list = "/a 5\n/b 3\n/c 2\n";
        let form = Form::get(&plan.target, Version::Http11, Connections::KeepAlive);
        let (catalogue, pick) = Catalogue::mix(&form, list).unwrap();
        let stop = StopRule::Requests(20);
        report(Plan { catalogue, seed, requests: Requests::Pick(pick), stop, ..plan });
        let paths = paths.lock().unwrap();
        paths.clone()
    };
    assert_eq!(order(7), order(7));
    assert_ne!(order(7), order(8));
}

#[test]
fn iterations_are_bounded_where_they_may_be_delayed_and_nowhere_else() {
    let server = Server::delayed(|_| Duration::ZERO, 10);
    let slack = Nanos(5 * MS);
    let busy = report(open(&server, 4000.0, slack, 1000));
    let iterations = busy.generator.iterations_per_second.unwrap();
    assert!(iterations < 1.2 / slack.seconds(), "{iterations} a second are more than one per slack");
    assert_eq!(busy.generator.timer_slack_seconds, slack.seconds());
    assert!(due(&busy.figures).abs_diff(4000) <= 1, "{:?}", busy.figures);
    let closed = report(closed(&server, 4, 0, 300));
    assert_eq!(closed.generator.timer_slack_seconds, 0.0, "a closed loop waits for its answers");
}

#[test]
fn how_late_a_generator_may_be_can_be_said() {
    let server = Server::delayed(|_| Duration::ZERO, 10);
    let plan = open(&server, 1000.0, Nanos(10 * MS), 500);
    let limits = Limits { send_lag_p99: Nanos(MS), ..plan.limits };
    let strict = report(Plan { limits, ..plan }).generator;
    assert_eq!(strict.send_lag_limit_seconds, 0.001);
    assert!(strict.reasons.iter().any(|why| why.contains("the limit is 1 ms")), "{strict:?}");
    let patient = Limits { send_lag_p99: Nanos(60_000 * MS), ..Limits::default() };
    let patient = report(Plan { limits: patient, ..open(&server, 1000.0, Nanos(10 * MS), 500) }).generator;
    assert!(!patient.reasons.iter().any(|why| why.contains("were sent more than")), "{patient:?}");
}
