//! Tests of servers with several processes: effects on other processes, counters and the log when one dies or stops.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::engine::{Client, Server, over_all};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use sojourn_server::Counter;
use sojourn_testing::{fixture, until};

const KEPT: &[u8] = b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n";
const LAST: &[u8] = b"GET /large.bin HTTP/1.0\r\n\r\n";
const LARGE: &[u8] = b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n";

/// Architectures that keep a number of worker or helper processes.
const WITH_WORKERS: &[&str] = &["mp", "helper", "helper+fork", "standard"];

/// Runs `test` over some architectures side by side.
fn over(architectures: &[&str], flags: &[&str], test: impl Fn(Server, &Path) + Sync) {
    std::thread::scope(|scope| {
        for architecture in architectures {
            let thread = std::thread::Builder::new().name((*architecture).to_owned());
            let run = || {
                let root = fixture::site();
                test(Server::start(architecture, root.path(), flags), root.path());
            };
            thread.spawn_scoped(scope, run).unwrap();
        }
    });
}

fn is_gone(process: Pid) -> bool {
    test_kill_process(process).is_err()
}

#[test]
fn those_who_are_killed_are_replaced_and_what_they_counted_stays() {
    over(WITH_WORKERS, &["--workers", "3"], |server, _| {
        server.wait_until(Counter::Children, 3);
        let before = server.children();
        let is_over = AtomicBool::new(false);
        let served = std::thread::scope(|scope| {
            let load = || {
                let mut served = 0;
                while !is_over.load(Ordering::Relaxed) {
                    // A request in a killed process gets no response; every other gets a complete one.
                    match server.get("/hello.txt").as_str() {
                        "" => {}
                        answer => {
                            assert!(answer.ends_with("\r\n\r\nhello"), "{answer:?}");
                            served += 1;
                        }
                    }
                }
                served
            };
            let clients = [scope.spawn(load), scope.spawn(load)];
            for process in &before {
                std::thread::sleep(Duration::from_millis(50));
                kill_process(*process, Signal::KILL).unwrap();
            }
            server.wait_until(Counter::ChildrenReplaced, 3);
            is_over.store(true, Ordering::Relaxed);
            clients.map(|client| client.join().unwrap()).iter().sum::<u64>()
        });
        server.wait_until(Counter::ConnectionsOpen, 0);
        let counted = server.stop();
        assert!(counted.value(Counter::Requests) >= served, "{served} were served: {counted:?}");
        assert_eq!(counted.value(Counter::ChildrenReplaced), 3);
        assert_eq!(counted.value(Counter::ChildrenFailed), 3);
        assert_eq!(counted.value(Counter::ConnectionsOpen), 0);
    });
}

#[test]
fn one_that_is_told_to_stop_finishes_its_request_and_is_replaced() {
    over(WITH_WORKERS, &["--workers", "1"], |server, _| {
        let mut client = server.connect();
        client.send(LARGE);
        let mut received = client.take(1000);
        let worker = server.children()[0];
        kill_process(worker, Signal::TERM).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        received.extend(client.rest());
        assert!(received.ends_with(&fixture::large()));
        until("it ends", || is_gone(worker).then_some(()));
        assert!(server.get("/hello.txt").ends_with("hello"));
        let counted = server.stop();
        assert_eq!(counted.value(Counter::ChildrenFailed), 0);
        assert_eq!(counted.value(Counter::ChildrenReplaced), 1);
        assert_eq!(counted.value(Counter::Requests), 2);
    });
}

#[test]
fn a_child_that_is_killed_takes_its_connection_with_it_and_no_other() {
    over(&["fork", "inetd"], &[], |server, _| {
        let mut clients = [server.connect(), server.connect()];
        for client in &mut clients {
            client.send(KEPT);
            client.take(100);
        }
        let killed = server.children()[0];
        kill_process(killed, Signal::KILL).unwrap();
        server.wait_until(Counter::Children, 1);
        let [first, second] = &mut clients;
        first.send(LAST);
        second.send(LAST);
        let lengths = [first.rest().len(), second.rest().len()];
        assert_eq!(
            lengths.iter().filter(|length| **length >= fixture::LARGE_BYTES).count(),
            1,
            "{lengths:?}"
        );
        server.wait_until(Counter::ConnectionsOpen, 0);
        let counted = server.stop();
        assert_eq!(counted.value(Counter::Requests), 3);
        assert_eq!(counted.value(Counter::ChildrenFailed), 1);
        assert_eq!(counted.value(Counter::ConnectionsAccepted), 2);
    });
}

#[test]
fn a_server_that_is_killed_leaves_no_children() {
    over_all(&[], |server, _| {
        let mut client = server.connect();
        client.send(KEPT);
        client.take(100);
        let children = server.children();
        kill_process(server.pid(), Signal::KILL).unwrap();
        until("children end", || children.iter().all(|child| is_gone(*child)).then_some(()));
        // Received requests are answered, then all connections close.
        client.rest();
    });
}

#[test]
fn a_signal_to_every_process_cuts_no_request_short() {
    over_all(&[], |server, _| {
        let mut client = server.connect();
        client.send(LARGE);
        let mut received = client.take(1000);
        // As a service manager does.
        server.request_stop();
        for child in server.children() {
            let _ = kill_process(child, Signal::TERM);
        }
        std::thread::sleep(Duration::from_millis(100));
        received.extend(client.rest());
        assert!(received.ends_with(&fixture::large()));
        assert_eq!(server.wait().value(Counter::Requests), 1);
    });
}

