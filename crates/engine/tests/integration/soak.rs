//! A soak test of any length: clients that read and clients that leave, changing files, pages dropped from memory,
//! killed helpers. Every response is checked, and memory and descriptors must not grow.
//!
//! Seconds among the tests; by hand, for three minutes:
//! `SOJOURN_SOAK_SECONDS=180 cargo test --release -p sojourn-engine --test integration -- --nocapture --exact soak::amped`

use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::engine::{Client, Counters, DEADLINE, Server};
use rustix::fs::{Advice, fadvise, fdatasync};
use rustix::process::{Pid, Signal, kill_process};
use sojourn_server::Counter;

/// The number of documents; their sizes range from a few bytes to several loop iterations of sending.
const DOCUMENTS: u64 = 40;

/// The number of clients that read complete responses.
const READERS: u64 = 3;

/// The allowed growth of the server's memory after the warm-up, while caches and allocators settle.
const GROWTH_BYTES_MAX: u64 = 6 << 20;

/// The number of io_uring rings, each with its own caches.
const RINGS: u64 = 2;

/// Additional descriptors after the start, for replacements of killed helper processes.
const DESCRIPTORS_MORE_MAX: u64 = 8;

#[test]
fn sped() {
    soak("sped", 1, &[]);
}

#[test]
fn amped() {
    soak("amped", 1, &[]);
}

#[test]
fn amped_with_processes() {
    let counters = soak("amped", 1, &["--helper-kind", "processes"]);
    assert!(counters.value(Counter::HelpersLost) > 0, "no helper was killed");
}

#[test]
fn amped_nowait() {
    soak("amped-nowait", 1, &[]);
}

#[test]
fn uring() {
    soak("uring", RINGS, &["--workers", &RINGS.to_string()]);
}

/// Runs the load on a server with this many caches of open documents; returns its counters.
fn soak(architecture: &str, caches: u64, flags: &[&str]) -> Counters {
    let seconds = std::env::var("SOJOURN_SOAK_SECONDS").map_or(3.0, |text| text.parse().expect("seconds"));
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    (0..DOCUMENTS).for_each(|document| replace(root.path(), document, 0));
    fs::write(root.path().join("cut"), vec![b'c'; 3 << 20]).unwrap();
    let server = Server::start(architecture, root.path(), &[flags, &["--recheck-after", "100ms"]].concat());
    let at_start = Use::of(&server);
    let warm_up = Duration::from_secs_f64(seconds / 4.0);
    let mut answers = put_under_load(&server, root.path(), warm_up);
    let when_warm = Use::of(&server);
    answers += put_under_load(&server, root.path(), Duration::from_secs_f64(seconds) - warm_up);
    // Each cache keeps one version of every document open, and of the truncated file.
    let documents_max = caches * (DOCUMENTS + 1);
    let descriptors_max = at_start.descriptors.len() as u64 + documents_max + DESCRIPTORS_MORE_MAX;
    let at_end = Use::settled(&server, descriptors_max);
    eprintln!("{architecture} {}: {answers} answers checked", flags.join(" "));
    eprintln!("at the start {at_start}\nwhen warm    {when_warm}\nat the end   {at_end}");
    assert!(at_end.memory_bytes <= when_warm.memory_bytes + GROWTH_BYTES_MAX, "memory grows");
    let count = at_end.descriptors.len() as u64;
    assert!(
        count <= descriptors_max,
        "{count} descriptors, not {descriptors_max}: {:#?}",
        at_end.descriptors
    );
    let counters = server.stop();
    eprintln!("{counters:?}");
    assert_eq!(counters.value(Counter::Responses5xx), 0);
    counters
}

/// The resources that a server holds without clients.
struct Use {
    memory_bytes: u64,
    /// The target of each descriptor.
    descriptors: Vec<PathBuf>,
}

impl fmt::Display for Use {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (memory_bytes, descriptors) = (self.memory_bytes, self.descriptors.len());
        write!(formatter, "{memory_bytes} bytes, {descriptors} descriptors")
    }
}

