//! Tests of the access log over every architecture: rotation loses no line, and a full disk loses lines but no
//! requests.

use crate::engine;
use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::engine::{DEADLINE, ENGINE, Server, over_all};
use rustix::fs::{CWD, FileType, Mode};
use rustix::process::{Signal, kill_process};
use sojourn_server::{ALL, CLOSING_MAX, Counter};
use sojourn_testing::{fixture, until};

/// Sends numbered requests from two clients, one of which keeps its connection; returns how many were answered.
/// `meanwhile` runs beside them.
fn under_load(server: &Server, meanwhile: impl FnOnce()) -> u64 {
    let (is_over, numbers) = (AtomicBool::new(false), AtomicU64::new(0));
    let next = || numbers.fetch_add(1, Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert!(server.get(&format!("/hello.txt?{}", next())).ends_with("hello"));
            }
        });
        scope.spawn(|| {
            let mut kept = server.connect();
            while !is_over.load(Ordering::Relaxed) {
                kept.send(format!("GET /hello.txt?{} HTTP/1.1\r\nHost: h\r\n\r\n", next()).as_bytes());
                let mut answer = kept.take(100);
                while !answer.ends_with(b"hello") {
                    answer.extend(kept.take(1));
                }
            }
        });
        // The clients must end even if the test panics.
        let _over = engine::WhenDropped(&is_over);
        meanwhile();
    });
    numbers.into_inner()
}

fn wait_for(path: &Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < DEADLINE, "no {}", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn rotation_neither_loses_nor_repeats_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::thread::scope(|scope| {
        for architecture in ALL.iter().map(|row| row.name()) {
            scope.spawn(move || {
                let root = fixture::site();
                let path = folder.join(architecture);
                let moved = |number: u32| folder.join(format!("{architecture}.{number}"));
                let flags = ["--access-log", path.to_str().unwrap(), "--access-log-format", "%q %s"];
                let server = Server::start(architecture, root.path(), &flags);
                let answered = under_load(&server, || {
                    for number in 0..3 {
                        std::thread::sleep(Duration::from_millis(300));
                        // A new file appears when there is something to write to it.
                        wait_for(&path);
                        fs::rename(&path, moved(number)).unwrap();
                        kill_process(server.pid(), Signal::USR1).unwrap();
                    }
                    wait_for(&path);
                });
                assert_eq!(server.stop().value(Counter::LogLinesDropped), 0);
                let parts = [moved(0), moved(1), moved(2), path.clone()];
                let parts = parts.map(|part| fs::read_to_string(part).unwrap_or_default());
                assert!(!parts[3].is_empty(), "{architecture}: nothing in the last file");
                let lines: Vec<&str> = parts.iter().flat_map(|part| part.lines()).collect();
                assert!(lines.iter().all(|line| line.starts_with('?') && line.ends_with(" 200")));
                assert_eq!(lines.len() as u64, answered, "{architecture}");
                assert_eq!(lines.iter().collect::<HashSet<_>>().len(), lines.len(), "{architecture}");
            });
        }
    });
}

#[test]
fn a_full_disk_loses_lines_and_no_requests() {
    over_all(&["--access-log", "/dev/full"], |server, _| {
        let answered = under_load(&server, || std::thread::sleep(Duration::from_millis(300)));
        server.wait_until(Counter::ConnectionsOpen, 0);
        assert_eq!(server.stop().value(Counter::LogLinesDropped), answered);
    });
}

/// A FIFO takes 64 KiB; then writing to it waits, as for a file server that does not answer. The other architectures write
/// from a thread, which the server's own tests hold up.
#[test]
fn a_log_that_hangs_loses_lines_and_holds_up_no_process_that_serves() {
    const REQUESTS: u64 = 100;
    let root = fixture::site();
    let check = |architecture: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let mut reader =
            fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
        let flags = ["--access-log", path.to_str().unwrap(), "--access-log-format", "%q"];
        let server = Server::start(architecture, root.path(), &flags);
        let long = "x".repeat(2000);
        for number in 0..REQUESTS {
            assert!(server.get(&format!("/hello.txt?{number}{long}")).ends_with("hello"));
        }
        let begun = Instant::now();
        let dropped = server.stop().value(Counter::LogLinesDropped);
        assert!(begun.elapsed() < CLOSING_MAX + Duration::from_secs(2), "{:?}", begun.elapsed());
        let mut written = vec![0; 1 << 20];
        let length = reader.read(&mut written).unwrap();
        let whole = written[..length].iter().filter(|byte| **byte == b'\n').count() as u64;
        assert!(whole > 0 && dropped > 0, "{architecture}: {whole} and {dropped}");
        assert!(dropped <= REQUESTS && whole + dropped >= REQUESTS, "{architecture}: {whole} and {dropped}");
    };
    std::thread::scope(|scope| {
        for architecture in ["fork", "inetd", "standard", "helper", "mp"] {
            scope.spawn(|| check(architecture));
        }
    });
}

