//! Arrival times of clients since the run's start: all within a ramp, by an arrival process, or from a log.

use std::iter::Peekable;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_measure::Nanos;

use crate::plan::{Arrivals, LoggedVisit, arrivals::ArrivalTimes};

pub enum RemainingArrivals<'a> {
    /// When the clients of a closed loop arrive, the next one last.
    Closed(Vec<Nanos>),
    Open(Peekable<ArrivalTimes>),
    Logged(Peekable<Box<dyn Iterator<Item = LoggedVisit> + 'a>>),
}

impl<'a> RemainingArrivals<'a> {
    /// All arrivals. The clients of a closed loop arrive at random within `ramp`.
    pub fn new(
        arrivals: Arrivals<'a>,
        ramp: Nanos,
        random: &mut Xoshiro256PlusPlus,
    ) -> RemainingArrivals<'a> {
        match arrivals {
            Arrivals::Closed { clients } => {
                let phase = |_| Nanos((random.random::<f64>() * ramp.0 as f64) as u64);
                let mut starts: Vec<Nanos> = (0..clients).map(phase).collect();
                starts.sort_by(|a, b| b.cmp(a));
                RemainingArrivals::Closed(starts)
            }
            Arrivals::Open { segments, process, .. } => {
                // A sequence of their own: arrivals do not depend on which documents are requested.
                let own = Xoshiro256PlusPlus::seed_from_u64(random.random());
                RemainingArrivals::Open(ArrivalTimes::new(segments, process, own).peekable())
            }
            Arrivals::Logged(arrivals) => RemainingArrivals::Logged(arrivals.peekable()),
        }
    }

    /// When the next client arrives, if any more do.
    pub fn next_start(&mut self) -> Option<Nanos> {
        match self {
            RemainingArrivals::Closed(starts) => starts.last().copied(),
            RemainingArrivals::Open(times) => times.peek().copied(),
            RemainingArrivals::Logged(arrivals) => arrivals.peek().map(|visit| Nanos(visit.connect_ns)),
        }
    }

    /// Takes the next arrival, with its visit where it is logged.
    pub fn take(&mut self) -> Option<LoggedVisit> {
        match self {
            RemainingArrivals::Closed(starts) => drop(starts.pop()),
            RemainingArrivals::Open(times) => drop(times.next()),
            RemainingArrivals::Logged(arrivals) => return arrivals.next(),
        }
        None
    }

    /// Returns true if clients begin another visit after each.
    pub fn is_closed(&self) -> bool {
        matches!(self, RemainingArrivals::Closed(_))
    }
}
