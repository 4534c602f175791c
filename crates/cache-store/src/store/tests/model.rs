//! Compares the store with a map under random operations and damage to its files: it must never return a byte that was
//! not stored.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::FileExt;

use proptest::prelude::*;

use super::disk::{files, get, open, work};
use super::*;

const MEMORY_BYTES: usize = 600_000;
const DISK_BYTES: u64 = 1 << 20;
const LENGTHS: [usize; 6] = [0, 10, 5_000, 65_536, 150_000, 700_000];

#[derive(Clone, Debug)]
enum Step {
    Begin { key: u8 },
    Append { fill: u8 },
    Complete { fill: u8 },
    Abandon { fill: u8 },
    BreakOff { fill: u8 },
    Part { key: u8, is_new: bool, first: u32, length: u32 },
    Work { jobs: u8 },
    LookUp { key: u8 },
    Purge { key: u8 },
    Restart,
    Crash { damage: Option<Damage> },
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Cut { file: u8, at: u16 },
    Flip { file: u8, at: u16 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let damage = prop_oneof![
        (any::<u8>(), any::<u16>()).prop_map(|(file, at)| Damage::Cut { file, at }),
        (any::<u8>(), any::<u16>()).prop_map(|(file, at)| Damage::Flip { file, at }),
    ];
    let step = prop_oneof![
        4 => (0..12_u8).prop_map(|key| Step::Begin { key }),
        6 => any::<u8>().prop_map(|fill| Step::Append { fill }),
        4 => any::<u8>().prop_map(|fill| Step::Complete { fill }),
        1 => any::<u8>().prop_map(|fill| Step::Abandon { fill }),
        2 => any::<u8>().prop_map(|fill| Step::BreakOff { fill }),
        6 => (0..12_u8, any::<bool>(), any::<u32>(), any::<u32>())
            .prop_map(|(key, is_new, first, length)| Step::Part { key, is_new, first, length }),
        4 => (0..6_u8).prop_map(|jobs| Step::Work { jobs }),
        6 => (0..12_u8).prop_map(|key| Step::LookUp { key }),
        1 => (0..12_u8).prop_map(|key| Step::Purge { key }),
        1 => Just(Step::Restart),
        1 => prop::option::of(damage).prop_map(|damage| Step::Crash { damage }),
    ];
    prop::collection::vec(step, 1..120)
}

/// An insertion in progress: its body, and how much of it was appended.
struct Writing {
    fill: Insertion,
    key: u8,
    version: u32,
    appended: usize,
}

/// The objects that the store may return.
#[derive(Default)]
struct Model {
    /// By key, the versions completed or partly stored since the last purge.
    complete: HashMap<u8, Vec<u32>>,
    /// By key, the purged versions still to be removed from disk; a crash may bring them back.
    purged: HashMap<u8, Vec<u32>>,
    /// By key, the version of the latest part.
    parts: HashMap<u8, u32>,
    versions: u32,
}

fn text(key: u8) -> String {
    format!("http://example.com/{key}")
}

fn length(version: u32) -> usize {
    LENGTHS[version as usize % LENGTHS.len()]
}

fn body(version: u32) -> Vec<u8> {
    (0..length(version) as u32)
        .map(|at| (at.wrapping_mul(31) ^ version.wrapping_mul(2_654_435_761)) as u8)
        .collect()
}

fn settings() -> Settings {
    Settings {
        memory_bytes: MEMORY_BYTES,
        memory_object_bytes_max: 200_000,
        shards: 2,
        ..Settings::default()
    }
}

fn tag(version: u32) -> Vec<u8> {
    format!("\"{version}\"").into_bytes()
}

fn check_parts(store: &Store, key: &Key<'_>, known: &[u32]) {
    let Some(object) = store.parts(key) else { return };
    let version: u32 = std::str::from_utf8(object.metadata()).unwrap().parse().unwrap();
    assert!(known.contains(&version), "version {version} is not one of {known:?}");
    let (held, body) = (object.stored_ranges().unwrap(), body(version));
    for part in held.ranges() {
        let bytes = object.chunks(held.stored_position(*part).unwrap()).concat();
        assert!(bytes == body[part.first as usize..=part.last as usize], "wrong bytes in version {version}");
    }
}

/// Stores a part of the current version, or of a new one.
fn give_part(store: &Store, key: u8, is_new: bool, (first, length): (u32, u32), model: &mut Model) {
    let known = model.parts.get(&key).copied().filter(|_| !is_new);
    let version = known.unwrap_or_else(|| {
        model.versions += 1;
        model.versions
    });
    let body = body(version);
    if body.is_empty() {
        return;
    }
    let first = first as usize % body.len();
    let last = first + length as usize % (body.len() - first);
    let head = PartHead {
        metadata: version.to_string().into_bytes().into(),
        vary: None,
        tag: tag(version).into(),
        range: sojourn_http::range::ByteRange { first: first as u64, last: last as u64 },
        whole_bytes: body.len() as u64,
    };
    let text = text(key);
    let key_of = Key::new(text.as_bytes());
    if let Some(mut fill) = store.begin_part(&key_of, store.generation(&key_of), head) {
        body[first..=last].chunks(30_000).for_each(|chunk| fill.append(&chunk.into()));
        fill.end();
        model.parts.insert(key, version);
        model.complete.entry(key).or_default().push(version);
    }
}

fn check(store: &Store, key: u8, model: &Model) {
    let text = text(key);
    let key_of = Key::new(text.as_bytes());
    check_parts(store, &key_of, model.complete.get(&key).map_or(&[], Vec::as_slice));
    if matches!(store.lookup(&key_of), Lookup::Busy(_)) {
        return;
    }
    let known = model.complete.get(&key).map_or(&[][..], Vec::as_slice);
    match get(store, &key_of) {
        None => {}
        Some(Ok((found, metadata))) => {
            let version: u32 = String::from_utf8(metadata).unwrap().parse().unwrap();
            assert!(known.contains(&version), "{key}: version {version} is not one of {known:?}");
            assert!(found == body(version), "{key}: wrong bytes in version {version}");
        }
        Some(Err(part)) => {
            assert!(known.iter().any(|version| body(*version).starts_with(&part)), "{key}: wrong bytes");
        }
    }
}

fn damage(path: &std::path::Path, damage: Damage) {
    let (Damage::Cut { file, at } | Damage::Flip { file, at }) = damage;
    let mut files = files(path);
    files.sort();
    if files.is_empty() {
        return;
    }
    let file =
        fs::File::options().read(true).write(true).open(&files[usize::from(file) % files.len()]).unwrap();
    let at = u64::from(at) * 13 % file.metadata().unwrap().len().max(1);
    match damage {
        Damage::Cut { .. } => file.set_len(at).unwrap(),
        Damage::Flip { .. } => {
            let mut byte = [0];
            if file.read_at(&mut byte, at).unwrap() == 1 {
                file.write_all_at(&[byte[0] ^ 0x40], at).unwrap();
            }
        }
    }
}

fn run(steps: Vec<Step>) {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path(), DISK_BYTES, settings());
    let (mut model, mut writing) = (Model::default(), Vec::<Writing>::new());
    for step in steps {
        match step {
            Step::Begin { key } => {
                let text = text(key);
                let key_of = Key::new(text.as_bytes());
                let known = match store.lookup(&key_of) {
                    Lookup::Hit(object) => Some(object),
                    _ => None,
                };
                if let InsertOutcome::Insert(mut fill) = store.begin(&key_of, known.as_ref()) {
                    model.versions += 1;
                    let said = (model.versions % 2 == 1).then(|| length(model.versions) as u64);
                    let started = stored(model.versions.to_string().as_bytes());
                    fill.start(ObjectHead { length: said, ..started });
                    writing.push(Writing { fill, key, version: model.versions, appended: 0 });
                }
            }
            Step::Append { fill } if !writing.is_empty() => {
                let index = usize::from(fill) % writing.len();
                let Writing { fill, version, appended, .. } = &mut writing[index];
                let body = body(*version);
                let end = (*appended + 40_000).min(body.len());
                if fill.has_room(|| Waker::noop().clone()) {
                    fill.append(Arc::from(&body[*appended..end]));
                    *appended = end;
                }
            }
            Step::Complete { fill } if !writing.is_empty() => {
                let index = usize::from(fill) % writing.len();
                let Writing { mut fill, key, version, appended } = writing.swap_remove(index);
                fill.append(Arc::from(&body(version)[appended..]));
                model.complete.entry(key).or_default().push(version);
                fill.complete().unwrap();
            }
            Step::Abandon { fill } if !writing.is_empty() => {
                drop(writing.swap_remove(usize::from(fill) % writing.len()));
            }
            Step::BreakOff { fill } if !writing.is_empty() => {
                let Writing { fill, key, version, .. } =
                    writing.swap_remove(usize::from(fill) % writing.len());
                model.complete.entry(key).or_default().push(version);
                fill.end_as_part(&tag(version));
            }
            Step::Part { key, is_new, first, length } => {
                give_part(&store, key, is_new, (first, length), &mut model);
            }
            Step::Work { jobs } => (0..jobs).filter_map(|_| store.take_job()).for_each(DiskJob::perform),
            Step::LookUp { key } => check(&store, key, &model),
            Step::Purge { key } => {
                store.purge(&Key::new(text(key).as_bytes()));
                model.parts.remove(&key);
                let versions = model.complete.remove(&key).unwrap_or_default();
                model.purged.entry(key).or_default().extend(versions);
                // An insertion in progress is not stored under the key, but may still be completed.
                writing.retain(|writing| writing.key != key);
            }
            Step::Restart => {
                writing.clear();
                work(&store);
                store = open(directory.path(), DISK_BYTES, settings());
            }
            Step::Crash { damage: how } => {
                // Jobs are not performed; unfinished files stay.
                std::mem::take(&mut writing).into_iter().for_each(std::mem::forget);
                std::mem::forget(store.clone());
                if let Some(how) = how {
                    damage(directory.path(), how);
                }
                store = open(directory.path(), DISK_BYTES, settings());
                for (key, versions) in std::mem::take(&mut model.purged) {
                    model.complete.entry(key).or_default().extend(versions);
                }
            }
            Step::Append { .. } | Step::Complete { .. } | Step::Abandon { .. } | Step::BreakOff { .. } => {}
        }
        // Bodies in transit that are not stored may exceed it by their windows.
        let windows = writing.len() * (BUFFER_BYTES_MAX as usize + 100_000);
        // So may complete bodies that wait for the disk.
        if store.disk_counts().unwrap().jobs == 0 {
            model.purged.clear();
            assert!(store.memory_counts().bytes as usize <= MEMORY_BYTES + windows);
        }
        assert!(store.disk_counts().unwrap().bytes <= DISK_BYTES);
    }
    (0..12).for_each(|key| check(&store, key, &model));
    drop(writing);
    work(&store);
    (0..12).for_each(|key| check(&store, key, &model));
    assert!(store.memory_counts().bytes as usize <= MEMORY_BYTES);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]
    #[test]
    fn never_a_wrong_byte(steps in steps()) {
        run(steps);
    }
}
