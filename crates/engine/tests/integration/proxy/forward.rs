//! Tests of the forward proxy over sockets: permitted and refused destinations, and tunnels.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use crate::engine::tls::{self, Identity};
use crate::engine::{Client, ENGINE, Server};
use sojourn_server::{ALL, CacheScope, Counter};
use sojourn_testing::client::ask;
use sojourn_testing::client::with_deadline;
use sojourn_testing::upstream::Upstream;
use sojourn_testing::{fixture, until};

/// Flags that let tests reach origins on this host.
const OPEN: &[&str] = &["--allow-address", "127.0.0.0/8", "--allow-tunnel-port", "1024-65535"];

const FRESH: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: max-age=60\r\n\r\nhello";

fn forward(architecture: &str, flags: &[&str]) -> Server {
    let mut command = Command::new(ENGINE);
    command.args(["proxy", "--forward", "--listen", "127.0.0.1:0", "--architecture", architecture]);
    Server::run(command.args(["--via", "me"]).args(flags))
}

/// Runs `test` over every architecture that supports a proxy, one after the other.
fn over_all(flags: &[&str], test: impl Fn(&Server)) {
    over(|scope| scope.is_some(), flags, test);
}

/// The same over single-process architectures.
fn over_sharing(flags: &[&str], test: impl Fn(&Server)) {
    over(|scope| scope == Some(CacheScope::Server), flags, test);
}

fn over(has_part: impl Fn(Option<CacheScope>) -> bool, flags: &[&str], test: impl Fn(&Server)) {
    for architecture in ALL.iter().filter(|architecture| has_part(architecture.cache_scope())) {
        eprintln!("{}:", architecture.name());
        let server = forward(architecture.name(), flags);
        test(&server);
        server.stop();
    }
}

fn exchange(server: &Server, request: &str) -> String {
    let mut client = server.connect();
    client.send(request.as_bytes());
    String::from_utf8_lossy(&client.rest()).into_owned()
}

fn get(server: &Server, target: &str) -> String {
    exchange(server, &format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"))
}

#[test]
fn connections_to_origins_are_kept_as_many_as_are_allowed() {
    for (idle_max, connections) in [("0", 2), ("1", 1)] {
        let origin = Upstream::answering(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: no-store\r\n\r\nhello",
        );
        let server = forward("amped", &[OPEN, &["--upstream-idle-max", idle_max]].concat());
        for _ in 0..2 {
            let response = get(&server, &format!("http://{}/", origin.address));
            assert!(response.ends_with("hello"), "{response}");
        }
        assert_eq!(origin.connections(), connections, "{idle_max}");
        server.stop();
    }
}

/// A tunnel to `origin`, or the response that refuses it.
fn tunnel(server: &Server, origin: impl ToString) -> Result<Client, String> {
    let origin = origin.to_string();
    let mut client = server.connect();
    client.send(format!("CONNECT {origin} HTTP/1.1\r\nHost: {origin}\r\n\r\n").as_bytes());
    let expected = b"HTTP/1.1 200 Connection established\r\n\r\n";
    let start = client.take(12);
    if start == expected[..12] {
        assert_eq!(client.take(expected.len() - 12), expected[12..]);
        return Ok(client);
    }
    Err(String::from_utf8([start, client.rest()].concat()).unwrap())
}

/// An origin that handles each connection by `serve`.
fn origin(serve: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = serve.clone();
            std::thread::spawn(move || serve(with_deadline(stream)));
        }
    });
    address
}

fn read_all(mut stream: &TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    all
}

