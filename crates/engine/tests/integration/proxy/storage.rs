//! Tests of the proxy's cache on disk: a restart, a kill, a full disk and a damaged file.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::proxy;
use crate::engine::{Client, DEADLINE, ENGINE, Server, WhenDropped};
use rustix::process::{Pid, Signal, kill_process};
use sojourn_server::{ALL, CacheScope, Counter};
use sojourn_testing::until;
use sojourn_testing::upstream::Upstream;

/// Sizes of bodies: small, larger than a piece in memory, larger than a read, larger than memory.
const SIZES: [usize; 5] = [5, 70_000, 300_000, 1_200_000, 3_000_000];

/// Memory for the cache, too small for some bodies.
const MEMORY: &str = "2MiB";

/// The number of a body that is longer than any kept in memory.
const LONGEST: u64 = 1_000_003;

fn body(number: u64) -> Vec<u8> {
    let length = if number == LONGEST { 9_000_000 } else { SIZES[number as usize % SIZES.len()] };
    let word = |at: u64| (at ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    // The period is not a divisor of any chunk size.
    let block: Vec<u8> = (0..125).flat_map(word).collect();
    let mut bytes = block.repeat(length / block.len() + 1);
    bytes.truncate(length - number as usize % 5);
    bytes
}

/// Answers `/N` with the N-th body, fresh for an hour.
fn origin() -> Upstream {
    Upstream::start(|peer| {
        while let Some(head) = peer.head() {
            let number = head.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
            let body = body(number);
            let fields = format!("Content-Length: {}\r\nCache-Control: max-age=3600", body.len());
            peer.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n").as_bytes());
            peer.send(&body);
        }
    })
}

fn server(architecture: &str, upstream: &Upstream, directory: &Path, flags: &[&str]) -> Server {
    let directory = directory.to_str().unwrap();
    let memory: &[&str] = if flags.contains(&"--cache-memory") { &[] } else { &["--cache-memory", MEMORY] };
    let all = [&["--cache-dir", directory, "--cache-disk", "1GiB"], memory, flags].concat();
    proxy(architecture, &[upstream.address], &all)
}

/// Requests `/N`; returns whether the cache answered, or `None` without a complete response. Panics on a wrong byte.
fn ask(client: &mut Client, number: u64) -> Option<bool> {
    client.send(format!("GET /{number} HTTP/1.0\r\nHost: h\r\n\r\n").as_bytes());
    let answer = client.rest();
    let head_end = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let (head, got) = (String::from_utf8_lossy(&answer[..head_end]).into_owned(), &answer[head_end..]);
    let expected = body(number);
    if got.len() < expected.len() {
        assert!(expected.starts_with(got), "{number}: wrong bytes before the end");
        return None;
    }
    assert!(got == expected, "{number}: wrong bytes in {head}");
    Some(head.contains("Cache-Status: me; hit"))
}

fn is_hit(server: &Server, number: u64) -> bool {
    ask(&mut server.connect(), number).expect("a whole answer")
}

fn wait_until_written(server: &Server, objects: u64) {
    server.wait_until(Counter::CacheDiskWritten, objects);
}

/// The objects' files.
fn files(directory: &Path) -> Vec<PathBuf> {
    let directories = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let of_objects = directories.filter(|path| path.is_dir() && !path.ends_with("temporary"));
    of_objects.flat_map(|path| fs::read_dir(path).unwrap()).map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn what_was_kept_is_there_after_a_restart() {
    for architecture in
        ALL.iter().filter(|architecture| architecture.cache_scope() == Some(CacheScope::Server))
    {
        eprintln!("{}:", architecture.name());
        let (upstream, directory) = (origin(), tempfile::tempdir().unwrap());
        let first = server(architecture.name(), &upstream, directory.path(), &[]);
        for number in 0..10 {
            assert!(!is_hit(&first, number));
        }
        wait_until_written(&first, 10);
        // Not all of them fit into memory.
        for number in 0..10 {
            assert!(is_hit(&first, number));
        }
        let counted = first.stop();
        assert!(counted.value(Counter::CacheDiskHits) > 0);
        assert_eq!(counted.value(Counter::CacheDiskObjects), 10);
        let second = server(architecture.name(), &upstream, directory.path(), &[]);
        for number in 0..10 {
            assert!(is_hit(&second, number), "{number}");
        }
        second.wait_until(Counter::CacheDiskIndexed, 1);
        let counted = second.stop();
        assert_eq!(counted.value(Counter::CacheDiskHits), 10);
        assert_eq!(upstream.heads().len(), 10);
    }
}

#[test]
fn what_is_too_long_for_memory_goes_to_disk_as_it_comes() {
    let (upstream, directory) = (origin(), tempfile::tempdir().unwrap());
    let server = server("amped", &upstream, directory.path(), &["--cache-memory", "64MiB"]);
    // A request during the transfer follows it, or goes to the origin if its start is no longer available.
    let (mut first, mut second) = (server.connect(), server.connect());
    for client in [&mut first, &mut second] {
        client.send(format!("GET /{LONGEST} HTTP/1.0\r\nHost: h\r\n\r\n").as_bytes());
    }
    std::thread::scope(|scope| {
        for client in [&mut first, &mut second] {
            scope.spawn(|| assert!(client.rest().ends_with(&body(LONGEST))));
        }
    });
    let begun = Instant::now();
    while server.counters().value(Counter::CacheDiskWritten) == 0 {
        assert!(begun.elapsed() < DEADLINE, "it was not written: {:?}", server.counters());
        std::thread::sleep(Duration::from_millis(10));
    }
    let asked = upstream.heads().len();
    assert!(is_hit(&server, LONGEST) && is_hit(&server, LONGEST));
    assert_eq!(upstream.heads().len(), asked);
    let counted = server.stop();
    assert_eq!(counted.value(Counter::CacheDiskHits), 2);
    assert_eq!(counted.value(Counter::CacheMemoryObjects), 0);
}

#[test]
fn many_clients_share_what_is_read() {
    for architecture in ["amped", "ncopy", "uring"] {
        let (upstream, directory) = (origin(), tempfile::tempdir().unwrap());
        let first = server(architecture, &upstream, directory.path(), &[]);
        (0..10).for_each(|number| assert!(!is_hit(&first, number)));
        wait_until_written(&first, 10);
        first.stop();
        let second = server(architecture, &upstream, directory.path(), &[]);
        let mut clients: Vec<_> = (0..40).map(|number| (second.connect(), number % 10)).collect();
        for (client, number) in &mut clients {
            client.send(format!("GET /{number} HTTP/1.0\r\nHost: h\r\n\r\n").as_bytes());
        }
        // One client leaves in the meantime, which affects no other.
        clients.remove(4);
        for (client, number) in &mut clients {
            assert!(client.rest().ends_with(&body(*number)));
        }
        assert_eq!(upstream.heads().len(), 10);
    }
}

#[test]
fn requests_behind_one_that_waits_for_the_disk_are_answered_in_order() {
    let (upstream, directory) = (origin(), tempfile::tempdir().unwrap());
    let first = server("amped", &upstream, directory.path(), &[]);
    (0..3).for_each(|number| assert!(!is_hit(&first, number)));
    wait_until_written(&first, 3);
    first.stop();
    let second = server("amped", &upstream, directory.path(), &[]);
    let mut client = second.connect();
    let get = |number| format!("GET /{number} HTTP/1.1\r\nHost: h\r\n\r\n");
    let last = "GET /0 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    client.send(format!("{}{}{}{last}", get(0), get(1), get(2)).as_bytes());
    let answers = client.rest();
    let expected = [body(0), body(1), body(2), body(0)];
    let mut rest = &answers[..];
    for body in expected {
        let head_end = rest.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        assert!(rest[head_end..].starts_with(&body));
        rest = &rest[head_end + body.len()..];
    }
    assert!(rest.is_empty());
    assert_eq!(upstream.heads().len(), 3);
}

#[test]
fn killed_twice_while_writing() {
    kill_while_writing(2);
}

#[test]
#[ignore = "it takes a minute"]
fn killed_ten_times_while_writing() {
    kill_while_writing(10);
}

/// Kills a writing server this many times: whatever it reported as written must exist afterwards, without a wrong byte.
fn kill_while_writing(times: u64) {
    const CLIENTS: u64 = 4;
    let (upstream, directory) = (origin(), tempfile::tempdir().unwrap());
    let next = AtomicU64::new(0);
    let (mut asked_before, mut hits_before) = (0, HashSet::new());
    for round in 0..times {
        let mut server = server("ncopy", &upstream, directory.path(), &[]);
        let address = server.address;
        let is_over = AtomicBool::new(false);
        let written = std::thread::scope(|scope| {
            let _over = WhenDropped(&is_over);
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let Ok(stream) = std::net::TcpStream::connect(address) else { return };
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        ask(&mut Client::of(stream), mostly_small(number));
                    }
                });
            }
            let begun = Instant::now();
            // Only its last report is certain.
            let mut written = 0;
            while written < 20 + 7 * round {
                assert!(begun.elapsed() < DEADLINE, "{written} objects were written");
                written = server.counters().value(Counter::CacheDiskWritten);
                std::thread::sleep(Duration::from_millis(5));
            }
            kill_process(server.pid(), Signal::KILL).unwrap();
            written
        });
        while !server.is_over() {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(server);
        let asked = next.load(Ordering::Relaxed);
        let again = self::server("amped", &upstream, directory.path(), &[]);
        let found: HashSet<u64> = (0..asked).filter(|number| held(&again, mostly_small(*number))).collect();
        let new = found.iter().filter(|number| **number >= asked_before).count() as u64;
        assert!(new >= written, "round {round}: {new} of {written} written objects are there");
        assert!(found.is_superset(&hits_before), "round {round}: what was there is gone");
        let counted = again.stop();
        assert_eq!(counted.value(Counter::CacheDiskDamaged), 0, "round {round}");
        let left = fs::read_dir(directory.path().join("temporary")).unwrap().count();
        assert_eq!(left, 0, "what was being written is cleared away");
        (asked_before, hits_before) = (asked, found);
    }
}

