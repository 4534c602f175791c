//! Faulty servers: each fault is counted by its cause, and none hangs or stops the clients.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::scripted::{
    MS, Server, Then, answer, closed, closed_at, closing, ok, replay, report, size_in, trace,
};
use sojourn_load::{
    Catalogue, Connections, Form, Limits, Observe, Plan, Replayed, Report, StopRule, Target, Transport,
    Version, run,
};
use sojourn_measure::Nanos;

/// Every other request meets the fault; the others are answered.
fn every_other(fault: impl Fn(&mut TcpStream) -> Then + Send + Sync + 'static) -> Server {
    Server::start(
        move |stream, _, number| if number % 2 == 1 { fault(stream) } else { answer(stream, &ok(100)) },
    )
}

fn check(server: &Server, cause: &str) -> Report {
    let report = report(closing(closed(server, 2, 0, 600)));
    let figures = &report.figures;
    assert!(figures.requests > 0, "good answers stay good: {figures:?}");
    let names: Vec<_> = figures.errors_by_cause.keys().collect();
    assert_eq!(names, [&cause], "{figures:?}");
    assert_eq!(figures.errors_by_cause[cause], figures.errors);
    assert_eq!(figures.response_time_seconds.count, figures.requests, "errors have no part in latencies");
    assert!(report.complete);
    report
}

fn check_response(response: &'static str, cause: &str) {
    let server = every_other(move |stream| {
        answer(stream, response.as_bytes());
        Then::Close
    });
    check(&server, cause);
}

#[test]
fn statuses() {
    check_response("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", "status_4xx");
    check_response("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "status_5xx");
    check_response("HTTP/1.1 301 Moved\r\nContent-Length: 0\r\nLocation: /\r\n\r\n", "status_3xx");
}

#[test]
fn nobody_pauses_after_a_complete_wrong_answer_that_ends_the_connection() {
    let server = every_other(|stream| {
        answer(stream, b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        Then::Close
    });
    let figures = check(&server, "status_4xx").figures;
    // Two clients that pause 50 ms after each would get 24.
    assert!(figures.errors > 48, "{figures:?}");
}

#[test]
fn wrong_size() {
    check_response("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "wrong_size");
}

#[test]
fn garbage_instead_of_a_head() {
    check_response("SSH-2.0-OpenSSH_9.9\r\n", "bad_response");
    check_response("HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello", "bad_response");
    check_response("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", "closed_early");
    check_response("HTTP/1.1 200 OK\r\nConte", "closed_early");
}

#[test]
fn an_endless_head() {
    let server = every_other(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(b"X-Again: and again\r\n").is_ok() {}
        Then::Close
    });
    check(&server, "bad_response");
}

#[test]
fn endless_interim_responses_and_chunk_extensions() {
    let limits = Limits { response_timeout: Nanos(300 * MS), ..Limits::default() };
    let interim = every_other(|stream| {
        while stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").is_ok() {}
        Then::Close
    });
    let figures = report(Plan { limits, ..closing(closed(&interim, 2, 0, 600)) }).figures;
    assert!(figures.errors_by_cause.contains_key("transfer_timeout"), "{figures:?}");
    let extensions = every_other(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1");
        while stream.write_all(b";and=again").is_ok() {}
        Then::Close
    });
    check(&extensions, "bad_response");
    let trailers = every_other(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
        while stream.write_all(b"X: y\r\n").is_ok() {}
        Then::Close
    });
    check(&trailers, "bad_response");
}

#[test]
fn an_early_close() {
    check(&every_other(|_| Then::Close), "closed_early");
}

#[test]
fn a_reset() {
    let server = every_other(|stream| {
        // Closing with a linger time of zero resets the connection.
        rustix::net::sockopt::set_socket_linger(&*stream, Some(Duration::ZERO)).unwrap();
        Then::Close
    });
    check(&server, "reset");
}

