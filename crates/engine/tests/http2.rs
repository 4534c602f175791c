//! HTTP/2 over every architecture: by frames written out here, by the client of another implementation, and by h2spec
//! where it is installed.

mod engine;
#[path = "http2/client.rs"]
mod http2;

use std::process::Command;
use std::time::Duration;

use engine::{fixture, over_all};
use http2::Client;
use sojourn_server::Counter;

/// The preface, SETTINGS, and a request for `/hello.txt` of host `h` by literals without Huffman coding.
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\
    \0\0\x11\x01\x05\0\0\0\x01\x82\x86\x01\x01h\x04\x0a/hello.txt";

/// The DATA that answers it, and ends the stream.
const HELLO_DATA: &[u8] = b"\0\0\x05\0\x01\0\0\0\x01hello";

/// What `--idle-timeout` is where it is waited for.
const IDLE: Duration = Duration::from_millis(300);

/// Frames of `kind` in `bytes`, which begin with a frame and may end within one.
fn frames(mut bytes: &[u8], kind: u8) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let Some((payload, rest)) = rest.split_at_checked(length) else { break };
        if head[3] == kind {
            found.push(payload);
        }
        bytes = rest;
    }
    found
}

const GOAWAY: u8 = 7;

#[test]
fn byte_by_byte() {
    over_all(&[], |server, _| {
        for piece_bytes in [HELLO.len(), 1] {
            let mut client = server.connect();
            HELLO.chunks(piece_bytes).for_each(|piece| client.send(piece));
            let mut received = Vec::new();
            while !received.ends_with(HELLO_DATA) {
                received.extend(client.take(1));
            }
            client.end();
            assert_eq!(client.rest(), b"");
        }
        let counters = server.stop();
        assert_eq!(counters.value(Counter::ConnectionsHttp2), 2);
        assert_eq!(counters.value(Counter::Streams), 2);
        assert_eq!(counters.value(Counter::Requests), 2);
    });
}

#[test]
fn many_requests_at_once() {
    let log = tempfile::tempdir().unwrap();
    let log = log.path().join("log");
    over_all(&["--access-log", log.to_str().unwrap()], |server, _| {
        let large = fixture::large();
        let mut client = Client::to(server.address);
        let expected: [(&str, u16, &[u8]); 5] = [
            ("/hello.txt", 200, b"hello"),
            ("/large.bin", 200, &large),
            ("/medium.bin", 200, &[b'm'; 20_000]),
            ("/empty", 200, b""),
            ("/", 200, b"<p>home\n"),
        ];
        for _ in 0..3 {
            let mut exchanges: Vec<_> =
                expected.iter().cycle().take(60).map(|(path, ..)| client.get(path)).collect();
            client.finish(&mut exchanges);
            for (exchange, (_, status, body)) in exchanges.iter().zip(expected.iter().cycle()) {
                exchange.check(*status, body);
            }
        }
        let counters = server.stop();
        assert_eq!(counters.value(Counter::Streams), 180);
        assert_eq!(counters.value(Counter::Responses2xx), 180);
    });
    let lines = std::fs::read_to_string(log).unwrap();
    assert!(lines.contains("\"GET /medium.bin HTTP/2.0\" 200 20000"), "{lines}");
}

#[test]
fn a_stop_is_announced_and_the_requests_there_are_finish() {
    over_all(&[], |server, _| {
        let mut idle = server.connect();
        idle.send(HELLO);
        let mut received = Vec::new();
        while !received.ends_with(HELLO_DATA) {
            received.extend(idle.take(1));
        }
        let mut busy = Client::to(server.address);
        let mut exchanges: Vec<_> = (0..4).map(|_| busy.get("/large.bin")).collect();
        busy.finish_some(&mut exchanges, 1);
        server.request_stop();
        // Acknowledging the ping that came with GOAWAY says that no request is on its way.
        let announced = idle.take(9 + 8 + 9 + 8);
        assert_eq!(frames(&announced, GOAWAY).len(), 1, "{announced:?}");
        let ping = &announced[announced.len() - 8..];
        idle.send(&[b"\0\0\x08\x06\x01\0\0\0\0", ping].concat());
        assert_eq!(frames(&idle.rest(), GOAWAY), [b"\0\0\0\x01\0\0\0\0"]);
        busy.finish(&mut exchanges);
        exchanges.iter().for_each(|exchange| exchange.check(200, &fixture::large()));
        busy.finish_all();
        drop((idle, busy));
        server.wait();
    });
}

#[test]
fn who_asks_for_nothing_is_told_goodbye() {
    let idle = format!("{}ms", IDLE.as_millis());
    over_all(&["--idle-timeout", &idle, "--head-timeout", &idle], |server, _| {
        for end in [HELLO.len(), HELLO.len() - 1] {
            let mut client = server.connect();
            client.send(&HELLO[..end]);
            let rest = client.rest();
            assert_eq!(frames(&rest, GOAWAY).len(), 1, "{rest:?}");
        }
        assert_eq!(server.stop().value(Counter::Timeouts), 2);
    });
}

#[test]
fn h2spec() {
    if Command::new("h2spec").arg("--version").output().is_err() {
        eprintln!(
            "skipped: h2spec is not installed (go install github.com/summerwind/h2spec/cmd/h2spec@latest)"
        );
        return;
    }
    over_all(&[], |server, _| {
        let port = server.address.port().to_string();
        let arguments = ["--host", "127.0.0.1", "--port", &port, "--timeout", "5", "--path", "/hello.txt"];
        let output =
            Command::new("h2spec").args(arguments).args(["generic", "http2", "hpack"]).output().unwrap();
        let report = String::from_utf8_lossy(&output.stdout).into_owned();
        let failed: Vec<_> = report.split("Failures:").nth(1).unwrap_or_default().lines().collect();
        let failed: Vec<_> = failed.iter().filter(|line| line.trim_start().starts_with('×')).collect();
        // What does not begin with the preface is HTTP/1 on a port without TLS, and refused in its words.
        assert!(failed.iter().all(|line| line.ends_with("Sends invalid connection preface")), "{report}");
        assert!(failed.len() <= 1 && report.contains(" tests, "), "{report}");
    });
}
