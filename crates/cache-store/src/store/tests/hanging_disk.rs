//! A hanging disk: jobs are queued, and no thread performs them.

use std::task::Waker;

use super::disk::{body, get, open, work};
use super::*;

/// Settings with too little memory for long bodies.
fn small_memory() -> Settings {
    Settings { memory_bytes: 4 << 20, memory_object_bytes_max: 1 << 20, ..Settings::default() }
}

#[test]
fn a_disk_that_hangs_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (Key::new(b"http://h/1"), Key::new(b"http://h/2"));
    let store = open(directory.path(), 1 << 30, Settings::default());
    for key in [&first, &second] {
        put(&store, key, &[&body(1000)]);
    }
    work(&store);
    let store = open(directory.path(), 1 << 30, Settings::default());
    let Lookup::OnDisk(lookup) = store.lookup(&first) else { panic!("it is on disk") };
    let job = store.take_job().unwrap();
    assert!(!store.expire_disk_waits(Duration::from_secs(3600)) && lookup.outcome().is_none());
    assert!(store.expire_disk_waits(Duration::ZERO));
    assert!(matches!(lookup.outcome(), Some(None)));
    for key in [&first, &second] {
        assert!(matches!(store.lookup(key), Lookup::Miss), "nobody else waits");
    }
    assert_eq!(store.disk_counts().unwrap().read_failures, 1);
    // The disk answers again; requests that have timed out are not affected.
    job.perform();
    assert!(matches!(lookup.outcome(), Some(None)));
    assert!(!store.expire_disk_waits(Duration::ZERO));
    assert!(get(&store, &first).is_some_and(|got| got.is_ok()));
}

#[test]
fn a_body_that_is_being_read_breaks_off() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), 1 << 30, small_memory());
    let (key, whole) = (Key::new(b"http://h/1"), body(3_000_000));
    put(&store, &key, &[&whole]);
    work(&store);
    let Lookup::OnDisk(lookup) = store.lookup(&key) else { panic!("it is on disk") };
    work(&store);
    let mut reader = Reader::of_object(lookup.outcome().flatten().unwrap());
    assert!(matches!(reader.next(Waker::noop()), Next::Wait));
    work(&store);
    let Next::Bytes(slice) = reader.next(Waker::noop()) else { panic!("it was read") };
    let mut read = slice.as_bytes().to_vec();
    while let Next::Bytes(slice) = reader.next(Waker::noop()) {
        read.extend_from_slice(slice.as_bytes());
    }
    let job = store.take_job().unwrap();
    let follower = std::thread::spawn(move || read_all(reader));
    assert!(!store.expire_disk_waits(Duration::from_secs(3600)));
    assert!(store.expire_disk_waits(Duration::ZERO));
    let rest = follower.join().unwrap().unwrap_err();
    assert!(rest.is_empty() && whole.starts_with(&read) && read.len() < whole.len());
    assert_eq!(store.disk_counts().unwrap().read_failures, 1);
    job.perform();
    assert!(!store.expire_disk_waits(Duration::ZERO), "it is back, and nobody waits");
    assert!(get(&store, &key) == Some(Ok((whole, b"metadata".to_vec()))));
}

#[test]
fn a_body_that_is_being_written_goes_on_without_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), 1 << 30, small_memory());
    let (key, whole) = (Key::new(b"http://h/1"), body(4_000_000));
    let InsertOutcome::Insert(mut fill) = store.begin(&key, None) else { panic!("nobody else is at it") };
    fill.start(stored(b"metadata"));
    let reader = fill.reader().unwrap();
    let mut chunks = whole.chunks(100_000);
    while fill.has_room(|| Waker::noop().clone()) {
        fill.append(Arc::from(chunks.next().expect("the disk takes nothing")));
    }
    assert!(!store.expire_disk_waits(Duration::ZERO), "who reads is as slow");
    let follower = std::thread::spawn(move || read_all(reader));
    let begun = std::time::Instant::now();
    while !store.expire_disk_waits(Duration::from_millis(1)) {
        assert!(begun.elapsed() < Duration::from_secs(20), "the reader is at the end by now");
        std::thread::sleep(Duration::from_millis(1));
    }
    for chunk in chunks {
        while !fill.has_room(|| Waker::noop().clone()) {
            std::thread::yield_now();
        }
        fill.append(Arc::from(chunk));
    }
    assert!(fill.complete().unwrap().is_none());
    assert!(follower.join().unwrap().unwrap() == whole);
    assert_eq!(store.disk_counts().unwrap().write_failures, 1);
    work(&store);
    assert!(matches!(store.lookup(&key), Lookup::Miss), "it is not kept");
    assert_eq!(store.memory_counts().bytes, 0);
}
