//! Compares the memory that an object really takes, as counted by the allocator, with what the budget counts; and
//! measures a lookup, alone and beside other threads (`cargo test --release --test integration -- --ignored
//! --nocapture`).

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

use sojourn_cache_store::replacement;
use sojourn_cache_store::{InsertOutcome, Key, Lookup, ObjectHead, Settings, Sharing, Store};

/// Counts allocated bytes in the allocator's own size classes.
struct Counting;

thread_local! {
    /// Bytes that this thread has allocated and not freed; other tests run in other threads.
    static HELD_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// glibc's malloc adds a word to each block and rounds up to 16 bytes.
fn block_bytes(layout: &Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

// SAFETY: every call is passed on unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD_BYTES.set(HELD_BYTES.get().wrapping_add(block_bytes(&layout)));
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD_BYTES.set(HELD_BYTES.get().wrapping_sub(block_bytes(&layout)));
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const OBJECTS: usize = 20_000;
const METADATA_BYTES: usize = 200;
const BODY_BYTES: usize = 1000;

fn text(number: usize) -> String {
    format!("http://www.example.com/directory/{number:08}")
}

fn filled(settings: Settings) -> Store {
    let store = Store::new(settings);
    for number in 0..OBJECTS {
        let text = text(number);
        let InsertOutcome::Insert(mut fill) = store.begin(&Key::new(text.as_bytes()), None) else {
            panic!("it is new")
        };
        let metadata = vec![b'm'; METADATA_BYTES].into();
        fill.start(ObjectHead { metadata, length: None, vary: None, sharing: Sharing::Stored });
        fill.append(vec![b'b'; BODY_BYTES].into());
        fill.complete().unwrap();
    }
    store
}

#[test]
fn the_budget_counts_at_least_what_is_taken() {
    for policy in replacement::ALL {
        let before = HELD_BYTES.get();
        let store = filled(Settings { policy: *policy, ..Settings::default() });
        let held = HELD_BYTES.get().wrapping_sub(before);
        let counts = store.memory_counts();
        assert_eq!(counts.objects, OBJECTS as u64);
        let content = text(0).len() + METADATA_BYTES + BODY_BYTES;
        eprintln!(
            "{policy:?}: {} bytes of content take {}, counted as {}",
            content,
            held / OBJECTS,
            counts.bytes as usize / OBJECTS
        );
        assert!(held <= counts.bytes as usize, "{policy:?}: {held} bytes, counted as {}", counts.bytes);
    }
}

#[test]
#[ignore = "it measures, and takes seconds"]
fn lookups() {
    for (threads, shards) in [(1, 1), (1, 16), (2, 1), (2, 16), (4, 1), (4, 16), (4, 64)] {
        let store = filled(Settings { shards, ..Settings::default() });
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let store = store.clone();
                std::thread::spawn(move || look_up(&store, thread))
            })
            .collect();
        let (mut lookups, mut cpu_ns) = (0, 0);
        for worker in workers {
            let (own_lookups, own_cpu_ns) = worker.join().unwrap();
            lookups += own_lookups;
            cpu_ns += own_cpu_ns;
        }
        let cost = cpu_ns as f64 / lookups as f64;
        eprintln!("{threads} threads, {shards} shards: {cost:.0} ns of CPU time per lookup");
    }
}

/// Performs lookups; returns their number and the thread's CPU time.
fn look_up(store: &Store, seed: usize) -> (u64, i64) {
    let keys: Vec<String> = (0..OBJECTS).map(|number| text((number * 7919 + seed) % OBJECTS)).collect();
    let cpu_ns = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    };
    let (start, cpu_start, mut lookups) = (Instant::now(), cpu_ns(), 0);
    while start.elapsed() < Duration::from_secs(1) {
        for text in &keys {
            let Lookup::Hit(object) = store.lookup(&Key::new(text.as_bytes())) else { panic!("it is there") };
            std::hint::black_box(object.small_body());
            lookups += 1;
        }
    }
    (lookups, cpu_ns() - cpu_start)
}
