//! Tests of upgrades through the proxy (RFC 9110, 7.8), such as WebSocket: the bytes behind both heads, both ways at once, with
//! TLS on either side, and what is not passed on.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ServerConnection, StreamOwned};
use sojourn_server::{ALL, Counter};
use sojourn_testing::client::{exchange, status, with_deadline};
use sojourn_testing::until;
use sojourn_testing::upstream::{Peer, Upstream};

use super::{OK, over_all, proxy};
use crate::engine::tls::{self, Identity};
use crate::engine::{Client, ENGINE, Server};

const ASK: &str = "GET /chat HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Key: x\r\n\r\n";

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Accept: y\r\n\r\n";

const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Accept: y\r\nVia: 1.1 me\r\n\r\n";

/// More than sockets hold on the way from one side to the other.
const LONG: usize = 16 * 1024 * 1024;

/// An upstream that switches and returns what it gets, until the end.
fn echo() -> Upstream {
    Upstream::start(|peer| {
        peer.head();
        peer.send(SWITCH.as_bytes());
        while let Some(byte) = peer.take(1) {
            peer.send(&byte);
        }
    })
}

/// A client that has switched through `server`.
fn switched(server: &Server) -> Client {
    switched_at(server, "/chat")
}

/// The same with this target. Nothing behind the head has been read.
fn switched_at(server: &Server, target: &str) -> Client {
    let mut client = server.connect();
    client.send(ASK.replace("/chat", target).as_bytes());
    let mut head = vec![0; SWITCHED.len()];
    client.stream.read_exact(&mut head).unwrap();
    assert_eq!(String::from_utf8(head).unwrap(), SWITCHED);
    client
}

#[test]
fn bytes_behind_both_heads_pass_and_each_side_may_end_first() {
    let serve = |peer: &mut Peer| {
        while let Some(head) = peer.head() {
            if head.starts_with("GET /first") {
                peer.send(OK);
                continue;
            }
            peer.send(format!("{SWITCH}early").as_bytes());
            assert_eq!(peer.until(b"!"), b"also early!");
            if head.starts_with("GET /ends") {
                peer.stream.shutdown(Shutdown::Write).unwrap();
                assert_eq!(peer.until(b"!"), b"still there!");
                return;
            }
            assert!(peer.take(1).is_none(), "the client's end is passed on");
            peer.send(b"the rest");
            return;
        }
    };
    over_all(
        &[],
        || Upstream::start(serve),
        |server, upstream| {
            let mut client = server.connect();
            // The connection to the upstream has been used before.
            client.send(b"GET /first HTTP/1.1\r\nHost: h\r\n\r\n");
            client.until(b"hello");
            client.send(format!("{ASK}also early!").as_bytes());
            assert_eq!(String::from_utf8(client.take(SWITCHED.len())).unwrap(), SWITCHED);
            assert_eq!(client.take(5), b"early");
            client.end();
            assert_eq!(client.rest(), b"the rest");
            server.wait_until(Counter::TunnelsOpen, 0);
            server.wait_until(Counter::UpstreamConnectionsOpen, 0);
            assert_eq!(upstream.connections(), 1);
            let mut client = server.connect();
            client.send(format!("{}also early!", ASK.replace("/chat", "/ends")).as_bytes());
            assert!(client.rest().ends_with(b"\r\n\r\nearly"), "the upstream's end is passed on");
            client.send(b"still there!");
            drop(client);
            server.wait_until(Counter::TunnelsOpen, 0);
            let head = &upstream.heads()[1];
            for line in ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x", "Host: h"] {
                assert!(head.contains(&format!("\r\n{line}\r\n")), "{line}: {head}");
            }
            assert!(
                head.contains("\r\nX-Forwarded-For: 127.0.0.1\r\n") && !head.contains("keep-alive"),
                "{head}"
            );
            let counters = server.counters();
            assert_eq!(counters.value(Counter::Tunnels), 2);
            assert_eq!(counters.value(Counter::TunnelSentBytes), 34);
            assert_eq!(counters.value(Counter::TunnelReceivedBytes), 18);
            assert_eq!(counters.value(Counter::UpstreamFailures), 0);
            assert_eq!(counters.value(Counter::ConnectionErrors), 0);
        },
    );
}

