//! Parts: stored, merged, refused and found.

use proptest::prelude::*;
use sojourn_http::range::ByteRange;

use super::*;

const KEY: &[u8] = b"http://h/a";

fn store(memory_object_bytes_max: u64) -> Store {
    Store::new(Settings { memory_bytes: 1 << 20, memory_object_bytes_max, shards: 2, ..Settings::default() })
}

fn body(length: u64, version: u8) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(7).wrapping_add(version)).collect()
}

fn range(first: u64, last: u64) -> ByteRange {
    ByteRange { first, last }
}

fn head(tag: &[u8], range: ByteRange, whole_bytes: u64) -> PartHead {
    PartHead { metadata: b"about"[..].into(), vary: None, tag: tag.into(), range, whole_bytes }
}

fn begin(store: &Store, head: PartHead) -> Option<PartInsertion> {
    let key = Key::new(KEY);
    store.begin_part(&key, store.generation(&key), head)
}

/// Stores a part of `body`, appended 3 bytes at a time.
fn give(store: &Store, tag: &[u8], part: ByteRange, body: &[u8]) -> bool {
    let Some(mut fill) = begin(store, head(tag, part, body.len() as u64)) else { return false };
    body[part.first as usize..=part.last as usize].chunks(3).for_each(|piece| fill.append(&piece.into()));
    fill.end()
}

fn held(store: &Store, wanted: ByteRange) -> Option<Vec<u8>> {
    let object = store.parts(&Key::new(KEY))?;
    Some(object.chunks(object.stored_position(wanted)?).concat())
}

fn whole(store: &Store) -> Option<Vec<u8>> {
    match store.lookup(&Key::new(KEY)) {
        Lookup::Hit(object) => Some(object.chunks(range(0, object.length() - 1)).concat()),
        _ => None,
    }
}

/// An insertion of 100 bytes, of which 11 have arrived.
fn begun(store: &Store, body: &[u8]) -> Insertion {
    let InsertOutcome::Insert(mut fill) = store.begin(&Key::new(KEY), None) else {
        panic!("nobody else is at it")
    };
    fill.start(ObjectHead {
        metadata: b"about"[..].into(),
        length: Some(100),
        vary: None,
        sharing: Sharing::Stored,
    });
    fill.append(body[..11].into());
    fill
}

#[test]
fn parts_join_and_become_the_whole() {
    let (store, body) = (store(1 << 16), body(100, 0));
    assert!(give(&store, b"\"x\"", range(50, 59), &body) && give(&store, b"\"x\"", range(0, 9), &body));
    assert_eq!(held(&store, range(52, 55)).unwrap(), body[52..=55]);
    assert_eq!(held(&store, range(5, 55)), None, "there is a gap");
    let parts = store.parts(&Key::new(KEY)).unwrap();
    let missing = |first, last| parts.stored_ranges().unwrap().missing(range(first, last));
    assert_eq!(missing(5, 55), Some(range(10, 49)));
    assert_eq!((missing(0, 9), missing(0, 99)), (None, Some(range(10, 99))));
    assert!(give(&store, b"\"x\"", range(5, 55), &body));
    assert_eq!(held(&store, range(0, 59)).unwrap(), body[..60]);
    assert!(whole(&store).is_none());
    assert!(give(&store, b"\"x\"", range(60, 99), &body));
    assert_eq!(whole(&store).unwrap(), body);
    assert!(store.parts(&Key::new(KEY)).is_none(), "the whole has their place");
}

#[test]
fn what_does_not_join_takes_the_place() {
    let (store, one, other) = (store(1 << 16), body(100, 0), body(100, 1));
    assert!(give(&store, b"\"x\"", range(0, 9), &one) && give(&store, b"\"y\"", range(20, 29), &other));
    assert_eq!(
        (held(&store, range(0, 9)), held(&store, range(20, 29))),
        (None, Some(other[20..30].to_vec()))
    );
    assert!(give(&store, b"", range(0, 9), &one) && give(&store, b"", range(20, 29), &one));
    assert_eq!(held(&store, range(0, 9)), None, "nothing tells what these belong to");
    assert!(give(&store, b"\"x\"", range(0, 9), &one) && give(&store, b"\"x\"", range(5, 14), &other));
    assert_eq!(held(&store, range(0, 4)), None, "one tag for different bytes");
    assert_eq!(held(&store, range(5, 14)).unwrap(), other[5..15]);
}

