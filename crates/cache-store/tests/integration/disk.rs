//! The disk tier under real processes: killed while writing, and with a full disk.
//!
//! The test executes itself as the writing process, with the variable `ROLE` set.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use sojourn_cache_store::replacement;
use sojourn_cache_store::{
    ADMISSIONS, DiskSettings, InsertOutcome, Key, Lookup, Next, Object, ObjectHead, Reader, Settings,
    Sharing, Store,
};

const ROLE: &str = "SOJOURN_STORE_TEST_ROLE";
const DIRECTORY: &str = "SOJOURN_STORE_TEST_DIRECTORY";
const WRITERS: u64 = 3;
const KILLS: u64 = 10;

fn open(path: &Path, disk_bytes: u64) -> Store {
    let disk = DiskSettings {
        path: path.to_owned(),
        bytes: disk_bytes,
        object_bytes_max: disk_bytes,
        policy: replacement::DEFAULT,
        admission: ADMISSIONS[0],
    };
    let settings =
        Settings { memory_bytes: 8 << 20, memory_object_bytes_max: 1 << 20, ..Settings::default() };
    Store::open(settings, disk).unwrap()
}

fn work(store: &Store) {
    while let Some(job) = store.take_job() {
        job.perform();
    }
}

fn text(number: u64) -> String {
    format!("http://example.com/{number}")
}

fn body(number: u64) -> Vec<u8> {
    let length = [100, 4_000, 70_000, 300_000, 1_500_000][number as usize % 5] + number as usize % 97;
    (0..length).map(|at| (at as u64 ^ number.wrapping_mul(0x9e37_79b9)) as u8).collect()
}

fn put(store: &Store, number: u64) {
    let text = text(number);
    let InsertOutcome::Insert(mut fill) = store.begin(&Key::new(text.as_bytes()), None) else { return };
    let metadata = text.as_bytes().into();
    fill.start(ObjectHead { metadata, length: None, vary: None, sharing: Sharing::Stored });
    for chunk in body(number).chunks(50_000) {
        while !fill.has_room(|| Waker::noop().clone()) {
            work(store);
        }
        fill.append(Arc::from(chunk));
        work(store);
    }
    fill.complete().unwrap();
    work(store);
}

fn find(store: &Store, number: u64) -> Option<Arc<Object>> {
    match store.lookup(&Key::new(text(number).as_bytes())) {
        Lookup::Hit(object) => Some(object),
        Lookup::OnDisk(lookup) => {
            work(store);
            match lookup.object(Waker::noop()) {
                Poll::Ready(object) => object,
                Poll::Pending => panic!("its job was performed"),
            }
        }
        _ => None,
    }
}

/// Returns true if the object is stored; panics if a byte is wrong.
fn check(store: &Store, number: u64) -> bool {
    let Some(object) = find(store, number) else { return false };
    assert_eq!(object.metadata(), text(number).as_bytes());
    let (mut reader, mut read) = (Reader::of_object(object), Vec::new());
    loop {
        match reader.next(Waker::noop()) {
            Next::Bytes(slice) => read.extend_from_slice(slice.as_bytes()),
            Next::Wait => work(store),
            Next::End => break,
            Next::Truncated => panic!("object {number} is damaged"),
        }
    }
    assert!(read == body(number), "object {number} has wrong bytes");
    true
}

fn again(role: &str, directory: &Path, test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(ROLE, role).env(DIRECTORY, directory);
    command
}

#[test]
fn killed_while_writing() {
    if let Ok(role) = std::env::var(ROLE) {
        return write_until_killed(role.parse().unwrap());
    }
    let directory = tempfile::tempdir().unwrap();
    let (mut written, mut first) = (Vec::<u64>::new(), 0_u64);
    for round in 0..KILLS {
        let start = |writer: u64| {
            let mut command =
                again(&(first + writer).to_string(), directory.path(), "disk::killed_while_writing");
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
        };
        let mut writers: Vec<Child> = (0..WRITERS).map(start).collect();
        // A process has begun once it prints something.
        let mut outputs: Vec<_> =
            writers.iter_mut().map(|writer| BufReader::new(writer.stdout.take().unwrap()).lines()).collect();
        for output in &mut outputs {
            written.extend(output.by_ref().map_while(Result::ok).find_map(|line| number(&line)));
        }
        std::thread::sleep(Duration::from_millis(20 + round * 13));
        writers.iter_mut().for_each(|writer| writer.kill().unwrap());
        for writer in &mut writers {
            writer.wait().unwrap();
        }
        for output in outputs {
            written.extend(output.map_while(Result::ok).filter_map(|line| number(&line)));
        }
        let store = open(directory.path(), 4 << 30);
        work(&store);
        let missing: Vec<_> = written.iter().filter(|number| !check(&store, **number)).collect();
        assert!(missing.is_empty(), "round {round}: of {} written {missing:?} are gone", written.len());
        let counts = store.disk_counts().unwrap();
        assert_eq!((counts.damaged, counts.read_failures), (0, 0));
        // Besides the reported objects there are at most those that were in flight.
        assert!(counts.objects <= written.len() as u64 + WRITERS * (round + 1), "{counts:?}");
        let left = std::fs::read_dir(directory.path().join("temporary")).unwrap().count();
        assert_eq!(left, 0, "what was being written is cleared away");
        first = written.iter().max().unwrap() + 1000;
        first -= first % WRITERS;
    }
    assert!(written.len() as u64 >= KILLS * WRITERS);
}

fn number(line: &str) -> Option<u64> {
    line.rsplit_once("wrote ").and_then(|(_, number)| number.parse().ok())
}

fn write_until_killed(first: u64) {
    let store = open(Path::new(&std::env::var(DIRECTORY).unwrap()), 4 << 30);
    for number in (first..).step_by(WRITERS as usize) {
        put(&store, number);
        let mut output = std::io::stdout().lock();
        writeln!(output, "wrote {number}").unwrap();
        output.flush().unwrap();
    }
}

#[test]
fn on_a_full_disk() {
    if std::env::var(ROLE).is_ok() {
        return fill_the_disk();
    }
    let directory = tempfile::tempdir().unwrap();
    let itself = again("full", directory.path(), "disk::on_a_full_disk");
    let script = "mount -t tmpfs -o size=3m none \"$SOJOURN_STORE_TEST_DIRECTORY\" || exit 77; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    command
        .arg(itself.get_program())
        .args(itself.get_args())
        .env(ROLE, "full")
        .env(DIRECTORY, directory.path());
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) if [Some(1), Some(77)].contains(&output.status.code()) => {
            eprintln!("skipped: no tmpfs in a namespace: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stdout)),
        Err(error) => eprintln!("skipped: no unshare: {error}"),
    }
}

/// A disk of 3 MiB with a configured budget of 100 MiB: memory serves, failures are counted, and stored objects are
/// right.
fn fill_the_disk() {
    let store = open(Path::new(&std::env::var(DIRECTORY).unwrap()), 100 << 20);
    work(&store);
    for number in 0..60 {
        put(&store, number);
        let is_in_memory = body(number).len() <= 1 << 20;
        assert!(!is_in_memory || check(&store, number), "{number}");
    }
    let counts = store.disk_counts().unwrap();
    assert!(counts.write_failures > 0 && counts.written > 0, "{counts:?}");
    assert!(counts.bytes <= 3 << 20, "{counts:?}");
    let found = (0..60).filter(|number| check(&store, *number)).count();
    assert!(found > 0);
    assert_eq!(store.disk_counts().unwrap().damaged, 0);
}