#[test]
fn requests_go_where_they_say() {
    over_sharing(OPEN, |server| {
        let (one, other) = (Upstream::answering(FRESH), Upstream::answering(FRESH));
        for (origin, target) in [(&one, "a"), (&other, "a"), (&one, "b?c")] {
            let answer = get(server, &format!("http://{}/{target}", origin.address));
            assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("hello"), "{answer}");
        }
        let head = &one.heads()[0];
        assert!(head.starts_with("GET /a HTTP/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("\r\nHost: {}\r\n", one.address)), "{head}");
        assert!(head.contains("\r\nVia: 1.1 me\r\n") && !head.contains("orwarded"), "{head}");
        // The cache key includes the host in normalised form; equal names share an entry.
        let again = get(server, &format!("http://{}/a", one.address));
        assert!(again.contains("Cache-Status: me; hit"), "{again}");
        for _ in 0..2 {
            let named = get(server, &format!("http://LocalHost:{}/a", one.address.port()));
            assert!(named.ends_with("hello"), "{named}");
        }
        assert_eq!((one.heads().len(), other.heads().len()), (3, 1));
        // The normalised form of the key is sent: no client's spelling is stored for others.
        assert!(one.heads()[2].contains("\r\nHost: localhost:"), "{:?}", one.heads());
        server.wait_until(Counter::Requests, 6);
        assert_eq!(server.counters().value(Counter::Lookups), 1);
    });
}

/// RFC 9110, 7.7; RFC 9112, 3.2.2 and 3.2.4; RFC 9110, 7.6.2.
#[test]
fn paths_and_queries_arrive_as_they_were_written() {
    over_sharing(OPEN, |server| {
        let origin = Upstream::answering(FRESH);
        let lines = [
            ("GET", "/%7Euser/%c3?a=%7e", "", "GET /%7Euser/%c3?a=%7e HTTP/1.1"),
            ("GET", "?x=1", "", "GET /?x=1 HTTP/1.1"),
            ("OPTIONS", "", "Max-Forwards: 5\r\n", "OPTIONS * HTTP/1.1"),
            ("OPTIONS", "/", "", "OPTIONS / HTTP/1.1"),
        ];
        for (index, (method, target, fields, expected)) in lines.into_iter().enumerate() {
            ask(server, method, &format!("http://{}{target}", origin.address), fields);
            let head = &origin.heads()[index];
            assert!(head.starts_with(&format!("{expected}\r\n")), "{head}");
        }
        assert!(origin.heads()[2].contains("\r\nMax-Forwards: 4\r\n"), "{:?}", origin.heads());
        // An origin may distinguish the spellings.
        get(server, &format!("http://{}/~user/%c3?a=%7e", origin.address));
        assert_eq!(origin.heads().len(), 5);
    });
}

#[test]
fn bodies_go_along() {
    over_all(OPEN, |server| {
        let upstream = Upstream::start(|peer| {
            while peer.head().is_some() {
                let body = peer.until(b"END");
                peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes());
                peer.send(&body);
            }
        });
        let body = "x".repeat(300_000) + "END";
        let head = format!(
            "POST http://localhost:{}/ HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            upstream.address.port(),
            body.len()
        );
        assert!(exchange(server, &(head + &body)).ends_with(&body));
    });
}

/// Checks a refusal: the status, and the error in Proxy-Status.
fn check(server: &Server, request: &str, status: &str, error: &str) {
    let answer = exchange(server, request);
    assert_eq!(answer.get(9..12), Some(status), "{request}: {answer}");
    assert!(answer.contains(&format!("\r\nProxy-Status: me; error={error}\r\n")), "{request}: {answer}");
    assert!(answer.contains("\n<p>"), "{answer}");
}

