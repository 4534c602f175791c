//! A player of segments: its buffer, playback times, and stalls.
//!
//! It starts when its buffer has enough media, or all there is, and plays at normal speed. With an empty buffer it
//! stalls until the next segment has arrived completely, and everything after that is shown later by as much.

use sojourn_measure::Nanos;

use crate::playout::{sequence::PacketOrder, track::Arrival};

#[derive(Clone, Debug)]
pub struct Player {
    startup: Nanos,
    /// The duration of all segments received completely.
    received: Nanos,
    /// When playback would have started without stalls; set when it starts.
    origin: Option<Nanos>,
    /// When the first segment was complete, and its duration.
    first_whole: Option<(Nanos, Nanos)>,
    stalled_until: Nanos,
    has_all: bool,
}

impl Player {
    /// A player that starts with this much buffered media.
    pub fn new(startup: Nanos) -> Player {
        Player {
            startup,
            received: Nanos::ZERO,
            origin: None,
            first_whole: None,
            stalled_until: Nanos::ZERO,
            has_all: false,
        }
    }

    /// Handles a segment received completely at `arrival`. If the sample `is_void`, its time is not used.
    pub fn take(&mut self, length: Nanos, arrival: Nanos, is_void: bool) -> Arrival {
        let mut found = Arrival {
            order: Some(PacketOrder::Newest),
            late: false,
            behind: None,
            starves: false,
            starved: Nanos::ZERO,
        };
        let wanted = self.origin.map(|origin| origin + self.received);
        self.received = self.received + length;
        let (first_at, first_media) = *self.first_whole.get_or_insert((arrival, self.received));
        if !is_void {
            found.behind = Some(arrival - (first_at + (self.received - first_media)));
        }
        if let (Some(wanted), Some(origin)) = (wanted, &mut self.origin) {
            let waited = arrival - wanted;
            if waited > Nanos::ZERO {
                *origin = *origin + waited;
                if !is_void {
                    found.late = true;
                    (found.starves, found.starved) = self.stall(wanted, arrival);
                }
            }
        } else if self.received >= self.startup {
            self.origin = Some(arrival);
        }
        found
    }

    /// No more segments follow: playback starts with what is buffered.
    pub fn finish(&mut self, now: Nanos) {
        self.has_all = true;
        self.origin.get_or_insert(now);
    }

    /// The current stall at `now`: whether it begins, and its length so far.
    pub fn stall_until(&mut self, now: Nanos) -> (bool, Nanos) {
        match self.origin.map(|origin| origin + self.received) {
            Some(wanted) if !self.has_all && now > wanted => self.stall(wanted, now),
            _ => (false, Nanos::ZERO),
        }
    }

    /// When less than `media` will be left in the buffer.
    pub fn has_less_at(&self, media: Nanos) -> Nanos {
        match self.origin {
            Some(origin) => origin + self.received - media,
            None => Nanos::ZERO,
        }
    }

    /// Returns true once playback has started.
    pub fn has_begun(&self) -> bool {
        self.origin.is_some()
    }

    /// The buffered media; `None` while it has not started.
    pub fn left(&self, now: Nanos) -> Option<Nanos> {
        let origin = self.origin.filter(|_| self.has_all)?;
        Some(origin + self.received - now)
    }

    /// Adds the part of the span that is not counted yet to the stalled time.
    fn stall(&mut self, from: Nanos, until: Nanos) -> (bool, Nanos) {
        let (begins, added) = (from > self.stalled_until, until - from.max(self.stalled_until));
        self.stalled_until = self.stalled_until.max(until);
        (begins, added)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Nanos = Nanos(1_000_000_000);
    const START: Nanos = Nanos(100_000_000_000);

    fn at(seconds: f64) -> Nanos {
        START + Nanos::from_seconds(seconds)
    }

    #[test]
    fn it_begins_with_enough_and_stands_still_when_it_has_shown_all() {
        let mut player = Player::new(Nanos(2 * SECOND.0));
        let mut take = |seconds| player.take(SECOND, at(seconds), false);
        assert!(!take(0.0).late && !take(5.0).late, "it has not begun");
        // It starts at 5 s with two seconds of media: the third is needed at 7 s and arrives at 8.5 s.
        let late = take(8.5);
        assert_eq!((late.late, late.starves, late.starved), (true, true, Nanos::from_seconds(1.5)));
        assert_eq!(late.behind, Some(Nanos::from_seconds(6.5)));
        // What follows is shown later by as much: at 9.5 s.
        assert!(!take(9.4).late);
        assert_eq!(player.stall_until(at(10.0)), (false, Nanos::ZERO));
        assert_eq!(player.stall_until(at(11.0)), (true, Nanos::from_seconds(0.5)));
        let late = player.take(SECOND, at(12.0), false);
        assert_eq!((late.starves, late.starved), (false, SECOND));
    }

    #[test]
    fn at_the_end_it_does_not_stand_still() {
        let mut player = Player::new(Nanos(9 * SECOND.0));
        player.take(SECOND, at(0.0), false);
        assert!(!player.has_begun() && player.left(at(0.5)).is_none());
        player.finish(at(0.0));
        assert_eq!(player.left(at(0.4)), Some(Nanos::from_seconds(0.6)));
        assert_eq!(
            (player.left(at(2.0)), player.stall_until(at(2.0))),
            (Some(Nanos::ZERO), (false, Nanos::ZERO))
        );
    }

    #[test]
    fn it_asks_for_more_when_it_has_less() {
        let mut player = Player::new(SECOND);
        assert_eq!(player.has_less_at(SECOND), Nanos::ZERO);
        for _ in 0..5 {
            player.take(SECOND, at(0.0), false);
        }
        assert_eq!(player.has_less_at(Nanos(3 * SECOND.0)), at(2.0));
    }

    #[test]
    fn a_void_sample_is_not_late_but_moves_what_follows() {
        let mut player = Player::new(SECOND);
        player.take(SECOND, at(0.0), false);
        let void = player.take(SECOND, at(3.0), true);
        assert_eq!((void.late, void.behind, void.starved), (false, None, Nanos::ZERO));
        assert!(!player.take(SECOND, at(3.9), false).late);
    }

    proptest! {
        /// Playing and stalled time add up to the elapsed time: neither is counted twice.
        #[test]
        fn time_is_spent_once(waits in prop::collection::vec((0_u64..5_000, 1_u64..3_000, any::<bool>()), 1..60)) {
            let mut player = Player::new(SECOND);
            let (mut now, mut stalled, mut began) = (START, Nanos::ZERO, None);
            for (wait, length, asks) in waits {
                now = now + Nanos(wait * 1_000_000);
                if asks {
                    stalled = stalled + player.stall_until(now).1;
                }
                stalled = stalled + player.take(Nanos(length * 1_000_000), now, false).starved;
                if player.has_begun() {
                    began.get_or_insert(now);
                }
            }
            let shown_by = began.map_or(now, |began| began + player.received + stalled);
            prop_assert!(stalled <= now - began.unwrap_or(now));
            prop_assert!(shown_by >= now);
        }
    }
}
