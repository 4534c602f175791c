//! Virtual time, which stands still or advances in steps.
//!
//! It jumps to the next deadline of a wait, and only when all threads wait. The program's own work takes no virtual
//! time, so the program is never late.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

use super::ptrace::{Registers, Tracee};
use super::waits::Wait;

/// How much reading the clock advances it; otherwise a program that polls the clock would loop forever.
const LOOK: Duration = Duration::from_nanos(100);

/// The current virtual time and the deadlines of waiting threads.
pub struct Time {
    passed: Duration,
    waits: HashMap<Tracee, (u64, Wait)>,
    begun: u64,
    /// The thread whose wait has just expired.
    ending: Option<Tracee>,
    passes: bool,
}

impl Time {
    /// Time stands still at first, and always unless `passes`.
    pub fn new(passes: bool) -> Time {
        Time { passed: Duration::ZERO, waits: HashMap::new(), begun: 0, ending: None, passes }
    }

    pub fn passes(&self) -> bool {
        self.passes
    }

    pub fn passed(&self) -> Duration {
        self.passed
    }

    /// Advances time for one reading of the clock.
    pub fn record_reading(&mut self) {
        if self.passes {
            self.passed += LOOK;
        }
    }

    /// Records that a thread starts to wait, or does something that ends its wait.
    pub fn set_wait(&mut self, tracee: Tracee, wait: Option<Wait>) {
        self.begun += 1;
        match wait {
            Some(wait) => self.waits.insert(tracee, (self.begun, wait)),
            None => self.waits.remove(&tracee),
        };
    }

    pub fn forget(&mut self, tracee: Tracee) {
        self.waits.remove(&tracee);
        if self.ending == Some(tracee) {
            self.ending = None;
        }
    }

    /// Advances by one step towards `until`, when all threads are at rest; returns true once it is there.
    pub fn step(&mut self, until: Duration) -> bool {
        // A thread whose wait was satisfied is in another call by now.
        self.waits.retain(|tracee, (_, wait)| tracee.waits_in() == Some(wait.call));
        let next = self.waits.iter().min_by_key(|(_, (begun, wait))| (wait.until, *begun));
        match next {
            Some((&tracee, (_, wait))) if wait.until <= until => {
                self.passed = self.passed.max(wait.until);
                self.ending = Some(tracee);
                tracee.interrupt();
                false
            }
            _ => {
                self.passed = self.passed.max(until);
                true
            }
        }
    }

    /// Returns true if `tracee` stopped because its wait expired, and records that it has been told.
    pub fn end(&mut self, tracee: Tracee) -> bool {
        if self.ending != Some(tracee) {
            return false;
        }
        self.ending = None;
        let wait = self.waits.remove(&tracee);
        if let (Some((_, wait)), Some(mut registers)) = (wait, Registers::of(tracee))
            && registers.was_interrupted()
        {
            wait.write_no_events(tracee);
            registers.skip(wait.result().cast_unsigned());
            registers.restore(tracee);
        }
        true
    }

    /// Returns true if every thread waits. The second check catches threads that have just passed work to each other.
    pub fn is_at_rest(&self, tracees: &HashSet<Tracee>) -> bool {
        let Some(before) = turns(tracees) else { return false };
        self.ending.is_none() && turns(tracees).is_some_and(|now| now == before)
    }
}

/// How often each thread was scheduled; `None` if one runs, is runnable, or waits for a disk.
fn turns(tracees: &HashSet<Tracee>) -> Option<Vec<String>> {
    tracees
        .iter()
        .map(|tracee| {
            let status = fs::read_to_string(format!("/proc/{}/status", tracee.0)).ok()?;
            let state = status.lines().find_map(|line| line.strip_prefix("State:"))?;
            let has_rest = state.trim_start().starts_with(['S', 'Z']);
            has_rest.then(|| status.lines().filter(|line| line.contains("ctxt_switches")).collect())
        })
        .collect()
}
