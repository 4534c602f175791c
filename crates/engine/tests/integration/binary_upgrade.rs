//! Tests of binary upgrades under load: no request fails, downloads finish, and a successor that cannot serve changes
//! nothing.

use crate::engine;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::engine::Successor;
use crate::engine::tls::{Identity, presented, trusting_all};
use crate::engine::{Client, ENGINE, Server, WhenDropped, get, over_all};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use sojourn_server::Counter;
use sojourn_testing::{fixture, until};

const KEPT: &[u8] = b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn no_request_fails_and_downloads_finish() {
    // The drain timeout of a stop does not apply.
    over_all(&["--drain-timeout", "200ms"], |mut server, _| {
        let address = server.address;
        let (is_over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
        let count = || answered.fetch_add(1, Ordering::Relaxed);
        let mut download = server.connect();
        download.send(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut received = download.take(1000);
        count();
        std::thread::scope(|scope| {
            let over = WhenDropped(&is_over);
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        assert!(get(address, "/hello.txt").ends_with("hello"), "no answer");
                        count();
                    }
                });
            }
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let mut kept = Client::to(address);
                    // Until the server announces its last response.
                    while !is_over.load(Ordering::Relaxed) {
                        kept.send(KEPT);
                        let mut answer = kept.take(100);
                        while !answer.ends_with(b"hello") {
                            answer.extend(kept.take(1));
                        }
                        count();
                        if answer.windows(17).any(|text| text == b"Connection: close") {
                            break;
                        }
                    }
                }
            });
            std::thread::sleep(Duration::from_millis(300));
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(600));
                received.extend(download.rest());
            });
            let successor = Successor::of(&mut server);
            std::thread::sleep(Duration::from_millis(300));
            drop(over);
            assert!(get(address, "/hello.txt").ends_with("hello"));
            count();
            // Their clients have left, so it has nothing to wait for.
            std::thread::sleep(Duration::from_millis(300));
            successor.stop();
        });
        assert!(received.ends_with(&fixture::large()));
        let counted = server.wait_for_all();
        assert_eq!(counted.len(), 2);
        let requests: u64 = counted.iter().map(|counters| counters.value(Counter::Requests)).sum();
        assert_eq!(requests, answered.into_inner());
    });
}

fn configured(file: &Path, root: &Path, more: &str) {
    std::fs::write(file, format!("root = {root:?}\nlisten = \"127.0.0.1:0\"\n{more}")).unwrap();
}

#[test]
fn the_configuration_is_read_again_and_a_bad_one_changes_nothing() {
    let (root, folder) = (fixture::site(), tempfile::tempdir().unwrap());
    let file = folder.path().join("serve.toml");
    configured(&file, root.path(), "");
    let mut server = Server::run(Command::new(ENGINE).args(["serve", "--config"]).arg(&file));
    let address = server.address;
    assert!(get(address, "/.git/config").starts_with("HTTP/1.1 404 "));

    for (more, mistake) in [
        ("no-such-option = 1\n", "there is no option"),
        ("access-log = \"/nowhere/log\"\n", "cannot write the access log"),
    ] {
        configured(&file, root.path(), more);
        kill_process(server.pid(), Signal::HUP).unwrap();
        let said = |text: &str| server.said().iter().any(|line| line.contains(text)).then_some(());
        until(mistake, || said(mistake));
        until("the server goes on", || {
            said("error: the binary upgrade failed, this server keeps serving: the new process ended")
        });
        assert!(get(address, "/hello.txt").ends_with("hello"));
        assert!(!server.is_over());
    }

    // Another architecture, on the same port.
    configured(&file, root.path(), "serve-hidden = true\narchitecture = \"ncopy\"\nworkers = 3\n");
    let successor = Successor::of(&mut server);
    assert!(get(address, "/.git/config").ends_with("secret"));
    successor.stop();
}

#[test]
fn one_successor_after_the_other_with_passed_sockets() {
    let root = fixture::site();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec env LISTEN_PID=$$ LISTEN_FDS=1 \"$@\" 3<&0 </dev/null", "sh", ENGINE, "serve"]);
    shell.arg(root.path()).stdin(Stdio::from(OwnedFd::from(listener.try_clone().unwrap())));
    let mut server = Server::run(&mut shell);
    let address = server.address;
    assert_eq!(address, listener.local_addr().unwrap());
    let first = Successor::of(&mut server);
    assert!(get(address, "/hello.txt").ends_with("hello"));
    kill_process(first.0, Signal::USR2).unwrap();
    let others = |line: &String| {
        let pid = line.strip_prefix("process ")?.split(' ').next()?.parse().ok()?;
        Pid::from_raw(pid).filter(|pid| *pid != first.0)
    };
    let second = Successor(until("the second", || server.said().iter().find_map(others)));
    until("the first's end", || test_kill_process(first.0).is_err().then_some(()));
    assert!(get(address, "/hello.txt").ends_with("hello"));
    second.stop();
    assert_eq!(server.wait_for_all().len(), 3);
}

#[test]
fn certificates_are_read_again_and_bad_ones_change_nothing() {
    let root = fixture::site();
    for architecture in ["amped", "mp", "uring"] {
        let identity = Identity::new();
        let mut server = Server::start(architecture, root.path(), &identity.flags());
        let address = server.another_address(0);
        let shown = || presented(address, "localhost");
        let (first, key) = (identity.der(), std::fs::read(identity.key()).unwrap());
        std::fs::write(identity.key(), "no key").unwrap();
        kill_process(server.pid(), Signal::HUP).unwrap();
        let said = |start: &str| server.said().iter().any(|line| line.contains(start)).then_some(());
        until("the refusal", || said("contains no private key"));
        until("its consequence", || said("error: the binary upgrade failed, this server keeps serving"));
        assert_eq!(shown(), first);
        std::fs::write(identity.key(), key).unwrap();
        identity.renew("localhost");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let over = WhenDropped(&is_over);
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let (answer, _) = engine::tls::get(address, &trusting_all(), "/hello.txt");
                    assert!(answer.ends_with(b"hello"), "no answer");
                }
            });
            let successor = Successor::of(&mut server);
            assert_eq!(shown(), identity.der());
            drop(over);
            successor.stop();
        });
    }
}

#[test]
fn an_upgrade_ends_although_clients_always_wait_for_a_worker() {
    const CLIENTS: usize = 32;
    for architecture in ["mt", "mp"] {
        let root = fixture::site();
        let mut server = Server::start(architecture, root.path(), &["--workers", "2"]);
        let address = server.address;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let over = WhenDropped(&is_over);
            let clients = [(); CLIENTS].map(|()| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let mut client = Client::to(address);
                        client.send(KEPT);
                        client.until(b"\r\n\r\nhello");
                        // Meanwhile its worker serves nobody else.
                        std::thread::sleep(Duration::from_millis(20));
                    }
                })
            });
            until("clients that wait", || {
                (server.counters().value(Counter::ConnectionsAccepted) > CLIENTS as u64).then_some(())
            });
            let successor = Successor::of(&mut server);
            drop(over);
            clients.into_iter().for_each(|client| client.join().unwrap());
            successor.stop();
        });
    }
}
