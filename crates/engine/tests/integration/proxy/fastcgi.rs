//! Tests of the proxy with FastCGI applications: correct ones, broken ones, and ones that speak another protocol.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use sojourn_server::{ALL, CacheScope, Counter};

use crate::engine::{ENGINE, Server};
use sojourn_testing::client::{ask, exchange, get, status};
use sojourn_testing::upstream::{Peer, Upstream};

const END_REQUEST: u8 = 3;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

const HELLO: &[u8] = b"Content-Type: text/plain\n\nhello";

/// A request as the application receives it.
#[derive(Debug)]
pub struct Asked {
    pub variables: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

/// The next request; `None` at the end of the connection.
pub fn asked(peer: &mut Peer) -> Option<Asked> {
    let (mut parameters, mut body) = (Vec::new(), Vec::new());
    loop {
        let header = peer.take(8)?;
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let content = peer.take(length + usize::from(header[6]))?;
        assert_eq!((header[0], header[2], header[3]), (1, 0, 1), "version and request");
        match (header[1], &content[..length]) {
            // The responder role, keeping the connection.
            (1, begin) => assert_eq!(begin, [0, 1, 1, 0, 0, 0, 0, 0]),
            (4, more) => parameters.extend_from_slice(more),
            (5, b"") => return Some(Asked { variables: variables(&parameters), body }),
            (5, more) => body.extend_from_slice(more),
            (other, _) => panic!("a record of type {other}"),
        }
    }
}

fn variables(mut pairs: &[u8]) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    let length = |pairs: &mut &[u8]| match pairs {
        [short @ 0..=127, rest @ ..] => (usize::from(*short), *pairs = rest).0,
        [a, b, c, d, rest @ ..] => (u32::from_be_bytes([a & 127, *b, *c, *d]) as usize, *pairs = rest).0,
        _ => panic!("a length is cut off"),
    };
    while !pairs.is_empty() {
        let (name, value) = (length(&mut pairs), length(&mut pairs));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        variables.insert(text(&pairs[..name]), text(&pairs[name..name + value]));
        pairs = &pairs[name + value..];
    }
    variables
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    // Padding as in PHP.
    let padding = (8 - content.len() % 8) % 8;
    [&[1, kind, 0, 1, high, low, padding as u8, 0], content, &[0; 8][..padding]].concat()
}

fn end(status: u8) -> Vec<u8> {
    record(END_REQUEST, &[0, 0, 0, 0, status, 0, 0, 0])
}

/// The records of a complete response.
pub fn answer(response: &[u8]) -> Vec<u8> {
    let output: Vec<u8> = response.chunks(60_000).flat_map(|part| record(STDOUT, part)).collect();
    [output, record(STDOUT, b""), end(0)].concat()
}

/// An application that sends these records for every request.
fn answering(records: impl Into<Vec<u8>>) -> Upstream {
    let records = records.into();
    Upstream::start(move |peer| {
        while asked(peer).is_some() {
            peer.send(&records);
        }
    })
}

fn proxy(architecture: &str, application: &str, flags: &[&str]) -> Server {
    let mut command = Command::new(ENGINE);
    command.args(["proxy", "--listen", "127.0.0.1:0", "--architecture", architecture, "--via", "me"]);
    command.args(["--fastcgi-root", "/srv/www", "--upstream", &format!("fcgi://{application}")]);
    Server::run(command.args(flags))
}

fn proxy_of(application: &Upstream, flags: &[&str]) -> Server {
    proxy("amped", &application.address.to_string(), flags)
}