impl Use {
    /// Waits until at most `descriptors_max` descriptors remain, or more if the number stays constant: a ring closes
    /// sockets some time after it has counted them as closed.
    fn settled(server: &Server, descriptors_max: u64) -> Use {
        let begun = Instant::now();
        loop {
            let found = Use::of(server);
            if found.descriptors.len() as u64 <= descriptors_max || begun.elapsed() > DEADLINE {
                return found;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn of(server: &Server) -> Use {
        server.wait_until(Counter::ConnectionsOpen, 0);
        let process = PathBuf::from(format!("/proc/{}", server.pid()));
        let status = fs::read_to_string(process.join("status")).unwrap();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kibibytes: u64 = memory.trim().trim_end_matches(" kB").parse().unwrap();
        let links = fs::read_dir(process.join("fd")).unwrap();
        // Some are closed while they are listed.
        let descriptors = links.filter_map(|link| fs::read_link(link.ok()?.path()).ok()).collect();
        Use { memory_bytes: kibibytes << 10, descriptors }
    }
}

/// Applies all kinds of load for `duration`; returns the number of checked responses.
fn put_under_load(server: &Server, root: &Path, duration: Duration) -> u64 {
    let (is_over, answers) = (AtomicBool::new(false), AtomicU64::new(0));
    let until_over = |mut step: Box<dyn FnMut(&mut Random)>, seed| {
        let mut random = Random(seed);
        while !is_over.load(Ordering::Relaxed) {
            step(&mut random);
        }
    };
    std::thread::scope(|scope| {
        for seed in 0..READERS {
            let mut client = server.connect();
            let answers = &answers;
            scope.spawn(move || {
                until_over(
                    Box::new(move |random| {
                        read_one(&mut client, random.below(DOCUMENTS));
                        answers.fetch_add(1, Ordering::Relaxed);
                    }),
                    seed,
                );
            });
        }
        scope.spawn(|| until_over(Box::new(|random| leave(server.connect(), random)), 100));
        scope.spawn(|| until_over(Box::new(|random| change(root, random)), 101));
        scope.spawn(|| until_over(Box::new(|_| kill_a_helper(server)), 102));
        std::thread::sleep(duration);
        is_over.store(true, Ordering::Relaxed);
    });
    answers.into_inner()
}

/// Reads a response on a kept connection: one complete version, or none exists now.
fn read_one(client: &mut Client, document: u64) {
    client.send(format!("GET /{document} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
    let mut head = client.take(100);
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(client.take(1));
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let body = client.take(length.parse().unwrap());
    if !head.starts_with("HTTP/1.1 404 ") {
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(body == content(document, body[0]), "{document} is not all of one version");
    }
}

/// A client that leaves in the middle of an exchange.
fn leave(mut client: Client, random: &mut Random) {
    let document = random.below(DOCUMENTS);
    match random.below(4) {
        0 => client.send(format!("GET /{document} HTT").as_bytes()),
        1 => client.send(format!("GET /{document} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()),
        2 => {
            client.send(b"GET /cut HTTP/1.1\r\nHost: h\r\n\r\n");
            // The document may have been truncated before it was opened or while it was sent.
            let _ = client.stream.read(&mut [0; 1000]);
        }
        _ => {}
    }
    std::thread::sleep(Duration::from_millis(2));
}

/// Replaces or removes a document, or drops it from memory.
fn change(root: &Path, random: &mut Random) {
    let document = random.below(DOCUMENTS);
    match random.below(8) {
        0 => drop(fs::remove_file(root.join(document.to_string()))),
        1 => {
            let cut = File::options().write(true).open(root.join("cut")).unwrap();
            cut.set_len(random.below(2) * (1 << 20)).unwrap();
            cut.set_len(3 << 20).unwrap();
        }
        2 | 3 => replace(root, document, random.below(250) as u8),
        _ => {
            if let Ok(file) = File::open(root.join(document.to_string())) {
                fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            }
        }
    }
    std::thread::sleep(Duration::from_millis(5));
}

/// The content of a version of a document: sizes differ widely, and every byte tells the version.
fn content(document: u64, version: u8) -> Vec<u8> {
    let size = 10 << (document % 18);
    vec![version; size + usize::from(version)]
}

fn replace(root: &Path, document: u64, version: u8) {
    let next = root.join(format!("next-{document}"));
    let mut file = File::create(&next).unwrap();
    file.write_all(&content(document, version)).unwrap();
    // Only pages written to the disk can be dropped.
    fdatasync(&file).unwrap();
    fs::rename(next, root.join(document.to_string())).unwrap();
}

/// Kills a helper process if there is one: a child of the only serving child.
fn kill_a_helper(server: &Server) {
    let helpers = |keeper: &Pid| {
        let path = format!("/proc/{keeper}/task/{keeper}/children");
        let text = fs::read_to_string(path).unwrap_or_default();
        text.split_ascii_whitespace().find_map(|pid| Pid::from_raw(pid.parse().ok()?))
    };
    if let Some(helper) = server.children().first().and_then(helpers) {
        // It may just have been replaced.
        let _ = kill_process(helper, Signal::KILL);
    }
    std::thread::sleep(Duration::from_millis(50));
}

/// SplitMix64 (Steele, Lea and Flood 2014), sufficient for mixing events.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
