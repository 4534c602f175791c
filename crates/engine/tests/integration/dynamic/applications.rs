//! Tests of applications run by the server: start, supervision, restart, and end with the server.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use sojourn_server::Counter;

use super::{ask, body, configured};
use crate::engine::{Server, side_by_side};
use crate::http2::client::Client;

const RESPONDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/integration/dynamic/responder.py");

fn serve(architecture: &str, root: &Path, flags: &str) -> Server {
    let text = format!(
        "app = \"python3 {RESPONDER}\"\napp-workers = 2\n{flags}[[route]]\npath = \"/app/\"\napp = true\n"
    );
    configured(architecture, root, &text)
}

/// The process ID in the response.
fn process(answer: &str) -> i32 {
    body(answer).split(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{answer:?}"))
}

fn is_alive(process: i32) -> bool {
    rustix::process::test_kill_process(rustix::process::Pid::from_raw(process).unwrap()).is_ok()
}

#[test]
fn an_application_answers_on_every_architecture_and_ends_with_the_server() {
    side_by_side(|architecture| {
        let name = architecture.name();
        let root = tempfile::tempdir().unwrap();
        let server = serve(name, root.path(), "");
        let mut processes = BTreeSet::new();
        for _ in 0..4 {
            let answer = server.get("/app/x?y");
            assert!(answer.contains(" GET /app/x  0"), "{name}: {answer}");
            processes.insert(process(&answer));
        }
        let answer = ask(&server, "POST /app/y HTTP/1.1\r\nContent-Length: 100000", &vec![b'x'; 100_000]);
        assert!(answer.ends_with(" POST /app/y 100000 100000"), "{name}: {answer}");
        assert!(server.get("/other").starts_with("HTTP/1.1 404 "), "{name}");
        server.wait_until(Counter::ApplicationWorkers, 2);
        server.stop();
        assert!(!processes.iter().any(|process| is_alive(*process)), "{name}: {processes:?}");
    });
}

#[test]
fn a_process_that_dies_is_replaced() {
    let root = tempfile::tempdir().unwrap();
    let server = serve("amped", root.path(), "");
    let first = process(&server.get("/app/a"));
    for _ in 0..3 {
        // The request that kills it gets no response and is not repeated.
        assert!(
            ask(&server, "POST /app/die HTTP/1.1\r\nContent-Length: 0", b"").starts_with("HTTP/1.1 502 ")
        );
    }
    server.wait_until(Counter::ApplicationStarts, 5);
    server.wait_until(Counter::ApplicationWorkers, 2);
    let last = process(&server.get("/app/b"));
    assert_ne!(first, last);
}

/// Processes serve one connection at a time, so kept connections must not make other clients wait.
#[test]
fn more_clients_than_processes_are_answered_without_a_pause() {
    let root = tempfile::tempdir().unwrap();
    let server = serve("amped", root.path(), "");
    let began = Instant::now();
    let mut clients: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for _ in 0..3 {
        for client in &mut clients {
            client.send(b"GET /app/x HTTP/1.1\r\nHost: h\r\n\r\n");
        }
        for client in &mut clients {
            client.until(b" GET /app/x  0");
        }
    }
    // The idle timeout of a pooled connection is longer.
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

/// The routes share the processes, so connections kept for one give way to the requests of another.
#[test]
fn routes_to_one_application_leave_processes_to_each_other() {
    let root = tempfile::tempdir().unwrap();
    let route = "[[route]]\npath = \"/other/\"\napp = true\n";
    let server = serve("amped", root.path(), &format!("upstream-idle-timeout = \"1m\"\n{route}"));
    let mut clients = [server.connect(), server.connect()];
    for client in &mut clients {
        client.send(b"GET /app/sleep HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    for client in &mut clients {
        client.until(b" GET /app/sleep  0");
    }
    let mut other = server.connect();
    other.send(b"GET /other/x HTTP/1.1\r\nHost: h\r\n\r\n");
    other.until(b" GET /other/x  0");
}

/// A process that serves one client does not know what the others wait for.
#[test]
fn processes_for_one_client_each_keep_no_connection_to_an_application() {
    for architecture in ["fork", "inetd", "helper+fork"] {
        let root = tempfile::tempdir().unwrap();
        let server = serve(architecture, root.path(), "upstream-idle-timeout = \"1m\"\n");
        let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(b"GET /app/x HTTP/1.1\r\nHost: h\r\n\r\n");
            client.until(b" GET /app/x  0");
        }
    }
}

/// A body that is buffered takes no process before it is complete.
#[test]
fn a_buffered_body_is_passed_on_whole() {
    let root = tempfile::tempdir().unwrap();
    let server = serve("amped", root.path(), "upstream-request-buffering = true\n");
    let mut client = server.connect();
    client.send(b"POST /app/x HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 70001\r\n\r\n");
    client.send(&[b'x'; 70_000]);
    server.wait_until(Counter::UpstreamGatheredBytes, 70_000);
    assert_eq!(server.counters().value(Counter::UpstreamConnectionsOpen), 0);
    client.send(b"y");
    let answer = String::from_utf8(client.rest()).unwrap();
    assert!(answer.ends_with(" POST /app/x 70001 70001"), "{answer}");
    server.wait_until(Counter::UpstreamGatheredBytes, 0);
}

/// The application receives the body's length, whether or not the client declares it.
#[test]
fn bodies_of_any_size_and_framing_by_both_versions() {
    let root = tempfile::tempdir().unwrap();
    let server = serve("amped", root.path(), "upstream-gathered-max = 200000\n");
    let check = |answer: &str, size: usize| {
        assert!(answer.ends_with(&format!(" POST /app/x {size} {size}")), "{answer}")
    };
    let chunked = "POST /app/x HTTP/1.1\r\nTransfer-Encoding: chunked";
    let chunks = |count: usize| [&b"2710\r\n"[..], &[b'x'; 10_000], b"\r\n"].concat().repeat(count);
    check(&ask(&server, chunked, b"0\r\n\r\n"), 0);
    check(&ask(&server, chunked, &[&chunks(20)[..], b"0\r\n\r\n"].concat()), 200_000);
    assert!(ask(&server, chunked, &chunks(21)).starts_with("HTTP/1.1 413 "));
    // The client sends `Expect: 100-continue`.
    let mut client = server.connect();
    client.send(
        format!("{chunked}\r\nHost: h\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n").as_bytes(),
    );
    client.until(b"HTTP/1.1 100 Continue\r\n\r\n");
    client.send(&[&chunks(1)[..], b"0\r\n\r\n"].concat());
    check(&String::from_utf8(client.rest()).unwrap(), 10_000);

    let mut client = Client::to(server.address);
    for (size, announces, expected) in [
        (0, true, 0),
        (60_000, false, 60_000),
        (70_000, true, 70_000),
        (70_000, false, 70_000),
        (5_000_000, true, 5_000_000),
    ] {
        let mut exchanges = [client.post("/app/x", vec![b'x'; size], announces), client.get("/app/y")];
        client.finish(&mut exchanges);
        let text = |exchange: usize| String::from_utf8(exchanges[exchange].body.clone()).unwrap();
        check(&text(0), expected);
        assert!(text(1).contains(" GET /app/y "), "{}", text(1));
    }
    let mut exchanges = [client.post("/app/x", vec![b'x'; 300_000], false)];
    client.finish_some(&mut exchanges, 1);
    assert_eq!(exchanges[0].head.as_ref().map(|(status, _)| *status), Some(413));
    // A body that is not used.
    let mut exchanges = [client.post("/none", vec![b'x'; 300_000], true)];
    client.finish_some(&mut exchanges, 1);
    assert_eq!(exchanges[0].head.as_ref().map(|(status, _)| *status), Some(405));
}
