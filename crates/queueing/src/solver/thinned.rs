//! Open networks in which full stations refuse jobs: solves every station on its own, with its arrivals thinned by
//! losses elsewhere.
//!
//! A station's arrivals are the Poisson arrivals of its classes, thinned by the losses at the stations before it on each
//! route. That is exact for the first such station of a route (an accepted stream is no longer Poisson, but taken as
//! such behind it). Losses and arrivals depend on each other where a route comes back, so both are iterated.

use super::approximation::{Stations, of_open};
use super::dispersion::{stretched, waiting_factors};
use super::flow::{ClassFlow, Flow, Population, words};
use super::{Answer, ClassAnswer, ClassLoss, PredictedTime, StationAnswer};
use crate::named::Named;
use crate::system::{Class, Route};

const ITERATIONS_MAX: usize = 10_000;
const TOLERANCE: f64 = 1e-13;

/// The outcome of a visit to a station: lost with this probability, else `wait` + `slope`·demand seconds on average.
#[derive(Clone, Copy, Default)]
pub(super) struct StationMeans {
    pub(super) loss: f64,
    pub(super) wait: f64,
    pub(super) slope: f64,
}

/// Computes the means of a station under the arrivals of a flow.
pub(super) type MeansOf = fn(&Flow<'_>, usize) -> Result<StationMeans, String>;

/// A flow reduced by losses, with the losses by station.
pub(super) struct Thinned<'s> {
    pub(super) flow: Flow<'s>,
    pub(super) losses: Vec<f64>,
}

/// Solves an open system with `means_of` for each station.
pub(super) fn solve(flow: &Flow<'_>, means_of: MeansOf, stations: Stations) -> Result<Answer, String> {
    let thinned = thin(flow, means_of)?;
    let factors = waiting_factors(&thinned.flow, &thinned.losses);
    let means_at = |(station, &factor): (usize, &f64)| -> Result<StationMeans, String> {
        let found = means_of(&thinned.flow, station)?;
        let (wait, slope) = stretched((found.wait, found.slope), factor);
        Ok(StationMeans { loss: found.loss, wait, slope })
    };
    let means: Vec<StationMeans> = factors.iter().enumerate().map(means_at).collect::<Result<_, _>>()?;
    let class = |(index, model): (usize, &Class)| (model.name.clone(), thinned.class(index, model, &means));
    let station =
        |index: usize| (flow.system.stations[index].name.clone(), thinned.station(index, &means[index]));
    Ok(Answer {
        means: words(&of_open(&thinned.flow, stations, &factors)),
        percentiles: "not asked for".to_owned(),
        percentiles_relative_error: None,
        classes: Named(flow.system.classes.iter().enumerate().map(class).collect()),
        stations: Named((0..flow.stations()).map(station).collect()),
    })
}

/// Iterates the losses at every station and the arrivals that remain.
pub(super) fn thin<'s>(flow: &Flow<'s>, means_of: MeansOf) -> Result<Thinned<'s>, String> {
    let finite: Vec<usize> =
        (0..flow.stations()).filter(|station| flow.system.stations[*station].capacity.is_some()).collect();
    let mut thinned = Thinned::new(flow, vec![0.0; flow.stations()]);
    for iteration in 0..ITERATIONS_MAX {
        let (mut losses, mut change) = (thinned.losses.clone(), 0.0_f64);
        for &station in &finite {
            let found = means_of(&thinned.flow, station)?.loss;
            change = change.max((found - losses[station]).abs());
            // Without loops this converges in as many rounds as there are stations; with loops the steps are halved.
            let step = if iteration <= finite.len() { 1.0 } else { 0.5 };
            losses[station] += step * (found - losses[station]);
        }
        thinned = Thinned::new(flow, losses);
        if change < TOLERANCE {
            return thinned.stable();
        }
    }
    Err("the losses do not settle: simulate".to_owned())
}