#[test]
fn an_application_answers_over_every_architecture() {
    for architecture in ALL.iter().filter(|architecture| architecture.cache_scope().is_some()) {
        let name = architecture.name();
        let application = Upstream::start(|peer| {
            while let Some(Asked { variables, body }) = asked(peer) {
                let (script, info) = (&variables["SCRIPT_FILENAME"], &variables["PATH_INFO"]);
                let facts = format!("{script} {info} {} {}", variables["REQUEST_METHOD"], body.len());
                peer.send(&answer(format!("Status: 201 Made\nX-Y: z\n\n{facts}").as_bytes()));
            }
        });
        let server = proxy(name, &application.address.to_string(), &[]);
        let mut client = server.connect();
        client.send(b"GET /a.php/b?c HTTP/1.1\r\nHost: h\r\n\r\n");
        let body = "4\r\n";
        let response = String::from_utf8(client.until(b"0\r\n\r\n")).unwrap();
        assert!(response.starts_with("HTTP/1.1 201 Made\r\nX-Y: z\r\n"), "{name}: {response}");
        assert!(response.contains("/srv/www/a.php /b GET 0"), "{name}: {body} {response}");
        // A body longer than a record and than the buffers.
        let upload = vec![b'x'; 1_000_000];
        client
            .send(b"POST /a.php HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 1000000\r\n\r\n");
        client.send(&upload);
        let response = String::from_utf8(client.rest()).unwrap();
        assert!(response.contains("/srv/www/a.php  POST 1000000"), "{name}: {response}");
        // Its connection was kept, unless it could hold a process that another process of the server waits for.
        let is_kept = architecture.cache_scope() == Some(CacheScope::Server);
        assert_eq!(application.connections(), if is_kept { 1 } else { 2 }, "{name}");
        server.stop();
    }
}

/// Whoever says so knows that the application has enough processes.
#[test]
fn processes_keep_connections_if_told_to() {
    let kept_by_default = |scope| matches!(scope, None | Some(CacheScope::Server));
    for architecture in ALL.iter().filter(|architecture| !kept_by_default(architecture.cache_scope())) {
        let application = answering(answer(HELLO));
        let server =
            proxy(architecture.name(), &application.address.to_string(), &["--upstream-idle-max", "1"]);
        let mut client = server.connect();
        for _ in 0..2 {
            client.send(b"GET /a.php HTTP/1.1\r\nHost: h\r\n\r\n");
            client.until(b"hello");
        }
        assert_eq!(application.connections(), 1, "{}", architecture.name());
        server.stop();
    }
}

/// Each part of a body is answered before the next is sent.
#[test]
fn an_application_answers_while_it_reads() {
    const STDIN: u8 = 5;
    for architecture in ALL.iter().filter(|architecture| architecture.cache_scope().is_some()) {
        let application = Upstream::start(|peer| {
            peer.send(&record(STDOUT, b"Content-Type: text/plain\n\n"));
            while let Some(header) = peer.take(8) {
                let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
                let Some(content) = peer.take(length + usize::from(header[6])) else { return };
                match (header[1], &content[..length]) {
                    (STDIN, b"") => return peer.send(&[record(STDOUT, b""), end(0)].concat()),
                    (STDIN, part) => peer.send(&record(STDOUT, &part.to_ascii_uppercase())),
                    _ => {}
                }
            }
        });
        let server = proxy(architecture.name(), &application.address.to_string(), &[]);
        let mut client = server.connect();
        client.send(b"POST /a.php HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n");
        for (part, answer) in [("one", b"ONE"), ("two", b"TWO"), ("six", b"SIX")] {
            client.send(part.as_bytes());
            client.until(answer);
        }
        client.until(b"0\r\n\r\n");
        server.stop();
    }
}

/// An application's process serves one connection at a time, so kept connections must not make other clients wait.
#[test]
fn more_clients_than_processes_are_answered_without_a_pause() {
    const CLIENTS: usize = 4;
    for architecture in ALL.iter().filter(|architecture| architecture.cache_scope().is_some()) {
        let process = Mutex::new(());
        let application = Upstream::start(move |peer| {
            let _held = process.lock();
            while asked(peer).is_some() {
                peer.send(&answer(HELLO));
            }
        });
        let workers: &[&str] =
            if architecture.defaults().workers.is_some() { &["--workers", "4"] } else { &[] };
        let server = proxy(architecture.name(), &application.address.to_string(), workers);
        let began = Instant::now();
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
        for _ in 0..2 {
            for client in &mut clients {
                client.send(b"GET /a.php HTTP/1.1\r\nHost: h\r\n\r\n");
            }
            for client in &mut clients {
                client.until(b"hello");
            }
        }
        // The idle timeout of a kept connection is longer.
        assert!(began.elapsed() < Duration::from_secs(4), "{}: {:?}", architecture.name(), began.elapsed());
        server.stop();
    }
}