/// Numbers of bodies, of which one in sixteen is large, to keep the disk busy without filling it.
fn mostly_small(number: u64) -> u64 {
    5 * number + if number % 16 == 15 { 3 } else { number % 3 }
}

/// Returns true if `/N` is in the cache; panics on a wrong byte.
fn held(server: &Server, number: u64) -> bool {
    let mut client = server.connect();
    let fields = "Host: h\r\nCache-Control: only-if-cached";
    client.send(format!("GET /{number} HTTP/1.0\r\n{fields}\r\n\r\n").as_bytes());
    let answer = client.rest();
    if answer.starts_with(b"HTTP/1.1 504") {
        return false;
    }
    assert!(answer.ends_with(&body(number)), "{number}: wrong bytes");
    true
}

#[test]
fn what_was_damaged_is_asked_for_again() {
    let (upstream, directory) = (origin(), tempfile::tempdir().unwrap());
    let first = server("amped", &upstream, directory.path(), &[]);
    (0..4).for_each(|number| assert!(!is_hit(&first, number)));
    wait_until_written(&first, 4);
    first.stop();
    for (at, path) in files(directory.path()).into_iter().enumerate() {
        let file = fs::File::options().read(true).write(true).open(path).unwrap();
        let length = file.metadata().unwrap().len();
        match at {
            0 => file.set_len(length / 2).unwrap(),
            1 => file.write_all_at(b"????", length / 2).unwrap(),
            2 => file.write_all_at(b"?", 60).unwrap(),
            _ => file.set_len(0).unwrap(),
        }
    }
    let second = server("amped", &upstream, directory.path(), &[]);
    let hits = (0..4).filter(|number| ask(&mut second.connect(), *number) == Some(true)).count();
    assert_eq!(hits, 0);
    let counted = second.stop();
    assert!(counted.value(Counter::CacheDiskDamaged) >= 3);
}