/// Answers every other stream of HTTP/2 with an empty response, and resets those between.
fn reset_every_other_stream(mut stream: TcpStream, seen: &AtomicU64) -> io::Result<()> {
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    stream.read_exact(&mut [0; 24])?;
    stream.write_all(&settings)?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let [high, middle, low, kind, _flags, id @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        stream.read_exact(&mut payload)?;
        let is_headers = kind == 1;
        if !is_headers {
            continue;
        }
        let frame = if seen.fetch_add(1, Ordering::SeqCst) % 2 == 1 {
            // RST_STREAM with INTERNAL_ERROR.
            [&[0_u8, 0, 4, 3, 0][..], &id, &[0, 0, 0, 2]].concat()
        } else {
            // HEADERS with END_STREAM and END_HEADERS: `:status: 200`.
            [&[0_u8, 0, 1, 1, 5][..], &id, &[0x88]].concat()
        };
        stream.write_all(&frame)?;
    }
}

/// The server may have acted on a request whose stream it resets, so nobody sends it again.
#[test]
fn a_stream_that_the_server_resets_has_failed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/page", listener.local_addr().unwrap());
    let seen = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counted = Arc::clone(&counted);
            thread::spawn(move || reset_every_other_stream(stream, &counted));
        }
    });
    let transport = Transport { streams: Some(1), ..Transport::default() };
    let figures = report(Plan { transport, ..closed_at(&url, 1, 0, 600) }).figures;
    assert!(figures.requests > 0 && figures.errors > 0, "{figures:?}");
    assert_eq!(figures.errors_by_cause["reset"], figures.errors, "{figures:?}");
    // One may be due after the end, and counts nowhere.
    let sent_max = figures.requests + figures.errors + figures.unfinished + 1;
    assert!(seen.load(Ordering::SeqCst) <= sent_max, "{figures:?}");
}

#[test]
fn no_answer() {
    let server = Server::start(|stream, _, number| {
        if number > 0 {
            thread::sleep(Duration::from_secs(60));
        }
        answer(stream, &ok(100))
    });
    let limits = Limits { response_timeout: Nanos(200 * MS), drain: Nanos(2000 * MS), ..Limits::default() };
    let started = Instant::now();
    let report = report(Plan { limits, ..closed(&server, 2, 0, 600) });
    assert!(started.elapsed() < Duration::from_secs(30), "nothing waits for the server's minute");
    // The machine may be late with the one answer that there is.
    assert!(report.figures.requests <= 1);
    assert!(report.figures.errors_by_cause["response_timeout"] >= 2, "{:?}", report.figures);
}

#[test]
fn what_is_unanswered_at_the_end_is_counted() {
    let server = Server::start(|_, _, _| {
        thread::sleep(Duration::from_secs(60));
        Then::Close
    });
    // Each of ten sessions makes one request, and would make another 100 ms later.
    let trace = trace(10, 10 * MS, &[0, 100 * MS], 5);
    let plan = replay(&server, &trace, 500);
    let limits = Limits { drain: Nanos(100 * MS), ..plan.limits };
    let report = report(Plan { limits, ..plan });
    assert_eq!((report.figures.requests, report.figures.errors), (0, 0));
    assert_eq!(report.figures.unfinished, 20, "ten without an answer, ten held up behind them");
    assert!(report.figures.response_time_seconds.p50.is_none());
}

/// Both requests of a session are due before the end. The first is answered after it, and the second needs another
/// connection then.
#[test]
fn what_was_due_before_the_end_is_sent_on_another_connection() {
    let server = Server::start(|stream, head, _| {
        thread::sleep(Duration::from_millis(600));
        answer(stream, &ok(size_in(head)));
        Then::Close
    });
    let trace = trace(5, 0, &[0, 100 * MS], 5);
    let plan = replay(&server, &trace, 400);
    let form = Form::get(&plan.target, Version::Http11, Connections::Close);
    let catalogue = Catalogue::trace(&form, &trace.documents, &Replayed::default());
    let report = report(Plan { catalogue, connections: Connections::Close, ..plan });
    let figures = &report.figures;
    assert_eq!((figures.requests, figures.errors, figures.unfinished), (10, 0, 0), "{figures:?}");
}

/// One of two clients is never served: its request was due in the warm-up, and waits for the whole run.
#[test]
fn who_waits_since_the_warm_up_is_counted() {
    let server = Server::start(|stream, _, number| {
        if number == 1 {
            thread::sleep(Duration::from_secs(60));
        }
        answer(stream, &ok(100))
    });
    let plan = closed(&server, 2, 100, 300);
    let limits = Limits { drain: Nanos(100 * MS), ..plan.limits };
    let report = report(Plan { limits, ..plan });
    assert!(report.figures.requests > 0);
    assert_eq!((report.figures.errors, report.figures.unfinished), (0, 1));
}

