//! What all runs of a system share: the layout of its recorders, and its routes as a table of steps.

use crate::distribution::{Distribution, RandomVariable};
use crate::random::Random;
use crate::system::{Class, Demand, Source, StationModel, System, Visit};

/// What does not change during a run.
pub(super) struct Shape<'a> {
    pub(super) classes: usize,
    /// `0` is of all jobs; then one per class; then one per route.
    pub(super) recorders: usize,
    /// First route recorder of each class.
    pub(super) first_route: Vec<usize>,
    /// The recorder of losses (1 for a lost job, 0 for a finished one): over all, then per class; `None` if no job can
    /// be lost.
    pub(super) first_loss: Option<usize>,
    /// The visits of all routes, those of a route in a row.
    pub(super) steps: Vec<Step<'a>>,
    /// The first step of each route, by class.
    pub(super) first_step: Vec<Vec<u32>>,
    /// The think times of each class; nothing for an open one.
    pub(super) thinking: Vec<StepDemand<'a>>,
    /// True for a closed class whose users pause between requests, for the latency if for nothing else.
    pub(super) thinks: Vec<bool>,
    /// True for a station whose served jobs may keep a place there or stay themselves.
    pub(super) keeps: Vec<bool>,
}

/// A visit, with what its route and its station say of it. The event loop looks up one of these per visit.
pub(super) struct Step<'a> {
    pub(super) station: usize,
    pub(super) demand: StepDemand<'a>,
    /// The weights of the demand and of its square in what is compared with its expectation.
    pub(super) weights: [f64; 2],
    pub(super) expected: f64,
    /// The earlier stations at which the job holds its place.
    pub(super) holds: &'a [usize],
    /// Those whose places the job gives up after this visit.
    pub(super) releases: Box<[usize]>,
    /// True if the job waits ahead of those without priority.
    pub(super) priority: bool,
    /// True if the station has a capacity.
    pub(super) is_bounded: bool,
    pub(super) is_last: bool,
}

/// [`Demand`], with constants and single pieces apart: they need no call.
pub(super) enum StepDemand<'a> {
    Linear { fixed: f64, per_byte: f64 },
    Pieces(&'a Demand),
    Independent(&'a Distribution),
}

impl<'a> StepDemand<'a> {
    fn of(demand: &'a Demand) -> Self {
        match demand {
            Demand::Independent(distribution) => Self::independent(distribution),
            Demand::BySize(pieces) => match pieces[..] {
                [piece] => Self::Linear { fixed: piece.fixed, per_byte: piece.per_byte },
                _ => Self::Pieces(demand),
            },
        }
    }

    fn independent(distribution: &'a Distribution) -> Self {
        match distribution {
            Distribution::Deterministic(value) => Self::Linear { fixed: value.mean(), per_byte: 0.0 },
            distribution => Self::Independent(distribution),
        }
    }

    /// Seconds for a document of `size` bytes.
    #[inline]
    pub(super) fn sample(&self, size: f64, random: &mut Random) -> f64 {
        match self {
            Self::Linear { fixed, per_byte } => fixed + per_byte * size,
            Self::Pieces(demand) => demand.of_size(size).unwrap_or(0.0),
            Self::Independent(distribution) => distribution.sample(random),
        }
    }
}

/// The moment of the demand that the mean response time at a station depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MomentOrder {
    None,
    /// Jobs share the server at once: the mean demand, whatever its distribution.
    First,
    /// Jobs wait for each other to end: the mean square.
    Second,
}

impl MomentOrder {
    /// Of the demand and of its square.
    fn weights(self) -> [f64; 2] {
        match self {
            Self::None => [0.0, 0.0],
            Self::First => [1.0, 0.0],
            Self::Second => [0.0, 1.0],
        }
    }
}

impl<'a> Shape<'a> {
    pub(super) fn of(system: &'a System) -> Self {
        let mut first_route = Vec::with_capacity(system.classes.len());
        let mut recorders = 1 + system.classes.len();
        for class in &system.classes {
            first_route.push(recorders);
            recorders += class.routes.len();
        }
        let first_loss = system.is_lossy().then_some(recorders);
        if first_loss.is_some() {
            recorders += 1 + system.classes.len();
        }
        let order = |model: &StationModel| match model.service().limit {
            _ if model.is_delay() => MomentOrder::None,
            usize::MAX => MomentOrder::First,
            _ => MomentOrder::Second,
        };
        let orders: Vec<MomentOrder> = system.stations.iter().map(order).collect();
        let expected = |class: &Class, visit: &Visit| {
            let (first, second) = visit.demand.moments(class.document.as_ref());
            match orders[visit.station] {
                MomentOrder::None => 0.0,
                MomentOrder::First => first,
                MomentOrder::Second => second,
            }
        };
        let (mut steps, mut first_step) = (Vec::new(), Vec::with_capacity(system.classes.len()));
        let mut keeps = vec![false; system.stations.len()];
        for class in &system.classes {
            let mut firsts = Vec::with_capacity(class.routes.len());
            for route in &class.routes {
                firsts.push(steps.len() as u32);
                for (index, visit) in route.visits.iter().enumerate() {
                    let next = route.visits.get(index + 1);
                    let is_held_then = |held: &usize| next.is_some_and(|next| next.holds.contains(held));
                    keeps[visit.station] |= is_held_then(&visit.station)
                        || next.is_some_and(|next| system.stations[next.station].blocks());
                    steps.push(Step {
                        station: visit.station,
                        demand: StepDemand::of(&visit.demand),
                        weights: orders[visit.station].weights(),
                        expected: expected(class, visit),
                        holds: &visit.holds,
                        releases: visit.holds.iter().copied().filter(|held| !is_held_then(held)).collect(),
                        priority: visit.priority,
                        is_bounded: system.stations[visit.station].capacity.is_some(),
                        is_last: next.is_none(),
                    });
                }
            }
            first_step.push(firsts);
        }
        let thinking = system.classes.iter().map(|class| match &class.source {
            Source::Open { .. } => StepDemand::Linear { fixed: 0.0, per_byte: 0.0 },
            Source::Closed { think_time, .. } => StepDemand::independent(think_time),
        });
        let thinks = system.classes.iter().map(|class| match &class.source {
            Source::Open { .. } => false,
            Source::Closed { think_time, .. } => think_time.mean() + class.latency > 0.0,
        });
        Self {
            classes: system.classes.len(),
            recorders,
            first_route,
            first_loss,
            steps,
            first_step,
            thinking: thinking.collect(),
            thinks: thinks.collect(),
            keeps,
        }
    }

    /// The recorder of all jobs (place 0) or of a class (1 + its index); a single class has that of all jobs.
    pub(super) fn own_recorder(&self, place: usize) -> usize {
        if self.classes > 1 { place } else { 0 }
    }
}