#[test]
fn it_is_closed_unless_it_is_opened() {
    let upstream = Upstream::answering(FRESH);
    let port = upstream.address.port();
    over_all(&[], |server| {
        let absolute =
            |host: &str| format!("GET http://{host}/ HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        for host in [
            "127.0.0.1",
            "127.1.2.3",
            "localhost",
            "LOCALHOST.",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "0.0.0.0",
            "[::]",
        ] {
            check(server, &absolute(&format!("{host}:{port}")), "403", "destination_ip_prohibited");
        }
        for host in [
            "10.0.0.1",
            "192.168.0.1",
            "169.254.169.254",
            "[fd00:ec2::254]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "224.0.0.1",
        ] {
            check(server, &absolute(host), "403", "destination_ip_prohibited");
        }
        check(server, &absolute("1.1.1.1:25"), "403", "http_request_denied");
        check(server, &absolute("1.1.1.1:0"), "400", "http_request_error");
        let connect = |target: &str| format!("CONNECT {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        check(server, &connect("localhost:443"), "403", "destination_ip_prohibited");
        check(server, &connect("1.1.1.1:80"), "403", "http_request_denied");
        check(server, &connect("127.1:443"), "400", "http_request_error");
        check(server, &connect("h"), "400", "http_request_error");
        check(server, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "400", "http_request_error");
        check(server, "GET / HTTP/1.0\r\n\r\n", "400", "http_request_error");
        // No host name is this long, so no DNS server is asked.
        check(server, &absolute(&format!("{}.example", "a".repeat(64))), "502", "dns_error");
        // Counters are published a moment after the response.
        server.wait_until(Counter::ForwardDeniedAddress, 16);
        server.wait_until(Counter::ForwardDeniedPort, 2);
        server.wait_until(Counter::ForwardDeniedTarget, 5);
        server.wait_until(Counter::LookupFailures, 1);
        assert_eq!(server.counters().value(Counter::UpstreamConnections), 0);
    });
    over_all(&["--client", "192.0.2.0/24", "--allow-address", "127.0.0.0/8"], |server| {
        check(
            server,
            &format!("GET http://127.0.0.1:{port}/ HTTP/1.0\r\n\r\n"),
            "403",
            "http_request_denied",
        );
        check(server, "CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: h\r\n\r\n", "403", "http_request_denied");
        server.wait_until(Counter::ForwardDeniedClient, 2);
    });
    assert_eq!(upstream.connections(), 0);
}

#[test]
fn origins_that_do_not_answer() {
    over_all(OPEN, |server| {
        let dead = Upstream::dead();
        let answer = get(server, &format!("http://{dead}/"));
        assert_eq!(answer.get(9..12), Some("502"), "{answer}");
        let answer = tunnel(server, dead).err().unwrap();
        assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("Connection: close\r\n"), "{answer}");
        for request in ["GET http://127.0.0.1:1/", "CONNECT 127.0.0.1:1024"] {
            let request =
                format!("{request} HTTP/1.1\r\nHost: h\r\nVia: 1.1 me\r\nConnection: close\r\n\r\n");
            let answer = exchange(server, &request);
            // Port 1 is refused before the check for loops.
            let expected = if request.starts_with("GET") { "403" } else { "508" };
            assert_eq!(answer.get(9..12), Some(expected), "{answer}");
        }
        let looped =
            format!("GET http://{dead}/ HTTP/1.1\r\nHost: h\r\nVia: 1.1 me\r\nConnection: close\r\n\r\n");
        assert_eq!(exchange(server, &looped).get(9..12), Some("508"));
    });
}

#[test]
fn a_tunnel_passes_what_comes_both_ways_at_once() {
    const BYTES: usize = 8 * 1024 * 1024;
    // The origin sends everything before it reads; the client sends everything before it reads.
    let busy = origin(|stream| {
        let reading = stream.try_clone().unwrap();
        let reader = std::thread::spawn(move || read_all(&reading).len());
        (&stream).write_all(&vec![b'o'; BYTES]).unwrap();
        let count = reader.join().unwrap();
        write!(&stream, "{count}").unwrap();
    });
    over_all(OPEN, |server| {
        let mut client = tunnel(server, busy).unwrap();
        client.send(&vec![b'c'; BYTES]);
        client.end();
        let all = client.rest();
        assert_eq!(all.len(), BYTES + BYTES.to_string().len());
        assert!(all.ends_with(BYTES.to_string().as_bytes()));
        server.wait_until(Counter::TunnelsOpen, 0);
        let counters = server.counters();
        assert_eq!(counters.value(Counter::Tunnels), 1);
        assert_eq!(counters.value(Counter::TunnelSentBytes), BYTES as u64);
        assert_eq!(counters.value(Counter::TunnelReceivedBytes), all.len() as u64);
        assert_eq!(counters.value(Counter::ConnectionErrors), 0);
    });
}

