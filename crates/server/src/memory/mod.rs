//! Load shedding by memory: loops check how much is in use, and shed load before it runs out.
//!
//! From the high watermark until usage falls below the low one, new connections are answered 503, keep-alive
//! connections end after their next response, idle ones close at once, and buffers are small. Above the critical
//! watermark, connections whose clients keep the server waiting end, too. If an allocation still fails, it gets the
//! [reserve](Allocator). Memory left over from a burst is [returned to the kernel](trimming).

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

mod reserve;
mod trimming;

pub use reserve::{Allocator, prepare};

/// Watermarks as shares of the limit.
const LOW_WATERMARK: f64 = 0.75;
const HIGH_WATERMARK: f64 = 0.85;
const CRITICAL_WATERMARK: f64 = 0.93;

/// The largest share of the limit that can be set aside for a cache.
pub const CACHE_SHARE_MAX: f64 = 0.875;

/// The interval between checks.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// Accepted connections between two checks.
const ARRIVALS_PER_LOOK: u64 = 16;

static ARRIVALS: AtomicU64 = AtomicU64::new(0);

/// The degree of memory shortage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Shortage {
    #[default]
    None,
    High,
    Critical,
}

static SHORTAGE: AtomicU8 = AtomicU8::new(Shortage::None as u8);

/// The bytes that this process's cache may fill; see [`reserve_for_cache`].
static CACHE_BYTES: AtomicU64 = AtomicU64::new(0);

/// The time of this process's next check, shared by its loops.
static NEXT: Mutex<Duration> = Mutex::new(Duration::ZERO);

/// Sets aside `bytes` of the limit of each process for its cache. A full cache is no shortage: only what is used beyond these
/// bytes counts, as a share of what they leave.
pub fn reserve_for_cache(bytes: u64) {
    CACHE_BYTES.store(bytes, Ordering::Relaxed);
}

/// Returns true while load must be shed.
pub fn is_short() -> bool {
    SHORTAGE.load(Ordering::Relaxed) >= Shortage::High as u8
}

/// Returns true while clients that keep the server waiting must go, too.
pub fn is_critical() -> bool {
    SHORTAGE.load(Ordering::Relaxed) >= Shortage::Critical as u8
}

/// Checks memory usage against `bytes_max`, this process's limit, if a check is due at `now`; also returns unused
/// memory to the kernel.
pub fn look(now: Duration, bytes_max: u64) {
    // Another loop is checking.
    let Ok(mut next) = NEXT.try_lock() else { return };
    if now < *next {
        return;
    }
    *next = now + LOOK_PERIOD;
    let shortage = measure(bytes_max);
    if shortage == Shortage::None {
        reserve::replenish();
    }
    trimming::look(now, shortage > Shortage::None);
}

/// Checks at once, because memory has been freed.
pub fn look_again(bytes_max: u64) {
    if measure(bytes_max) < Shortage::Critical {
        reserve::replenish();
    }
}

/// Also checks between due times as connections are accepted, because each may take memory.
pub fn look_at_arrival(bytes_max: u64) {
    if ARRIVALS.fetch_add(1, Ordering::Relaxed).is_multiple_of(ARRIVALS_PER_LOOK) {
        measure(bytes_max);
    }
}

fn measure(bytes_max: u64) -> Shortage {
    let before = SHORTAGE.load(Ordering::Relaxed);
    let shortage = used_share(bytes_max).map_or(Shortage::None, |used| Shortage::after(before, used));
    SHORTAGE.store(shortage as u8, Ordering::Relaxed);
    shortage
}

impl Shortage {
    /// The shortage at this share of the limit, following the shortage `before`.
    fn after(before: u8, used: f64) -> Shortage {
        if used >= CRITICAL_WATERMARK {
            Shortage::Critical
        } else if used >= HIGH_WATERMARK || before > Shortage::None as u8 && used >= LOW_WATERMARK {
            Shortage::High
        } else {
            Shortage::None
        }
    }
}

/// The share in use: of the memory beside the cache, or of a limited address space if that is larger. Pages of files, the
/// program among them, are not counted: the kernel takes them back. Memory that the allocator holds unused counts as free
/// address space, because it can be returned only from the ends of its arenas.
fn used_share(bytes_max: u64) -> Option<f64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split_ascii_whitespace().map_while(|number| number.parse::<u64>().ok());
    let (address_space, resident, of_files) = (pages.next()?, pages.next()?, pages.next()?);
    let bytes = |pages: u64| pages as f64 * rustix::param::page_size() as f64;
    let of_memory =
        share(bytes(resident.saturating_sub(of_files)), bytes_max, CACHE_BYTES.load(Ordering::Relaxed));
    let limit = getrlimit(Resource::As).current;
    Some(limit.map_or(of_memory, |limit| {
        let used = bytes(address_space) - trimming::free_bytes() as f64;
        of_memory.max(used / limit.max(1) as f64)
    }))
}

/// The share of `limit` that `used` bytes are, both without the part for the cache: at most [`CACHE_SHARE_MAX`].
fn share(used: f64, limit: u64, cache: u64) -> f64 {
    let cache = (cache as f64).min(limit as f64 * CACHE_SHARE_MAX);
    (used - cache).max(0.0) / (limit as f64 - cache).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_is_no_shortage() {
        const GIB: u64 = 1 << 30;
        let shortage = |used: f64, cache| Shortage::after(0, share(used * GIB as f64, 8 * GIB, cache * GIB));
        // As much as the cache and 1 GiB of connections take, of 8 GiB.
        assert_eq!(shortage(6.0, 5), Shortage::None);
        assert_eq!(shortage(7.6, 5), Shortage::High);
        assert_eq!(shortage(7.9, 5), Shortage::Critical);
        assert_eq!(shortage(1.0, 5), Shortage::None);
        // Without a cache everything counts, and a cache without limits is not exempt.
        assert_eq!(shortage(7.0, 0), Shortage::High);
        assert_eq!(shortage(8.0, 100), Shortage::Critical);
    }

    #[test]
    fn load_is_shed_until_enough_is_free_again() {
        let mut shortage = Shortage::None;
        let looks = [
            (0.80, Shortage::None),
            (0.86, Shortage::High),
            (0.80, Shortage::High),
            (0.95, Shortage::Critical),
            (0.90, Shortage::High),
            (0.74, Shortage::None),
            (0.80, Shortage::None),
        ];
        for (used, expected) in looks {
            shortage = Shortage::after(shortage as u8, used);
            assert_eq!(shortage, expected, "{used}");
        }
    }

    #[test]
    fn something_is_in_use() {
        let written = std::hint::black_box(vec![1_u8; 2 << 20]);
        let used = used_share(u64::MAX).unwrap();
        assert!(used_share(1 << 20).unwrap() > 1.0 && used < 1.0, "{used}");
        drop(written);
    }
}
