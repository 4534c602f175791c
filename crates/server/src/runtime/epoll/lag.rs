//! Lag: how long ago the loop last knew of everything that was ready. In overload it grows with the connections that are
//! open, and with them grows what a request costs, because ever less of what belongs to a connection is in the processor's
//! caches. So a loop that lags accepts no more until it has caught up; the kernel's backlog costs nothing meanwhile.

use std::time::Duration;

/// The lag that is allowed: a burst of arrivals is rather accepted than refused by the backlog.
const LAG_MAX: Duration = Duration::from_millis(50);

/// What a loop knows of its lag.
#[derive(Debug)]
pub struct Lag {
    caught_up_at: Duration,
    is_behind: bool,
}

/// What follows from a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    None,
    FallenBehind,
    CaughtUp,
}

impl Lag {
    /// A loop that has nothing to do yet.
    pub fn new(now: Duration) -> Lag {
        Lag { caught_up_at: now, is_behind: false }
    }

    /// The loop has events, and they are all that there are if it `has_all`.
    pub fn look(&mut self, has_all: bool, now: Duration) -> Change {
        if has_all {
            self.caught_up_at = now;
        }
        let is_behind = now.saturating_sub(self.caught_up_at) > LAG_MAX;
        match (std::mem::replace(&mut self.is_behind, is_behind), is_behind) {
            (false, true) => Change::FallenBehind,
            (true, false) => Change::CaughtUp,
            _ => Change::None,
        }
    }

    pub fn is_behind(&self) -> bool {
        self.is_behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_behind_until_it_has_seen_everything() {
        let mut lag = Lag::new(Duration::ZERO);
        let looks = [
            (false, 40, Change::None),
            (false, 60, Change::FallenBehind),
            (false, 200, Change::None),
            (true, 210, Change::CaughtUp),
            (false, 250, Change::None),
            (true, 300, Change::None),
        ];
        for (has_all, now, expected) in looks {
            assert_eq!(lag.look(has_all, Duration::from_millis(now)), expected, "at {now}");
        }
    }
}
