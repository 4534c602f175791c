//! The disk tier: restarts, refusals, and failing disks.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::task::Poll;

use super::*;
use crate::replacement::{Departure, Item, Policy};

/// A store on `path` with a complete index.
pub fn open(path: &Path, disk_bytes: u64, settings: Settings) -> Store {
    let disk = DiskSettings {
        path: path.to_owned(),
        bytes: disk_bytes,
        object_bytes_max: disk_bytes,
        policy: replacement::DEFAULT,
        admission: ADMISSIONS[0],
    };
    let store = Store::open(settings, disk).unwrap();
    work(&store);
    store
}

/// Performs all queued jobs.
pub fn work(store: &Store) {
    while let Some(job) = store.take_job() {
        job.perform();
    }
}

/// A body and its metadata, or the received bytes of a truncated body.
pub type Got = Result<(Vec<u8>, Vec<u8>), Vec<u8>>;

/// The body and metadata at `key`, in whichever tier.
pub fn get(store: &Store, key: &Key<'_>) -> Option<Got> {
    let object = match store.lookup(key) {
        Lookup::Hit(object) => object,
        Lookup::OnDisk(lookup) => {
            work(store);
            match lookup.object(Waker::noop()) {
                Poll::Ready(object) => object?,
                Poll::Pending => panic!("its job was performed"),
            }
        }
        Lookup::Miss => return None,
        other => panic!("{other:?}"),
    };
    let mut reader = Reader::of_object(Arc::clone(&object));
    let mut body = Vec::new();
    loop {
        match reader.next(Waker::noop()) {
            Next::Bytes(slice) => body.extend_from_slice(slice.as_bytes()),
            Next::Wait => work(store),
            Next::End => return Some(Ok((body, object.metadata().to_vec()))),
            Next::Truncated => return Some(Err(body)),
        }
    }
}

pub fn body(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 % 251) as u8).collect()
}

pub fn files(path: &Path) -> Vec<PathBuf> {
    let directories = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let is_of_objects = |path: &PathBuf| path.is_dir() && path.file_name().unwrap() != "temporary";
    let files = directories.filter(is_of_objects).flat_map(|path| fs::read_dir(path).unwrap());
    files.map(|entry| entry.unwrap().path()).collect()
}

const A: &[u8] = b"http://example.com/a";
const MIB: u64 = 1 << 20;

#[test]
fn objects_of_all_sizes_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let lengths = [0, 1, 65_535, 65_536, 65_537, 300_000, 1_048_576, 3_000_000];
    {
        let store = open(directory.path(), 100 * MIB, Settings::default());
        for length in lengths {
            put(
                &store,
                &Key::new(format!("http://a/{length}").as_bytes()),
                &body(length).chunks(10_000).collect::<Vec<_>>(),
            );
        }
        work(&store);
        assert_eq!(store.disk_counts().unwrap().written, lengths.len() as u64);
    }
    let store = open(directory.path(), 100 * MIB, Settings::default());
    let counts = store.disk_counts().unwrap();
    assert_eq!((counts.objects, counts.is_indexed), (lengths.len() as u64, true));
    for length in lengths {
        let found = get(&store, &Key::new(format!("http://a/{length}").as_bytes())).unwrap();
        assert!(found == Ok((body(length), b"metadata".to_vec())), "{length}");
    }
    assert!(get(&store, &Key::new(A)).is_none());
    for file in files(directory.path()) {
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
    }
    assert_eq!(store.disk_counts().unwrap().damaged, 0);
}

#[test]
fn a_body_larger_than_memory_goes_to_disk_as_it_comes() {
    let directory = tempfile::tempdir().unwrap();
    let settings =
        Settings { memory_bytes: 4 << 20, memory_object_bytes_max: 1 << 20, ..Settings::default() };
    let store = open(directory.path(), 100 * MIB, settings.clone());
    let key = Key::new(A);
    let InsertOutcome::Insert(mut fill) = store.begin(&key, None) else { panic!("nobody else is at it") };
    fill.start(stored(b"metadata"));
    let reader = fill.reader().unwrap();
    let whole = body(9_000_000);
    let follower = std::thread::spawn(move || read_all(reader));
    for chunk in whole.chunks(100_000) {
        while !fill.has_room(|| Waker::noop().clone()) {
            work(&store);
            std::thread::yield_now();
        }
        fill.append(Arc::from(chunk));
        assert!(store.memory_counts().bytes < 2 << 20);
    }
    assert!(fill.complete().unwrap().is_none());
    work(&store);
    assert_eq!(follower.join().unwrap().unwrap(), whole);
    assert!(get(&store, &key) == Some(Ok((whole, b"metadata".to_vec()))));
    assert_eq!(store.memory_counts().bytes, 0);
}