impl<'s> Thinned<'s> {
    fn new(flow: &Flow<'s>, losses: Vec<f64>) -> Self {
        let class = |(own, model): (&ClassFlow, &Class)| {
            let stations = flow.stations();
            let mut left = ClassFlow {
                source: own.source,
                latency: own.latency,
                visits: vec![0.0; stations],
                demands: vec![0.0; stations],
                second_moments: vec![0.0; stations],
            };
            for route in &model.routes {
                let mut reached = route.probability;
                for visit in &route.visits {
                    let (mean, second) = visit.demand.moments(model.document.as_ref());
                    left.visits[visit.station] += reached;
                    left.demands[visit.station] += reached * mean;
                    left.second_moments[visit.station] += reached * second;
                    reached *= 1.0 - losses[visit.station];
                }
            }
            left
        };
        let classes = flow.classes.iter().zip(&flow.system.classes).map(class).collect();
        Self { flow: Flow { system: flow.system, classes }, losses }
    }

    /// Refuses a flow that still overloads a station that never refuses jobs.
    fn stable(self) -> Result<Self, String> {
        let work = self.flow.classes.iter().filter_map(|class| match class.source {
            Population::Open { rate } => Some((rate, &class.demands)),
            Population::Closed { .. } => None,
        });
        let mut total = vec![0.0; self.flow.stations()];
        for (rate, demands) in work {
            total.iter_mut().zip(demands).for_each(|(sum, demand)| *sum += rate * demand);
        }
        for (model, work) in self.flow.system.stations.iter().zip(total) {
            let utilisation = work / model.service().saturation();
            if !model.is_delay() && model.capacity.is_none() && utilisation >= 1.0 {
                let place = model.place();
                return Err(format!(
                    "{place} is unstable: its utilisation would be {utilisation:.4}; simulate"
                ));
            }
        }
        Ok(self)
    }

    /// The class with its routes as probable as they are among the jobs that finish.
    pub(super) fn finishing(&self, class: &Class) -> Class {
        let mut found = class.clone();
        let finished: f64 = class.routes.iter().map(|route| route.probability * self.finished(route)).sum();
        if finished > 0.0 {
            for route in &mut found.routes {
                route.probability *= self.finished(route) / finished;
            }
        }
        found
    }

    /// The probability that a job of this route finishes.
    fn finished(&self, route: &Route) -> f64 {
        route.visits.iter().map(|visit| 1.0 - self.losses[visit.station]).product()
    }

    fn class(&self, index: usize, model: &Class, means: &[StationMeans]) -> ClassAnswer {
        let rate = match self.flow.classes[index].source {
            Population::Open { rate } => rate,
            Population::Closed { .. } => 0.0,
        };
        let (mut finished, mut time) = (0.0, 0.0);
        for route in &model.routes {
            let share = route.probability * self.finished(route);
            let visits = route.visits.iter().map(|visit| {
                let StationMeans { wait, slope, .. } = means[visit.station];
                wait + slope * visit.demand.mean(model.document.as_ref())
            });
            finished += share;
            time += share * visits.sum::<f64>();
        }
        let mean = if finished > 0.0 { time / finished } else { 0.0 } + model.latency;
        ClassAnswer {
            throughput_per_second: rate * finished,
            loss: ClassLoss { offered_per_second: rate, probability: (1.0 - finished).max(0.0) },
            response_time_seconds: PredictedTime::of_mean(mean),
        }
    }

    fn station(&self, index: usize, means: &StationMeans) -> StationAnswer {
        let flow = &self.flow;
        let (rate, demand, _) = flow.arrivals(index, &flow.nominal_mix());
        let accepted = 1.0 - means.loss;
        let residence_time_seconds = if rate > 0.0 { means.wait + means.slope * demand } else { 0.0 };
        let model = &flow.system.stations[index];
        StationAnswer {
            utilisation: (!model.is_delay()).then(|| rate * accepted * demand / model.service().peak()),
            queue_mean: rate * accepted * residence_time_seconds,
            residence_time_seconds,
            full_probability: model.capacity.as_ref().map(|_| means.loss),
        }
    }
}
