//! Whether to wait a moment for company.
//!
//! To fall asleep and be woken costs a loop as much as a good part of a request, and whoever wakes it pays too.
//! Under load the next arrival is microseconds away. So while arrivals are frequent and come in company, the ring
//! is asked to wait for several, though for no longer than a moment. A lone client, however busy, never has
//! company, and is answered at once.

use std::time::Duration;

/// The longest wait for company: less than waking up costs twice.
pub const MOMENT: Duration = Duration::from_micros(20);

/// Completions worth waking up for before the moment is over.
pub const ENOUGH: usize = 8;

/// How long arrivals are watched before it is decided anew.
const PERIOD: Duration = Duration::from_millis(4);

/// What was seen lately.
#[derive(Debug)]
pub struct Company {
    since: Duration,
    /// Turns in which somebody arrived.
    turns: u32,
    /// New connections, and requests or parts of them.
    arrivals: u32,
    is_expected: bool,
}

impl Company {
    /// Nobody yet.
    pub fn new(now: Duration) -> Company {
        Company { since: now, turns: 0, arrivals: 0, is_expected: false }
    }

    /// A turn has brought so many arrivals.
    pub fn turn(&mut self, arrivals: usize, now: Duration) {
        self.turns += u32::from(arrivals > 0);
        self.arrivals += arrivals as u32;
        let passed = now.saturating_sub(self.since);
        if passed >= PERIOD {
            // One in two moments, and of four turns one with two.
            let is_frequent = 2 * MOMENT * self.arrivals >= passed;
            let is_accompanied = 4 * self.arrivals >= 5 * self.turns;
            *self = Company { is_expected: is_frequent && is_accompanied, ..Company::new(now) };
        }
    }

    /// Returns true if waiting for more than one completion pays.
    pub fn is_expected(&self) -> bool {
        self.is_expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(turns: u32, arrivals: usize, passed: Duration) -> bool {
        let mut company = Company::new(Duration::ZERO);
        (1..=turns).for_each(|turn| company.turn(arrivals, passed * turn / turns));
        company.is_expected()
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
        let mut company = Company::new(Duration::ZERO);
        company.turn(1000, PERIOD);
        assert!(company.is_expected());
        company.turn(1, 2 * PERIOD);
        assert!(!company.is_expected());
    }
}
