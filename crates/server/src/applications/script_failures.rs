//! How scripts have failed. A loop sees no more of that than the end of a socket, which is also how a whole response
//! without a length ends; so the spawner records it first, in memory that all processes share.

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// How many failures are remembered; each is asked for as soon as its socket has ended.
const REMEMBERED: usize = 511;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptFailure {
    /// It was killed at its timeout.
    TimedOut,
    /// It was ended by a signal.
    Died,
}

/// Any bits are valid atomics, and zeroed memory has no failures.
#[repr(C)]
struct Table {
    /// The number of the last script; the first one is 1.
    last: AtomicU64,
    /// The numbers of scripts that have failed, and in the lowest bit whether they were killed at their timeout.
    failed: [AtomicU64; REMEMBERED],
}

/// The failures of all scripts, for this process and those that it forks.
#[derive(Debug)]
pub(super) struct ScriptFailures(NonNull<Table>);

// SAFETY: it is a table of atomics, mapped until the last owner is dropped.
unsafe impl Send for ScriptFailures {}
// SAFETY: as above.
unsafe impl Sync for ScriptFailures {}

/// A script that was asked for.
#[derive(Debug)]
pub struct ScriptRun {
    pub(super) number: u64,
    failures: Arc<ScriptFailures>,
}

impl ScriptRun {
    /// How it has failed, once its socket has ended; `None` if it has ended by itself.
    pub fn failure(&self) -> Option<ScriptFailure> {
        self.failures.of(self.number)
    }
}

impl ScriptFailures {
    /// # Errors
    /// If there is no memory.
    pub fn new() -> io::Result<ScriptFailures> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe { mmap_anonymous(null_mut(), size_of::<Table>(), protection, MapFlags::SHARED)? };
        Ok(ScriptFailures(NonNull::new(start.cast()).expect("mappings do not begin at 0")))
    }

    /// Numbers one more script.
    pub fn begin(self: &Arc<Self>) -> ScriptRun {
        let number = self.table().last.fetch_add(1, Ordering::Relaxed) + 1;
        ScriptRun { number, failures: Arc::clone(self) }
    }

    pub fn record(&self, number: u64, failure: ScriptFailure) {
        let is_late = u64::from(failure == ScriptFailure::TimedOut);
        self.place(number).store((number << 1) | is_late, Ordering::Release);
    }

    fn of(&self, number: u64) -> Option<ScriptFailure> {
        let recorded = self.place(number).load(Ordering::Acquire);
        let failure = if recorded & 1 == 1 { ScriptFailure::TimedOut } else { ScriptFailure::Died };
        (recorded >> 1 == number).then_some(failure)
    }

    fn place(&self, number: u64) -> &AtomicU64 {
        &self.table().failed[number as usize % REMEMBERED]
    }

    fn table(&self) -> &Table {
        // SAFETY: mapped in `new` with this size, page-aligned, and for as long as `self` lives.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for ScriptFailures {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; nothing borrowed from it outlives it.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), size_of::<Table>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "there are no mappings")]
    fn each_script_has_its_own_failure() {
        let failures = Arc::new(ScriptFailures::new().unwrap());
        let runs: Vec<ScriptRun> = (0..=REMEMBERED).map(|_| failures.begin()).collect();
        assert!(runs.iter().all(|run| run.failure().is_none()));
        failures.record(runs[0].number, ScriptFailure::TimedOut);
        failures.record(runs[1].number, ScriptFailure::Died);
        assert_eq!(runs[0].failure(), Some(ScriptFailure::TimedOut));
        assert_eq!(runs[1].failure(), Some(ScriptFailure::Died));
        // The last one has the place of the first.
        assert_eq!(runs[REMEMBERED].failure(), None);
        failures.record(runs[REMEMBERED].number, ScriptFailure::Died);
        assert_eq!(runs[0].failure(), None);
    }
}
