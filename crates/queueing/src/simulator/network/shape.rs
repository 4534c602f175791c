//! What all runs of a system share: the layout of its recorders, and the expected moments of its demands.

use crate::system::{Class, Route, StationModel, System, Visit};

/// What does not change during a run.
pub(super) struct Shape {
    pub(super) classes: usize,
    /// `0` is of all jobs; then one per class; then one per route.
    pub(super) recorders: usize,
    /// First route recorder of each class.
    pub(super) first_route: Vec<usize>,
    /// The recorder of losses (1 for a lost job, 0 for a finished one): over all, then per class; `None` if no job can
    /// be lost.
    pub(super) first_loss: Option<usize>,
    /// The expected moment of the demand of every visit, by class, route and step.
    pub(super) moments: Vec<Vec<Vec<f64>>>,
    pub(super) orders: Vec<MomentOrder>,
}

/// The moment of the demand that the mean response time at a station depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MomentOrder {
    None,
    /// Jobs share the server at once: the mean demand, whatever its distribution.
    First,
    /// Jobs wait for each other to end: the mean square.
    Second,
}

impl Shape {
    pub(super) fn of(system: &System) -> Self {
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
            _ if !model.is_limited() => MomentOrder::None,
            usize::MAX => MomentOrder::First,
            _ => MomentOrder::Second,
        };
        let orders: Vec<MomentOrder> = system.stations.iter().map(order).collect();
        let moment = |class: &Class, visit: &Visit| {
            let (first, second) = visit.demand.moments(class.document.as_ref());
            match orders[visit.station] {
                MomentOrder::None => 0.0,
                MomentOrder::First => first,
                MomentOrder::Second => second,
            }
        };
        let moments = system.classes.iter().map(|class| {
            let of_route = |route: &Route| route.visits.iter().map(|visit| moment(class, visit)).collect();
            class.routes.iter().map(of_route).collect()
        });
        let classes = system.classes.len();
        Self { classes, recorders, first_route, first_loss, moments: moments.collect(), orders }
    }

    /// The recorder of all jobs (place 0) or of a class (1 + its index); a single class has that of all jobs.
    pub(super) fn own_recorder(&self, place: usize) -> usize {
        if self.classes > 1 { place } else { 0 }
    }
}
