//! Frequently sent bodies move to memory files.

use std::sync::Arc;

use super::*;

const SENDS: usize = 20;

fn store(memory_files_max: usize) -> Store {
    Store::new(Settings { memory_bytes: 4 << 20, shards: 1, memory_files_max, ..Settings::default() })
}

fn body(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

fn found(store: &Store, key: &Key<'_>) -> Arc<Object> {
    match store.lookup(key) {
        Lookup::Hit(object) => object,
        other => panic!("{other:?}"),
    }
}

/// The object at `key` after it was sent often.
fn sent_often(store: &Store, key: &Key<'_>) -> Arc<Object> {
    for _ in 0..SENDS {
        store.for_sending(&found(store, key));
    }
    found(store, key)
}

fn bytes_of(extent: Extent) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = extent.split_first();
    while let Some((slice, after)) = rest {
        bytes.extend_from_slice(slice.as_bytes());
        rest = after.split_first();
    }
    bytes
}

#[test]
fn what_is_sent_often_moves_and_stays_the_same() {
    // In one allocation, and in chunks.
    for length in [20_000, 300_000] {
        let (store, body) = (store(10), body(length));
        let key = Key::new(b"http://a/b");
        let chunks: Vec<&[u8]> = body.chunks(40_000).collect();
        let before = put(&store, &key, &chunks).unwrap();
        assert!(store.for_sending(&before).file().is_none(), "once is not often");
        let bytes = before.memory_bytes() as u64;
        let after = sent_often(&store, &key);
        assert_eq!(
            store.memory_counts().bytes,
            bytes + after.memory_bytes() as u64,
            "who has it may send it"
        );
        assert!(after.file().is_some() && after.is_in_memory());
        assert_eq!((after.key_text(), after.metadata()), (before.key_text(), before.metadata()));
        assert_eq!((after.length(), after.number()), (before.length(), before.number()));
        for (start, end) in [(0, length), (1, length - 1), (4095, 4097), (7, 7)] {
            let extent = |object| Extent::new(object, start as u64, end as u64).unwrap();
            assert_eq!(extent(&after).pieces(0).collect::<Vec<_>>().concat(), body[start..end]);
            assert_eq!(bytes_of(extent(&after)), body[start..end]);
            let whole = extent(&after);
            let (file, offset) = whole.in_file(0).unwrap();
            let mut read = vec![0; end - start];
            assert_eq!(rustix::io::pread(file, &mut read, offset), Ok(end - start));
            assert_eq!(read, body[start..end]);
            assert!(extent(&before).in_file(0).is_none(), "who holds what was there goes on with it");
            assert_eq!(bytes_of(extent(&before)), body[start..end]);
        }
        let fresh = store.freshen(&after, b"fresh");
        assert!(fresh.file().is_some() && fresh.metadata() == b"fresh" && fresh.length() == length as u64);
    }
}

#[test]
fn places_are_few_and_come_back() {
    let store = store(1);
    let keys = [b"http://a/1", b"http://a/2"].map(|text| Key::new(text));
    for key in &keys {
        put(&store, key, &[&body(30_000)]).unwrap();
    }
    assert!(sent_often(&store, &keys[0]).file().is_some());
    assert!(sent_often(&store, &keys[1]).file().is_none(), "there is no place left");
    store.purge(&keys[0]);
    // It is tried again, but not at once.
    for _ in 0..256 {
        store.for_sending(&found(&store, &keys[1]));
    }
    assert!(found(&store, &keys[1]).file().is_some());
}

#[test]
fn what_is_gone_does_not_come_back_by_being_sent() {
    let store = store(1);
    let key = Key::new(b"http://a/b");
    let object = put(&store, &key, &[&body(30_000)]).unwrap();
    store.purge(&key);
    for _ in 0..SENDS {
        store.for_sending(&object);
    }
    assert!(matches!(store.lookup(&key), Lookup::Miss));
    drop(object);
    assert_eq!(store.memory_counts().bytes, 0);
}

#[test]
fn the_budget_holds_with_files_in_it() {
    let store = store(1000);
    let texts: Vec<String> = (0..300).map(|number| format!("http://a/{number}")).collect();
    for text in &texts {
        let key = Key::new(text.as_bytes());
        let object = put(&store, &key, &[&body(17_000)]).unwrap();
        for _ in 0..SENDS {
            store.for_sending(&object);
        }
    }
    let counts = store.memory_counts();
    assert!(counts.bytes <= 4 << 20 && counts.evictions > 0, "{counts:?}");
    let held: Vec<_> = texts
        .iter()
        .filter_map(|text| match store.lookup(&Key::new(text.as_bytes())) {
            Lookup::Hit(object) => Some(object),
            _ => None,
        })
        .collect();
    assert!(held.iter().any(|object| object.file().is_some()));
    assert_eq!(counts.bytes, held.iter().map(|object| object.memory_bytes() as u64).sum::<u64>());
}
