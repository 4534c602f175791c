//! How many connections an event loop accepts at once under overload.
//!
//! Whoever is accepted waits for all that were accepted before, here instead of in the kernel, where the accept queue bounds
//! how long that takes. So a round has as many as are served in a short time. It has few while the loop has much else to do:
//! a request that is passed on takes several iterations, and if new ones came first, those begun would wait without end.

use std::time::Duration;

/// The time that the connections of a round should take at most. They are received in one iteration and answered in a later
/// one, so twice as long or more passes between a connection's round and its response.
const TIME_MAX: Duration = Duration::from_millis(25);

/// The size of the first round.
const FIRST: usize = 16;

/// The most connections of a round while there is nothing else to do; for each event it is one less.
const IDLE: usize = 16;

/// However much there is to do, a connection is accepted for so many events. A request that is passed on has fewer.
const EVENTS_PER_CONNECTION: usize = 8;

/// The most connections of a round.
pub const ROUND_MAX: usize = 64;

/// The sizes of rounds: the next one is smaller if the last one kept the loop busy for long.
#[derive(Debug)]
pub struct Rounds {
    size: usize,
    since: Duration,
}

impl Default for Rounds {
    fn default() -> Rounds {
        Rounds::begin(Duration::ZERO)
    }
}

impl Rounds {
    /// Rounds that begin `now`.
    pub fn begin(now: Duration) -> Rounds {
        Rounds { size: FIRST, since: now }
    }

    /// The size of the round that begins now, in an iteration with so many `events` of open connections.
    pub fn next_beside(&mut self, events: usize, now: Duration) -> usize {
        let most = IDLE.saturating_sub(events).max(events / EVENTS_PER_CONNECTION);
        self.next(now).min(most).max(1)
    }

    /// The size of the round that begins now.
    pub fn next(&mut self, now: Duration) -> usize {
        let last = now.saturating_sub(std::mem::replace(&mut self.since, now));
        if last > TIME_MAX {
            self.size = (self.size / 2).max(1);
        } else if last < TIME_MAX / 2 {
            self.size = (2 * self.size).min(ROUND_MAX);
        }
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of a round after many, if each connection takes so long.
    fn settled(each: Duration) -> usize {
        let mut now = Duration::from_secs(1000);
        let mut rounds = Rounds::begin(now);
        for _ in 0..20 {
            now += each * rounds.next(now) as u32;
        }
        rounds.size
    }

    /// The most events in an iteration after many, if each connection brings so many, one per iteration.
    fn events(per_connection: usize) -> usize {
        let mut rounds = Rounds::default();
        let mut open: Vec<usize> = vec![0; 1000];
        let mut most = 0;
        for iteration in 0..2000 {
            if iteration > 1000 {
                most = most.max(open.len());
            }
            let accepted = rounds.next_beside(open.len(), Duration::ZERO);
            open.iter_mut().for_each(|events| *events += 1);
            open.retain(|&events| events < per_connection);
            open.extend(std::iter::repeat_n(0, accepted));
        }
        most
    }

    #[test]
    fn requests_that_take_several_iterations_do_not_accumulate() {
        for per_connection in 1..EVENTS_PER_CONNECTION {
            let most = events(per_connection);
            assert!((1..=2 * IDLE).contains(&most), "{per_connection} events each: {most}");
        }
    }

    #[test]
    fn new_clients_come_in_beside_any_number_of_others() {
        assert_eq!(Rounds::default().next_beside(20, Duration::ZERO), 2);
        assert_eq!(Rounds::default().next_beside(500, Duration::ZERO), 32);
    }

    #[test]
    fn a_round_is_served_in_a_short_time() {
        assert_eq!(settled(Duration::from_micros(20)), ROUND_MAX);
        assert_eq!(settled(Duration::from_millis(1)), 16);
        assert_eq!(settled(Duration::from_secs(1)), 1);
        for milliseconds in [2, 3, 5, 10, 25] {
            let each = Duration::from_millis(milliseconds);
            let time = each * settled(each) as u32;
            assert!(TIME_MAX / 2 <= time && time <= TIME_MAX, "{each:?} each: {time:?}");
        }
    }
}
