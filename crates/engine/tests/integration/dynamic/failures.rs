//! Applications that hang, or are killed or restarted under load; and clients whose bodies come slowly.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sojourn_server::Counter;

use super::configured;
use crate::engine::Successor;
use crate::engine::{ENGINE, Server};

const RESPONDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/integration/dynamic/responder.py");

fn serve(root: &Path, flags: &str) -> Server {
    let text = format!(
        "app = \"python3 {RESPONDER}\"\napp-workers = 2\n{flags}[[route]]\npath = \"/app/\"\napp = true\n"
    );
    configured("amped", root, &text)
}

fn load(server: &Server, options: &[&str]) -> Child {
    let mut load = Command::new(ENGINE);
    load.args(["load", &format!("http://{}/app/x", server.address), "--warm-up", "0s", "--format", "json"]);
    load.args(options).stdout(Stdio::piped()).spawn().unwrap()
}

fn result(load: Child) -> Value {
    let output = load.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A GET whose process is killed before it answers is repeated on another connection.
#[test]
fn no_request_fails_when_processes_are_killed_under_load() {
    const KILLS: u64 = 4;
    let root = tempfile::tempdir().unwrap();
    let server = serve(root.path(), "");
    let load = load(&server, &["--clients", "8", "--duration", "3s", "--any-size"]);
    for _ in 0..KILLS {
        std::thread::sleep(Duration::from_millis(500));
        let answer = server.get("/app/x");
        let process: i32 = super::body(&answer).split(' ').next().unwrap().parse().unwrap();
        kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
    }
    let result = result(load);
    assert!(result["requests"].as_u64().unwrap() > 8, "{result}");
    assert_eq!(result["errors"], 0, "{result}");
    assert!(server.counters().value(Counter::ApplicationStarts) >= 5);
}

/// A request that kills whoever gets it is repeated once, not until no process is left.
#[test]
fn a_deadly_request_kills_two_processes_at_most() {
    let root = tempfile::tempdir().unwrap();
    let server = serve(root.path(), "");
    assert!(server.get("/app/die").starts_with("HTTP/1.1 502 "));
    server.wait_until(Counter::ApplicationStarts, 4);
    server.wait_until(Counter::ApplicationWorkers, 2);
    assert_eq!(server.counters().value(Counter::UpstreamRequests), 2);
    assert!(server.get("/app/x").starts_with("HTTP/1.1 200 "));
    assert_eq!(server.counters().value(Counter::ApplicationStarts), 4);
}

/// A process that does not answer costs its client the timeout, and others nothing. It is not asked again.
#[test]
fn an_application_that_hangs_meets_its_timeout() {
    let root = tempfile::tempdir().unwrap();
    // The time that the application takes to start counts, too.
    let server = serve(root.path(), "upstream-head-timeout = \"2s\"\n");
    let began = Instant::now();
    let mut hanging = server.connect();
    hanging.send(b"GET /app/hang HTTP/1.0\r\n\r\n");
    assert!(server.get("/app/x").starts_with("HTTP/1.1 200 "));
    let answer = String::from_utf8(hanging.rest()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(10), "{took:?}");
    let counters = server.counters();
    assert_eq!(counters.value(Counter::LimitUpstreamHead), 1);
    assert_eq!((counters.value(Counter::UpstreamRequests), counters.value(Counter::UpstreamRetries)), (2, 0));
}

#[test]
fn a_reload_under_load_fails_no_request() {
    let root = tempfile::tempdir().unwrap();
    let mut server = serve(root.path(), "");
    let load = load(&server, &["--clients", "8", "--duration", "2s", "--any-size"]);
    std::thread::sleep(Duration::from_millis(700));
    let successor = Successor::of(&mut server);
    let result = result(load);
    assert!(result["requests"].as_u64().unwrap() > 8, "{result}");
    assert_eq!(result["errors"], 0, "{result}");
    successor.stop();
}

/// Many bodies that come byte by byte hold little memory, and leave others their answers.
#[test]
fn slow_uploads_hold_little_memory() {
    const UPLOADS: usize = 400;
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("file"), "here").unwrap();
    let server = serve(root.path(), "upstream-queue-timeout = \"60s\"\nconnections-per-address = 1000\n");
    server.get("/app/x");
    let before = server.memory_bytes();
    let mut clients: Vec<_> = (0..UPLOADS).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(b"POST /app/x HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nx");
    }
    for _ in 0..3 {
        clients.iter_mut().for_each(|client| client.send(b"y"));
    }
    server.wait_until(Counter::ConnectionsOpen, UPLOADS as u64);
    assert!(server.get("/file").ends_with("here"));
    let each = server.memory_bytes().saturating_sub(before) / UPLOADS as u64;
    assert!(each < 24 * 1024, "{each} bytes for each");
}
