//! The result of a finished run: estimates per route, class and station, and the run's checks of itself.

use super::run::Run;
use crate::named::Named;
use crate::simulator::estimate::Estimate;
use crate::simulator::percentile::response_time;
use crate::simulator::result::{ClassResult, Loss, RouteResult, StationResult, Stop, SystemResult};
use crate::system::{Class, Route, Source};

/// More open jobs than this, and than this share of all that came, are inside at the end only if they pile up.
const GROWING_MIN: u64 = 1_000;
const GROWING_SHARE: f64 = 0.02;

impl Run<'_> {
    pub(super) fn result(&self, stop: Stop) -> SystemResult {
        let cut = stop != Stop::TraceEnd;
        let estimate = self.estimate(0, cut);
        let present: f64 = self.inside().map(|station| self.stations[station].present_time(self.now)).sum();
        // Jobs still inside are counted in `present` but not in the sum of response times.
        let accounted = self.response_sum + self.lost_time + self.unfinished_time();
        let stations: Vec<(String, StationResult)> =
            (0..self.tallies.len()).map(|k| self.station(k)).collect();
        let stations = Named(stations);
        let response_time_seconds = response_time(&self.recorders[0], &estimate, 0.0);
        let reached = response_time_seconds
            .relative_half_width(self.plan.target)
            .is_some_and(|width| width <= self.plan.relative_half_width);
        SystemResult {
            complete: stop != Stop::Interrupted,
            converged: estimate.is_settled() && reached && !self.is_growing(),
            stop,
            seed: self.plan.seed,
            replications: 1,
            jobs: self.finished,
            warm_up_jobs: estimate.warm_up_batches as u64 * self.recorders[0].batch_jobs(),
            simulated_seconds: self.now,
            response_time_seconds,
            throughput_per_second: self.per_second(self.finished),
            loss: self.loss(0, self.finished),
            lag_one: estimate.lag_one,
            little_relative_error: if present > 0.0 { (present - accounted) / present } else { 0.0 },
            classes: Named((0..self.system.classes.len()).map(|class| self.class(class, cut)).collect()),
            bottleneck: SystemResult::busiest(&stations),
            stations,
        }
    }

    /// Returns true if open jobs pile up. Whether a station can keep up with what others block or send back is not
    /// known beforehand.
    fn is_growing(&self) -> bool {
        let users: u64 = self
            .system
            .classes
            .iter()
            .map(|class| match class.source {
                Source::Closed { users, .. } => u64::from(users),
                Source::Open { .. } => 0,
            })
            .sum();
        let inside = ((self.jobs.len() - self.free.len()) as u64).saturating_sub(users);
        inside > GROWING_MIN && inside as f64 > GROWING_SHARE * (self.finished + inside) as f64
    }

    fn estimate(&self, recorder: usize, cut: bool) -> Estimate {
        let recorder = &self.recorders[recorder];
        if cut { Estimate::of(recorder, None) } else { Estimate::whole(recorder) }
    }

    /// The indices of stations where jobs are under way: all but those of thinkers.
    fn inside(&self) -> impl Iterator<Item = usize> {
        let thinkers = self.tallies.len()..self.tallies.len() + self.system.classes.len();
        (0..self.stations.len()).filter(move |station| !thinkers.contains(station))
    }

    /// Of all classes or of one, of which so many jobs finished.
    fn loss(&self, recorder: usize, finished: u64) -> Loss {
        let none = Loss {
            jobs: 0,
            offered_per_second: self.per_second(finished),
            probability: 0.0,
            probability_half_width: None,
        };
        let Some(losses) = self.losses.get(recorder).filter(|losses| losses.jobs() > 0) else { return none };
        let (offered, estimate) = (losses.jobs(), Estimate::whole(losses));
        Loss {
            jobs: offered.saturating_sub(finished),
            offered_per_second: self.per_second(offered),
            probability: estimate.mean,
            // A run without a loss says how rare losses are by its length alone.
            probability_half_width: estimate.half_width.filter(|_| offered > finished),
        }
    }

    fn per_second(&self, count: u64) -> f64 {
        if self.now > 0.0 { count as f64 / self.now } else { 0.0 }
    }

    /// The time so far of the jobs that are still at a station.
    fn unfinished_time(&self) -> f64 {
        let mut idle = vec![false; self.jobs.len()];
        self.free.iter().for_each(|&index| idle[index as usize] = true);
        for class in 0..self.system.classes.len() {
            self.stations[self.tallies.len() + class].jobs().for_each(|index| idle[index as usize] = true);
        }
        let active = self.jobs.iter().zip(&idle).filter(|(_, idle)| !**idle);
        active.map(|(job, _)| self.now - job.started).sum()
    }

    fn class(&self, index: usize, cut: bool) -> (String, ClassResult) {
        let model = &self.system.classes[index];
        let own = if self.system.classes.len() > 1 { 1 + index } else { 0 };
        let of = |recorder: usize| {
            let estimate = self.estimate(recorder, cut);
            response_time(&self.recorders[recorder], &estimate, 0.0)
        };
        let route = |(number, route): (usize, &Route)| {
            let recorder = if model.routes.len() > 1 { self.first_route[index] + number } else { own };
            let jobs = self.recorders[recorder].jobs();
            (route.name.clone(), RouteResult { jobs, response_time_seconds: of(recorder) })
        };
        let jobs = self.recorders[own].jobs();
        let result = ClassResult {
            jobs,
            throughput_per_second: self.per_second(jobs),
            loss: self.loss(1 + index, jobs),
            response_time_seconds: of(own),
            routes: Named(model.routes.iter().enumerate().map(route).collect()),
        };
        (model.name.clone(), result)
    }

    fn station(&self, index: usize) -> (String, StationResult) {
        let (model, station, tally) =
            (&self.system.stations[index], &self.stations[index], &self.tallies[index]);
        let capacity = model.service().capacity();
        let limited = model.is_limited() && self.now > 0.0;
        let visits = tally.visits.max(1) as f64;
        let result = StationResult {
            utilisation: limited.then(|| station.busy_time(self.now) / self.now / capacity),
            utilisation_expected: limited.then(|| self.expected_work(index) / capacity),
            throughput_per_second: self.per_second(tally.visits),
            queue_mean: if self.now > 0.0 { station.present_time(self.now) / self.now } else { 0.0 },
            residence_time_seconds: tally.residence / visits,
            full_probability: model
                .capacity
                .as_ref()
                .map(|_| tally.found_full as f64 / tally.attempts.max(1) as f64),
            demand_seconds: tally.demand / (tally.visits + station.present() as u64).max(1) as f64,
        };
        (model.name.clone(), result)
    }

    /// Σ throughput × mean demand over the classes: the utilisation law.
    fn expected_work(&self, station: usize) -> f64 {
        let work = |(index, class): (usize, &Class)| {
            let own = if self.system.classes.len() > 1 { 1 + index } else { 0 };
            let demand = class.demands(self.system.stations.len())[station];
            self.per_second(self.recorders[own].jobs()) * demand
        };
        self.system.classes.iter().enumerate().map(work).sum()
    }
}
