//! Tests of HTTP/2 over every architecture, in plain text and over TLS: by hand-written frames, by the client of
//! another implementation, and by h2spec where installed.

pub mod client;
mod downgrade;
mod dribbling;
mod probe;
mod uploads;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::tls::{Identity, VERSIONS, connect};
use crate::engine::{DEADLINE, Server, over_all};
use client::Client;
use rustls::{ClientConfig, SupportedProtocolVersion};
use sojourn_server::Counter;
use sojourn_testing::fixture;

/// The preface, SETTINGS, and a request for `/hello.txt` of host `h` by literals without Huffman coding.
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\
    \0\0\x11\x01\x05\0\0\0\x01\x82\x86\x01\x01h\x04\x0a/hello.txt";

/// The DATA frame of the response, which ends the stream.
const HELLO_DATA: &[u8] = b"\0\0\x05\0\x01\0\0\0\x01hello";

/// The `--idle-timeout` in tests that wait for it.
const IDLE: Duration = Duration::from_millis(300);

/// The frames of `kind` in `bytes`, which start with a frame and may end within one.
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

/// A client configuration that offers these protocols by ALPN.
fn offering(
    identity: &Identity,
    versions: &[&'static SupportedProtocolVersion],
    protocols: &[&str],
) -> Arc<ClientConfig> {
    let mut config = identity.trusted_in(versions);
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

/// Sends the first request in pieces of `piece_bytes`, and reads the response.
fn greet<S: Read + Write>(client: &mut sojourn_testing::Client<S>, piece_bytes: usize) {
    HELLO.chunks(piece_bytes).for_each(|piece| client.send(piece));
    take_until(client, HELLO_DATA);
}

fn take_until<S: Read + Write>(client: &mut sojourn_testing::Client<S>, end: &[u8]) {
    let mut received = Vec::new();
    while !received.ends_with(end) {
        received.extend(client.take(1));
    }
}

#[test]
fn byte_by_byte() {
    let identity = Identity::new();
    let configs = VERSIONS.map(|version| offering(&identity, &[version], &["h2"]));
    over_all(&identity.flags(), |server, _| {
        for piece_bytes in [HELLO.len(), 1] {
            let mut client = server.connect();
            greet(&mut client, piece_bytes);
            client.end();
            assert_eq!(client.rest(), b"");
        }
        for config in &configs {
            // One TLS record per byte.
            let mut client = connect(server.another_address(0), config);
            greet(&mut client, 1);
            // A single record; most of its bytes complete nothing.
            let again = b"\0\0\x11\x01\x05\0\0\0\x03\x82\x86\x01\x01h\x04\x0a/hello.txt";
            let mut record = Vec::new();
            client.stream.conn.writer().write_all(again).unwrap();
            client.stream.conn.write_tls(&mut record).unwrap();
            record.chunks(1).for_each(|byte| client.stream.sock.write_all(byte).unwrap());
            take_until(&mut client, b"\0\0\x05\0\x01\0\0\0\x03hello");
            client.stream.conn.send_close_notify();
            assert_eq!(client.rest(), b"");
        }
        let counters = server.stop();
        assert_eq!(counters.value(Counter::ConnectionsHttp2), 4);
        assert_eq!(counters.value(Counter::Streams), 6);
        assert_eq!(counters.value(Counter::Requests), 6);
        assert_eq!(counters.value(Counter::ConnectionErrors), 0);
    });
}

#[test]
fn tls_chooses_what_is_spoken() {
    let identity = Identity::new();
    let offer = |protocols: &[&str]| offering(&identity, &VERSIONS, protocols);
    over_all(&identity.flags(), |server, _| {
        let address = server.another_address(0);
        for (protocols, chosen) in
            [(&["http/1.1", "h2"][..], Some("h2")), (&["http/1.1"], Some("http/1.1")), (&[], None)]
        {
            let mut client = connect(address, &offer(protocols));
            if chosen == Some("h2") {
                greet(&mut client, HELLO.len());
            } else {
                client.send(b"GET /hello.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
                assert!(client.rest().ends_with(b"\r\n\r\nhello"));
                // HTTP/2 is used only if the client offers it.
                let mut client = connect(address, &offer(protocols));
                client.send(HELLO);
                assert!(client.rest().starts_with(b"HTTP/1.1 505 "));
            }
            assert_eq!(client.stream.conn.alpn_protocol(), chosen.map(str::as_bytes));
        }
        let counters = server.stop();
        assert_eq!(counters.value(Counter::ConnectionsHttp2), 1);
        assert_eq!(counters.value(Counter::TlsHandshakes), 5);
    });
}

#[test]
fn many_requests_at_once() {
    let log = tempfile::tempdir().unwrap();
    let log = log.path().join("log");
    let identity = Identity::new();
    let configs = VERSIONS.map(|version| offering(&identity, &[version], &["h2"]));
    let flags = [&identity.flags()[..], &["--access-log", log.to_str().unwrap()]].concat();
    over_all(&flags, |server, root| {
        let large = fixture::large();
        let huge: Vec<u8> = (0..5_000_000).map(|index: u32| (index / 7 % 251) as u8).collect();
        fixture::write(root, "huge.bin", &huge);
        let expected: [(&str, u16, &[u8]); 5] = [
            ("/hello.txt", 200, b"hello"),
            ("/large.bin", 200, &large),
            ("/medium.bin", 200, &[b'm'; 20_000]),
            ("/empty", 200, b""),
            ("/", 200, b"<p>home\n"),
        ];
        let secure = configs.iter().map(|config| Client::secure_to(server.another_address(0), config));
        for mut client in std::iter::once(Client::to(server.address)).chain(secure) {
            for _ in 0..2 {
                let mut exchanges: Vec<_> =
                    expected.iter().cycle().take(30).map(|(path, ..)| client.get(path)).collect();
                client.finish(&mut exchanges);
                for (exchange, (_, status, body)) in exchanges.iter().zip(expected.iter().cycle()) {
                    exchange.check(*status, body);
                }
            }
            let mut exchanges = [client.get("/huge.bin")];
            client.finish(&mut exchanges);
            exchanges[0].check(200, &huge);
        }
        let counters = server.stop();
        assert_eq!(counters.value(Counter::ConnectionsHttp2), 3);
        assert_eq!(counters.value(Counter::Streams), 183);
        assert_eq!(counters.value(Counter::Responses2xx), 183);
    });
    let lines = std::fs::read_to_string(log).unwrap();
    assert!(lines.contains("\"GET /medium.bin HTTP/2.0\" 200 20000"), "{lines}");
    assert!(!lines.contains("HTTP/1"), "{lines}");
}

#[test]
fn a_stop_is_announced_and_the_requests_there_are_finish() {
    let identity = Identity::new();
    let config = offering(&identity, &VERSIONS, &["h2"]);
    over_all(&identity.flags(), |server, _| {
        let address = server.another_address(0);
        let (mut idle, mut secure_idle) = (server.connect(), connect(address, &config));
        greet(&mut idle, HELLO.len());
        greet(&mut secure_idle, HELLO.len());
        let mut busy = [Client::to(server.address), Client::secure_to(address, &config)];
        let mut exchanges = busy.each_mut().map(|client| [(); 4].map(|()| client.get("/large.bin")));
        for (client, exchanges) in busy.iter_mut().zip(&mut exchanges) {
            client.finish_some(exchanges, 1);
        }
        server.request_stop();
        take_leave(&mut idle);
        take_leave(&mut secure_idle);
        for (client, exchanges) in busy.iter_mut().zip(&mut exchanges) {
            client.finish(exchanges);
            exchanges.iter().for_each(|exchange| exchange.check(200, &fixture::large()));
            client.finish_all();
        }
        drop((idle, secure_idle, busy));
        server.wait();
    });
}

/// Acknowledges the ping that came with GOAWAY, which tells a stopping server that no request is on its way.
fn take_leave<S: Read + Write>(client: &mut sojourn_testing::Client<S>) {
    let announced = client.take(9 + 8 + 9 + 8);
    assert_eq!(frames(&announced, GOAWAY).len(), 1, "{announced:?}");
    let ping = &announced[announced.len() - 8..];
    client.send(&[b"\0\0\x08\x06\x01\0\0\0\0", ping].concat());
    assert_eq!(frames(&client.rest(), GOAWAY), [b"\0\0\0\x01\0\0\0\0"]);
}

#[test]
fn who_asks_for_nothing_is_told_goodbye() {
    let idle = format!("{}ms", IDLE.as_millis());
    let identity = Identity::new();
    let config = offering(&identity, &VERSIONS, &["h2"]);
    let flags = [&identity.flags()[..], &["--idle-timeout", &idle, "--head-timeout", &idle]].concat();
    over_all(&flags, |server, _| {
        for end in [HELLO.len(), HELLO.len() - 1] {
            expect_goodbye(&mut server.connect(), &HELLO[..end]);
            expect_goodbye(&mut connect(server.another_address(0), &config), &HELLO[..end]);
        }
        assert_eq!(server.stop().value(Counter::Timeouts), 4);
    });
}

fn expect_goodbye<S: Read + Write>(client: &mut sojourn_testing::Client<S>, said: &[u8]) {
    client.send(said);
    let rest = client.rest();
    assert_eq!(frames(&rest, GOAWAY).len(), 1, "{rest:?}");
}

#[test]
fn who_only_pings_is_left() {
    const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0pingpong";
    let idle = format!("{}ms", IDLE.as_millis());
    let identity = Identity::new();
    let config = offering(&identity, &VERSIONS, &["h2"]);
    let flags = [&identity.flags()[..], &["--idle-timeout", &idle]].concat();
    over_all(&flags, |server, _| {
        for first_bytes in [0, 5] {
            let mut client = server.connect();
            greet(&mut client, HELLO.len());
            ping_until_left(&server, &client.stream, first_bytes, || PING.to_vec());
            let mut client = connect(server.another_address(0), &config);
            greet(&mut client, HELLO.len());
            let (session, socket) = (&mut client.stream.conn, &client.stream.sock);
            ping_until_left(&server, socket, first_bytes, || {
                let mut record = Vec::new();
                session.writer().write_all(PING).unwrap();
                session.write_tls(&mut record).unwrap();
                record
            });
        }
    });
}

/// Sends pings, of each so many bytes first and then the rest, until the server has left another client.
fn ping_until_left(
    server: &Server,
    mut socket: &TcpStream,
    first_bytes: usize,
    mut ping: impl FnMut() -> Vec<u8>,
) {
    let (begun, before) = (Instant::now(), server.counters().value(Counter::Timeouts));
    while server.counters().value(Counter::Timeouts) == before {
        assert!(begun.elapsed() < DEADLINE, "it is still there");
        let ping = ping();
        for part in [&ping[..first_bytes], &ping[first_bytes..]] {
            // The server may have closed.
            let _ = socket.write_all(part);
            std::thread::sleep(IDLE / 6);
        }
    }
}

#[test]
fn h2spec() {
    if Command::new("h2spec").arg("--version").output().is_err() {
        eprintln!(
            "skipped: h2spec is not installed (go install github.com/summerwind/h2spec/cmd/h2spec@latest)"
        );
        return;
    }
    let identity = Identity::new();
    // One per driver, because the frames do not depend on anything else.
    std::thread::scope(|scope| {
        for architecture in ["amped", "uring", "mt"] {
            let identity = &identity;
            scope.spawn(move || {
                let root = fixture::site();
                let server = Server::start(architecture, root.path(), &identity.flags());
                // Without TLS, anything but the preface is HTTP/1 and refused as such.
                check_h2spec(server.address, &[], &["Sends invalid connection preface"]);
                check_h2spec(server.another_address(0), &["--tls", "--insecure"], &[]);
                server.stop();
            });
        }
    });
}

/// Runs h2spec against `address` with `flags`; only the named tests may fail.
fn check_h2spec(address: SocketAddr, flags: &[&str], may_fail: &[&str]) {
    let port = address.port().to_string();
    let arguments = ["--host", "127.0.0.1", "--port", &port, "--timeout", "5", "--path", "/hello.txt"];
    let mut command = Command::new("h2spec");
    let output = command.args(arguments).args(flags).args(["generic", "http2", "hpack"]).output().unwrap();
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed = report.split("Failures:").nth(1).unwrap_or_default();
    let mut failed = failed.lines().filter(|line| line.trim_start().starts_with('×'));
    assert!(failed.all(|line| may_fail.iter().any(|name| line.ends_with(name))), "{report}");
    assert!(report.contains("145 tests, "), "{report}");
}
