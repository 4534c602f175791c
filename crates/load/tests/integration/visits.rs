//! Open loops, sessions, walks and pipelining: arrivals, and the requests of each visit.

use crate::scripted;
use std::{
    io::Write,
    net::TcpStream,
    sync::{Arc, Mutex, atomic::Ordering},
    thread,
    time::Duration,
};

use crate::scripted::{MS, Server, Then, answer, closed, due, ok, report};
use sojourn_load::{
    ArrivalProcess, Arrivals, Catalogue, Connections, Count, Distribution, Form, Plan, Requests, Scenario,
    ScenarioInputs, Schedule, Segment, Shape, StopRule, Think, Transport, Version, parse_schedule,
};
use sojourn_measure::Nanos;

fn open(rate: f64, process: ArrivalProcess, under_way_max: u32) -> Arrivals<'static> {
    let segments = vec![Segment { from: rate, to: rate, length: Nanos(60_000 * MS) }];
    Arrivals::Open { segments, process, under_way_max }
}

/// Measures from now on, without settle time.
fn during(measured_ms: u64) -> Schedule {
    Schedule::single(Nanos::ZERO, Nanos(measured_ms * MS), None)
}

/// A plan that makes the visits of a file.
fn visiting(server: &Server, file: impl FnOnce(&Form<'_>) -> (Catalogue, Requests)) -> Plan<'static> {
    let plan = closed(server, 1, 0, 20_000);
    let target = sojourn_load::Target::resolve(&format!("http://{}", server.address)).unwrap();
    let (catalogue, requests) = file(&Form::get(&target, Version::Http11, Connections::KeepAlive));
    Plan { catalogue, requests, target, ..plan }
}

/// A server that records requested paths.
fn noting() -> (Server, Arc<Mutex<Vec<String>>>) {
    let paths = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&paths);
    let server = Server::start(move |stream, head, _| {
        let mut all = Vec::new();
        // Pipelined requests arrive in one piece.
        for line in head.lines().filter(|line| line.ends_with(" HTTP/1.1")) {
            seen.lock().unwrap().push(line.trim_end_matches(" HTTP/1.1").to_owned());
            all.extend(if line.starts_with("HEAD") { no_body() } else { ok(3) });
        }
        answer(stream, &all)
    });
    (server, paths)
}

fn no_body() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n".to_vec()
}

#[test]
fn an_open_loop_offers_its_rate_whatever_the_server_does() {
    // The first fifty wait for each other: a generator that waited for answers would never send the fiftieth.
    let server = Server::holding(50, 10);
    let arrivals = open(200.0, ArrivalProcess::Constant, 1000);
    let report = report(Plan { arrivals, schedule: during(1500), ..closed(&server, 1, 0, 0) });
    let figures = &report.figures;
    assert!(figures.requests >= 50, "{figures:?}");
    assert_eq!((figures.errors, figures.skipped), (0, 0));
    // What is due while the machine keeps the generator from its core, and then is too late to begin, is unfinished.
    assert!(due(figures).abs_diff(300) <= 1, "{figures:?}");
    let opened = report.steps[0].connections_opened;
    assert!(opened < figures.requests, "connections wait for the next visitor: {opened}");
}

#[test]
fn arrivals_beyond_what_may_be_under_way_are_skipped_and_counted() {
    let server = Server::delayed(|_| Duration::from_millis(100), 10);
    let arrivals = open(200.0, ArrivalProcess::Constant, 4);
    let report = report(Plan { arrivals, schedule: during(1000), ..closed(&server, 1, 0, 0) });
    let figures = &report.figures;
    // Four at a time, at most ten times a second: more would be arrivals that were skipped and made up for later.
    assert!((5..=44).contains(&figures.requests), "{}", figures.requests);
    assert!(figures.errors == 0 && due(figures).abs_diff(200) <= 1, "{figures:?}");
    assert!(figures.skipped > 0 && report.warnings[0].contains("skipped"), "{:?}", report.warnings);
}

