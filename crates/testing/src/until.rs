//! Waits for what a server does at its own pace.

use std::time::{Duration, Instant};

use crate::DEADLINE;

/// Calls `look` until it returns a value.
///
/// # Panics
/// If there is none by the [`DEADLINE`].
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < DEADLINE, "not in {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