#[test]
fn a_full_disk_costs_hits_and_nothing_else() {
    let (upstream, directory) = (origin(), tempfile::tempdir().unwrap());
    let path = directory.path().to_str().unwrap();
    let script = "mount -t tmpfs -o size=1500k none \"$0\" || exit 77; exec \"$@\"";
    let Some(server) = server_in_namespace(&upstream, path, script) else { return };
    let small: Vec<u64> = (0..50).filter(|number| SIZES[*number as usize % SIZES.len()] < 1 << 20).collect();
    for number in &small {
        assert!(!is_hit(&server, *number));
    }
    server.wait_until(Counter::CacheDiskJobs, 0);
    // All are in memory.
    for number in &small {
        assert!(is_hit(&server, *number));
    }
    let counted = server.counters();
    assert!(
        counted.value(Counter::CacheDiskWriteFailures) > 0 && counted.value(Counter::CacheDiskWritten) > 0
    );
    assert_eq!(server.stop().value(Counter::CacheDiskDamaged), 0);
}

/// A proxy whose cache is at `path` in a mount namespace of its own, which `script` prepares; `None` if there is none here.
fn server_in_namespace(upstream: &Upstream, path: &str, script: &str) -> Option<Server> {
    let in_namespace = |what: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, path]).args(what);
        command
    };
    if !in_namespace(&["true"]).output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no tmpfs in a namespace");
        return None;
    }
    let url = format!("http://{}", upstream.address);
    let options = ["--listen", "127.0.0.1:0", "--via", "me", "--upstream", &url, "--cache-dir", path];
    Some(Server::run(&mut in_namespace(&[&[ENGINE, "proxy"], &options[..]].concat())))
}

