//! One direction of a line: a queue, a transmitter with a rate, delay and loss. Pure: time and randomness are
//! arguments.
//!
//! A packet waits for those before it, takes its length divided by the rate to be sent, and then the delay. It
//! overtakes others only if that is allowed. A packet that finds the queue full is dropped (drop-tail).

use std::collections::VecDeque;

use sojourn_measure::Nanos;
use sojourn_queueing::distribution::{Distribution, RandomVariable};
use sojourn_queueing::random::Random;

use crate::loss::Loss;

#[derive(Clone, Debug)]
pub struct Line {
    /// Bits per second; `None`: as fast as this machine can.
    pub rate: Option<f64>,
    /// Seconds from the end of transmission to arrival.
    pub delay: Option<Distribution>,
    pub loss: Loss,
    /// The most packets waiting or being sent; one more is dropped.
    pub queue_packets_max: usize,
    pub reorders: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    Arrives(Nanos),
    Overflows,
    /// The packet was sent and then lost.
    IsLost,
}

/// The random streams of a line, separate for loss and delay: with another delay distribution the same packets are
/// lost.
pub struct Draws {
    delay: Random,
    loss: Random,
}

impl Draws {
    /// The streams of direction `index` of a link with this `seed`.
    pub fn new(seed: u64, index: usize) -> Draws {
        Draws { delay: Random::stream(seed, 2 * index), loss: Random::stream(seed, 2 * index + 1) }
    }
}

/// The state of one direction of a line.
#[derive(Clone, Debug)]
pub struct Direction {
    line: Line,
    extra_delay: Nanos,
    /// When the transmission of each packet in the queue ends.
    departures: VecDeque<Nanos>,
    last_arrival: Nanos,
    is_bad: bool,
}

impl Direction {
    /// An idle direction whose packets take `extra_delay` longer than the line says.
    pub fn new(line: Line, extra_delay: Nanos) -> Direction {
        Direction { line, extra_delay, departures: VecDeque::new(), last_arrival: Nanos::ZERO, is_bad: false }
    }

    /// Sends a packet of `bytes`; `now` must not decrease.
    pub fn take(&mut self, now: Nanos, bytes: usize, draws: &mut Draws) -> Passage {
        while self.departures.front().is_some_and(|&departure| departure <= now) {
            self.departures.pop_front();
        }
        let mut sent = now;
        if let Some(rate) = self.line.rate {
            if self.departures.len() >= self.line.queue_packets_max {
                return Passage::Overflows;
            }
            let begin = self.departures.back().map_or(now, |&departure| departure);
            sent = begin + Nanos::from_seconds(bytes as f64 * 8.0 / rate);
            self.departures.push_back(sent);
        }
        if self.line.loss.draw(&mut self.is_bad, &mut draws.loss) {
            return Passage::IsLost;
        }
        let drawn = self.line.delay.as_ref().map_or(0.0, |delay| delay.sample(&mut draws.delay));
        let mut arrival = sent + Nanos::from_seconds(drawn) + self.extra_delay;
        if !self.line.reorders {
            arrival = arrival.max(self.last_arrival);
            self.last_arrival = arrival;
        }
        Passage::Arrives(arrival)
    }

    /// Packets waiting or being sent when the last packet was taken.
    pub fn queued(&self) -> usize {
        self.departures.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sojourn_queueing::distribution::{Deterministic, Erlang};

    use super::*;

    const MS: u64 = 1_000_000;

    fn line(rate: Option<f64>, delay_seconds: f64) -> Line {
        let delay = Some(Deterministic::new(delay_seconds).unwrap().into());
        Line { rate, delay, loss: Loss::Never, queue_packets_max: 3, reorders: false }
    }

    struct Way(Direction, Draws);

    impl Way {
        fn take(&mut self, now: Nanos, bytes: usize) -> Passage {
            self.0.take(now, bytes, &mut self.1)
        }
    }

    fn way(line: Line) -> Way {
        Way(Direction::new(line, Nanos::ZERO), Draws::new(1, 0))
    }

    #[test]
    fn a_packet_takes_its_length_over_the_rate_and_the_delay() {
        // 1,250 bytes are 10,000 bits: 10 ms at 1 Mbit/s.
        let mut way = way(line(Some(1e6), 0.030));
        assert_eq!(way.take(Nanos(0), 1250), Passage::Arrives(Nanos(40 * MS)));
        assert_eq!(way.take(Nanos(5 * MS), 1250), Passage::Arrives(Nanos(50 * MS)));
        assert_eq!(way.take(Nanos(100 * MS), 125), Passage::Arrives(Nanos(131 * MS)));
    }

    #[test]
    fn what_finds_the_queue_full_is_dropped_and_room_comes_back() {
        let mut way = way(line(Some(1e6), 0.0));
        for _ in 0..3 {
            assert!(matches!(way.take(Nanos(0), 1250), Passage::Arrives(_)));
        }
        assert_eq!(way.take(Nanos(9 * MS), 1250), Passage::Overflows);
        assert_eq!(way.take(Nanos(10 * MS), 1250), Passage::Arrives(Nanos(40 * MS)));
    }

    #[test]
    fn without_a_rate_there_is_no_queue() {
        let mut way = way(line(None, 0.001));
        assert!((0..100).all(|_| way.take(Nanos(0), 1500) == Passage::Arrives(Nanos(MS))));
        assert_eq!(way.0.queued(), 0);
    }

    #[test]
    fn the_delays_have_the_mean_and_the_variation_of_their_law() {
        let delay = Some(Erlang::new(0.2, 4).unwrap().into());
        let mut way = way(Line { delay, reorders: true, ..line(None, 0.0) });
        let count = 100_000;
        let delays: Vec<f64> = (0..count)
            .map(|_| match way.take(Nanos(0), 40) {
                Passage::Arrives(at) => at.seconds(),
                other => panic!("{other:?}"),
            })
            .collect();
        let mean = delays.iter().sum::<f64>() / f64::from(count);
        let variance = delays.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / f64::from(count);
        assert!((mean / 0.2 - 1.0).abs() < 0.01, "{mean}");
        assert!((variance / (0.2 * 0.2 / 4.0) - 1.0).abs() < 0.03, "{variance}");
    }

    proptest! {
        #[test]
        fn packets_keep_their_order_and_the_rate(
            gaps in proptest::collection::vec((0..20_000_000_u64, 40..1500_usize), 1..200), seed in any::<u64>(),
        ) {
            let rate = 2e6;
            let delay = Some(Erlang::new(0.05, 2).unwrap().into());
            let line = Line { delay, queue_packets_max: 10, ..line(Some(rate), 0.0) };
            let mut way = Way(Direction::new(line, Nanos(7)), Draws::new(seed, 1));
            let (mut now, mut last, mut busy_until) = (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
            for (gap, bytes) in gaps {
                now = now + Nanos(gap);
                match way.take(now, bytes) {
                    Passage::Arrives(at) => {
                        busy_until = busy_until.max(now) + Nanos::from_seconds(bytes as f64 * 8.0 / rate);
                        prop_assert!(at >= last && at >= busy_until + Nanos(7));
                        last = at;
                    }
                    Passage::Overflows => prop_assert_eq!(way.0.queued(), 10),
                    Passage::IsLost => prop_assert!(false, "nothing is to be lost"),
                }
                prop_assert!(way.0.queued() <= 10);
            }
        }
    }
}
