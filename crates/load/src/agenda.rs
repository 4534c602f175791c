//! Who asks for what, and when: the closed loop and the sessions, behind one face.
//!
//! An [`Itinerary`] is one client's place in it. Times are absolute on the monotonic clock.

use std::iter::Peekable;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_measure::Nanos;
use sojourn_workload::{
    arrivals::Arrival,
    trace::{Request, Trace},
};

use crate::{Arrivals, Pick, Think, ThinkLaw};

/// The source of all requests.
pub enum Agenda<'a> {
    Closed(Closed),
    Sessions(Sessions<'a>),
}

/// One client's place in the agenda.
#[derive(Clone, Copy, Debug)]
pub enum Itinerary {
    /// A client of the closed loop, who starts now.
    Closed { start: Nanos },
    /// A session: its start, its number, the request after the current one.
    Session { start_ns: i64, session: u32, next: u32 },
}

/// A request to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When.
    pub at: Nanos,
    /// For what.
    pub document: u32,
}

impl<'a> Agenda<'a> {
    /// Begins at `origin`; a closed loop's clients come at random within `ramp`.
    pub fn new(arrivals: Arrivals<'a>, origin: Nanos, ramp: Nanos, seed: u64) -> Agenda<'a> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        match arrivals {
            Arrivals::Closed { clients, think, pick } => {
                let phase = |_| origin + Nanos((random.random::<f64>() * ramp.0 as f64) as u64);
                let mut starts: Vec<Nanos> = (0..clients).map(phase).collect();
                starts.sort_by(|a, b| b.cmp(a));
                Agenda::Closed(Closed { starts, think, picker: Picker::new(pick), random })
            }
            Arrivals::Sessions { trace, arrivals, think_scale } => {
                Agenda::Sessions(Sessions { trace, arrivals: arrivals.peekable(), think_scale, origin })
            }
        }
    }

    /// When the next client comes, if any more do.
    pub fn next_start(&mut self) -> Option<Nanos> {
        match self {
            Agenda::Closed(closed) => closed.starts.last().copied(),
            Agenda::Sessions(sessions) => {
                let origin = sessions.origin;
                sessions.arrivals.peek().map(|arrival| origin + Nanos(arrival.connect_ns))
            }
        }
    }

    /// Lets the next client in.
    pub fn start(&mut self) -> Option<Itinerary> {
        match self {
            Agenda::Closed(closed) => closed.starts.pop().map(|start| Itinerary::Closed { start }),
            Agenda::Sessions(sessions) => sessions.arrivals.next().map(|arrival| Itinerary::Session {
                start_ns: arrival.start_ns,
                session: arrival.session,
                next: arrival.first_request,
            }),
        }
    }

    /// A client's first request.
    pub fn first(&mut self, itinerary: &mut Itinerary) -> Option<Due> {
        match (self, *itinerary) {
            (Agenda::Closed(closed), Itinerary::Closed { start }) => {
                Some(Due { at: start, document: closed.picker.pick(&mut closed.random) })
            }
            (agenda, _) => agenda.next(itinerary, Nanos::ZERO),
        }
    }

    /// A client's next request after an answer that was complete at `answered`; `None` ends the client.
    pub fn next(&mut self, itinerary: &mut Itinerary, answered: Nanos) -> Option<Due> {
        match (self, itinerary) {
            (Agenda::Closed(closed), Itinerary::Closed { .. }) => Some(closed.next(answered)),
            (Agenda::Sessions(sessions), Itinerary::Session { start_ns, session, next }) => {
                let request = sessions.requests(*session).get(*next as usize)?;
                *next += 1;
                Some(sessions.due(*start_ns, request))
            }
            _ => unreachable!("an itinerary stays with the agenda it came from"),
        }
    }

    /// When the requests after the current one are due, as far as that is known before their time.
    pub fn rest(&self, itinerary: &Itinerary) -> Vec<Nanos> {
        match (self, itinerary) {
            (Agenda::Sessions(sessions), &Itinerary::Session { start_ns, session, next }) => {
                let rest = sessions.requests(session).iter().skip(next as usize);
                rest.map(|request| sessions.due(start_ns, request).at).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether a client asks on after a failed request: those of a closed loop do.
    pub fn goes_on_after_failure(&self) -> bool {
        matches!(self, Agenda::Closed(_))
    }

    /// The mean think time, in a closed loop.
    pub fn mean_think(&self) -> Option<Nanos> {
        match self {
            Agenda::Closed(closed) => Some(closed.think.mean),
            Agenda::Sessions(_) => None,
        }
    }
}

/// A closed loop.
pub struct Closed {
    /// When clients come, the next one last.
    starts: Vec<Nanos>,
    think: Think,
    picker: Picker,
    random: Xoshiro256PlusPlus,
}

impl Closed {
    fn next(&mut self, answered: Nanos) -> Due {
        let think = match self.think {
            Think { mean: Nanos::ZERO, .. } => Nanos::ZERO,
            Think { mean, law: ThinkLaw::Constant } => mean,
            // 1 - u lies in (0, 1], so that the logarithm is finite.
            Think { mean, law: ThinkLaw::Exponential } => {
                Nanos((-(1.0 - self.random.random::<f64>()).ln() * mean.0 as f64) as u64)
            }
        };
        Due { at: answered + think, document: self.picker.pick(&mut self.random) }
    }
}

/// Sessions of a trace.
pub struct Sessions<'a> {
    trace: &'a Trace,
    arrivals: Peekable<Box<dyn Iterator<Item = Arrival> + 'a>>,
    think_scale: f64,
    origin: Nanos,
}

impl Sessions<'_> {
    fn requests(&self, session: u32) -> &[Request] {
        self.trace.requests_of(&self.trace.sessions[session as usize])
    }

    fn due(&self, start_ns: i64, request: &Request) -> Due {
        let offset_ns = (request.offset_ns as f64 * self.think_scale) as i64;
        let since_origin = start_ns.saturating_add(offset_ns).max(0) as u64;
        Due { at: self.origin + Nanos(since_origin), document: request.document }
    }
}

/// Picks documents.
struct Picker {
    /// Running sums of the weights; empty when the first document is always picked.
    sums: Vec<u64>,
}

impl Picker {
    fn new(pick: Pick) -> Picker {
        let weights = match pick {
            Pick::First => Vec::new(),
            Pick::Weighted(weights) => weights,
        };
        let mut sum = 0;
        let sums = weights.into_iter().map(|weight| {
            sum += weight;
            sum
        });
        Picker { sums: sums.collect() }
    }