/// As after an error of the file system, which the kernel then mounts read-only: nothing new can be created.
#[test]
fn a_disk_that_becomes_read_only_costs_hits_and_nothing_else() {
    let (upstream, directory) = (origin(), tempfile::tempdir().unwrap());
    let [path, wish, done] = ["cache", "cache.wish", "cache.done"].map(|name| directory.path().join(name));
    fs::create_dir(&path).unwrap();
    // The server is executed in the place of the script, and the rest of it waits for the wish.
    let script = "mount -t tmpfs none \"$0\" || exit 77; [ \"$1\" = true ] && exit
        (n=0; until [ -e \"$0.wish\" ] || [ $((n += 1)) = 1000 ]; do sleep 0.02; done
        cd \"$0\" && mount --bind temporary temporary && mount -o remount,ro,bind temporary && : >\"$0.done\") &
        exec \"$@\"";
    let Some(server) = server_in_namespace(&upstream, path.to_str().unwrap(), script) else { return };
    for number in 0..4 {
        assert!(!is_hit(&server, number));
    }
    wait_until_written(&server, 4);
    fs::write(&wish, "").unwrap();
    until("it is read-only", || done.exists().then_some(()));
    for number in 0..9 {
        assert_eq!(is_hit(&server, number), number < 4, "{number}");
    }
    assert!(is_hit(&server, 5), "it is in memory");
    server.wait_until(Counter::CacheDiskJobs, 0);
    let counted = server.stop();
    assert!(counted.value(Counter::CacheDiskWriteFailures) >= 5, "{counted:?}");
    assert_eq!((counted.value(Counter::CacheDiskWritten), counted.value(Counter::CacheDiskDamaged)), (4, 0));
}

#[test]
fn a_successor_has_what_its_predecessor_kept() {
    let (upstream, directory) = (origin(), tempfile::tempdir().unwrap());
    let mut first = server("amped", &upstream, directory.path(), &[]);
    let address = first.address;
    (0..4).for_each(|number| assert!(!is_hit(&first, number)));
    wait_until_written(&first, 4);
    kill_process(first.pid(), Signal::HUP).unwrap();
    let begun = Instant::now();
    while !first.is_over() {
        assert!(begun.elapsed() < DEADLINE, "it said {:?}", first.said());
        std::thread::sleep(Duration::from_millis(10));
    }
    let said = first.said();
    let successor = said.iter().find_map(|line| line.strip_prefix("process ")).unwrap();
    let successor = Pid::from_raw(successor.split(' ').next().unwrap().parse().unwrap()).unwrap();
    for number in 0..4 {
        assert_eq!(ask(&mut Client::to(address), number), Some(true), "{number}");
    }
    kill_process(successor, Signal::TERM).unwrap();
    assert_eq!(first.wait_for_all().len(), 2);
    assert_eq!(upstream.heads().len(), 4);
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let output = Command::new(ENGINE)
        .args(["proxy", "--listen", "127.0.0.1:0", "--upstream", "http://127.0.0.1:9", "--cache-dir"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains(file.to_str().unwrap()) && said.contains("hint: "),
        "{said}"
    );
}