#[test]
fn lengths_statuses_and_heads() {
    let long = "y".repeat(200_000);
    for (response, code, body) in [
        (b"Content-Length: 5\r\nX: y\r\n\r\nhello".to_vec(), "200", "hello"),
        (b"Status: 404 Not Found\n\nno".to_vec(), "404", "no"),
        (b"Location: http://a/\n\n".to_vec(), "302", ""),
        (b"Status: 304\n\n".to_vec(), "304", ""),
        (format!("X: y\n\n{long}").into_bytes(), "200", &long),
    ] {
        let application = answering(answer(&response));
        let server = proxy_of(&application, &[]);
        for _ in 0..2 {
            let answer = exchange(&mut server.connect(), "GET /a.php HTTP/1.0\r\nHost: h\r\n\r\n");
            assert_eq!(status(&answer), code, "{answer}");
            assert_eq!(answer.split_once("\r\n\r\n").unwrap().1, body);
        }
        let head = ask(&server, "HEAD", "/a.php", "");
        assert!(head.ends_with("\r\n\r\n") && status(&head) == code, "{head}");
        assert_eq!(application.connections(), 1, "a HEAD whose answer has a body does no harm");
        server.stop();
    }
}

#[test]
fn what_makes_no_sense_is_a_bad_gateway() {
    let endless: Vec<u8> = (0..100).flat_map(|_| record(STDERR, &[b'e'; 4000])).collect();
    for (what, records) in [
        ("no FastCGI", b"HTTP/1.1 200 OK\r\n\r\nhello".to_vec()),
        ("no head", [record(STDOUT, b"hello"), end(0)].concat()),
        ("nothing", end(0)),
        ("another role", end(3)),
        ("another request", vec![1, STDOUT, 0, 2, 0, 0, 0, 0]),
        ("a type that only servers send", vec![1, 5, 0, 1, 0, 0, 0, 0]),
        ("a bad field", answer(b"A B: c\n\nhello")),
        ("a bad status", answer(b"Status: 99999\n\nhello")),
        ("a head without end", record(STDOUT, &[b'x'; 65000])),
        ("errors without end", endless),
    ] {
        let application = answering(records);
        let server = proxy_of(&application, &[]);
        for _ in 0..2 {
            assert_eq!(status(&get(&server, "/a.php")), "502", "{what}");
        }
        assert_eq!(application.connections(), 2, "{what}: such a connection is not used again");
        server.stop();
    }
}

#[test]
fn an_answer_that_breaks_off_is_never_taken_for_a_whole_one() {
    for (what, records) in [
        ("too short", answer(b"Content-Length: 9\n\nhello")),
        ("too long", answer(b"Content-Length: 4\n\nhello")),
        ("a bad record behind", [record(STDOUT, HELLO), vec![9; 8]].concat()),
    ] {
        let application = answering(records);
        let server = proxy_of(&application, &[]);
        let answer = get(&server, "/a.php");
        let is_short = answer.contains("Content-Length: 9") && answer.ends_with("hello");
        let is_refused = status(&answer) == "502";
        let is_open = answer.contains("chunked") && !answer.ends_with("0\r\n\r\n");
        let is_cut =
            answer.contains("Content-Length: 4") && answer.split_once("\r\n\r\n").unwrap().1.len() < 4;
        assert!(is_short || is_refused || is_open || is_cut, "{what}: {answer}");
        server.stop();
    }
    // The connection ends in the middle.
    let application = Upstream::start(|peer| {
        asked(peer);
        peer.send(&record(STDOUT, HELLO));
    });
    let server = proxy_of(&application, &[]);
    let answer = get(&server, "/a.php");
    assert!(status(&answer) == "200" && !answer.ends_with("0\r\n\r\n"), "{answer}");
    server.stop();
}

