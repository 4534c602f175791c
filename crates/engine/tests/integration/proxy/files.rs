//! Tests of bodies that the proxy sends from memory files after frequent requests: identical bytes for every kind of
//! request.

use std::fs;

use super::over_sharing;
use crate::engine::Server;
use sojourn_server::Counter;
use sojourn_testing::client::{ask, get, get_with, status};
use sojourn_testing::until;
use sojourn_testing::upstream::Upstream;

/// More requests than are needed to move a body to a file.
const REQUESTS: usize = 8;

/// Text without long repetitions.
fn text(length: usize) -> String {
    let mut text: String = (0..length / 10 + 1).map(|number| format!("{number:09}\n")).collect();
    text.truncate(length);
    text
}

/// An origin whose `/N` is N cacheable bytes.
fn origin() -> Upstream {
    Upstream::start(|peer| {
        while let Some(head) = peer.head() {
            let length: usize = head.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
            let fields = "Cache-Control: max-age=600\r\nETag: \"x\"\r\nContent-Type: text/plain";
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{fields}\r\n\r\n").as_bytes());
            peer.send(text(length).as_bytes());
        }
    })
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").expect("a whole head").1
}

/// The number of bodies in files.
fn files(server: &Server) -> usize {
    let folder = format!("/proc/{}/fd", server.pid().as_raw_nonzero());
    let names = fs::read_dir(folder).unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    names.filter(|name| name.to_string_lossy().starts_with("/memfd:body")).count()
}

#[test]
fn the_same_bytes_from_files() {
    over_sharing(&["--cache-memory-files", "2"], origin, |server, upstream| {
        let mut requests = 0;
        for length in [8_000, 16_384, 50_000, 3_000_000, 60_000] {
            let (target, expected) = (format!("/{length}"), text(length));
            for _ in 0..REQUESTS {
                assert!(body(&get(server, &target)) == expected, "{target}");
                requests += 1;
            }
        }
        // Two are too small, and there is no room for the last.
        assert_eq!(files(server), 2);
        assert_eq!(upstream.heads().len(), 5);
        let sent_after = |requests| {
            // A worker counts after sending.
            server.wait_until(Counter::Requests, requests);
            server.counters().value(Counter::CacheMemoryFileHits)
        };
        for (target, more) in [("/8000", 0), ("/50000", 1), ("/3000000", 1), ("/60000", 0)] {
            let before = sent_after(requests);
            get(server, target);
            requests += 1;
            assert_eq!(sent_after(requests) - before, more, "{target}");
        }
        let expected = text(50_000);
        let head = ask(server, "HEAD", "/50000", "");
        assert!(head.contains("\r\nContent-Length: 50000\r\n") && body(&head).is_empty(), "{head}");
        assert_eq!(status(&get_with(server, "/50000", "If-None-Match: \"x\"\r\n")), "304");
        for (range, first, end) in
            [("100-40099", 100, 40_100), ("-30000", 20_000, 50_000), ("4095-4096", 4095, 4097)]
        {
            let part = get_with(server, "/50000", &format!("Range: bytes={range}\r\n"));
            assert!(status(&part) == "206" && body(&part) == &expected[first..end], "{range}");
        }
        let parts = get_with(server, "/50000", "Range: bytes=0-19999,25000-49999\r\n");
        assert!(parts.contains(&expected[..20_000]) && parts.contains(&expected[25_000..]), "both parts");
    });
}

#[test]
fn slow_readers_get_all_of_what_is_gone_meanwhile() {
    over_sharing(&["--cache-memory", "14MiB"], origin, |server, _| {
        for _ in 0..REQUESTS {
            get(server, "/7000000");
        }
        assert_eq!(files(server), 1);
        let mut slow = server.connect();
        slow.send(b"GET /7000000 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        server.wait_until(Counter::CacheHits, REQUESTS as u64);
        // Another takes its place; there is room for both while one is being sent.
        ask(server, "DELETE", "/7000000", "");
        let expected = text(6_000_000);
        for _ in 0..REQUESTS {
            assert!(body(&get(server, "/6000000")) == expected);
        }
        let answer = String::from_utf8(slow.rest()).unwrap();
        assert!(body(&answer) == text(7_000_000));
        until("what nobody sends any more is closed", || (files(server) == 1).then_some(()));
    });
}