#[test]
fn a_schedule_has_a_step_per_part() {
    let server = Server::delayed(|_| Duration::ZERO, 10);
    let parts = parse_schedule("200/s for 500ms, ramp to 600/s in 500ms, 600/s for 500ms").unwrap();
    let schedule = Schedule::segments(&parts, Nanos::ZERO);
    let arrivals = Arrivals::Open { segments: parts, process: ArrivalProcess::Constant, under_way_max: 1000 };
    let report = report(Plan { arrivals, schedule, ..closed(&server, 1, 0, 0) });
    let requests: Vec<u64> = report.steps.iter().map(|step| due(&step.figures)).collect();
    assert!(requests.iter().zip([100, 200, 300]).all(|(&got, due)| got.abs_diff(due) <= 2), "{requests:?}");
    assert_eq!(report.steps[1].offered_requests_per_second, Some(400.0));
}

#[test]
fn a_run_ends_after_so_many_requests_or_visits() {
    let (server, paths) = noting();
    let stop = StopRule::Requests(37);
    let report = report(Plan { stop, ..closed(&server, 4, 0, 60_000) });
    assert_eq!((report.figures.requests, report.figures.errors), (37, 0));
    assert!(report.complete && report.figures.duration_seconds < 5.0);
    assert_eq!(paths.lock().unwrap().len(), 37);
}

#[test]
fn sessions_of_httperf_run_in_turn_their_bursts_together() {
    let (server, paths) = noting();
    let file = "/index think=0.05\n  /a\n  /b method=HEAD\n/next\n\n/post method=POST contents='x'\n";
    let plan = visiting(&server, |form| Catalogue::sessions(form, file).unwrap());
    let transport = Transport { pipeline: 64, ..Transport::default() };
    let report = report(Plan { stop: StopRule::Visits(3), transport, ..plan });
    let paths = paths.lock().unwrap();
    let first = ["GET /index", "GET /a", "HEAD /b", "GET /next"];
    assert_eq!(paths.join(","), [&first[..], &["POST /post"], &first[..]].concat().join(","));
    assert_eq!((report.figures.requests, report.figures.errors), (9, 0), "{:?}", report.figures);
    assert_eq!(report.steps[0].sessions_completed, 3);
    assert_eq!(server.connections.load(Ordering::SeqCst), 3, "each session has its own connection");
    assert!(report.figures.duration_seconds >= 0.1, "two think times of 50 ms");
    // The burst's members arrived as one piece each time: one read of the server held both.
    assert_eq!(server.requests.load(Ordering::SeqCst), 7);
}

/// A plan that makes the iterations of a scenario.
fn iterating(server: &Server, file: &str) -> Plan<'static> {
    visiting(server, |form| {
        let inputs = ScenarioInputs {
            read_file: &|_| Err("no such file".to_owned()),
            environment: &|_| None,
            think_shape: Shape::Constant,
        };
        let scenario = Scenario::parse(form, file, &inputs).unwrap();
        (Catalogue::scenario(form, &scenario), Requests::Scenario(Arc::new(scenario)))
    })
}

#[test]
fn clients_go_on_after_iterations_without_a_request() {
    let (server, paths) = noting();
    let plan = iterating(
        &server,
        "[[request]]\nurl = \"/a\"\nshare = 0.1\n[[request]]\nurl = \"/b\"\nshare = 0.1\n",
    );
    let arrivals = Arrivals::Closed { clients: 4 };
    let report = report(Plan { arrivals, stop: StopRule::Requests(400), ..plan });
    assert_eq!((report.figures.requests, report.figures.errors), (400, 0), "{:?}", report.figures);
    let asked = paths.lock().unwrap().iter().filter(|path| path.ends_with("/a")).count();
    assert!((130..270).contains(&asked), "{asked}");
}

#[test]
fn an_arrival_whose_iteration_has_no_request_is_none() {
    let (server, _) = noting();
    let plan = iterating(&server, "[[request]]\nurl = \"/\"\nshare = 0.5\n");
    let arrivals = open(400.0, ArrivalProcess::Constant, 1000);
    let report = report(Plan { arrivals, schedule: during(1000), ..plan });
    let figures = &report.figures;
    assert!((130..270).contains(&due(figures)), "{figures:?}");
    assert_eq!((figures.errors, figures.skipped), (0, 0), "{figures:?}");
}