#[test]
fn only_what_was_asked_for_is_switched_to() {
    let serve = |peer: &mut Peer| {
        while let Some(head) = peer.head() {
            let answer = match head.split(' ').nth(1).unwrap() {
                "/200" => OK,
                "/426" => {
                    b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket, h2c\r\nConnection: Upgrade\r\n\
                        Content-Length: 5\r\n\r\nhello"
                }
                "/other" => {
                    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n"
                }
                "/none" => b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
                "/1.0" => {
                    b"HTTP/1.0 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
                }
                _ => SWITCH.as_bytes(),
            };
            peer.send(answer);
        }
    };
    over_all(
        &["--upstream-failures-max", "1000"],
        || Upstream::start(serve),
        |server, upstream| {
            let mut client = server.connect();
            for _ in 0..2 {
                client.send(ASK.replace("/chat", "/200").as_bytes());
                let answer = String::from_utf8(client.until(b"hello")).unwrap();
                assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && !answer.contains("Upgrade"), "{answer}");
            }
            client.send(b"GET /426 HTTP/1.1\r\nHost: h\r\n\r\n");
            let answer = String::from_utf8(client.until(b"hello")).unwrap();
            assert_eq!(status(&answer), "426");
            assert!(answer.contains("\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"), "{answer}");
            assert!(upstream.heads().iter().take(2).all(|head| head.contains("\r\nUpgrade: websocket\r\n")));
            let ask = |target: &str, version: &str, upgrade: &str, rest: &str| {
                format!(
                    "GET {target} HTTP/{version}\r\nHost: h\r\nConnection: close, Upgrade\r\nUpgrade: {upgrade}\r\n{rest}"
                )
            };
            for target in ["/other", "/none", "/1.0"] {
                let answer = exchange(&mut server.connect(), &ask(target, "1.1", "websocket", "\r\n"));
                assert_eq!(status(&answer), "502", "{target}: {answer}");
            }
            // These ask for nothing, so a 101 is no answer.
            let before = upstream.heads().len();
            for request in [
                ask("/", "1.0", "websocket", "\r\n"),
                ask("/", "1.1", "h2c", "HTTP2-Settings: AAMAAABk\r\n\r\n"),
                ask("/", "1.1", "websocket", "Content-Length: 2\r\n\r\nab"),
                ask("/", "1.1", "websocket", "\r\n").replace(", Upgrade", ""),
                ask("/", "1.1", "websocket", "\r\n").replace("GET", "POST"),
            ] {
                let answer = exchange(&mut server.connect(), &request);
                assert_eq!(status(&answer), "502", "{request}: {answer}");
            }
            for head in &upstream.heads()[before..] {
                assert!(!head.contains("Upgrade") && !head.contains("HTTP2"), "{head}");
            }
            assert_eq!(server.counters().value(Counter::Tunnels), 0);
        },
    );
}

/// Sends everything before it reads anything.
fn write_first(stream: &mut (impl Read + Write)) {
    stream.write_all(&vec![b'w'; LONG]).unwrap();
    stream.flush().unwrap();
    read_long(stream);
}

/// Reads and writes at once.
fn both_at_once(mut stream: &TcpStream) {
    std::thread::scope(|scope| {
        scope.spawn(|| read_long(&mut &*stream));
        stream.write_all(&vec![b'b'; LONG]).unwrap();
    });
}

fn read_long(stream: &mut impl Read) {
    let (mut chunk, mut count) = (vec![0; 256 * 1024], 0);
    while count < LONG {
        match stream.read(&mut chunk).unwrap() {
            0 => panic!("the connection ended after {count} bytes"),
            more => count += more,
        }
    }
}

