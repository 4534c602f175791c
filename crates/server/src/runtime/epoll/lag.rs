//! Lag: how long ago the loop last handled all ready connections. In overload the lag grows with the number of open
//! connections, and so does the cost of a request, because less of a connection's state is in the CPU caches. A lagging
//! loop therefore accepts no more connections until it has caught up; those in the kernel's backlog cost nothing.

use std::time::Duration;

/// The allowed lag, which lets the loop accept a burst rather than overflow the backlog.
const LAG_MAX: Duration = Duration::from_millis(50);

/// The state of a loop's lag.
#[derive(Debug)]
pub struct Lag {
    caught_up_at: Duration,
    is_behind: bool,
}

/// The consequence of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    None,
    FallenBehind,
    CaughtUp,
}

impl Lag {
    /// A loop without work yet.
    pub fn new(now: Duration) -> Lag {
        Lag { caught_up_at: now, is_behind: false }
    }

    /// Checks the lag when the loop has events; `has_all` means that these were all ready ones.
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
