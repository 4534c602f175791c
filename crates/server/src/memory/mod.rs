//! Memory: loops look now and then how much is in use, and shed load before it runs out.
//!
//! Above the high watermark new connections are answered 503, kept ones end after their next response, idle ones at once,
//! and buffers are small; so until less than the low one is in use. Above the critical one also those end whose clients
//! keep the server waiting. If an allocation fails all the same, the [reserve](Allocator) is what it gets.
//! What a burst has left behind goes [back to the kernel](trimming).

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

mod reserve;
mod trimming;

pub use reserve::{Allocator, prepare};

/// Shares of the limit.
const LOW_WATERMARK: f64 = 0.75;
const HIGH_WATERMARK: f64 = 0.85;
const CRITICAL_WATERMARK: f64 = 0.93;

/// The time between two looks.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// Connections accepted between two looks.
const ARRIVALS_PER_LOOK: u64 = 16;

static ARRIVALS: AtomicU64 = AtomicU64::new(0);

/// How short memory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Shortage {
    #[default]
    None,
    High,
    Critical,
}

static SHORTAGE: AtomicU8 = AtomicU8::new(Shortage::None as u8);

/// When this process looks next; its loops share it.
static NEXT: Mutex<Duration> = Mutex::new(Duration::ZERO);

/// Returns true while load is to be shed.
pub fn is_short() -> bool {
    SHORTAGE.load(Ordering::Relaxed) >= Shortage::High as u8
}

/// Returns true while also clients that keep the server waiting are to go.
pub fn is_critical() -> bool {
    SHORTAGE.load(Ordering::Relaxed) >= Shortage::Critical as u8
}

/// Looks how much memory is in use, of the `bytes_max` that this process may use, if it is time for that at `now`; memory
/// that is not used any more goes back to the kernel.
pub fn look(now: Duration, bytes_max: u64) {
    // Another loop is at it.
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

/// Looks at once: memory has been freed.
pub fn look_again(bytes_max: u64) {
    if measure(bytes_max) < Shortage::Critical {
        reserve::replenish();
    }
}

/// Looks also before it is time for that, now and then: connections are being accepted, each of which may take some.
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
    /// The shortage when this share of the limit is in use, after one of `before`.
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

/// The share that is in use: of the memory, or of the address space, if that is limited and more of it is. What the allocator
/// holds and nobody uses is free there: it can give address space back only from the ends of its parts.
fn used_share(bytes_max: u64) -> Option<f64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split_ascii_whitespace().map_while(|number| number.parse::<u64>().ok());
    let (address_space, resident) = (pages.next()?, pages.next()?);
    let bytes = |pages: u64| pages as f64 * rustix::param::page_size() as f64;
    let of_memory = bytes(resident) / bytes_max.max(1) as f64;
    let limit = getrlimit(Resource::As).current;
    Some(limit.map_or(of_memory, |limit| {
        let used = bytes(address_space) - trimming::free_bytes() as f64;
        of_memory.max(used / limit.max(1) as f64)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let used = used_share(u64::MAX).unwrap();
        assert!(used_share(1 << 20).unwrap() > 1.0 && used < 1.0, "{used}");
    }
}