#[test]
fn any_altered_byte_is_noticed_and_its_file_removed() {
    let whole = body(200_000);
    for place in [0, 9, 30, 75, 120, 300, 70_000, 199_000, 200_300] {
        let directory = tempfile::tempdir().unwrap();
        let store = open(directory.path(), 100 * MIB, Settings::default());
        put(&store, &Key::new(A), &[&whole]);
        work(&store);
        drop(store);
        let [file] = &files(directory.path())[..] else { panic!("one object") };
        let opened = fs::File::options().read(true).write(true).open(file).unwrap();
        let mut byte = [0];
        opened.read_exact_at(&mut byte, place).unwrap();
        opened.write_all_at(&[!byte[0]], place).unwrap();
        let store = open(directory.path(), 100 * MIB, Settings::default());
        match get(&store, &Key::new(A)) {
            None => assert_eq!((store.disk_counts().unwrap().damaged, files(directory.path()).len()), (1, 0)),
            // Padding at the end of a slot is neither verified nor used.
            Some(found) => assert!(found == Ok((whole.clone(), b"metadata".to_vec())), "{place}"),
        }
    }
}

#[test]
fn a_large_body_altered_while_it_is_read_ends_truncated() {
    let directory = tempfile::tempdir().unwrap();
    let whole = body(3_000_000);
    let store = open(directory.path(), 100 * MIB, Settings::default());
    put(&store, &Key::new(A), &[&whole]);
    work(&store);
    drop(store);
    let file = fs::File::options().write(true).open(&files(directory.path())[0]).unwrap();
    file.write_all_at(b"?", 2_000_000).unwrap();
    let store = open(directory.path(), 100 * MIB, Settings::default());
    let Some(Err(read)) = get(&store, &Key::new(A)) else { panic!("it is damaged") };
    assert!(!read.is_empty() && whole.starts_with(&read));
    assert!(get(&store, &Key::new(A)).is_none());
    // A file with another key's content under this one's name is a miss.
    put(&store, &Key::new(A), &[b"a"]);
    work(&store);
    let mine = files(directory.path()).remove(0);
    store.purge(&Key::new(A));
    work(&store);
    put(&store, &Key::new(b"http://b/"), &[b"b"]);
    work(&store);
    fs::rename(files(directory.path()).remove(0), mine).unwrap();
    drop(store);
    let store = open(directory.path(), 100 * MIB, Settings::default());
    assert!(get(&store, &Key::new(A)).is_none());
}

#[test]
fn the_disk_budget_is_of_allocated_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), MIB, Settings::default());
    for number in 0..400 {
        let key = format!("http://a/{number}");
        put(&store, &Key::new(key.as_bytes()), &[&body(number * 37)]);
        work(&store);
        let allocated: u64 =
            files(directory.path()).iter().map(|file| fs::metadata(file).unwrap().blocks() * 512).sum();
        assert!(allocated <= MIB, "{allocated}");
        assert_eq!(store.disk_counts().unwrap().bytes, allocated);
    }
    assert!(store.disk_counts().unwrap().evictions > 0);
    // A smaller budget after a restart is met, too.
    drop(store);
    let store = open(directory.path(), MIB / 4, Settings::default());
    assert!(store.disk_counts().unwrap().bytes <= MIB / 4);
}