/// A file system of 64 KiB, unmounted when it is dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=64k", "sojourn-test"];
        let status = Command::new("mount").args(mount).arg(folder.path()).status();
        if status.is_ok_and(|status| status.success()) {
            return Some(SmallDisk(folder));
        }
        eprintln!("skipped: no file system can be mounted here");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_disk_that_fills_and_is_cleared_keeps_whole_lines() {
    let Some(disk) = SmallDisk::new() else { return };
    let path = disk.0.path().join("log");
    let root = fixture::site();
    let server = Server::start("amped", root.path(), &["--access-log", path.to_str().unwrap()]);
    let mut answered = 0;
    while server.counters().value(Counter::LogLinesDropped) == 0 {
        answered += under_load(&server, || std::thread::sleep(Duration::from_millis(200)));
    }
    // Lines still in memory are written or dropped first, because they could fill the disk again.
    std::thread::sleep(Duration::from_millis(1500));
    // An administrator's way to make room.
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    assert!(server.get("/empty").contains(" 200 "));
    let dropped = server.stop().value(Counter::LogLinesDropped);
    assert!(dropped > 0 && dropped <= answered, "{dropped} of {answered}");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.lines().filter(|line| line.starts_with("127.0.0.1 - - [")).count() >= 1, "{text:?}");
    assert!(text.ends_with("\"GET /empty HTTP/1.0\" 200 - \"-\" \"-\"\n"), "{text:?}");
}

#[test]
fn links_are_no_logs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("precious"), "").unwrap();
    std::os::unix::fs::symlink(path("precious"), path("symbolic")).unwrap();
    fs::hard_link(path("precious"), path("hard")).unwrap();
    for (name, reason) in [("symbolic", "it is a symbolic link"), ("hard", "it has other names")] {
        for command in ["serve", "stream"] {
            let output =
                Command::new(ENGINE).arg(command).arg(".").arg("--access-log").arg(path(name)).output();
            let said = String::from_utf8(output.unwrap().stderr).unwrap();
            assert!(said.contains(reason) && said.contains("\nhint: "), "{command}: {said}");
        }
    }
    let root = fixture::site();
    let log = path("log");
    let server = Server::start("amped", root.path(), &["--access-log", log.to_str().unwrap()]);
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o640);
    // The same when the log is reopened.
    fs::rename(&log, path("log.1")).unwrap();
    std::os::unix::fs::symlink(path("precious"), &log).unwrap();
    kill_process(server.pid(), Signal::USR1).unwrap();
    server.get("/hello.txt");
    server.stop();
    assert_eq!(fs::read_to_string(path("precious")).unwrap(), "");
    assert!(fs::read_to_string(path("log.1")).unwrap().contains("GET /hello.txt"));
}

#[test]
fn the_time_a_response_takes_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let log = |path: &Path| fs::read_to_string(path).unwrap();
    std::thread::scope(|scope| {
        for architecture in ALL.iter().map(|row| row.name()) {
            let path = path(architecture);
            scope.spawn(move || {
                let root = fixture::site();
                let format = "%U %O %D";
                let flags = ["--access-log", path.to_str().unwrap(), "--access-log-format", format];
                let server = Server::start(architecture, root.path(), &flags);
                // The client sends its request slowly once its connection is served.
                let mut client = server.connect();
                client.send(b"HEAD /empty HTTP/1.1\r\nHost: h\r\n\r\n");
                client.take(1);
                client.send(b"GET /large.bin HT");
                std::thread::sleep(Duration::from_secs(1));
                client.send(b"TP/1.0\r\n\r\n");
                let answers = client.rest();
                let bytes =
                    answers.len() - answers.windows(9).rposition(|text| text == b"HTTP/1.1 ").unwrap();
                server.wait_until(Counter::ConnectionsOpen, 0);
                server.stop();
                let log = log(&path);
                let line = log.lines().last().unwrap();
                let fields: Vec<&str> = line.split_ascii_whitespace().collect();
                assert_eq!(fields[..2], ["/large.bin", &bytes.to_string()], "{architecture}");
                let microseconds: u64 = fields[2].parse().unwrap();
                assert!((500_000..20_000_000).contains(&microseconds), "{architecture}: {line}");
            });
        }
    });
}

#[test]
fn a_format_that_is_not_known_is_refused() {
    let output = Command::new(ENGINE)
        .args(["serve", ".", "--access-log", "/dev/null", "--access-log-format", "%h %Z"])
        .output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("error: the log format's directive `%Z` at column 4"), "{said}");
    assert!(said.contains("\nhint: "), "{said}");
}

/// The process that writes the lines of the others is their server's first child.
#[test]
fn if_the_process_that_writes_dies_another_one_goes_on() {
    for architecture in ["fork", "helper", "mp"] {
        let (site, folder) = (fixture::site(), tempfile::tempdir().unwrap());
        let log = folder.path().join("access.log");
        let flags: &[&str] = if architecture == "fork" { &[] } else { &["--workers", "2"] };
        let flags = [&["--access-log", log.to_str().unwrap()], flags].concat();
        let server = Server::start(architecture, site.path(), &flags);
        let is_written = |path: &str| {
            assert!(server.get(&format!("/hello.txt?{path}")).ends_with("hello"), "{architecture}");
            until("a line", || fs::read_to_string(&log).ok()?.contains(path).then_some(()));
        };
        is_written("before");
        let writer = server.children()[0];
        kill_process(writer, Signal::KILL).unwrap();
        until("a warning", || server.said().iter().any(|line| line.contains("another one")).then_some(()));
        is_written("after");
        assert!(!server.children().contains(&writer));
        server.stop();
        let text = fs::read_to_string(&log).unwrap();
        assert_eq!(text.lines().count(), 2, "{architecture}: {text}");
    }
}