#[test]
fn either_side_ends_first() {
    let greets = origin(|stream| {
        (&stream).write_all(b"hello").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let said = read_all(&stream);
        assert_eq!(said, b"bye");
    });
    let resets = origin(|mut stream| {
        let _ = stream.read(&mut [0; 1]);
        rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO)).unwrap();
    });
    let echoes = origin(|mut stream| {
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut chunk) {
            stream.write_all(&chunk[..count]).unwrap();
        }
    });
    over_all(OPEN, |server| {
        let mut client = tunnel(server, format!("localhost:{}", greets.port())).unwrap();
        assert_eq!(client.rest(), b"hello", "the end of one way is passed on");
        client.send(b"bye");
        drop(client);
        let mut client = tunnel(server, resets).unwrap();
        client.send(b"x");
        assert_eq!(client.rest(), b"");
        // Data sent with the request passes, too; the client leaves without closing properly.
        let mut client = server.connect();
        client.send(format!("CONNECT {echoes} HTTP/1.1\r\nHost: h\r\n\r\nearly").as_bytes());
        assert!(client.take(44).ends_with(b"\r\n\r\nearly"));
        rustix::net::sockopt::set_socket_linger(&client.stream, Some(std::time::Duration::ZERO)).unwrap();
        drop(client);
        server.wait_until(Counter::TunnelsOpen, 0);
        server.wait_until(Counter::ConnectionsOpen, 0);
    });
}

#[test]
fn a_client_with_tls_opens_a_tunnel() {
    let identity = Identity::new();
    let (flags, config) = ([OPEN, &identity.flags()].concat(), identity.trusted());
    let echoes = origin(|mut stream| {
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut chunk) {
            stream.write_all(&chunk[..count]).unwrap();
        }
    });
    over_all(&flags, |server| {
        let mut client = tls::connect(server.another_address(0), &config);
        client.send(format!("CONNECT {echoes} HTTP/1.1\r\nHost: h\r\n\r\nearly").as_bytes());
        assert!(client.take(44).ends_with(b"\r\n\r\nearly"));
        client.send(b"late");
        assert_eq!(client.take(4), b"late");
        client.stream.conn.send_close_notify();
        client.stream.flush().unwrap();
        assert_eq!(client.rest(), b"");
        server.wait_until(Counter::TunnelsOpen, 0);
    });
}

#[test]
fn tunnels_have_limits() {
    let silent = origin(|stream| drop(read_all(&stream)));
    let one_loop: [&[&str]; 2] = [&[], &["--workers", "1"]];
    for (architecture, workers) in ["amped", "uring"].into_iter().zip(one_loop) {
        let server = forward(architecture, &[OPEN, workers, &["--tunnels-per-client", "1"]].concat());
        let client = tunnel(&server, silent).unwrap();
        let answer = tunnel(&server, silent).err().unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 503 ") && answer.contains("connection_limit_reached"),
            "{answer}"
        );
        server.wait_until(Counter::LimitTunnelsPerClient, 1);
        drop(client);
        server.wait_until(Counter::TunnelsOpen, 0);
        assert!(tunnel(&server, silent).is_ok(), "there is room again");
        let server = forward(architecture, &[OPEN, &["--tunnel-idle-timeout", "300ms"]].concat());
        assert_eq!(tunnel(&server, silent).unwrap().rest(), b"");
        server.wait_until(Counter::TunnelsOpen, 0);
        assert_eq!(server.counters().value(Counter::LimitTunnelIdle), 1);
    }
}

#[test]
fn a_stop_ends_tunnels_at_the_drain_timeout() {
    let silent = origin(|stream| drop(read_all(&stream)));
    let flags = [OPEN, &["--drain-timeout", "300ms"]].concat();
    for architecture in ["amped", "uring"] {
        let server = forward(architecture, &flags);
        let mut client = tunnel(&server, silent).unwrap();
        server.request_stop();
        assert_eq!(client.rest(), b"");
        server.wait();
    }
}