#[test]
fn what_is_cut_short() {
    let (store, body) = (store(1 << 16), body(100, 0));
    for (tag, expected) in [(b"".as_slice(), None), (b"\"x\"", Some(body[10..13].to_vec()))] {
        let mut fill = begin(&store, head(tag, range(10, 19), 100)).unwrap();
        fill.append(&body[10..13].into());
        assert_eq!(fill.end(), expected.is_some());
        assert_eq!(held(&store, range(10, 12)), expected);
    }
    let mut fill = begin(&store, head(b"\"x\"", range(10, 19), 100)).unwrap();
    fill.append(&body[10..30].into());
    assert!(!fill.end(), "more than was announced");
    assert!(begin(&store, head(b"\"x\"", range(0, 100), 100)).is_none());

    let fill = begun(&store, &body);
    assert!(fill.end_as_part(b"\"x\""));
    assert_eq!(held(&store, range(0, 12)).unwrap(), body[..13]);
}

#[test]
fn what_is_forgotten_does_not_come_back() {
    let (store, body) = (store(1 << 16), body(100, 0));
    let key = Key::new(KEY);
    // Asked for before the purge: some of it has arrived by then, or nothing.
    let generation = store.generation(&key);
    let mut fill = begin(&store, head(b"\"x\"", range(0, 9), 100)).unwrap();
    fill.append(&body[..10].into());
    assert!(give(&store, b"\"x\"", range(20, 29), &body));
    assert!(store.purge(&key));
    assert!(!fill.end());
    assert!(store.begin_part(&key, generation, head(b"\"x\"", range(0, 9), 100)).is_none());
    assert!(store.parts(&key).is_none());
    let fill = begun(&store, &body);
    store.purge(&key);
    assert!(!fill.end_as_part(b"\"x\""));
    assert_eq!(store.memory_counts().bytes, 0);
}

#[test]
fn limits() {
    let (store, body) = (store(1000), body(100_000, 0));
    assert!(!give(&store, b"\"x\"", range(0, 1000), &body), "too long");
    for number in 0..=RANGES_MAX as u64 {
        assert!(give(&store, b"\"x\"", range(number * 100, number * 100 + number), &body));
    }
    let parts = store.parts(&Key::new(KEY)).unwrap();
    assert_eq!(parts.stored_ranges().unwrap().ranges().len(), RANGES_MAX);
    assert_eq!(held(&store, range(0, 0)), None, "the smallest went");
    assert!(give(&store, b"\"x\"", range(50_000, 50_950), &body));
    assert!(store.parts(&Key::new(KEY)).unwrap().length() <= 1000);
    assert_eq!(held(&store, range(50_000, 50_950)).unwrap(), body[50_000..=50_950]);
}

proptest! {
    /// Parts of several versions in any order: a lookup returns the right bytes of one version.
    #[test]
    fn bytes_are_right_or_absent(
        length in 1_u64..80,
        limit in 10_u64..100,
        steps in proptest::collection::vec((0_u64..80, 0_u64..30, 0_u8..3, 0_u8..12), 0..24),
    ) {
        let store = store(limit);
        let mut latest = None;
        for (first, more, version, what) in steps {
            let body = body(length, version);
            let tag = format!("\"{version}\"");
            let part = range(first % length, (first % length + more).min(length - 1));
            match what {
                0 => drop(store.purge(&Key::new(KEY))),
                1 => {
                    give(&store, b"", part, &body);
                }
                _ => {
                    give(&store, tag.as_bytes(), part, &body);
                }
            }
            if what == 0 {
                latest = None;
            }
            if let Some(whole) = whole(&store) {
                prop_assert!((0..3).any(|version| whole == self::body(length, version)));
                store.purge(&Key::new(KEY));
            } else if part.length() <= limit && what > 0 {
                prop_assert_eq!(held(&store, part), Some(body[part.first as usize..=part.last as usize].to_vec()));
                latest = Some(version);
            }
            if let Some(object) = store.parts(&Key::new(KEY)) {
                let held = object.stored_ranges().unwrap();
                let body = self::body(length, latest.expect("somebody gave them"));
                prop_assert!(held.ranges().len() <= RANGES_MAX);
                prop_assert!(held.ranges().windows(2).all(|two| two[0].last + 1 < two[1].first));
                prop_assert_eq!(held.ranges().iter().map(|part| part.length()).sum::<u64>(), object.length());
                for part in held.ranges() {
                    let bytes = object.chunks(held.stored_position(*part).unwrap()).concat();
                    prop_assert_eq!(&bytes[..], &body[part.first as usize..=part.last as usize]);
                }
                for wanted in (0..length).map(|last| range(last / 2, last)) {
                    let missing = held.missing(wanted);
                    prop_assert_eq!(missing.is_none(), held.stored_position(wanted).is_some());
                }
            }
        }
    }
}