#[test]
fn foreign_files_and_links_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path(), MIB, Settings::default()));
    let elsewhere = directory.path().join("elsewhere");
    fs::write(&elsewhere, "precious").unwrap();
    let key = Key::new(A);
    let name = format!("{:032x}", key.hash());
    let link = directory.path().join(&name[..2]).join(&name);
    symlink(&elsewhere, &link).unwrap();
    for name in ["ab/notes.txt", "temporary/notes.txt", "README"] {
        fs::write(directory.path().join(name), "mine").unwrap();
    }
    let stale = directory.path().join("temporary/1-1");
    fs::write(&stale, "left behind").unwrap();
    let store = open(directory.path(), 0, Settings::default());
    assert!(get(&store, &key).is_none());
    store.purge(&Key::new(b"http://b/"));
    work(&store);
    assert_eq!(fs::read(&elsewhere).unwrap(), b"precious");
    assert!(link.is_symlink() && !stale.exists());
    for name in ["ab/notes.txt", "temporary/notes.txt", "README"] {
        assert_eq!(fs::read(directory.path().join(name)).unwrap(), b"mine");
    }
}

#[test]
fn what_is_purged_does_not_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), MIB, Settings::default());
    let key = Key::new(A);
    // Purged before its writer ran, and after.
    for is_written in [false, true] {
        put(&store, &key, &[b"old"]);
        if is_written {
            work(&store);
        }
        assert!(store.purge(&key));
        assert!(matches!(store.lookup(&key), Lookup::Miss));
        work(&store);
        assert!(get(&store, &key).is_none() && files(directory.path()).is_empty());
    }
    // While it is being opened.
    put(&store, &key, &[b"old"]);
    work(&store);
    drop(store);
    let store = open(directory.path(), MIB, Settings::default());
    let Lookup::OnDisk(lookup) = store.lookup(&key) else { panic!("it is on disk") };
    store.purge(&key);
    work(&store);
    assert!(matches!(lookup.object(Waker::noop()), Poll::Ready(None)));
    assert!(matches!(store.lookup(&key), Lookup::Miss));
}

/// With its head the disk could begin to write it.
#[test]
fn what_is_purged_before_its_head_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), MIB, Settings::default());
    let key = Key::new(A);
    let mut fill = fill(&store, &key);
    assert!(store.purge(&key));
    fill.start(stored(b"metadata"));
    fill.append(Arc::from(*b"old"));
    fill.complete().unwrap();
    work(&store);
    assert!(get(&store, &key).is_none() && files(directory.path()).is_empty());
}

thread_local! {
    /// What this thread does while it loads an object from disk into memory.
    static WHILE_LOADING: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// The default policy, which does that.
struct Interrupted(Box<dyn Policy>);

impl Policy for Interrupted {
    fn insert(&mut self, item: Item) {
        self.0.insert(item);
    }

    fn touch(&mut self, slot: u32) {
        self.0.touch(slot);
        if let Some(act) = WHILE_LOADING.take() {
            act();
        }
    }

    fn choose(&mut self) -> Option<u32> {
        self.0.choose()
    }

    fn removed(&mut self, slot: u32, departure: Departure) {
        self.0.removed(slot, departure);
    }
}

const INTERRUPTED: replacement::Kind = replacement::Kind {
    name: "interrupted",
    summary: "",
    start: |budget_bytes| Box::new(Interrupted((replacement::DEFAULT.start)(budget_bytes))),
};

#[test]
fn what_is_purged_while_it_is_loaded_is_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    let disk = DiskSettings {
        path: directory.path().to_owned(),
        bytes: MIB,
        object_bytes_max: MIB,
        policy: INTERRUPTED,
        admission: ADMISSIONS[0],
    };
    let store = Store::open(Settings::default(), disk).unwrap();
    let key = Key::new(A);
    put(&store, &key, &[b"old"]);
    work(&store);
    store.0.memory.remove(key.hash());
    let Lookup::OnDisk(_) = store.lookup(&key) else { panic!("it is on disk") };
    let (sender, begun) = mpsc::channel();
    let theirs = store.clone();
    WHILE_LOADING.set(Some(Box::new(move || {
        let before = theirs.generation(&Key::new(A));
        let purging = theirs.clone();
        sender.send(std::thread::spawn(move || purging.purge(&Key::new(A)))).unwrap();
        while theirs.generation(&Key::new(A)) == before {
            std::thread::yield_now();
        }
        // Nothing tells how far it comes before it waits for the end of the lookup.
        std::thread::sleep(Duration::from_millis(50));
    })));
    work(&store);
    assert!(begun.try_recv().expect("it was loaded").join().unwrap());
    work(&store);
    assert!(matches!(store.lookup(&key), Lookup::Miss));
}

