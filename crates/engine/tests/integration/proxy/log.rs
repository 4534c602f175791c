//! Tests of the proxy's access log: cache outcomes in Squid's format and words, and its import.

use std::fs;
use std::path::Path;

use super::proxy;
use crate::engine::Server;
use sojourn_server::{ALL, CacheScope};
use sojourn_testing::upstream::Upstream;
use sojourn_workload::import::Format;

/// An origin with a cacheable `/kept`, a cacheable 404 for `/gone`, and an uncacheable rest.
fn origin() -> Upstream {
    Upstream::start(|peer| {
        while let Some(head) = peer.head() {
            let (status, control) = match head.split(' ').nth(1).unwrap() {
                "/kept" => ("200 OK", "max-age=60"),
                "/gone" => ("404 Not Found", "max-age=60"),
                _ => ("200 OK", "no-store"),
            };
            let fields = format!("Cache-Control: {control}\r\nContent-Type: text/plain\r\nETag: \"x\"");
            peer.send(format!("HTTP/1.1 {status}\r\n{fields}\r\nContent-Length: 5\r\n\r\nhello").as_bytes());
        }
    })
}

/// Requests each of these; returns the sizes of the responses.
fn ask(server: &Server) -> Vec<usize> {
    let requests = [
        ("/kept", ""),
        ("/kept", ""),
        ("/kept", "If-None-Match: \"x\"\r\n"),
        ("/kept", "Cache-Control: no-cache\r\n"),
        ("/gone", ""),
        ("/gone", ""),
        ("/other?q=1", ""),
    ];
    // On one connection, because lines of two workers may come in either order.
    let mut client = server.connect();
    let answers = requests.map(|(target, fields)| {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n").as_bytes());
        let mut answer = client.take(1);
        while !answer.ends_with(b"\r\n\r\n") {
            answer.extend(client.take(1));
        }
        if !answer.starts_with(b"HTTP/1.1 304 ") {
            answer.extend(client.take(b"hello".len()));
        }
        answer.len()
    });
    answers.into()
}

const CODES: [&str; 7] = [
    "TCP_MISS/200",
    "TCP_MEM_HIT/200",
    "TCP_INM_HIT/304",
    "TCP_CLIENT_REFRESH_MISS/200",
    "TCP_MISS/404",
    "TCP_NEGATIVE_HIT/404",
    "TCP_MISS/200",
];

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn squids_format_is_written_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let flags = ["--access-log", path.to_str().unwrap(), "--access-log-format", "squid"];
    for architecture in
        ALL.iter().filter(|architecture| architecture.cache_scope() == Some(CacheScope::Server))
    {
        let upstream = origin();
        let server = proxy(architecture.name(), &[upstream.address], &flags);
        let sizes = ask(&server);
        server.stop();
        let lines = lines(&path);
        let columns: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
        let codes: Vec<&str> = columns.iter().map(|columns| columns[3]).collect();
        assert_eq!(codes, CODES);
        let asked = format!("ROUNDROBIN_PARENT/{}", upstream.address);
        for (number, columns) in columns.iter().enumerate() {
            let is_miss = columns[3].contains("MISS");
            assert_eq!(columns[8], if is_miss { &asked } else { "HIER_NONE/-" }, "{columns:?}");
            assert_eq!(columns[4].parse(), Ok(sizes[number]), "{columns:?}");
            assert_eq!((columns.len(), columns[2], columns[5], columns[7]), (10, "127.0.0.1", "GET", "-"));
        }
        assert_eq!((columns[6][6], columns[6][9]), ("http://h/other?q=1", "text/plain"));
        let mut format = Format::new("squid", &[]).unwrap();
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as i64;
        for (line, size) in lines.iter().zip(sizes) {
            let entry = format.read(line.as_bytes()).unwrap().unwrap();
            assert_eq!((entry.size_bytes, &entry.host[..]), (Some(size as u64), &b"h"[..]), "{line}");
            assert!((now - 60_000_000_000..=now).contains(&entry.unix_ns), "{line}");
        }
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn the_code_stands_in_other_formats() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), origin());
    let path = folder.path().join("access.log");
    let log = path.to_str().unwrap();
    for (format, code) in
        [("combined-cache", " \"-\" \"-\" TCP_MEM_HIT"), ("%>s %{cache}x", "200 TCP_MEM_HIT")]
    {
        let server =
            proxy("amped", &[upstream.address], &["--access-log", log, "--access-log-format", format]);
        ask(&server);
        server.stop();
        assert!(lines(&path)[1].ends_with(code), "{:?}", lines(&path));
        fs::remove_file(&path).unwrap();
    }
}
