//! Compares the architectures on a slowed disk: one client requests files that are not in memory, another repeatedly
//! requests one that is. With SPED the second waits whenever the first does; with every other architecture it is
//! unaffected.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::engine::{Client, ENGINE, Server};
use sojourn_measure::confinement::{Confinement, DiskLimit, Hierarchies, Limits, disk_under};
use sojourn_server::{ALL, Counter};
use sojourn_testing::drop_pages;

/// The read rate of the disk for the server under test.
const DISK_BYTES_PER_SECOND: u64 = 2 << 20;

/// The size of a cold file: more than is sent in one loop iteration, and at least a quarter of a second of disk time.
const COLD_BYTES: usize = 640 << 10;

/// The number of cold files; each is requested once.
const COLD_FILES: usize = 6;

/// The pause between two requests for the hot file.
const PAUSE: Duration = Duration::from_millis(2);

/// The factor by which SPED must slow the hot client at least.
const RATIO_MIN: u32 = 10;

/// The variants by name: the architecture and its flags.
const VARIANTS: &[(&str, &str, &[&str])] = &[
    ("amped with processes", "amped", &["--helper-kind", "processes"]),
    ("amped with mincore", "amped", &["--residency", "mincore"]),
    ("amped without a test", "amped", &["--residency", "none"]),
    ("amped with memory", "amped", &["--memory-max", "1MiB"]),
    ("amped-nowait with memory", "amped-nowait", &["--memory-max", "1MiB"]),
    ("uring with one ring", "uring", &["--workers", "1"]),
    ("uring with one ring and memory", "uring", &["--workers", "1", "--memory-max", "1MiB"]),
];

/// The hot client's measurements while the other client requested all cold files.
struct Seen {
    name: String,
    cold_seconds: f64,
    hot: Vec<Duration>,
}

impl Seen {
    fn percentile(&self, percent: usize) -> Duration {
        self.hot[(self.hot.len() - 1) * percent / 100]
    }
}

fn content(number: usize) -> Vec<u8> {
    (0..COLD_BYTES).map(|index| (index / 251) as u8 ^ index as u8 ^ number as u8).collect()
}

/// Writes the site and drops its cold part from the page cache.
fn write_site(root: &Path) {
    std::fs::write(root.join("hot"), "hot").unwrap();
    for number in 0..COLD_FILES {
        let path = root.join(format!("cold-{number}"));
        std::fs::write(&path, content(number)).unwrap();
        drop_pages(&File::open(path).unwrap());
    }
}

fn get(server: &Server, path: &str) -> Vec<u8> {
    let mut client = server.connect();
    client.send(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes());
    client.rest()
}

fn ask_hot(client: &mut Client) -> Duration {
    let begun = Instant::now();
    client.send(b"GET /hot HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut answer = client.take(100);
    while !answer.ends_with(b"\r\n\r\nhot") {
        answer.extend(client.take(1));
    }
    begun.elapsed()
}

fn try_out(name: &str, architecture: &str, flags: &[&str]) -> Result<Seen, String> {
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    write_site(root.path());
    let (disk, bytes_per_second) = (disk_under(root.path())?, Some(DISK_BYTES_PER_SECOND));
    let disk = Some(DiskLimit { disk, bytes_per_second, reads_per_second: None });
    let state = tempfile::tempdir().unwrap();
    let group = format!("sojourn-test-{}-{}", std::process::id(), name.replace(' ', "-"));
    let limits = Limits { disk, ..Limits::default() };
    let slow = Confinement::new(&Hierarchies::here(), state.path(), &group, &limits)?;
    let mut command = Command::new(ENGINE);
    slow.enclose(&mut command)?;
    command.arg("serve").arg(root.path()).args(["--listen", "127.0.0.1:0", "--architecture", architecture]);
    let server = Server::run(command.args(flags));
    let mut client = server.connect();
    ask_hot(&mut client);
    let mut hot = Vec::new();
    let cold_seconds = std::thread::scope(|scope| {
        let cold = scope.spawn(|| {
            let begun = Instant::now();
            let answers: Vec<_> =
                (0..COLD_FILES).map(|number| get(&server, &format!("/cold-{number}"))).collect();
            let whole = |(number, answer): (usize, &Vec<u8>)| answer.ends_with(&content(number));
            assert!(answers.iter().enumerate().all(whole), "{name}: cold files arrive as they are");
            begun.elapsed().as_secs_f64()
        });
        // It has also ended if it has failed.
        while !cold.is_finished() {
            hot.push(ask_hot(&mut client));
            std::thread::sleep(PAUSE);
        }
        cold.join().unwrap()
    });
    hot.sort();
    assert_eq!(server.stop().value(Counter::Requests), (1 + COLD_FILES + hot.len()) as u64);
    Ok(Seen { name: name.to_owned(), cold_seconds, hot })
}

#[test]
fn only_sped_makes_others_wait_for_the_disk() {
    let rows = ALL.iter().map(|row| (row.name(), row.name(), [].as_slice()));
    let all: Vec<_> = rows.chain(VARIANTS.iter().copied()).collect();
    let seen: Result<Vec<Seen>, String> = std::thread::scope(|scope| {
        let begun: Vec<_> = all
            .iter()
            .map(|(name, architecture, flags)| scope.spawn(move || try_out(name, architecture, flags)))
            .collect();
        begun.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let seen = match seen {
        Ok(seen) => seen,
        Err(reason) => {
            // Not by a macro, whose output is shown only when a test fails.
            return writeln!(std::io::stderr(), "skipped, the disk cannot be made slow: {reason}").unwrap();
        }
    };
    for each in &seen {
        let [median, p99, max] = [50, 99, 100].map(|percent| each.percentile(percent));
        let (name, cold_seconds, count) = (&each.name, each.cold_seconds, each.hot.len());
        eprintln!(
            "{name}: cold files in {cold_seconds:.2} s; {count} hot, median {median:?}, p99 {p99:?}, max {max:?}"
        );
    }
    let disk_seconds = (COLD_FILES * COLD_BYTES) as f64 / DISK_BYTES_PER_SECOND as f64;
    // Not a percentile: with SPED few requests are made, and sometimes less than one in ten of them waits.
    let mean = |seen: &Seen| seen.hot.iter().sum::<Duration>() / seen.hot.len() as u32;
    let sped = seen.iter().find(|seen| seen.name == "sped").map(mean).expect("sped is a row");
    for other in &seen {
        assert!(other.cold_seconds > disk_seconds * 0.8, "{}: the files were not cold", other.name);
        if other.name != "sped" {
            assert!(mean(other) * RATIO_MIN <= sped, "{}: {:?}, sped {sped:?}", other.name, mean(other));
        }
    }
}