#[test]
fn another_application_answers_for_one_that_cannot() {
    let busy = answering(end(2));
    let idle = answering(answer(HELLO));
    let server = proxy_of(&busy, &["--upstream", &format!("fcgi://{}", idle.address)]);
    for _ in 0..6 {
        assert!(get(&server, "/a.php").contains("hello"));
    }
    assert!(busy.connections() > 0);
    server.stop();
    let dead = Upstream::dead();
    let server = proxy("amped", &dead.to_string(), &["--upstream", &format!("fcgi://{}", idle.address)]);
    for _ in 0..6 {
        assert!(get(&server, "/a.php").contains("hello"));
    }
    server.stop();
}

#[test]
fn what_an_application_can_be_asked() {
    let application = answering(answer(HELLO));
    let server = proxy_of(&application, &[]);
    let chunked = "POST /a.php HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    assert_eq!(status(&exchange(&mut server.connect(), chunked)), "200");
    assert_eq!(status(&get(&server, "/../a.php")), "400");
    assert_eq!(status(&get(&server, "/%00.php")), "400");
    server.stop();
}

#[test]
fn a_client_is_told_to_send_its_body() {
    let application = answering(answer(HELLO));
    let server = proxy_of(&application, &[]);
    let mut client = server.connect();
    client.send(b"POST /a.php HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.until(b"\r\n\r\n"), b"HTTP/1.1 100 Continue\r\n\r\n");
    client.send(b"hi");
    assert!(String::from_utf8(client.rest()).unwrap().contains("hello"));
    server.stop();
}

#[test]
fn answers_are_cached_and_revalidated() {
    let application = Upstream::start(|peer| {
        while let Some(Asked { variables, .. }) = asked(peer) {
            let is_known = variables.get("HTTP_IF_NONE_MATCH").is_some_and(|tag| tag == "\"1\"");
            let response: &[u8] = match is_known {
                true => b"Status: 304 Not Modified\nETag: \"1\"\n\n",
                false => b"ETag: \"1\"\nCache-Control: max-age=0\nContent-Length: 5\n\nhello",
            };
            peer.send(&answer(response));
        }
    });
    let server = proxy_of(&application, &[]);
    for _ in 0..3 {
        assert!(get(&server, "/a.php").ends_with("hello"));
    }
    server.wait_until(Counter::CacheUnchanged, 2);
    server.stop();
}

#[test]
fn health_is_asked_by_fastcgi() {
    let well = answering(answer(HELLO));
    let ill = answering(answer(b"Status: 500 No\n\nill"));
    let flags = ["--health-path", "/ping", "--health-interval", "20ms"];
    let server = proxy_of(&ill, &[&flags[..], &["--upstream", &format!("fcgi://{}", well.address)]].concat());
    server.wait_until(Counter::UpstreamsFailingChecks, 1);
    for _ in 0..6 {
        assert!(get(&server, "/a.php").contains("hello"));
    }
    server.stop();
}

#[test]
fn sockets_in_the_file_system() {
    use std::io::{Read, Write};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut chunk = [0; 4096];
            while stream.read(&mut chunk).is_ok_and(|count| count > 0) {
                let _ = stream.write_all(&answer(HELLO));
            }
        }
    });
    for architecture in ["amped", "uring", "mt"] {
        let server = proxy(architecture, &format!("unix:{}", path.display()), &[]);
        assert!(get(&server, "/a.php").contains("hello"), "{architecture}");
        server.stop();
        let server = proxy(architecture, "unix:/nowhere/app.sock", &[]);
        assert_eq!(status(&get(&server, "/a.php")), "502", "{architecture}");
        server.stop();
    }
}
