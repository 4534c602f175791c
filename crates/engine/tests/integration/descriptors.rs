//! Tests of running out of file descriptors: clients get a response, no loop spins, and service continues.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::engine::{Client, DEADLINE, Server, over_all};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use sojourn_server::Counter;

/// More clients than there are descriptors for.
const CLIENTS: usize = 60;

/// Descriptors left to a process for connections and documents.
const SPARE: usize = 6;

/// Leaves the process with few descriptors.
fn limit(process: Pid) {
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
    let few = Some((open + SPARE) as u64);
    let few = Rlimit { current: few, maximum: few };
    prlimit(Some(process), Resource::Nofile, few).unwrap();
}

/// User and system time in ticks of 10 ms: after the name in parentheses, fields 12 and 13 (proc_pid_stat(5)).
fn cpu_time(process: Pid) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap().split_ascii_whitespace().skip(11).take(2);
    Duration::from_millis(10 * fields.map(|field| field.parse::<u64>().unwrap()).sum::<u64>())
}

fn cpu_time_of_all(server: &Server) -> Duration {
    cpu_time(server.pid()) + server.children().into_iter().map(cpu_time).sum::<Duration>()
}

#[test]
fn running_out_of_descriptors() {
    let shed = AtomicU64::new(0);
    over_all(&[], |server, _| {
        // By the time it serves, it has opened the descriptors that it needs itself.
        assert!(server.get("/hello.txt").ends_with("hello"));
        limit(server.pid());
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
        std::thread::sleep(Duration::from_millis(100));
        let before = cpu_time_of_all(&server);
        std::thread::sleep(Duration::from_millis(500));
        let spent = cpu_time_of_all(&server).saturating_sub(before);
        assert!(spent < Duration::from_millis(150), "{spent:?} of CPU time while idle");

        clients.iter_mut().for_each(|client| client.send(b"GET /hello.txt HTTP/1.0\r\n\r\n"));
        for client in &mut clients {
            let answer = String::from_utf8(client.rest()).unwrap();
            // Connections may have taken the descriptors that documents need; the engine's limits leave some for both.
            assert!(answer.starts_with("HTTP/1.1 503 ") || answer.ends_with("hello"), "{answer:?}");
        }
        let begun = Instant::now();
        while !server.get("/hello.txt").ends_with("hello") {
            assert!(begun.elapsed() < DEADLINE, "service does not go on");
            std::thread::sleep(Duration::from_millis(50));
        }
        shed.fetch_add(server.stop().value(Counter::ConnectionsShed), Ordering::Relaxed);
    });
    // Architectures that accept for many clients at once run out; those that accept one at a time do not.
    assert!(shed.into_inner() > 0);
}
