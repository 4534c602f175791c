//! The store's interface: insertion, following, variants, purging, budgets.

mod disk;
mod hanging_disk;
mod memory_file;
mod model;
mod parts;

use std::sync::Arc;
use std::task::{Wake, Waker};

use super::*;
use crate::busy_object::{BUFFER_BYTES_MAX, ObjectHead, Sharing, Stage};
use crate::object::Extent;
use crate::ranges::RANGES_MAX;
use crate::reader::{Next, Reader};
use crate::variants::{VARIANTS_MAX, Vary};

pub struct Parked(std::thread::Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub fn waker() -> Waker {
    Waker::from(Arc::new(Parked(std::thread::current())))
}

/// Reads to the end, waiting; `Err` with the received bytes if the body was truncated.
pub fn read_all(mut reader: Reader) -> Result<Vec<u8>, Vec<u8>> {
    let (waker, mut bytes) = (waker(), Vec::new());
    loop {
        match reader.next(&waker) {
            Next::Bytes(slice) => bytes.extend_from_slice(slice.as_bytes()),
            Next::Wait => std::thread::park_timeout(Duration::from_secs(10)),
            Next::End => return Ok(bytes),
            Next::Truncated => return Err(bytes),
        }
    }
}

/// A head without Vary.
pub fn stored(metadata: &[u8]) -> ObjectHead {
    ObjectHead { metadata: metadata.into(), length: None, vary: None, sharing: Sharing::Stored }
}

fn fill(store: &Store, key: &Key<'_>) -> Insertion {
    match store.begin(key, None) {
        InsertOutcome::Insert(fill) => fill,
        other => panic!("{other:?}"),
    }
}

/// Stores a body of these chunks at `key`.
pub fn put(store: &Store, key: &Key<'_>, chunks: &[&[u8]]) -> Option<Arc<Object>> {
    let mut fill = fill(store, key);
    fill.start(stored(b"metadata"));
    chunks.iter().for_each(|chunk| fill.append(Arc::from(*chunk)));
    fill.complete().unwrap()
}

/// The variant for the value `secondary` of `field`.
pub fn vary(field: &str, secondary: &str) -> Vary {
    let field = field.as_bytes().into();
    Vary { fields: vec![field], secondary_key: secondary.as_bytes().into(), listed: None }
}

/// Stores a body as this variant of `primary`.
pub fn put_variant(store: &Store, primary: &Key<'_>, vary: Vary, body: &[u8]) {
    let mut fill = fill(store, primary);
    fill.start(ObjectHead { vary: Some(vary), ..stored(b"") });
    fill.append(Arc::from(body));
    fill.complete().unwrap();
}

/// The list of the variants of `primary`, which must be in memory.
pub fn variants(store: &Store, primary: &Key<'_>) -> Arc<Variants> {
    match store.lookup(primary) {
        Lookup::Varies(variants) => variants,
        other => panic!("{other:?}"),
    }
}

fn hit(store: &Store, key: &Key<'_>) -> Option<Arc<Object>> {
    match store.lookup(key) {
        Lookup::Hit(object) => Some(object),
        _ => None,
    }
}

const A: &[u8] = b"http://example.com/a";

#[test]
fn what_was_filled_is_found() {
    let store = Store::new(Settings::default());
    let key = Key::new(A);
    assert!(matches!(store.lookup(&key), Lookup::Miss));
    put(&store, &key, &[b"hello, ", b"world"]).unwrap();
    let object = hit(&store, &key).unwrap();
    assert_eq!(
        (object.metadata(), object.small_body()),
        (b"metadata".as_slice(), Some(b"hello, world".as_slice()))
    );
    assert_eq!(read_all(Reader::of_object(Arc::clone(&object))).unwrap(), b"hello, world");
    assert_eq!(read_all(Reader::of_object(object).within(3, 9)).unwrap(), b"lo, wo");
}

#[test]
fn large_bodies_stay_in_pieces_and_ranges_cross_them() {
    let store = Store::new(Settings::default());
    let key = Key::new(A);
    let body: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    put(&store, &key, &body.chunks(70_000).collect::<Vec<_>>()).unwrap();
    let object = hit(&store, &key).unwrap();
    assert_eq!((object.length(), object.small_body()), (300_000, None));
    for (start, end) in [(0, 300_000), (69_999, 70_001), (140_000, 140_001), (299_999, 400_000)] {
        let read = read_all(Reader::of_object(Arc::clone(&object)).within(start, end)).unwrap();
        assert_eq!(read, body[start as usize..(end as usize).min(body.len())]);
    }
}

#[test]
fn many_follow_one() {
    let store = Store::new(Settings::default());
    let key = Key::new(A);
    let mut fill = fill(&store, &key);
    let body: Vec<u8> = (0..200_000_u32).map(|at| (at % 249) as u8).collect();
    let followers: Vec<_> = (0..8)
        .map(|_| {
            let Lookup::Busy(busy) = store.lookup(&key) else { panic!("it is on its way") };
            std::thread::spawn(move || {
                let waker = waker();
                while let Stage::Waiting = busy.stage(&waker) {
                    std::thread::park_timeout(Duration::from_secs(10));
                }
                assert_eq!(&*busy.head().unwrap().metadata, b"head");
                read_all(busy.reader().unwrap())
            })
        })
        .collect();
    assert!(matches!(store.begin(&key, None), InsertOutcome::Busy(_)));
    fill.start(stored(b"head"));
    for chunk in body.chunks(1000) {
        fill.append(Arc::from(chunk));
    }
    fill.complete().unwrap();
    for follower in followers {
        assert_eq!(follower.join().unwrap().unwrap(), body);
    }
    assert!(matches!(store.begin(&key, None), InsertOutcome::Hit(_)));
}

#[test]
fn an_abandoned_fill_is_truncated_and_never_found() {
    let store = Store::new(Settings::default());
    let key = Key::new(A);
    let mut fill = fill(&store, &key);
    fill.start(ObjectHead { length: Some(100), ..stored(b"") });
    let reader = fill.reader().unwrap();
    fill.append(Arc::from(*b"some"));
    drop(fill);
    assert_eq!(read_all(reader), Err(b"some".to_vec()));
    assert!(matches!(store.lookup(&key), Lookup::Miss));
    let mut short = self::fill(&store, &key);
    short.start(ObjectHead { length: Some(100), ..stored(b"") });
    short.append(Arc::from(*b"some"));
    assert_eq!(short.complete().unwrap_err(), Truncated { got: 4, promised: 100 });
    assert!(matches!(store.lookup(&key), Lookup::Miss));
    assert_eq!(store.memory_counts().bytes, 0);
}

#[test]
fn followers_of_a_fill_without_a_head_are_told() {
    let store = Store::new(Settings::default());
    let fill = fill(&store, &Key::new(A));
    let busy = Arc::clone(fill.busy_object());
    assert!(matches!(busy.stage(Waker::noop()), Stage::Waiting));
    drop(fill);
    assert!(matches!(busy.stage(Waker::noop()), Stage::Failed));
}

#[test]
fn what_is_private_is_for_who_began_it() {
    let store = Store::new(Settings::default());
    let key = Key::new(A);
    let mut fill = fill(&store, &key);
    let busy = Arc::clone(fill.busy_object());
    let reader = fill.reader().unwrap();
    fill.start(ObjectHead { sharing: Sharing::Private, ..stored(b"") });
    assert!(matches!(busy.stage(Waker::noop()), Stage::Failed));
    assert!(matches!(store.begin(&key, None), InsertOutcome::Insert(_)));
    fill.append(Arc::from(*b"mine"));
    assert!(fill.complete().unwrap().is_none());
    assert_eq!(read_all(reader).unwrap(), b"mine");
    assert!(matches!(store.lookup(&key), Lookup::Miss));
}

#[test]
fn what_is_not_kept_waits_for_its_slowest_reader() {
    let store = Store::new(Settings { memory_object_bytes_max: 1000, ..Settings::default() });
    let mut fill = fill(&store, &Key::new(A));
    fill.start(stored(b""));
    let mut slow = fill.reader().unwrap();
    let chunk: Arc<[u8]> = vec![1; 64 * 1024].into();
    let mut appended = 0;
    while fill.has_room(|| Waker::noop().clone()) {
        fill.append(Arc::clone(&chunk));
        appended += chunk.len() as u64;
        assert!(appended <= BUFFER_BYTES_MAX + chunk.len() as u64);
    }
    assert!(matches!(slow.next(Waker::noop()), Next::Bytes(_)));
    assert!(fill.has_room(|| Waker::noop().clone()));
    assert!(fill.busy_object().reader().is_none(), "its beginning is gone");
    assert!(fill.is_wanted());
    drop(slow);
    assert!(!fill.is_wanted());
    assert!(fill.complete().unwrap().is_none());
    assert_eq!(store.memory_counts().bytes, 0);
}

#[test]
fn variants_are_found_by_what_they_vary_in() {
    let store = Store::new(Settings::default());
    let primary = Key::new(A);
    let fields: Vec<Box<[u8]>> = vec![b"accept-encoding".as_slice().into()];
    for coding in ["gzip", "br"] {
        let begun = store.begin(&primary, None);
        let InsertOutcome::Insert(mut fill) = begun else { panic!("{begun:?}") };
        fill.start(ObjectHead { vary: Some(vary("accept-encoding", coding)), ..stored(b"") });
        let key = primary.variant(coding.as_bytes());
        assert!(matches!(store.lookup(&key), Lookup::Busy(_)));
        fill.append(Arc::from(coding.as_bytes()));
        fill.complete().unwrap();
    }
    let Lookup::Varies(variants) = store.lookup(&primary) else { panic!("it varies") };
    assert_eq!(variants.fields, fields);
    let bodies: Vec<_> = variants.keys(&primary).map(|key| hit(&store, &key).unwrap()).collect();
    assert_eq!(bodies[0].small_body(), Some(b"br".as_slice()));
    assert_eq!(bodies[1].small_body(), Some(b"gzip".as_slice()));
    assert!(store.purge(&primary));
    assert!(matches!(store.lookup(&primary.variant(b"gzip")), Lookup::Miss));
    assert_eq!(store.memory_counts().objects, 0);
}

/// A purge does not reach what the list has dropped.
#[test]
fn a_variant_that_was_dropped_does_not_come_back() {
    let store = Store::new(Settings::default());
    let primary = Key::new(A);
    // Too many; other fields in between; and a list that was evicted.
    for number in 0..=VARIANTS_MAX {
        put_variant(&store, &primary, vary("accept", &number.to_string()), b"old");
    }
    let listed = variants(&store, &primary);
    assert!(listed.key_of(&primary, b"0").is_none() && listed.key_of(&primary, b"1").is_some());
    put_variant(&store, &primary, vary("cookie", "a"), b"old");
    put_variant(&store, &primary, vary("accept", "2"), b"new");
    assert!(variants(&store, &primary).key_of(&primary, b"1").is_none());
    store.0.memory.remove(primary.hash());
    put_variant(&store, &primary, vary("accept", "3"), b"new");
    assert!(variants(&store, &primary).key_of(&primary, b"2").is_none());
    assert!(store.purge(&primary));
    for dropped in ["0", "1", "2"] {
        let mut fill = fill(&store, &primary);
        fill.start(ObjectHead { vary: Some(vary("accept", dropped)), ..stored(b"") });
        let key = variants(&store, &primary).key_of(&primary, dropped.as_bytes()).unwrap();
        assert!(matches!(store.lookup(&key), Lookup::Busy(_)), "{dropped}: not the old one");
        fill.append(Arc::from(*b"new"));
        fill.complete().unwrap();
        assert_eq!(hit(&store, &key).unwrap().small_body(), Some(b"new".as_slice()));
    }
}

#[test]
fn a_variant_that_is_purged_on_its_way_is_not_kept() {
    let store = Store::new(Settings::default());
    let primary = Key::new(A);
    put_variant(&store, &primary, vary("accept", "1"), b"old");
    // Purged before its head has arrived, and behind it.
    let mut early = fill(&store, &primary);
    assert!(store.purge(&primary));
    early.start(ObjectHead { vary: Some(vary("accept", "2")), ..stored(b"") });
    early.append(Arc::from(*b"old"));
    early.complete().unwrap();
    assert!(matches!(store.lookup(&primary), Lookup::Miss));
    let mut late = fill(&store, &primary);
    late.start(ObjectHead { vary: Some(vary("accept", "3")), ..stored(b"") });
    assert!(store.purge(&primary));
    late.append(Arc::from(*b"old"));
    late.complete().unwrap();
    assert!(matches!(store.lookup(&primary), Lookup::Miss));
    assert_eq!(store.memory_counts().objects, 0);
}

#[test]
fn what_is_purged_on_its_way_is_not_kept() {
    let store = Store::new(Settings::default());
    let key = Key::new(A);
    let mut fill = fill(&store, &key);
    fill.start(stored(b""));
    fill.append(Arc::from(*b"old"));
    assert!(store.purge(&key));
    put(&store, &key, &[b"new"]);
    fill.complete().unwrap();
    assert_eq!(hit(&store, &key).unwrap().small_body(), Some(b"new".as_slice()));
}

#[test]
fn a_stale_object_serves_until_its_successor_is_complete() {
    let store = Store::new(Settings::default());
    let key = Key::new(A);
    let stale = put(&store, &key, &[b"old"]).unwrap();
    let begun = store.begin(&key, Some(&stale));
    let InsertOutcome::Insert(mut fill) = begun else { panic!("{begun:?}") };
    fill.start(stored(b""));
    fill.append(Arc::from(*b"new"));
    assert_eq!(hit(&store, &key).unwrap().small_body(), Some(b"old".as_slice()));
    fill.complete().unwrap();
    assert_eq!(hit(&store, &key).unwrap().small_body(), Some(b"new".as_slice()));
    let fresh = store.freshen(&hit(&store, &key).unwrap(), b"fresher");
    assert_eq!((fresh.metadata(), fresh.small_body()), (b"fresher".as_slice(), Some(b"new".as_slice())));
    assert_eq!(hit(&store, &key).unwrap().metadata(), b"fresher");
}

#[test]
fn the_budget_holds_whatever_the_threads_do() {
    const BUDGET: usize = 1 << 20;
    let store = Store::new(Settings { memory_bytes: BUDGET, ..Settings::default() });
    let threads: Vec<_> = (0..4_u32)
        .map(|thread| {
            let store = store.clone();
            std::thread::spawn(move || {
                for number in 0..2000_u32 {
                    let text = format!("http://a/{}", number.wrapping_mul(2_654_435_761) % 500);
                    let key = Key::new(text.as_bytes());
                    match store.lookup(&key) {
                        Lookup::Hit(object) => assert_eq!(object.key_text(), text.as_bytes()),
                        _ => {
                            if let InsertOutcome::Insert(mut fill) = store.begin(&key, None) {
                                fill.start(stored(text.as_bytes()));
                                fill.append(vec![thread as u8; (number % 97 * 100) as usize].into());
                                fill.complete().unwrap();
                            }
                        }
                    }
                    if number % 50 == 0 {
                        store.purge(&key);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let counts = store.memory_counts();
    assert!(counts.bytes <= BUDGET as u64 && counts.evictions > 0, "{counts:?}");
    let held: usize = (0..500)
        .filter_map(|number| hit(&store, &Key::new(format!("http://a/{number}").as_bytes())))
        .map(|object| object.memory_bytes())
        .sum();
    assert_eq!(counts.bytes, held as u64);
}

#[test]
fn extents_are_pieces_of_a_body() {
    let store = Store::new(Settings::default());
    let body: Vec<u8> = (0..200_000_u32).map(|index| (index % 251) as u8).collect();
    // Segments of a slow upstream, then large reads of a fast one.
    let (slow, fast) = body.split_at(100_000);
    let chunks: Vec<&[u8]> = slow.chunks(1448).chain(fast.chunks(65_536)).collect();
    let large = put(&store, &Key::new(b"http://a/large"), &chunks).unwrap();
    let small = put(&store, &Key::new(b"http://a/small"), &[b"ab", b"cd"]).unwrap();
    assert!(Extent::new(&large, 0, u64::MAX).unwrap().pieces(0).count() <= 6, "segments are put together");
    for (start, end, from) in
        [(0, 200_000, 0), (5, 199_999, 70_000), (31_999, 32_001, 1), (7, 7, 0), (0, 9, 9)]
    {
        let extent = Extent::new(&large, start as u64, end as u64).unwrap();
        assert_eq!(extent.length(), end - start);
        assert_eq!(
            extent.pieces(from).collect::<Vec<_>>().concat(),
            body[start + from..end],
            "{start} {end}"
        );
        let mut rest = Some(extent);
        let mut taken = Vec::new();
        while let Some((slice, after)) = rest.and_then(Extent::split_first) {
            taken.extend_from_slice(slice.as_ref());
            rest = Some(after);
        }
        assert_eq!(taken, body[start..end]);
    }
    let extent = Extent::new(&small, 1, 99).unwrap();
    assert_eq!((extent.length(), extent.pieces(1).collect::<Vec<_>>()), (3, vec![b"cd".as_slice()]));
}

#[test]
fn what_is_read_counts_until_its_last_reader_is_done() {
    const BODY_BYTES: usize = 400_000;
    let store = Store::new(Settings { memory_bytes: 1 << 20, shards: 1, ..Settings::default() });
    let large = |path: &[u8]| {
        let mut fill = fill(&store, &Key::new(path));
        fill.start(stored(b""));
        let reader = fill.reader().unwrap();
        fill.append(vec![0; BODY_BYTES].into());
        (fill.complete().unwrap().is_some(), reader)
    };
    let (_, first) = large(b"http://h/1");
    let (_, second) = large(b"http://h/2");
    let (is_stored, third) = large(b"http://h/3");
    // Others were evicted for it but are still being read, so there is no room.
    assert!(!is_stored && store.is_exhausted(), "{:?}", store.memory_counts());
    drop((first, third));
    assert!(!store.is_exhausted());
    let (is_stored, _) = large(b"http://h/4");
    assert!(is_stored && store.memory_counts().bytes > 2 * BODY_BYTES as u64);
    drop(second);
    assert!(store.memory_counts().bytes < BODY_BYTES as u64 + 2000);
    assert!(store.purge(&Key::new(b"http://h/4")));
    assert_eq!(store.memory_counts().bytes, 0);
}
