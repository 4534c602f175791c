//! Arrival times of clients since the run's start: within a ramp, by an arrival process, or from a log.

use std::iter::Peekable;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_measure::Nanos;

use crate::plan::{Arrivals, LoggedVisit, arrivals::ArrivalTimes};

pub enum RemainingArrivals<'a> {
    /// When the closed-loop clients arrive; the next one is last in the list.
    Closed(Vec<Nanos>),
    Open(Peekable<ArrivalTimes>),
    Logged(Peekable<Box<dyn Iterator<Item = LoggedVisit> + 'a>>),
}

impl<'a> RemainingArrivals<'a> {
    /// All arrivals. Closed-loop clients arrive at random within `ramp`.
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
                // A separate stream, so that arrivals do not depend on the requested documents.
                let own = Xoshiro256PlusPlus::seed_from_u64(random.random());
                RemainingArrivals::Open(ArrivalTimes::new(segments, process, own).peekable())
            }
            Arrivals::Logged(arrivals) => RemainingArrivals::Logged(arrivals.peekable()),
        }
    }

    /// When the next client arrives; `None` if there are no more.
    pub fn next_start(&mut self) -> Option<Nanos> {
        match self {
            RemainingArrivals::Closed(starts) => starts.last().copied(),
            RemainingArrivals::Open(times) => times.peek().copied(),
            RemainingArrivals::Logged(arrivals) => arrivals.peek().map(|visit| Nanos(visit.connect_ns)),
        }
    }

    /// Takes the next arrival, with its visit if it comes from a log.
    pub fn take(&mut self) -> Option<LoggedVisit> {
        match self {
            RemainingArrivals::Closed(starts) => drop(starts.pop()),
            RemainingArrivals::Open(times) => drop(times.next()),
            RemainingArrivals::Logged(arrivals) => return arrivals.next(),
        }
        None
    }

    /// Returns true if a client starts another visit after each.
    pub fn is_closed(&self) -> bool {
        matches!(self, RemainingArrivals::Closed(_))
    }
}