    fn pick(&self, random: &mut Xoshiro256PlusPlus) -> u32 {
        let Some(&total) = self.sums.last() else { return 0 };
        let mark = random.random_range(0..total);
        self.sums.partition_point(|&sum| sum <= mark) as u32
    }
}

#[cfg(test)]
mod tests {
    use sojourn_workload::trace::{Document, Session};

    use super::*;

    fn closed(pick: Pick, think: Think) -> Agenda<'static> {
        Agenda::new(Arrivals::Closed { clients: 3, think, pick }, Nanos(100), Nanos(50), 7)
    }

    #[test]
    fn clients_of_a_closed_loop_come_within_the_ramp_in_order() {
        let think = Think { mean: Nanos(10), law: ThinkLaw::Constant };
        let mut agenda = closed(Pick::First, think);
        let mut before = Nanos(100);
        for _ in 0..3 {
            let start = agenda.next_start().unwrap();
            assert!(before <= start && start < Nanos(150));
            let mut itinerary = agenda.start().unwrap();
            assert_eq!(agenda.first(&mut itinerary), Some(Due { at: start, document: 0 }));
            assert_eq!(agenda.next(&mut itinerary, Nanos(1000)), Some(Due { at: Nanos(1010), document: 0 }));
            before = start;
        }
        assert_eq!(agenda.next_start(), None);
    }

    #[test]
    fn weights_and_think_times_hold_on_average() {
        let think = Think { mean: Nanos(1_000_000), law: ThinkLaw::Exponential };
        let mut agenda = closed(Pick::Weighted(vec![350, 500, 140, 9, 1]), think);
        let mut itinerary = agenda.start().unwrap();
        let (mut counts, mut sum) = ([0_u32; 5], 0.0);
        for _ in 0..100_000 {
            let due = agenda.next(&mut itinerary, Nanos::ZERO).unwrap();
            counts[due.document as usize] += 1;
            sum += due.at.0 as f64;
        }
        assert!((sum / 100_000.0 / 1e6 - 1.0).abs() < 0.02, "{sum}");
        // Chi-square with four degrees of freedom: 18.5 is exceeded once in a thousand seeds.
        let expected = [35_000.0, 50_000.0, 14_000.0, 900.0, 100.0];
        let distance = |(&count, expected): (&u32, f64)| (f64::from(count) - expected).powi(2) / expected;
        let chi_square: f64 = counts.iter().zip(expected).map(distance).sum();
        assert!(chi_square < 18.5, "{chi_square}: {counts:?}");
    }

    #[test]
    fn sessions_keep_their_offsets_times_the_think_scale() {
        let trace = Trace {
            documents: vec![Document { name: "/".into(), size_bytes: 1 }],
            sessions: vec![Session { start_ns: 0, first: 0, count: 3 }],
            requests: [0, 40, 100].map(|offset_ns| Request { offset_ns, document: 0 }).to_vec(),
            ..Trace::default()
        };
        let arrival = Arrival { connect_ns: 10, start_ns: -20, session: 0, first_request: 1 };
        let arrivals = Box::new([arrival].into_iter());
        let plan = Arrivals::Sessions { trace: &trace, arrivals, think_scale: 0.5 };
        let mut agenda = Agenda::new(plan, Nanos(1000), Nanos::ZERO, 0);
        assert_eq!(agenda.next_start(), Some(Nanos(1010)));
        let mut itinerary = agenda.start().unwrap();
        assert_eq!(agenda.first(&mut itinerary).unwrap().at, Nanos(1000));
        assert_eq!(agenda.rest(&itinerary), [Nanos(1030)]);
        assert_eq!(agenda.next(&mut itinerary, Nanos(5000)).unwrap().at, Nanos(1030));
        assert_eq!(agenda.next(&mut itinerary, Nanos(5000)), None);
    }
}
