//! When clients come, counted from the run's start: all within a ramp, by a law of arrivals, or as a log has them.

use std::iter::Peekable;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_measure::Nanos;

use crate::plan::{Arrivals, LoggedVisit, arrivals::ArrivalTimes};

/// The remaining arrivals.
pub enum Comers<'a> {
    /// When clients of a closed loop come, the next one last.
    Closed(Vec<Nanos>),
    Open(Peekable<ArrivalTimes>),
    Logged(Peekable<Box<dyn Iterator<Item = LoggedVisit> + 'a>>),
}

impl<'a> Comers<'a> {
    /// Everyone; a closed loop's clients come at random within `ramp`.
    pub fn new(arrivals: Arrivals<'a>, ramp: Nanos, random: &mut Xoshiro256PlusPlus) -> Comers<'a> {
        match arrivals {
            Arrivals::Closed { clients } => {
                let phase = |_| Nanos((random.random::<f64>() * ramp.0 as f64) as u64);
                let mut starts: Vec<Nanos> = (0..clients).map(phase).collect();
                starts.sort_by(|a, b| b.cmp(a));
                Comers::Closed(starts)
            }
            Arrivals::Open { segments, law, .. } => {
                // A sequence of their own: arrivals stay the same whatever is asked for.
                let own = Xoshiro256PlusPlus::seed_from_u64(random.random());
                Comers::Open(ArrivalTimes::new(segments, law, own).peekable())
            }
            Arrivals::Logged(arrivals) => Comers::Logged(arrivals.peekable()),
        }
    }

    /// When the next one comes, if any more do.
    pub fn next_start(&mut self) -> Option<Nanos> {
        match self {
            Comers::Closed(starts) => starts.last().copied(),
            Comers::Open(times) => times.peek().copied(),
            Comers::Logged(arrivals) => arrivals.peek().map(|visit| Nanos(visit.connect_ns)),
        }
    }

    /// Takes the next one out of the line, with the visit that a log has of it.
    pub fn take(&mut self) -> Option<LoggedVisit> {
        match self {
            Comers::Closed(starts) => drop(starts.pop()),
            Comers::Open(times) => drop(times.next()),
            Comers::Logged(arrivals) => return arrivals.next(),
        }
        None
    }

    /// Returns true if those whose visit is over begin another.
    pub fn is_closed(&self) -> bool {
        matches!(self, Comers::Closed(_))
    }
}
