//! Tests of files that change while they are served, over the event loops and every path to the data: a response is one
//! complete version, or ends short. `robustness.rs` has the simpler cases, over every architecture.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::engine::{Client, Server, side_by_side};
use sojourn_server::Counter;

/// The architecture and its flags.
const VARIANTS: &[(&str, &[&str])] = &[
    ("sped", &[]),
    ("amped", &[]),
    ("amped", &["--residency-trust", "0s"]),
    ("amped", &["--residency", "mincore"]),
    ("amped", &["--residency", "none"]),
    ("amped", &["--helper-kind", "processes"]),
    ("amped", &["--helper-kind", "processes", "--memory-max", "1MiB"]),
    ("amped-nowait", &[]),
    ("amped-nowait", &["--residency", "mincore", "--memory-max", "1MiB"]),
    ("amped-nowait", &["--residency", "none"]),
];

/// How long a version may be served after it was replaced.
const RECHECK_AFTER: Duration = Duration::from_millis(50);

/// Runs `test` over every variant in parallel, each with its own site.
fn over_variants(test: impl Fn(Server, &Path) + Sync) {
    let run = |architecture: &str, flags: &[&str]| {
        let root = tempfile::tempdir().unwrap();
        let flags = [flags, &["--recheck-after", "50ms"]].concat();
        test(Server::start(architecture, root.path(), &flags), root.path());
    };
    std::thread::scope(|scope| {
        for (architecture, flags) in VARIANTS {
            let name = format!("{architecture} {}", flags.join(" "));
            let thread = std::thread::Builder::new().name(name);
            thread.spawn_scoped(scope, || run(architecture, flags)).unwrap();
        }
    });
}

/// The head and the body of the next response on a kept connection; short only if the connection ends.
fn answer(client: &mut Client) -> (String, Vec<u8>) {
    let mut head = client.take(100);
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(client.take(1));
    }
    let head = String::from_utf8(head).unwrap();
    let length = field(&head, "Content-Length").map_or(0, |length| length.parse().unwrap());
    (head, client.take(length))
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// The content of the file `name` in this `version`, which every byte and the length tell.
fn content(name: &str, version: usize) -> Vec<u8> {
    let shortest = if name == "large" { 600_000 } else { 10 };
    vec![version as u8; shortest + version]
}

/// Requests a file and returns the version of the response.
fn get(client: &mut Client, name: &str) -> usize {
    client.send(format!("GET /{name} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
    let body = answer(client).1;
    let version = usize::from(body[0]);
    assert!(body == content(name, version), "{name}: not all of {} bytes are version {version}", body.len());
    version
}

fn replace(root: &Path, name: &str, version: usize) {
    fs::write(root.join("next"), content(name, version)).unwrap();
    fs::rename(root.join("next"), root.join(name)).unwrap();
}

#[test]
fn an_answer_is_one_version_and_not_an_old_one() {
    const VERSIONS: usize = 50;
    /// The delay that scheduling may add to a version's trusted time.
    const DEADLINE: Duration = Duration::from_secs(2);
    over_variants(|server, root| {
        for name in ["large", "small"] {
            replace(root, name, 0);
            let current = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut client = server.connect();
                    let mut served = 0;
                    while served < VERSIONS {
                        let before = served;
                        served = get(&mut client, name);
                        assert!(before <= served && served <= current.load(Ordering::Acquire) + 1);
                    }
                });
                for version in 1..=VERSIONS {
                    current.store(version - 1, Ordering::Release);
                    replace(root, name, version);
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let changed = Instant::now();
            replace(root, name, VERSIONS + 1);
            let mut client = server.connect();
            while get(&mut client, name) <= VERSIONS {
                assert!(
                    changed.elapsed() < RECHECK_AFTER + DEADLINE,
                    "{name}: an old version is still served"
                );
            }
        }
    });
}

/// A file larger than both sockets' buffers; every eight bytes tell their position.
fn whole() -> &'static [u8] {
    static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| (0..2u64 << 20).flat_map(u64::to_le_bytes).collect());
    &WHOLE
}

#[test]
fn a_file_cut_short_while_it_is_sent_ends_the_connection_with_no_wrong_byte() {
    const CUT: u64 = 12 << 20;
    over_variants(|server, root| {
        let whole = whole();
        let mut file = File::create(root.join("file")).unwrap();
        file.write_all(whole).unwrap();
        let mut client = server.connect();
        client.send(b"GET /file HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut received = client.take(1 << 20);
        file.set_len(CUT).unwrap();
        received.extend(client.rest());
        let start = received.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        let body = &received[start..];
        assert!(body.len() <= CUT as usize, "{} bytes came of {CUT}", body.len());
        assert!(*body == whole[..body.len()]);

        std::thread::sleep(RECHECK_AFTER);
        let mut client = server.connect();
        client.send(b"GET /file HTTP/1.1\r\nHost: h\r\n\r\n");
        let (head, body) = answer(&mut client);
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(body == whole[..CUT as usize]);
        assert_eq!(server.stop().value(Counter::ConnectionErrors), 1);
    });
}

#[test]
fn a_file_that_is_gone_is_sent_to_its_end_and_then_not_found() {
    over_variants(|server, root| {
        let whole = whole();
        fs::write(root.join("file"), whole).unwrap();
        let mut client = server.connect();
        client.send(b"GET /file HTTP/1.0\r\n\r\n");
        let mut received = client.take(1000);
        fs::remove_file(root.join("file")).unwrap();
        received.extend(client.rest());
        assert!(received.ends_with(whole));
        std::thread::sleep(RECHECK_AFTER);
        assert!(server.get("/file").starts_with("HTTP/1.1 404 "));
    });
}

#[test]
fn a_file_that_grows_in_place_keeps_its_announced_length_and_then_has_its_new_one() {
    over_variants(|server, root| {
        let whole = whole();
        let file = File::create(root.join("file")).unwrap();
        file.write_all_at(whole, 0).unwrap();
        let mut client = server.connect();
        client.send(b"GET /file HTTP/1.1\r\nHost: h\r\n\r\nGET /none HTTP/1.0\r\n\r\n");
        let mut received = client.take(1000);
        file.write_all_at(b"more", whole.len() as u64).unwrap();
        received.extend(client.rest());
        let start = received.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        assert!(received[start..].starts_with(whole));
        assert!(received[start + whole.len()..].starts_with(b"HTTP/1.1 404 "));
        std::thread::sleep(RECHECK_AFTER);
        let mut client = server.connect();
        client.send(b"GET /file HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(answer(&mut client).1.ends_with(b"more"));
    });
}

#[test]
fn a_file_that_is_always_shorter_than_it_says_is_a_failure() {
    // The kernel says of each of its attributes that it has a page.
    let root = Path::new("/sys/class/net/lo");
    if !root.join("mtu").exists() {
        eprintln!("skipped: there is no {}", root.display());
        return;
    }
    side_by_side(|architecture| {
        let server = Server::start(architecture.name(), root, &[]);
        let answer = server.get("/mtu");
        assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    });
}
