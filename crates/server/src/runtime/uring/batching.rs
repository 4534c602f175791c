//! Decides whether to wait a moment for a batch of completions.
//!
//! Sleeping and waking costs a loop a good part of what a request costs, and the waking side pays too. Under load the
//! next arrival is microseconds away. So while arrivals are frequent and come in batches, the ring waits briefly for
//! several completions. A single client, however busy, never forms a batch and is answered immediately.

use std::time::Duration;

/// The longest wait for a batch: less than two wake-ups cost.
pub const BATCH_WAIT_MAX: Duration = Duration::from_micros(20);

/// The number of completions that ends the wait early.
pub const BATCH_SIZE: usize = 8;

/// How often the decision is made anew.
const PERIOD: Duration = Duration::from_millis(4);

/// Recent arrivals, and the decision.
#[derive(Debug)]
pub struct Batching {
    since: Duration,
    /// Loop iterations with an arrival.
    iterations: u32,
    /// New connections, and received requests or parts of them.
    arrivals: u32,
    is_worthwhile: bool,
}

impl Batching {
    pub fn new(now: Duration) -> Batching {
        Batching { since: now, iterations: 0, arrivals: 0, is_worthwhile: false }
    }

    /// Counts the arrivals of one loop iteration.
    pub fn record(&mut self, arrivals: usize, now: Duration) {
        self.iterations += u32::from(arrivals > 0);
        self.arrivals += arrivals as u32;
        let passed = now.saturating_sub(self.since);
        if passed >= PERIOD {
            // An arrival per two such waits, and at least every fourth iteration with two arrivals.
            let is_frequent = 2 * BATCH_WAIT_MAX * self.arrivals >= passed;
            let is_accompanied = 4 * self.arrivals >= 5 * self.iterations;
            *self = Batching { is_worthwhile: is_frequent && is_accompanied, ..Batching::new(now) };
        }
    }

    /// Returns true if waiting for a batch pays.
    pub fn is_worthwhile(&self) -> bool {
        self.is_worthwhile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(iterations: u32, arrivals: usize, passed: Duration) -> bool {
        let mut batching = Batching::new(Duration::ZERO);
        (1..=iterations).for_each(|turn| batching.record(arrivals, passed * turn / iterations));
        batching.is_worthwhile()
    }

    #[test]
    fn only_frequent_arrivals_in_company_are_waited_for() {
        assert!(after(200, 3, PERIOD));
        assert!(!after(600, 1, PERIOD), "a lone client in haste");
        assert!(!after(10, 3, PERIOD), "a few clients at leisure");
        assert!(!after(200, 3, PERIOD - Duration::from_micros(1)), "too early to tell");
    }

    #[test]
    fn it_ends_with_the_load() {
        let mut batching = Batching::new(Duration::ZERO);
        batching.record(1000, PERIOD);
        assert!(batching.is_worthwhile());
        batching.record(1, 2 * PERIOD);
        assert!(!batching.is_worthwhile());
    }
}
