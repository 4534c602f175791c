//! Tests of watermarks: what the server does to stay useful when there are more clients or requests than it can serve.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use sojourn_server::Counter;
use sojourn_testing::fixture;
use sojourn_testing::upstream::Upstream;

use crate::engine::{Client, ENGINE, Server};
use crate::proxy::proxy;

/// How long overload lasts, unless `OVERLOAD_SECONDS` says otherwise.
const SECONDS: u64 = 5;

fn hello(client: &mut Client) -> String {
    client.send(b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    String::from_utf8(client.until(b"\r\n\r\nhello")).unwrap()
}

#[test]
fn idle_connections_leave_places_for_new_clients() {
    for architecture in ["amped", "uring"] {
        let root = fixture::site();
        let flags = ["--connections-max", "100", "--workers", "1"];
        let flags = if architecture == "amped" { &flags[..2] } else { &flags };
        let server = Server::start(architecture, root.path(), flags);
        let mut kept: Vec<Client> = (0..89).map(|_| server.connect()).collect();
        for client in &mut kept {
            assert!(!hello(client).contains("Connection: close"), "{architecture}");
        }
        assert_eq!(server.counters().value(Counter::OverloadConnections), 0, "{architecture}");
        // Now many are open.
        let _new: Vec<Client> = (0..6).map(|_| server.connect()).collect();
        server.wait_until(Counter::OverloadConnections, 1);
        server.wait_until(Counter::OverloadConnectionsClosed, 15);
        server.wait_until(Counter::ConnectionsOpen, 80);
        assert_eq!(kept[0].rest(), b"", "{architecture}: the one that has been idle longest");
        let answer = hello(&mut server.connect());
        assert!(answer.contains("\r\nConnection: close\r\n"), "{architecture}: {answer}");
        assert_eq!(server.counters().value(Counter::LimitConnections), 0, "{architecture}");
        drop(kept);
        server.wait_until(Counter::OverloadConnections, 0);
    }
}

/// The measured part of a load, after a second of warm-up.
fn load(server: &Server, path: &str, options: &[&str]) -> Value {
    let mut load = Command::new(ENGINE);
    load.args(["load", &format!("http://{}{path}", server.address), "--warm-up", "1s", "--format", "json"]);
    let output = load.args(options).stdout(Stdio::piped()).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The requests per second that a load has sent, answered or not.
fn offered(load: &Value) -> f64 {
    let count = |key: &str| load[key].as_f64().unwrap();
    (count("requests") + count("errors")) / count("duration_seconds")
}

fn seconds() -> u64 {
    std::env::var("OVERLOAD_SECONDS").map_or(SECONDS, |text| text.parse().expect("a number"))
}

/// A server gets five times as many new clients as it can answer, and they give up after a second. It answers as many as
/// without overload, because none waits that long: the accept queue is shortened, and those who have left get no work. A proxy
/// finishes the requests that it has begun before it accepts others.
#[test]
fn clients_that_give_up_do_not_keep_a_server_from_the_others() {
    // A small share of a processor, so that a load of five times that much leaves the machine its rest.
    let confine = |cores: &str| {
        let mut command = Command::new(ENGINE);
        command.args(["confine", "--cpu-limit", cores, "--drop-pages", "none", "--"]);
        command
    };
    if !confine("0.02").arg("true").output().unwrap().status.success() {
        eprintln!("skipped: the processor cannot be limited here (control groups, as root)");
        return;
    }
    let seconds = seconds();
    let root = fixture::site();
    let origin = Server::start("amped", root.path(), &[]);
    let upstream = format!("http://{}", origin.address);
    let hold = |kind: &str, architecture: &str| {
        let name = format!("{kind}, {architecture}");
        let mut command = confine(if kind == "serve" { "0.03" } else { "0.02" });
        match kind {
            "serve" => command.args([ENGINE, "serve", root.path().to_str().unwrap()]),
            _ => command.args([ENGINE, "proxy", "--upstream", &upstream, "--cache-memory", "0"]),
        };
        command.args(["--architecture", architecture, "--listen", "127.0.0.1:0"]);
        let server = Server::run(&mut command);
        let close = ["--connection", "close", "--timeout", "1s", "--duration"];
        let alone = load(&server, "/hello.txt", &[&close[..], &["3s", "--clients", "16"]].concat());
        let capacity = alone["requests_per_second"].as_f64().unwrap();
        let (rate, duration) = ((5.0 * capacity).to_string(), format!("{seconds}s"));
        let open = [&close[..], &[&duration, "--rate", &rate, "--arrivals", "poisson"]].concat();
        let over = load(&server, "/hello.txt", &open);
        let shortened = server.stop().value(Counter::LimitAcceptWait);
        assert!(shortened > 0, "{name}: the accept queue was never shortened");
        let goodput = over["requests_per_second"].as_f64().unwrap();
        let offered = offered(&over);
        // A client's kernel repeats a SYN that was dropped after a second, and then the client connects once more in vain.
        let slowest = over["response_time_seconds"]["p99"].as_f64().unwrap();
        eprintln!("{name}: {capacity:.0}/s alone; {goodput:.0}/s of {offered:.0}/s, p99 {slowest:.2} s");
        // In the first seconds a proxy works off those that it had accepted before.
        let is_short = kind == "proxy" && seconds < 4 * SECONDS;
        let least = if is_short { 0.4 } else { 0.8 };
        assert!(goodput >= least * capacity, "{name}: {goodput}/s of {capacity}/s");
        assert!(slowest <= 2.5, "{name}: the 99th percentile is {slowest} s");
    };
    for kind in ["serve", "proxy"] {
        std::thread::scope(|scope| {
            scope.spawn(|| hold(kind, "amped"));
            scope.spawn(|| hold(kind, "uring"));
        });
    }
}

/// Five times as many requests as the upstream can answer: it goes on answering about as many, none of them late.
#[test]
fn five_times_the_capacity_is_answered_as_far_as_it_goes() {
    const SERVICE: Duration = Duration::from_millis(20);
    const WAIT_SECONDS_MAX: f64 = 2.0;
    let seconds = seconds();
    let upstream = Upstream::start(|peer| {
        while peer.head().is_some() {
            std::thread::sleep(SERVICE);
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nCache-Control: no-store\r\n\r\nok");
        }
    });
    for architecture in ["amped", "uring"] {
        let flags = ["--upstream-connections-max", "8", "--upstream-queue-timeout", "2s", "--workers", "1"];
        let flags = if architecture == "amped" { &flags[..4] } else { &flags };
        let server = proxy(architecture, &[upstream.address], flags);
        let alone = load(&server, "/x", &["--clients", "16", "--duration", "3s"]);
        let capacity = alone["requests_per_second"].as_f64().unwrap();
        assert!(capacity > 50.0, "{architecture}: {alone}");
        let (rate, duration) = ((5.0 * capacity).to_string(), format!("{seconds}s"));
        let before = server.counters().value(Counter::Responses2xx);
        let over = load(&server, "/x", &["--rate", &rate, "--arrivals", "poisson", "--duration", &duration]);
        // The warm-up is overload, too.
        let answered = server.counters().value(Counter::Responses2xx) - before;
        let goodput = answered as f64 / (seconds + 1) as f64;
        assert!(goodput >= 0.8 * capacity, "{architecture}: {goodput}/s of {capacity}/s");
        let slowest = over["response_time_seconds"]["p99"].as_f64().unwrap();
        assert!(slowest <= WAIT_SECONDS_MAX, "{architecture}: the 99th percentile is {slowest} s");
        let counters = server.counters();
        assert!(counters.value(Counter::LimitUpstreamConnections) > answered, "{counters:?}");
        let offered = offered(&over);
        eprintln!(
            "{architecture}: {capacity:.0}/s alone; {goodput:.0}/s of {offered:.0}/s, p99 {slowest:.2} s"
        );
    }
}
