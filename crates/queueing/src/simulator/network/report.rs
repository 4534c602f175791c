//! Builds the result of finished runs: estimates per route, class and station, and the runs' consistency checks.

use super::run::Inside;
use super::shape::Shape;
use crate::named::Named;
use crate::simulator::estimate::{Estimates, Sample};
use crate::simulator::replications::Replications;
use crate::simulator::result::{ClassResult, Loss, RouteResult, StationResult, Stop, SystemResult, Target};
use crate::simulator::timeline::{StationFigure, StationSample, Totals};
use crate::simulator::unreliable::Unreliable;
use crate::simulator::warm_up::JobsMin;
use crate::simulator::{Plan, convergence};
use crate::system::{Class, Route, Source, System};

pub(super) struct Report<'a> {
    pub(super) system: &'a System,
    pub(super) plan: &'a Plan,
    pub(super) shape: &'a Shape<'a>,
    /// Unset with a trace: nothing is cut as warm-up, and the documents follow no distribution.
    pub(super) cut: bool,
    /// The least numbers of jobs of a replication, so that it reaches steady state.
    pub(super) jobs_min: JobsMin,
}

impl Report<'_> {
    /// The estimates over all classes, with the sample that they come from.
    pub(super) fn estimates<R: Inside>(&self, replications: &Replications<R>) -> (Sample, Estimates) {
        let sample = Sample::of(&replications.recorders(0), self.cut);
        let unreliable = self.unreliable(replications, &sample);
        let estimates = sample.estimates(0.0, None, unreliable);
        (sample, estimates)
    }

    /// Why no figure of the run has a reliable interval.
    fn unreliable<R: Inside>(&self, replications: &Replications<R>, sample: &Sample) -> Option<Unreliable> {
        if !self.cut {
            return None;
        }
        if replications.runs().any(|run| !self.is_long_enough(run)) {
            return Some(Unreliable::WarmUp);
        }
        if replications.runs().any(R::is_growing) {
            return Some(Unreliable::Drifting);
        }
        let stations = self.system.stations.iter().enumerate();
        let checked: Vec<usize> =
            stations.filter(|(_, model)| !model.is_delay()).map(|each| each.0).collect();
        let tail = checked
            .iter()
            .all(|station| self.sample(replications, sample, *station).has_its_tail(checked.len()));
        (!tail).then_some(Unreliable::Tail)
    }

    fn is_long_enough<R: Inside>(&self, run: &R) -> bool {
        let (mut open, mut closed) = (0, 0);
        for (index, class) in self.system.classes.iter().enumerate() {
            let finished = run.count(self.shape.own_recorder(1 + index));
            match class.source {
                Source::Open { .. } => open += finished,
                Source::Closed { .. } => closed += finished,
            }
        }
        open >= self.jobs_min.open && closed >= self.jobs_min.closed
    }

    fn sample<R: Inside>(
        &self,
        replications: &Replications<R>,
        sample: &Sample,
        station: usize,
    ) -> StationSample {
        StationSample::of(&replications.timelines(), sample.grouping, station, replications.total(station))
    }

    pub(super) fn result<R: Inside>(&self, replications: &Replications<R>, stop: Stop) -> SystemResult {
        let (sample, estimates) = self.estimates(replications);
        let unreliable = self.unreliable(replications, &sample);
        let present: f64 = replications.runs().map(R::present_time).sum();
        let accounted: f64 = replications.runs().map(R::accounted_time).sum();
        let seconds: f64 = replications.runs().map(R::now).sum();
        let counts: Vec<u64> = (0..self.shape.recorders)
            .map(|recorder| replications.runs().map(|run| run.count(recorder)).sum())
            .collect();
        let of_length = estimates.unreliable_for_length();
        let overall = Overall {
            counts: &counts,
            flows: (0..=self.system.classes.len())
                .map(|place| self.flow(replications, &sample, place, of_length))
                .collect(),
            started: seconds > 0.0,
            unreliable,
        };
        let jobs = counts[0];
        let figures = convergence::figures(self.plan, &estimates, jobs);
        let station = |index: usize| {
            let found = self.sample(replications, &sample, index);
            (self.system.stations[index].name.clone(), self.station(index, &found, of_length, &overall))
        };
        let stations = Named((0..self.system.stations.len()).map(station).collect());
        let class = |index: usize| self.class(replications, index, &overall);
        SystemResult {
            complete: stop != Stop::Interrupted,
            converged: convergence::converged(&figures),
            figures,
            stop,
            seed: self.plan.seed,
            replications: self.plan.replications,
            jobs,
            warm_up_jobs: estimates.warm_up_jobs,
            simulated_seconds: seconds,
            response_time_seconds: estimates.response_time(),
            throughput_per_second: overall.flows[0].finished.value,
            throughput_half_width_per_second: overall.flows[0].finished.half_width,
            loss: self.loss(replications, 0, &overall),
            lag_one: estimates.lag_one,
            little_relative_error: if present > 0.0 { (present - accounted) / present } else { 0.0 },
            classes: Named((0..self.system.classes.len()).map(class).collect()),
            bottleneck: SystemResult::busiest(&stations),
            stations,
        }
    }

    /// Jobs per second after the warm-up: of all (place 0), or of a class (1 + its index).
    fn flow<R: Inside>(
        &self,
        replications: &Replications<R>,
        sample: &Sample,
        place: usize,
        unreliable: Option<Unreliable>,
    ) -> JobFlow {
        let found = self.sample(replications, sample, self.system.stations.len() + place);
        let per_second = |of: fn(&Totals) -> f64| found.figure(of, |totals| totals.seconds, unreliable);
        JobFlow {
            finished: per_second(|totals| totals.visits),
            offered: per_second(|totals| totals.attempts),
        }
    }

    fn class<R: Inside>(
        &self,
        replications: &Replications<R>,
        index: usize,
        overall: &Overall<'_>,
    ) -> (String, ClassResult) {
        let model = &self.system.classes[index];
        let own = self.shape.own_recorder(1 + index);
        let of = |recorder: usize| {
            Sample::of(&replications.recorders(recorder), self.cut)
                .estimates(0.0, None, overall.unreliable)
                .response_time()
        };
        let route = |(number, route): (usize, &Route)| {
            let recorder = if model.routes.len() > 1 { self.shape.first_route[index] + number } else { own };
            let result = RouteResult { jobs: overall.counts[recorder], response_time_seconds: of(recorder) };
            (route.name.clone(), result)
        };
        let finished = overall.flows[1 + index].finished;
        let result = ClassResult {
            jobs: overall.counts[own],
            throughput_per_second: finished.value,
            throughput_half_width_per_second: finished.half_width,
            loss: self.loss(replications, 1 + index, overall),
            response_time_seconds: of(own),
            routes: Named(model.routes.iter().enumerate().map(route).collect()),
        };
        (model.name.clone(), result)
    }

    fn loss<R: Inside>(&self, replications: &Replications<R>, place: usize, overall: &Overall<'_>) -> Loss {
        let finished = overall.counts[self.shape.own_recorder(place)];
        let offered_per_second = overall.flows[place].offered.value;
        let recorder = self.shape.first_loss.map(|first| first + place);
        let Some(recorder) = recorder.filter(|recorder| overall.counts[*recorder] > 0) else {
            return Loss { jobs: 0, offered_per_second, probability: 0.0, probability_half_width: None };
        };
        let offered = overall.counts[recorder];
        let estimates =
            Sample::of(&replications.recorders(recorder), self.cut).estimates(0.0, None, overall.unreliable);
        let probability = estimates.figure(Target::Mean);
        Loss {
            jobs: offered.saturating_sub(finished),
            offered_per_second,
            probability: probability.value,
            // With no loss at all, only the length of the run bounds the probability of one.
            probability_half_width: probability.half_width.ok().filter(|_| offered > finished),
        }
    }

    fn station(
        &self,
        index: usize,
        found: &StationSample,
        unreliable: Option<Unreliable>,
        overall: &Overall<'_>,
    ) -> StationResult {
        let model = &self.system.stations[index];
        let capacity = model.service().peak();
        let limited = !model.is_delay() && overall.started;
        let per_second = |of: fn(&Totals) -> f64| found.figure(of, |totals| totals.seconds, unreliable);
        let utilisation = limited.then(|| per_second(|totals| totals.busy).times(1.0 / capacity));
        let throughput = per_second(|totals| totals.visits);
        let queue = per_second(|totals| totals.present);
        let residence = found.figure(|totals| totals.residence, |totals| totals.visits, unreliable);
        let full = model
            .capacity
            .as_ref()
            .map(|_| found.figure(|totals| totals.found_full, |totals| totals.attempts, unreliable));
        StationResult {
            utilisation: utilisation.map(|figure| figure.value),
            utilisation_half_width: utilisation.and_then(|figure| figure.half_width),
            utilisation_expected: limited.then(|| self.expected_work(index, overall) / capacity),
            throughput_per_second: throughput.value,
            throughput_half_width_per_second: throughput.half_width,
            queue_mean: queue.value,
            queue_mean_half_width: queue.half_width,
            residence_time_seconds: residence.value,
            residence_time_half_width_seconds: residence.half_width,
            full_probability: full.map(|figure| figure.value),
            full_probability_half_width: full.and_then(|figure| figure.half_width),
            demand_seconds: found.total.demand / found.total.begun.max(1.0),
        }
    }

    /// Σ throughput × mean demand over the classes: the utilisation law.
    fn expected_work(&self, station: usize, overall: &Overall<'_>) -> f64 {
        let work = |(index, class): (usize, &Class)| {
            let demand = class.demands(self.system.stations.len())[station];
            overall.flows[1 + index].finished.value * demand
        };
        self.system.classes.iter().enumerate().map(work).sum()
    }
}

/// Jobs per second of a class, or of all.
struct JobFlow {
    finished: StationFigure,
    offered: StationFigure,
}

/// The totals of all runs together.
struct Overall<'c> {
    /// Recorded jobs, by recorder.
    counts: &'c [u64],
    /// Of all jobs, then of each class.
    flows: Vec<JobFlow>,
    /// False before any time has passed.
    started: bool,
    /// Why no figure of the run has a reliable interval.
    unreliable: Option<Unreliable>,
}
