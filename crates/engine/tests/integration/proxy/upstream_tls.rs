//! Tests of TLS to upstreams: trust, session resumption, and no data without a verified certificate.

use std::io::Read;
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::tls::Identity;
use crate::engine::{ENGINE, Server};
use rustls::{ServerConnection, StreamOwned};
use sojourn_server::{ALL, CacheScope, Counter};
use sojourn_testing::client::with_deadline;
use sojourn_testing::fixture;

fn proxy(architecture: &str, upstream: &str, flags: &[&str]) -> Server {
    let mut command = Command::new(ENGINE);
    command.args(["proxy", "--listen", "127.0.0.1:0", "--architecture", architecture, "--cache-memory", "0"]);
    Server::run(command.args(["--upstream", upstream]).args(flags))
}

#[test]
fn what_an_upstream_has_over_tls() {
    let (identity, root) = (Identity::new(), fixture::site());
    let origin = Server::start("amped", root.path(), &identity.flags());
    let upstream = format!("https://localhost:{}", origin.another_address(0).port());
    let certificate = identity.certificate();
    let flags = [
        "--upstream-ca",
        certificate.to_str().unwrap(),
        "--upstream-idle-timeout",
        "100ms",
        "--upstream-failures-max",
        "1000",
    ];
    for architecture in
        ALL.iter().filter(|architecture| architecture.cache_scope() == Some(CacheScope::Server))
    {
        eprintln!("{}:", architecture.name());
        let server = proxy(architecture.name(), &upstream, &flags);
        assert!(server.get("/hello.txt").ends_with("\r\n\r\nhello"));
        let mut client = server.connect();
        client.send(b"GET /large.bin HTTP/1.0\r\nHost: h\r\n\r\n");
        assert!(client.rest().ends_with(&fixture::large()));
        server.wait_until(Counter::UpstreamConnectionsOpen, 0);
        let mut requests = 0;
        // Until each loop has a session for every upstream.
        while server.counters().value(Counter::UpstreamTlsHandshakesResumed) == 0 {
            assert!(server.get("/hello.txt").ends_with("\r\n\r\nhello"));
            server.wait_until(Counter::UpstreamConnectionsOpen, 0);
            requests += 1;
            assert!(requests < 20, "nothing is resumed: {:?}", server.counters());
        }
        assert_eq!(server.counters().value(Counter::UpstreamTlsHandshakesFailed), 0);
    }
}

#[test]
fn who_is_not_trusted_is_asked_nothing() {
    let (identity, other, root) = (Identity::new(), Identity::new(), fixture::site());
    let origin = Server::start("amped", root.path(), &identity.flags());
    let port = origin.another_address(0).port();
    let (right, wrong) = (identity.certificate(), other.certificate());
    let (right, wrong) = (right.to_str().unwrap(), wrong.to_str().unwrap());
    for architecture in ["amped", "uring"] {
        for (host, flags) in [
            (format!("localhost:{port}"), ["--upstream-ca", wrong]),
            (format!("127.0.0.1:{port}"), ["--upstream-ca", right]),
            // That port does not speak TLS.
            (origin.address.to_string(), ["--upstream-ca", right]),
        ] {
            let server = proxy(architecture, &format!("https://{host}"), &flags);
            let answer = server.get("/hello.txt");
            assert!(answer.starts_with("HTTP/1.1 502 "), "{host}: {answer}");
            server.wait_until(Counter::Requests, 1);
            let failed = server.counters().value(Counter::UpstreamTlsHandshakesFailed);
            assert!(failed > 0, "{host}");
        }
        let server = proxy(architecture, &format!("https://localhost:{port}"), &["--upstream-insecure"]);
        assert!(server.get("/hello.txt").ends_with("\r\n\r\nhello"));
    }
    // Requests without --upstream-insecure got only refusals.
    origin.wait_until(Counter::Responses2xx, 2);
}

#[test]
fn an_end_without_a_goodbye_is_no_end_of_a_body() {
    let identity = Identity::new();
    let (config, listener) = (identity.server_config(), TcpListener::bind("127.0.0.1:0").unwrap());
    let upstream = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(session, with_deadline(stream));
            let mut chunk = [0; 4096];
            let count = stream.read(&mut chunk).unwrap();
            std::io::Write::write_all(&mut stream, b"HTTP/1.1 200 OK\r\n\r\nhello").unwrap();
            if chunk[..count].starts_with(b"GET /whole") {
                stream.conn.send_close_notify();
            }
            std::io::Write::flush(&mut stream).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let certificate = identity.certificate();
    for architecture in ["amped", "uring"] {
        let server = proxy(architecture, &upstream, &["--upstream-ca", certificate.to_str().unwrap()]);
        for (target, is_whole) in [("/cut", false), ("/whole", true)] {
            let mut client = server.connect();
            client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes());
            let answer = String::from_utf8(client.rest()).unwrap();
            assert!(answer.contains("hello"), "{target}: {answer}");
            assert_eq!(answer.ends_with("\r\n0\r\n\r\n"), is_whole, "{target}: {answer}");
        }
    }
}

#[test]
fn mistakes_are_named() {
    for (flags, expected) in [
        (["--upstream", "http://h", "--upstream-insecure"].as_slice(), "no upstream uses TLS"),
        (
            &["--upstream", "https://localhost", "--upstream-ca", "/nowhere.pem"],
            "no CA certificates in /nowhere.pem",
        ),
    ] {
        let output = Command::new(ENGINE).arg("proxy").args(flags).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.starts_with(&format!("error: {expected}")) && said.contains("\nhint: "), "{said}");
    }
}