#[test]
fn a_failed_session_abandons_its_rest() {
    let server =
        Server::start(|stream, _, _| answer(stream, b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"));
    let trace = trace(10, 10 * MS, &[0, 10 * MS, 20 * MS], 5);
    let report = report(replay(&server, &trace, 500));
    assert_eq!((report.figures.errors, report.figures.abandoned), (10, 20));
}

#[test]
fn a_connection_closed_between_requests_is_opened_again() {
    // The server answers three requests on each connection and closes it without a word.
    let server = Server::start(|stream, _, number| {
        answer(stream, &ok(100));
        if number % 3 == 2 { Then::Close } else { Then::GoOn }
    });
    let report = report(Plan { stop: StopRule::Requests(300), ..closed(&server, 1, 0, 60_000) });
    assert_eq!((report.figures.requests, report.figures.errors), (300, 0), "{:?}", report.figures);
    let reconnects = report.steps[0].reconnects;
    assert!((98..=100).contains(&reconnects), "{reconnects}");
}

#[test]
fn nobody_listens() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Server::delayed(|_| Duration::ZERO, 1);
    let plan = Plan {
        target: Target::resolve(&format!("http://{address}/")).unwrap(),
        ..closed(&server, 3, 0, 20_000)
    };
    let started = Instant::now();
    let report = report(plan);
    assert!(started.elapsed() < Duration::from_secs(15), "a run of 20 s is given up");
    assert!(!report.complete && !report.interrupted);
    assert!(report.stopped_because.unwrap().contains("refuses"));
    assert!(report.figures.errors_by_cause["connect_refused"] > 3);
}

#[test]
fn an_observed_process_that_ends_stops_the_run() {
    let server = Server::delayed(|_| Duration::from_millis(1), 10);
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let observe = Observe { pids: vec![child.id()], ..Observe::default() };
    let plan = Plan { observe, ..closed(&server, 2, 100, 20_000) };
    let killer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        child.kill().unwrap();
        child.wait().unwrap();
    });
    let started = Instant::now();
    let report = report(plan);
    killer.join().unwrap();
    assert!(started.elapsed() < Duration::from_secs(15), "a run of 20 s is given up");
    assert!(!report.complete);
    assert!(report.stopped_because.unwrap().contains("ended"));
    assert!(report.figures.requests > 0, "what was measured is kept");
    // Until it is waited for, the kernel still knows what it used.
    let used = &report.steps[0].server.as_ref().unwrap().cpu_seconds;
    assert!(used.value().is_none_or(|&seconds| seconds < 0.5), "{used:?}");
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let server = Server::delayed(|_| Duration::from_millis(1), 10);
    let flag = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&flag);
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        raised.store(true, Ordering::SeqCst);
    });
    let started = Instant::now();
    let report = run(closed(&server, 2, 100, 20_000), &flag, None).unwrap().report();
    let elapsed = started.elapsed().as_secs_f64();
    assert!(elapsed < 15.0 && report.interrupted && !report.complete);
    assert!(report.figures.requests > 0);
    let measured = report.figures.duration_seconds;
    assert!(measured > 0.0 && measured <= elapsed - 0.1, "{measured} of {elapsed}: the first 100 ms settle");
}

#[test]
fn another_content_of_the_same_size_shows_only_to_those_who_look() {
    let start = || {
        Server::start(|stream, _, number| {
            let mut response = ok(20_000);
            if number % 5 == 4 {
                *response.last_mut().unwrap() = b'y';
            }
            answer(stream, &response)
        })
    };
    let counted = |verifies: bool, transport: Transport| {
        let server = start();
        let mut plan = Plan { transport, stop: StopRule::Requests(50), ..closed(&server, 1, 0, 60_000) };
        if verifies {
            plan.catalogue.verify_contents();
        }
        let figures = report(plan).figures;
        (figures.requests, figures.errors_by_cause.get("wrong_content").copied())
    };
    assert_eq!(counted(false, Transport::default()), (50, None));
    assert_eq!(counted(true, Transport::default()), (40, Some(10)));
    let stamped = Transport { timestamps: true, ..Transport::default() };
    assert_eq!(counted(true, stamped), (40, Some(10)));
}
