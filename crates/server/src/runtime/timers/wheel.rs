//! A timer wheel whose deadlines are cheap to move: entries are corrected only when they come up.
//!
//! Every connection has one entry, at its deadline or earlier. Moving a deadline later, which happens with every
//! request, changes nothing here; an entry that comes up too early is inserted again.

use std::time::Duration;

/// The precision of deadlines.
const TICK: Duration = Duration::from_millis(250);

const NANOSECOND: Duration = Duration::from_nanos(1);

/// The number of slots. Entries further in the future come up early and are inserted again.
const SLOTS: u32 = 512;

/// The wheel; its tokens are opaque.
#[derive(Debug)]
pub struct Timers {
    slots: Vec<Vec<u64>>,
    /// The tick whose slot was emptied last.
    tick: u32,
}

impl Timers {
    pub fn new(now: Duration) -> Timers {
        Timers { slots: vec![Vec::new(); SLOTS as usize], tick: ticks(now) }
    }

    pub fn tick(&self) -> u32 {
        self.tick
    }

    /// Returns true if a tick has passed by `now`.
    pub fn is_due(&self, now: Duration) -> bool {
        ticks(now) > self.tick
    }

    /// Adds `token` at `tick`, or at the nearest possible tick if that has passed or is beyond the wheel. Returns the
    /// tick used.
    pub fn enter(&mut self, token: u64, tick: u32) -> u32 {
        let tick = tick.clamp(self.tick + 1, self.tick + SLOTS - 1);
        self.slots[(tick % SLOTS) as usize].push(token);
        tick
    }

    /// Advances to `now`; returns every token whose tick has come, with that tick.
    pub fn advance(&mut self, now: Duration) -> Vec<(u64, u32)> {
        let tick = ticks(now).max(self.tick);
        let mut due = Vec::new();
        for passed in self.tick + 1..=tick {
            due.extend(self.slots[(passed % SLOTS) as usize].drain(..).map(|token| (token, passed)));
        }
        self.tick = tick;
        due
    }
}

/// The time from `now` to the next tick.
pub fn until_next(now: Duration) -> Duration {
    let tick = TICK.as_nanos() as u64;
    Duration::from_nanos(tick - now.as_nanos() as u64 % tick)
}

/// The first tick that is at least `timeout` after `now`.
///
/// Computed from the clock, not the wheel: without connections the loop sleeps and the wheel stands still.
pub fn deadline(now: Duration, timeout: Duration) -> u32 {
    // One more, because the current tick is partly over.
    ticks(now).saturating_add(ticks(timeout.saturating_add(TICK - NANOSECOND))).saturating_add(1)
}

pub fn ticks(time: Duration) -> u32 {
    (time.as_millis() / TICK.as_millis()).try_into().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tick: u64) -> Duration {
        Duration::from_millis(250 * tick + 13)
    }

    #[test]
    fn tokens_come_up_at_their_tick() {
        let mut timers = Timers::new(at(1000));
        assert_eq!(timers.enter(1, 1002), 1002);
        assert_eq!(timers.enter(2, 900), 1001);
        assert_eq!(timers.enter(3, 5000), 1511);
        assert!(!timers.is_due(at(1000)) && timers.is_due(at(1001)));
        assert_eq!(timers.advance(at(1001)), [(2, 1001)]);
        assert_eq!(timers.advance(at(1001)), []);
        assert_eq!(timers.advance(at(2000)), [(1, 1002), (3, 1511)]);
        assert_eq!(timers.enter(4, 2001), 2001);
        assert_eq!(timers.advance(at(2001)), [(4, 2001)]);
    }

    #[test]
    fn a_timeout_never_expires_early() {
        let check = |milliseconds, tick| {
            assert_eq!(deadline(at(1000), Duration::from_millis(milliseconds)), tick, "{milliseconds} ms");
        };
        check(0, 1001);
        check(1, 1002);
        check(250, 1002);
        check(251, 1003);
        check(60_000, 1241);
        check(u64::MAX, u32::MAX);
        assert_eq!(until_next(at(4)), Duration::from_millis(237));
    }
}