#[test]
fn neither_side_waits_for_the_other_to_read() {
    let serve = |peer: &mut Peer| {
        let head = peer.head().unwrap();
        peer.send(SWITCH.as_bytes());
        if head.starts_with("GET /stubborn") {
            write_first(&mut peer.stream)
        } else {
            both_at_once(&peer.stream)
        }
        assert!(peer.is_closed());
    };
    over_all(
        &[],
        || Upstream::start(serve),
        |server, _| {
            write_first(&mut switched(server).stream);
            let client = switched_at(server, "/stubborn");
            both_at_once(&client.stream);
            drop(client);
            server.wait_until(Counter::TunnelsOpen, 0);
            assert_eq!(server.counters().value(Counter::TunnelSentBytes), 2 * LONG as u64);
            assert_eq!(server.counters().value(Counter::TunnelReceivedBytes), 2 * LONG as u64);
        },
    );
}

#[test]
fn a_client_with_tls_switches_to_a_plain_upstream() {
    let identity = Identity::new();
    let (flags, config) = (identity.flags(), identity.trusted());
    let serve = |peer: &mut Peer| {
        let head = peer.head().unwrap();
        assert!(head.contains("\r\nX-Forwarded-Proto: https\r\n"), "{head}");
        peer.send(format!("{SWITCH}early").as_bytes());
        assert_eq!(peer.until(b"!"), b"also early!");
        both_at_once(&peer.stream);
        assert!(peer.take(1).is_none());
    };
    over_all(
        &flags,
        || Upstream::start(serve),
        |server, _| {
            let mut client = tls::connect(server.another_address(0), &config);
            client.send(format!("{ASK}also early!").as_bytes());
            assert_eq!(String::from_utf8(client.take(SWITCHED.len())).unwrap(), SWITCHED);
            assert_eq!(client.take(5), b"early");
            write_first(&mut client.stream);
            client.stream.conn.send_close_notify();
            client.stream.flush().unwrap();
            assert_eq!(client.rest(), b"", "the upstream's end is passed on");
            server.wait_until(Counter::TunnelsOpen, 0);
            assert_eq!(server.counters().value(Counter::TunnelSentBytes), LONG as u64 + 11);
        },
    );
}

/// An upstream with TLS that switches, and handles the rest by `serve`.
fn secure_upstream(
    identity: &Identity,
    serve: impl Fn(&mut StreamOwned<ServerConnection, TcpStream>) + Send + Sync + 'static,
) -> SocketAddr {
    let (config, listener) = (identity.server_config(), TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (session, serve) = (ServerConnection::new(Arc::clone(&config)).unwrap(), Arc::clone(&serve));
            std::thread::spawn(move || {
                let mut stream = StreamOwned::new(session, with_deadline(stream));
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    head.push(byte[0]);
                }
                stream.write_all(format!("{SWITCH}early").as_bytes()).unwrap();
                serve(&mut stream);
            });
        }
    });
    address
}

fn proxy_to_secure(architecture: &str, upstream: SocketAddr, identity: &Identity) -> Server {
    let certificate = identity.certificate();
    let mut command = Command::new(ENGINE);
    command.args(["proxy", "--listen", "127.0.0.1:0", "--architecture", architecture, "--via", "me"]);
    command.args(["--upstream", &format!("https://localhost:{}", upstream.port())]);
    command.args(["--upstream-ca", certificate.to_str().unwrap()]);
    Server::run(command.args(identity.flags()))
}

#[test]
fn an_upstream_with_tls_switches() {
    let identity = Identity::new();
    let (config, upstream) = (identity.trusted(), secure_upstream(&identity, write_first));
    for architecture in ALL.iter().filter(|architecture| architecture.cache_scope().is_some()) {
        eprintln!("{}:", architecture.name());
        let server = proxy_to_secure(architecture.name(), upstream, &identity);
        let mut client = switched(&server);
        let mut early = [0; 5];
        client.stream.read_exact(&mut early).unwrap();
        assert_eq!(&early, b"early");
        both_at_once(&client.stream);
        drop(client);
        server.wait_until(Counter::TunnelsOpen, 0);
        // With TLS on both sides.
        let mut client = tls::connect(server.another_address(0), &config);
        client.send(ASK.as_bytes());
        client.take(SWITCHED.len() + 5);
        client.send(&vec![b'c'; LONG / 64]);
        let count = client.take(LONG / 64).len();
        assert_eq!(count, LONG / 64);
        drop(client);
        server.wait_until(Counter::TunnelsOpen, 0);
        server.stop();
    }
}

