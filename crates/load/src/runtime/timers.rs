//! Timers of clients and connections, ordered by time.

use std::{cmp::Reverse, collections::BinaryHeap};

use sojourn_measure::Nanos;

/// Pending wake-ups, earliest first. They are never cancelled; the serial identifies outdated ones.
#[derive(Debug, Default)]
pub struct Timers(BinaryHeap<Reverse<(Nanos, u32, u32)>>);

impl Timers {
    pub fn set(&mut self, at: Nanos, client: usize, serial: u32) {
        self.0.push(Reverse((at, client as u32, serial)));
    }

    pub fn next(&self) -> Option<Nanos> {
        self.0.peek().map(|Reverse((at, ..))| *at)
    }

    /// Removes the earliest wake-up if it is due.
    pub fn take_due(&mut self, now: Nanos) -> Option<(usize, u32)> {
        if self.next()? > now {
            return None;
        }
        self.0.pop().map(|Reverse((_, client, serial))| (client as usize, serial))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakes_in_order_of_time() {
        let mut timers = Timers::default();
        timers.set(Nanos(20), 2, 0);
        timers.set(Nanos(10), 1, 9);
        assert_eq!(timers.take_due(Nanos(5)), None);
        assert_eq!(timers.take_due(Nanos(15)), Some((1, 9)));
        assert_eq!(timers.next(), Some(Nanos(20)));
    }
}
