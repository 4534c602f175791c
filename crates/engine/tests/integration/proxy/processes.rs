//! Tests of a proxy with several processes: separate caches, and the limitations that follow.

use crate::engine;
use std::process::Command;

use super::proxy;
use crate::engine::{Client, ENGINE};
use rustix::process::{Pid, Signal, kill_process};
use sojourn_server::{ALL, CacheScope, Counter};
use sojourn_testing::client::{exchange, get};
use sojourn_testing::upstream::Upstream;

const FRESH: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: max-age=60\r\n\r\nhello";

/// The response to a GET on a kept connection, up to the end of its body.
fn get_on(client: &mut Client) -> String {
    client.send(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nhello") {
        answer.extend(client.take(1));
    }
    String::from_utf8(answer).unwrap()
}

#[test]
fn a_process_has_its_cache_as_long_as_it_lives() {
    for architecture in ["mp", "helper"] {
        let upstream = Upstream::answering(FRESH);
        let server = proxy(architecture, &[upstream.address], &["--workers", "1"]);
        assert!(get(&server, "/a").contains("Cache-Status: me; fwd=uri-miss; ttl="));
        assert!(get(&server, "/a").contains("Cache-Status: me; hit; ttl="), "{architecture}");
        assert_eq!(upstream.connections(), 1, "it is kept from one client to the next");
        server.wait_until(Counter::CacheMemoryObjects, 1);
        server.wait_until(Counter::CacheHits, 1);
        let child = server.children()[0];
        kill_process(child, Signal::KILL).unwrap();
        server.wait_until(Counter::CacheMemoryObjects, 0);
        assert!(get(&server, "/a").contains("Cache-Status: me; fwd=uri-miss; ttl="), "{architecture}");
        let counters = server.stop();
        assert_eq!((counters.value(Counter::CacheHits), counters.value(Counter::CacheMisses)), (1, 2));
    }
}

#[test]
fn a_connection_has_its_cache_where_each_is_a_process() {
    let upstream = Upstream::answering(FRESH);
    let server = proxy("fork", &[upstream.address], &[]);
    for round in 1..=2 {
        let mut client = server.connect();
        assert!(get_on(&mut client).contains("Cache-Status: me; fwd=uri-miss; ttl="));
        assert!(get_on(&mut client).contains("Cache-Status: me; hit; ttl="));
        assert_eq!(upstream.heads().len(), round);
    }
}

#[test]
fn what_needs_one_cache_for_all_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let refusal = |architecture: &str, flags: &[&str]| {
        let mut command = Command::new(ENGINE);
        command.args(["proxy", "--listen", "127.0.0.1:0", "--upstream", "http://127.0.0.1:9"]);
        let output = command.args(["--architecture", architecture]).args(flags).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{architecture} {flags:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let path = directory.path().join("cache");
    let several =
        ALL.iter().filter(|row| matches!(row.cache_scope(), Some(scope) if scope != CacheScope::Server));
    for architecture in several {
        for flags in
            [["--cache-dir", path.to_str().unwrap()], ["--force-hit-ratio", "0.5"], ["--health-path", "/"]]
        {
            let said = refusal(architecture.name(), &flags);
            assert!(said.contains(flags[0]) && said.contains("\nhint: choose an architecture"), "{said}");
        }
    }
    assert!(!path.exists());
    assert!(refusal("inetd", &[]).starts_with("error: inetd cannot be a proxy: "));
}

#[test]
fn caches_that_nobody_else_reaches_cannot_be_operated() {
    let upstream = Upstream::answering(FRESH);
    let server = proxy("mp", &[upstream.address], &["--workers", "1"]);
    for request in ["POST /purge?key=x", "PURGE http://h/a", "GET /cache/object?url=http://h/a"] {
        let request = format!("{request} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let answer = exchange(&mut Client::to(server.admin), &request);
        assert!(answer.starts_with("HTTP/1.1 501 "), "{request}: {answer}");
    }
    assert!(get(&server, "/a").ends_with("hello"));
}

/// After a stop requests may finish, and a process that waits for its upstream is not killed.
#[test]
fn requests_finish_before_the_processes_do() {
    for architecture in ["mt", "mp", "standard"] {
        let (asked, is_asked) = std::sync::mpsc::channel();
        let upstream = Upstream::start(move |peer| {
            peer.head();
            let _ = asked.send(());
            std::thread::sleep(std::time::Duration::from_millis(300));
            peer.send(FRESH);
        });
        let server = proxy(architecture, &[upstream.address], &["--workers", "2"]);
        let mut client = server.connect();
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        is_asked.recv_timeout(engine::DEADLINE).unwrap();
        server.request_stop();
        assert!(client.rest().ends_with(b"hello"), "{architecture}");
        assert_eq!(server.wait().value(Counter::Requests), 1, "{architecture}");
    }
}

/// One that outlives the server would keep it taken.
#[test]
fn processes_that_serve_do_not_keep_the_port_of_the_admin_listener() {
    let upstream = Upstream::answering(FRESH);
    let server = proxy("mp", &[upstream.address], &["--workers", "1"]);
    server.wait_until(Counter::Children, 1);
    let address = format!("0100007F:{:04X}", server.admin.port());
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let listening = sockets.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let inode = listening.clone().find(|fields| fields[1] == address && fields[3] == "0A").unwrap()[9];
    let holds = |process: Pid| {
        let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
        let mut links = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        links.any(|link| link.to_str() == Some(&format!("socket:[{inode}]")))
    };
    assert!(holds(server.pid()));
    assert!(!server.children().into_iter().any(holds));
    server.stop();
}