#[test]
fn lists_of_variants_survive_and_are_purged_with_what_they_list() {
    let directory = tempfile::tempdir().unwrap();
    let primary = Key::new(A);
    let store = open(directory.path(), MIB, Settings::default());
    let InsertOutcome::Insert(mut fill) = store.begin(&primary, None) else { panic!("nobody else is at it") };
    fill.start(ObjectHead { vary: Some(vary("accept-encoding", "gzip")), ..stored(b"") });
    fill.append(Arc::from(*b"zipped"));
    fill.complete().unwrap();
    work(&store);
    drop(store);
    let store = open(directory.path(), MIB, Settings::default());
    let Lookup::OnDisk(_) = store.lookup(&primary) else { panic!("it is on disk") };
    work(&store);
    let Lookup::Varies(variants) = store.lookup(&primary) else { panic!("it varies") };
    let key = variants.keys(&primary).next().unwrap();
    assert_eq!(get(&store, &key).unwrap().unwrap().0, b"zipped");
    drop(store);
    let store = open(directory.path(), MIB, Settings::default());
    assert!(store.purge(&primary));
    work(&store);
    assert!(files(directory.path()).is_empty());
}

/// Memory may have no room for it.
#[test]
fn a_list_that_is_only_on_disk_is_continued_unless_it_was_purged() {
    for is_purged in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let store = open(directory.path(), MIB, Settings::default());
        let primary = Key::new(A);
        put_variant(&store, &primary, vary("accept", "1"), b"one");
        work(&store);
        let listed = Some(variants(&store, &primary));
        store.0.memory.remove(primary.hash());
        if is_purged {
            assert!(store.purge(&primary));
        }
        put_variant(&store, &primary, Vary { listed, ..vary("accept", "2") }, b"two");
        let listed = variants(&store, &primary);
        let key = |secondary: &[u8]| listed.key_of(&primary, secondary);
        assert_eq!(get(&store, &key(b"2").unwrap()).unwrap().unwrap().0, b"two");
        let first = key(b"1").map(|key| get(&store, &key).unwrap().unwrap().0);
        assert_eq!(first, (!is_purged).then(|| b"one".to_vec()));
    }
}

#[test]
fn fresh_metadata_reaches_the_file_it_belongs_to() {
    let directory = tempfile::tempdir().unwrap();
    let key = Key::new(A);
    let store = open(directory.path(), MIB, Settings::default());
    let object = put(&store, &key, &[b"body"]).unwrap();
    work(&store);
    for round in 0..5 {
        store.freshen(&object, format!("fresh {round}").as_bytes());
        work(&store);
    }
    // A late update does not apply to a newer object.
    let newer = put_again(&store, &key, &object);
    work(&store);
    store.freshen(&object, b"of the old body");
    work(&store);
    drop(store);
    let store = open(directory.path(), MIB, Settings::default());
    assert_eq!(get(&store, &key).unwrap().unwrap(), (b"newer".to_vec(), newer.metadata().to_vec()));
    // Before it is written.
    let other = Key::new(b"http://b/");
    let object = put(&store, &other, &[b"body"]).unwrap();
    store.freshen(&object, b"fresh at once");
    work(&store);
    drop(store);
    let store = open(directory.path(), MIB, Settings::default());
    assert_eq!(get(&store, &other).unwrap().unwrap(), (b"body".to_vec(), b"fresh at once".to_vec()));
}

fn put_again(store: &Store, key: &Key<'_>, known: &Arc<Object>) -> Arc<Object> {
    let Lookup::Hit(current) = store.lookup(key) else { panic!("it is in memory") };
    assert!(!Arc::ptr_eq(&current, known));
    let InsertOutcome::Insert(mut fill) = store.begin(key, Some(&current)) else {
        panic!("nobody else is at it")
    };
    fill.start(stored(b"newer metadata"));
    fill.append(Arc::from(*b"newer"));
    fill.complete().unwrap().unwrap()
}