#[test]
fn a_tunnel_has_limits_and_holds_its_connection() {
    let one_loop: [&[&str]; 2] = [&[], &["--workers", "1"]];
    for (architecture, workers) in ["amped", "uring"].into_iter().zip(one_loop) {
        let upstream = echo();
        let limits = [
            "--tunnels-per-client",
            "1",
            "--upstream-connections-max",
            "1",
            "--upstream-queue-timeout",
            "100ms",
        ];
        let server = proxy(architecture, &[upstream.address], &[workers, &limits].concat());
        let mut client = switched(&server);
        let answer = exchange(&mut server.connect(), &ASK.replace("keep-alive", "close"));
        assert!(
            status(&answer) == "503"
                && answer.contains("\r\nProxy-Status: me; error=connection_limit_reached\r\n"),
            "{answer}"
        );
        server.wait_until(Counter::LimitTunnelsPerClient, 1);
        assert_eq!(server.counters().value(Counter::TunnelsOpen), 1);
        let other = exchange(&mut server.connect(), "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        assert_eq!(status(&other), "503", "its connection is in use: {other}");
        client.send(b"x");
        assert_eq!(client.take(1), b"x");
        drop(client);
        server.wait_until(Counter::TunnelsOpen, 0);
        drop(switched(&server));

        let server = proxy(architecture, &[upstream.address], &["--tunnel-idle-timeout", "300ms"]);
        assert_eq!(switched(&server).rest(), b"");
        server.wait_until(Counter::TunnelsOpen, 0);
        assert_eq!(server.counters().value(Counter::LimitTunnelIdle), 1);

        let server = proxy(architecture, &[upstream.address], &["--drain-timeout", "300ms"]);
        let mut client = switched(&server);
        server.request_stop();
        assert_eq!(client.rest(), b"");
        server.wait();
    }
}

#[test]
fn whoever_leaves_takes_the_other_side_along() {
    let resets = || {
        Upstream::start(|peer| {
            if peer.head().unwrap().starts_with("GET /late") {
                std::thread::sleep(Duration::from_millis(100));
                peer.send(SWITCH.as_bytes());
                assert!(peer.is_closed());
            } else {
                peer.send(SWITCH.as_bytes());
                peer.take(1);
                peer.reset();
            }
        })
    };
    over_all(&[], resets, |server, _| {
        let mut client = switched(server);
        client.send(b"x");
        assert_eq!(client.rest(), b"");
        server.wait_until(Counter::TunnelsOpen, 0);
        // It does not wait for its answer.
        let mut client = server.connect();
        client.send(ASK.replace("/chat", "/late").as_bytes());
        rustix::net::sockopt::set_socket_linger(&client.stream, Some(Duration::ZERO)).unwrap();
        drop(client);
        server.wait_until(Counter::ConnectionsOpen, 0);
        server.wait_until(Counter::UpstreamConnectionsOpen, 0);
        server.wait_until(Counter::TunnelsOpen, 0);
    });
}

#[test]
fn one_line_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let flags = ["--access-log", path.to_str().unwrap(), "--access-log-format", "combined-cache"];
    over_all(&flags, echo, |server, _| {
        let mut client = switched(server);
        client.send(b"12345");
        assert_eq!(client.take(5), b"12345");
        drop(client);
        server.wait_until(Counter::TunnelsOpen, 0);
        let line = until("a line is written", || {
            let text = fs::read_to_string(&path).unwrap();
            text.ends_with('\n').then_some(text)
        });
        assert!(line.contains("\"GET /chat HTTP/1.1\" 101 5 ") && line.ends_with(" TCP_TUNNEL\n"), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
        fs::write(&path, "").unwrap();
    });
}