#[test]
fn more_connections_than_children_are_told_so() {
    over(&["fork", "inetd"], &["--children-max", "2"], |server, _| {
        let mut kept = [server.connect(), server.connect()];
        for client in &mut kept {
            client.send(KEPT);
            client.take(100);
        }
        assert!(server.get("/hello.txt").starts_with("HTTP/1.1 503 "));
        drop(kept);
        server.wait_until(Counter::Children, 0);
        assert!(server.get("/hello.txt").ends_with("hello"));
        assert_eq!(server.stop().value(Counter::ConnectionsShed), 1);
    });
}

#[test]
fn helpers_have_a_queue_first_come_first_served() {
    over(&["helper"], &["--workers", "1", "--helper-queue-max", "2"], |server, _| {
        let mut first = server.connect();
        first.send(KEPT);
        first.take(100);
        let mut waiting = [server.connect(), server.connect()];
        waiting.iter_mut().for_each(|client| client.send(b"GET /hello.txt HTTP/1.0\r\n\r\n"));
        server.wait_until(Counter::HelperQueueLength, 2);
        assert!(server.get("/hello.txt").starts_with("HTTP/1.1 503 "));
        std::thread::sleep(Duration::from_millis(100));
        drop(first);
        for client in &mut waiting {
            assert!(client.rest().ends_with(b"hello"));
        }
        let counted = server.stop();
        assert_eq!(counted.value(Counter::HelperRefused), 1);
        assert_eq!(counted.value(Counter::HelperJobs), 3);
        // Two waited at least as long as the pause above.
        assert!(counted.seconds(Counter::HelperQueueWait) >= 0.2, "{counted:?}");
        assert!(counted.seconds(Counter::HelperBusy) >= 0.1, "{counted:?}");
    });
}

#[test]
fn who_waits_in_the_queue_is_served_before_the_server_stops() {
    over(&["helper"], &["--workers", "1"], |server, _| {
        let mut first = server.connect();
        first.send(LARGE);
        let mut received = first.take(1000);
        let mut waiting = [server.connect(), server.connect()];
        waiting.iter_mut().for_each(|client| client.send(b"GET /hello.txt HTTP/1.0\r\n\r\n"));
        server.wait_until(Counter::HelperQueueLength, 2);
        server.request_stop();
        received.extend(first.rest());
        assert!(received.ends_with(&fixture::large()));
        for client in &mut waiting {
            assert!(client.rest().ends_with(b"hello"));
        }
        assert_eq!(server.wait().value(Counter::Requests), 3);
    });
}

#[test]
fn with_forking_nobody_waits() {
    over(&["helper+fork", "standard"], &["--workers", "1"], |server, _| {
        let mut clients: Vec<Client> = (0..4).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(KEPT);
            client.take(100);
        }
        server.wait_until(Counter::Children, 4);
        drop(clients);
        server.wait_until(Counter::Children, 1);
        assert_eq!(server.stop().value(Counter::HelperJobs), 1);
    });
}

#[test]
fn with_forking_the_queue_begins_where_children_end() {
    let flags = ["--workers", "1", "--children-max", "1", "--helper-queue-max", "1"];
    over(&["helper+fork"], &flags, |server, _| {
        let mut clients: Vec<Client> = (0..3).map(|_| server.connect()).collect();
        let (busy, waiting) = clients.split_at_mut(2);
        for client in &mut *busy {
            client.send(KEPT);
            client.take(100);
        }
        waiting[0].send(LAST);
        server.wait_until(Counter::HelperQueueLength, 1);
        assert!(server.get("/hello.txt").starts_with("HTTP/1.1 503 "));
        // The second has the child; another can be started when it has ended.
        busy[1].end();
        assert!(waiting[0].rest().ends_with(&fixture::large()));
        let counted = server.stop();
        assert_eq!(counted.value(Counter::ChildrenStarted), 3);
        assert_eq!(counted.value(Counter::HelperRefused), 1);
    });
}

#[test]
fn every_process_writes_whole_lines_to_one_log() {
    let logs = tempfile::tempdir().unwrap();
    let path = logs.path().join("access.log");
    // All write to the same file, which fails if lines can mix.
    over_all(&["--access-log", path.to_str().unwrap()], |server, _| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        assert!(
                            server.get("/hello.txt?a-query-that-makes-the-line-longer").ends_with("hello")
                        );
                    }
                });
            }
        });
        assert_eq!(server.stop().value(Counter::LogLinesDropped), 0);
    });
    let text = std::fs::read_to_string(&path).unwrap();
    for line in text.lines() {
        let rest = line.strip_prefix("127.0.0.1 - - [").unwrap_or_else(|| panic!("{line:?}"));
        assert!(
            rest.ends_with(
                " \"GET /hello.txt?a-query-that-makes-the-line-longer HTTP/1.0\" 200 5 \"-\" \"-\""
            )
        );
    }
    assert_eq!(text.lines().count(), 40 * sojourn_server::ALL.len());
}

#[test]
fn lines_do_not_wait_for_the_end() {
    over_all(&["--access-log", "/dev/stderr"], |server, _| {
        let mut kept = server.connect();
        kept.send(KEPT);
        kept.take(100);
        until("the line is written", || {
            server.said().into_iter().find(|line| line.contains("GET /hello.txt "))
        });
    });
}