#[test]
fn clients_whose_users_only_log_in_are_done_then() {
    let (server, paths) = noting();
    let file = "[[login]]\nurl = \"/login\"\n[[request]]\nurl = \"/\"\nshare = 0\n";
    let report = report(Plan { arrivals: Arrivals::Closed { clients: 3 }, ..iterating(&server, file) });
    assert!(report.complete && report.figures.requests == 3, "{:?}", report.figures);
    assert_eq!(*paths.lock().unwrap(), ["GET /login"; 3]);
}

#[test]
fn a_failed_request_ends_its_session() {
    let server = Server::start(|stream, head, _| {
        let good = !head.starts_with("GET /bad");
        answer(
            stream,
            if good {
                b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
            } else {
                b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
            },
        )
    });
    let plan = visiting(&server, |form| Catalogue::sessions(form, "/good\n/bad\n/never\n").unwrap());
    let report = report(Plan { stop: StopRule::Visits(4), ..plan });
    assert_eq!((report.figures.requests, report.figures.errors), (4, 4));
    assert_eq!((report.steps[0].sessions_completed, report.steps[0].sessions_failed), (0, 4));
}

#[test]
fn a_walk_follows_its_probabilities_and_thinks() {
    let (server, paths) = noting();
    let walk = "start = \"home\"\n[pages.home]\npath = \"/home\"\nobjects = [\"/logo\"]\nthink = \"20ms\"\n\
                think_law = \"constant\"\nnext = { end = 1.0 }\n[pages.end]\npath = \"/end\"\n";
    let plan = visiting(&server, |form| Catalogue::walk(form, walk).unwrap());
    let report = report(Plan { stop: StopRule::Visits(10), ..plan });
    assert_eq!(report.steps[0].sessions_completed, 10);
    assert_eq!(paths.lock().unwrap()[..6], ["GET /home", "GET /logo", "GET /end"].repeat(2));
    assert!(report.figures.duration_seconds > 0.2, "ten think times of 20 ms");
}

#[test]
fn pipelined_requests_go_out_together() {
    let (server, paths) = noting();
    let transport = Transport { pipeline: 8, ..Transport::default() };
    let report = report(Plan { stop: StopRule::Requests(800), transport, ..closed(&server, 2, 0, 60_000) });
    assert_eq!((report.figures.requests, report.figures.errors), (800, 0), "{:?}", report.figures);
    assert_eq!(paths.lock().unwrap().len(), 800);
    let pieces = server.requests.load(Ordering::SeqCst);
    assert!(pieces <= 130, "800 requests in {pieces} pieces");
}

