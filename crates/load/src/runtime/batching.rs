//! Batches wake-ups: at high rates one loop iteration handles all events of a short period.
//!
//! Waking up costs more than a request. A thread that wakes for each arrival and each response of an open loop pays
//! twice per request; one that sleeps for a bounded time, the *slack*, finds several events and pays once. Only
//! iterations beyond one per slack are delayed: at low rates every request is sent when it is due.

use rustix::{
    thread::clock_nanosleep_absolute,
    time::{ClockId, Timespec},
};
use sojourn_measure::{Nanos, clock};

const SECOND: u64 = 1_000_000_000;
/// How many iterations may be saved up; a burst of so many is on time at any rate.
const SAVED_ITERATIONS_MAX: u64 = 4;
/// The largest slack; beyond that the arrival process would no longer be the requested one.
pub const TIMER_SLACK_MAX: Nanos = Nanos(10_000_000);

/// Decides when the next loop iteration may start.
#[derive(Clone, Copy, Debug)]
pub struct Batching {
    slack: Nanos,
    not_before: Nanos,
}

impl Batching {
    /// In the long run at most one iteration per `slack`; without slack, no limit.
    pub fn new(slack: Nanos) -> Batching {
        Batching { slack: slack.min(TIMER_SLACK_MAX), not_before: Nanos::ZERO }
    }

    /// Returns true if iterations may be delayed at all.
    pub fn are_limited(&self) -> bool {
        self.slack > Nanos::ZERO
    }

    /// The longest delay of events.
    pub fn slack(&self) -> Nanos {
        self.slack
    }

    /// Records the start of an iteration.
    pub fn begin(&mut self, now: Nanos) {
        let saved = Nanos(self.slack.0 * SAVED_ITERATIONS_MAX);
        self.not_before = self.not_before.max(now - saved) + self.slack;
    }

    /// Sleeps until the next iteration may start; returns the time then.
    pub fn sleep(&self, now: Nanos) -> Nanos {
        let Some(turn) = self.put_off_until(now) else { return now };
        let time = Timespec { tv_sec: (turn.0 / SECOND) as i64, tv_nsec: (turn.0 % SECOND) as i64 };
        // A signal ends it early; the loop then checks whether it was interrupted.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &time);
        clock::now()
    }

    /// When the next iteration may start, if that is later than `now`.
    fn put_off_until(&self, now: Nanos) -> Option<Nanos> {
        (self.not_before > now).then_some(self.not_before)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SLACK: Nanos = Nanos(100);
    const START: Nanos = Nanos(1_000_000);

    /// Iterations for events at these times; returns when each started.
    fn iterations_for(times: &[u64]) -> Vec<u64> {
        let mut batching = Batching::new(SLACK);
        let (mut began, mut free_at) = (Vec::new(), 0);
        for &time in times {
            if time <= free_at && !began.is_empty() {
                continue; // the last iteration included it
            }
            let at = batching.put_off_until(START + Nanos(time)).map_or(time, |until| until.0 - START.0);
            batching.begin(START + Nanos(at));
            began.push(at);
            free_at = at;
        }
        began
    }

    #[test]
    fn at_low_rates_nothing_is_put_off() {
        let seldom: Vec<u64> = (0..50).map(|number| 10_000 + number * 101).collect();
        assert_eq!(iterations_for(&seldom), seldom);
        let burst = [50_000, 50_001, 50_002, 50_003];
        assert_eq!(iterations_for(&burst), burst, "a few at once are still on time");
    }

    #[test]
    fn without_slack_any_number() {
        let mut batching = Batching::new(Nanos::ZERO);
        (0..1000).for_each(|_| batching.begin(START));
        assert!(!batching.are_limited() && batching.put_off_until(START).is_none());
    }

    proptest! {
        #[test]
        fn iterations_are_bounded_and_so_is_their_cost(gaps in prop::collection::vec(0..60_u64, 1..400)) {
            let times: Vec<u64> = gaps.iter().scan(0, |at, gap| { *at += gap; Some(*at) }).collect();
            let began = iterations_for(&times);
            let span = began.last().unwrap() - began[0];
            prop_assert!(began.len() as u64 <= span / SLACK.0 + SAVED_ITERATIONS_MAX + 2, "{began:?}");
            for &time in &times {
                let turn = began.iter().find(|&&turn| turn >= time);
                prop_assert!(turn.is_some_and(|turn| turn - time <= SLACK.0), "{time} in {began:?}");
            }
        }
    }
}