#[test]
fn https_is_fetched_by_tls() {
    let (identity, other, root) = (Identity::new(), Identity::new(), fixture::site());
    let origin = Server::start("amped", root.path(), &identity.flags());
    let port = origin.another_address(0).port();
    let (right, wrong) = (identity.certificate(), other.certificate());
    let trusting = |file: &std::path::Path| ["--upstream-ca".to_owned(), file.to_str().unwrap().to_owned()];
    let (right, wrong) = (trusting(&right), trusting(&wrong));
    let flags: Vec<&str> = OPEN.iter().copied().chain(right.iter().map(String::as_str)).collect();
    over_all(&flags, |server| {
        let answer = get(server, &format!("https://localhost:{port}/hello.txt"));
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("\r\n\r\nhello"), "{answer}");
        // Under another scheme it is a different resource, and that port accepts only TLS.
        let plain = get(server, &format!("http://localhost:{port}/hello.txt"));
        assert!(!plain.starts_with("HTTP/1.1 200 "), "{plain}");
        // The certificate is not for the address.
        let by_address = get(server, &format!("https://127.0.0.1:{port}/hello.txt"));
        assert!(by_address.starts_with("HTTP/1.1 502 "), "{by_address}");
        until("a handshake is counted", || {
            (server.counters().value(Counter::UpstreamTlsHandshakes) >= 1).then_some(())
        });
    });
    let distrustful = forward("amped", &[OPEN, &[&wrong[0], &wrong[1]]].concat());
    assert!(get(&distrustful, &format!("https://localhost:{port}/")).starts_with("HTTP/1.1 502 "));
    let closed = forward("amped", &[&right[0], &right[1]]);
    let absolute = |to: &str| format!("GET https://{to}/ HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    check(&closed, &absolute(&format!("localhost:{port}")), "403", "destination_ip_prohibited");
    check(&closed, &absolute("1.1.1.1:25"), "403", "http_request_denied");
    check(&closed, &absolute("10.0.0.1"), "403", "destination_ip_prohibited");
}

/// curl's output through the proxy at `server`; `None` without curl.
fn curl(server: &Server, flags: &[&str]) -> Option<Vec<u8>> {
    let proxy = format!("http://{}", server.address);
    let output = Command::new("curl").args(["-s", "--max-time", "60", "-x", &proxy]).args(flags).output();
    output.ok().map(|output| output.stdout)
}

#[test]
fn curl_gets_through() {
    let (identity, root) = (Identity::new(), fixture::site());
    let origin = Server::start("amped", root.path(), &identity.flags());
    let (certificate, port) = (identity.certificate(), origin.another_address(0).port());
    let plain = format!("http://{}/{{hello.txt,large.bin}}", origin.address);
    let secure = format!("https://localhost:{port}/{{hello.txt,large.bin}}");
    let expected = [b"hello", &fixture::large()[..]].concat();
    over_all(OPEN, |server| {
        let Some(got) = curl(server, &[&plain]) else { return };
        assert!(got == expected, "by absolute targets");
        assert!(curl(server, &["--proxytunnel", &plain]).unwrap() == expected, "through a tunnel");
        let cacert = ["--cacert", certificate.to_str().unwrap(), &secure];
        assert!(curl(server, &cacert).unwrap() == expected, "with TLS through a tunnel");
        server.wait_until(Counter::TunnelsOpen, 0);
        assert_eq!(server.counters().value(Counter::Tunnels), 2);
    });
    over_all(&[], |server| {
        let flags = ["-o", "/dev/null", "-w", "%{http_connect} %{http_code} ", &secure, "--next", "-s", "-x"];
        let proxy = format!("http://{}", server.address);
        let rest = [&proxy[..], "-o", "/dev/null", "-w", "%{http_code}", &plain];
        let Some(said) = curl(server, &[&flags[..], &rest].concat()) else { return };
        assert!(String::from_utf8_lossy(&said).starts_with("403 000 "), "{said:?}");
        assert!(said.ends_with(b"403"), "{said:?}");
    });
}
