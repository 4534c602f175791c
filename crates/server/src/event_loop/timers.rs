//! Deadlines in whole seconds, cheap to move: a wheel whose entries are corrected only when they come up.
//!
//! Every connection has one entry, at its deadline or earlier. Moving a deadline later, which happens at every
//! request, touches nothing here; the entry that comes up too early is put back.

/// Seconds around the wheel. Deadlines further away come up early and are put back.
const SLOTS: u32 = 128;

/// The wheel. It holds tokens and knows nothing about them.
#[derive(Debug)]
pub struct Timers {
    slots: Vec<Vec<u64>>,
    /// The second whose slot was emptied last.
    second: u32,
}

impl Timers {
    /// An empty wheel at `second`.
    pub fn new(second: u32) -> Timers {
        Timers { slots: vec![Vec::new(); SLOTS as usize], second }
    }

    /// Enters `token` at `second` or, if that is past or beyond the wheel, at the nearest second there is.
    /// Returns the second.
    pub fn enter(&mut self, token: u64, second: u32) -> u32 {
        let second = second.clamp(self.second + 1, self.second + SLOTS - 1);
        self.slots[(second % SLOTS) as usize].push(token);
        second
    }

    /// Moves to `second` and takes out every token whose second has come, with that second.
    pub fn advance(&mut self, second: u32) -> Vec<(u64, u32)> {
        let mut due = Vec::new();
        for passed in self.second + 1..=second.max(self.second) {
            due.extend(self.slots[(passed % SLOTS) as usize].drain(..).map(|token| (token, passed)));
        }
        self.second = second.max(self.second);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_up_at_their_second() {
        let mut timers = Timers::new(1000);
        assert_eq!(timers.enter(1, 1002), 1002);
        assert_eq!(timers.enter(2, 900), 1001);
        assert_eq!(timers.enter(3, 5000), 1127);
        assert_eq!(timers.advance(1001), [(2, 1001)]);
        assert_eq!(timers.advance(1001), []);
        assert_eq!(timers.advance(1500), [(1, 1002), (3, 1127)]);
        assert_eq!(timers.enter(4, 1501), 1501);
        assert_eq!(timers.advance(1501), [(4, 1501)]);
    }
}