#[test]
fn what_a_closing_answer_leaves_unanswered_fails() {
    let server = Server::start(|stream, _, _| {
        answer(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        Then::Close
    });
    let transport = Transport { pipeline: 4, ..Transport::default() };
    let stop = StopRule::Requests(100);
    let report = report(Plan { transport, stop, ..closed(&server, 1, 0, 60_000) });
    // The first request of a connection goes alone unless it is open already.
    assert!(report.figures.requests > 0);
    let names: Vec<_> = report.figures.errors_by_cause.keys().collect();
    assert!(names.iter().all(|&&name| name == "closed_early" || name == "reset"), "{names:?}");
}

#[test]
fn requests_per_connection_follow_their_law() {
    let server = Server::delayed(|_| Duration::ZERO, 10);
    let connections = Connections::Requests(Count::Geometric { mean: 4.0 });
    report(Plan { connections, stop: StopRule::Requests(4000), ..closed(&server, 4, 0, 60_000) });
    let mean = 4000.0 / server.connections.load(Ordering::SeqCst) as f64;
    assert!((3.5..4.5).contains(&mean), "{mean}");
}

#[test]
fn pacing_counts_from_the_request() {
    let server = Server::delayed(|_| Duration::from_millis(30), 10);
    let think = Think::FromStart(Distribution { mean: Nanos(50 * MS), shape: Shape::Constant });
    let report = report(Plan { think, ..closed(&server, 2, 100, 1000) });
    // A client that paces begins every 50 ms, or after its answer where that takes longer. As no answer takes less than
    // 30 ms, a round lasts 20 ms more than the answer at most; of a client that thinks, 50 ms more.
    let figures = &report.figures;
    let round = |requests: u64| 2.0 / requests as f64;
    assert!(round(figures.requests - 2) > 0.0499, "two clients, one request in 50 ms each: {figures:?}");
    let answer = figures.response_time_seconds.mean.unwrap();
    assert!(round(figures.requests + 2) < 0.0202 + answer * 1.01, "{figures:?}");
}

#[test]
fn a_rated_client_waits_until_its_line_would_have_carried_the_answer() {
    let server = Server::delayed(|_| Duration::ZERO, 5000);
    let think = Think::Rated { bits_per_second: 400_000.0 };
    let report = report(Plan { think, ..closed(&server, 4, 300, 2000) });
    let rate = report.figures.bytes_per_second.unwrap() * 8.0 / 4.0;
    // A client that fell behind while the server settled may catch up: 2.3 s of its line in 2 s, and an answer.
    assert!(rate < 500_000.0, "{rate}");
    let rated = report.steps[0].rated.clone().unwrap();
    assert_eq!(rated.clients, 4);
    // Its line needs 100 ms for an answer: where none took longer, every client keeps its rate.
    if report.figures.response_time_seconds.max < Some(0.1) {
        assert!(rate > 320_000.0, "{rate}");
        assert_eq!(rated.conforming, 4);
    }
}

#[test]
fn slow_readers_take_their_time() {
    let server = Server::delayed(|_| Duration::ZERO, 60_000);
    let transport = Transport { read_bytes_per_second: Some(100_000.0), ..Transport::default() };
    let report = report(Plan { transport, ..closed(&server, 5, 0, 2500) });
    assert_eq!(report.figures.errors, 0, "{:?}", report.figures);
    let p50 = report.figures.transfer_time_seconds.p50.unwrap();
    assert!(p50 >= 0.5, "60 kB at 100 kB/s: {p50}");
    assert!(report.figures.bytes_per_second.unwrap() < 550_000.0);
}

#[test]
fn a_large_request_body_goes_out_whole() {
    let received = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&received);
    let server = Server::start(move |stream, head, _| {
        let announced: usize =
            head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap().parse().unwrap();
        let early = head.split("\r\n\r\n").nth(1).map_or(0, str::len);
        let mut body = vec![0; announced - early];
        thread::sleep(Duration::from_millis(20));
        std::io::Read::read_exact(stream, &mut body).unwrap();
        *seen.lock().unwrap() = announced;
        answer(stream, &ok(5))
    });
    let plan = closed(&server, 1, 0, 60_000);
    let body = vec![b'x'; 8_000_000];
    let form = Form::get(&plan.target, Version::Http11, Connections::KeepAlive);
    let catalogue = Catalogue::single(&Form { method: "POST", body: &body, ..form });
    let report = report(Plan { catalogue, stop: StopRule::Requests(3), ..plan });
    assert_eq!((report.figures.requests, report.figures.errors), (3, 0), "{:?}", report.figures);
    assert_eq!(*received.lock().unwrap(), 8_000_000);
}

#[test]
fn a_server_that_never_stops_sending_holds_up_nobody_else() {
    // One connection in eight gets an endless body, the others their answers.
    let server = Server::start(|stream, head, number| {
        if number % 8 == 3 { endless(stream) } else { answer(stream, &ok(scripted::size_in(head))) }
    });
    let plan = closed(&server, 8, 0, 1000);
    let limits = sojourn_load::Limits { response_timeout: Nanos(300 * MS), ..plan.limits };
    let report = report(Plan { limits, ..plan });
    assert!(report.figures.requests > 20, "{:?}", report.figures);
    // The machine may be late with an answer, too; the endless ones begin at once and do not end.
    let causes: Vec<_> = report.figures.errors_by_cause.keys().collect();
    assert!(causes.contains(&&"transfer_timeout"), "{causes:?}");
    assert!(causes.iter().all(|cause| cause.ends_with("_timeout")), "{causes:?}");
}

fn endless(stream: &mut TcpStream) -> Then {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
    while stream.write_all(&[b'x'; 65_536]).is_ok() {}
    Then::Close
}
