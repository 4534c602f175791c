//! One open station under Poisson arrivals: the fast simulator that checks the closed forms.
//!
//! With one server the work that an arrival finds has a known mean, whatever the discipline. As a control variate it
//! removes most of the variance from the estimate of the mean response time.

use super::estimate::{Estimates, Sample};
use super::replications::{Observed, Records, Replica, Replications};
use super::result::{StationRun, Stop};
use super::sequential::run_until_stop;
use super::timeline::{StationFigure, StationSample, Totals};
use super::trace::validate_service;
use super::unreliable::Unreliable;
use super::{Plan, Progress, SimulationError, convergence, refuse_overload, warm_up};
use crate::distribution::{Distribution, RandomVariable};
use crate::random::Random;
use crate::station::{Service, Station};

/// An M/G/· station with any discipline and speed.
#[derive(Debug, Clone, PartialEq)]
pub struct PoissonStation {
    pub arrival_rate: f64,
    pub demand: Distribution,
    pub service: Service,
    /// Seconds added to every response.
    pub delta: f64,
}

/// Simulates until every figure of the plan has converged or `should_continue` returns false; `should_continue` runs on the caller's
/// thread.
///
/// # Errors
/// [`SimulationError`] when the station is unstable or a parameter is out of its domain.
pub fn simulate_poisson(
    model: &PoissonStation,
    plan: &Plan,
    should_continue: &mut dyn FnMut(&Progress) -> bool,
) -> Result<StationRun, SimulationError> {
    plan.validate()?;
    model.validate()?;
    let mut replications = Replications::new(plan, 1, |seed| Run::new(model, seed));
    let estimates = |replications: &Replications<Run<'_>>| model.estimates(replications).1;
    let stop = run_until_stop(&mut replications, plan, model.jobs_min(), false, &estimates, should_continue);
    Ok(model.result(&replications, plan, stop))
}

impl PoissonStation {
    /// λ `E[S]` / capacity: a fraction of c servers, or of the peak of v(n).
    pub fn utilisation(&self) -> f64 {
        self.work() / self.service.peak()
    }

    /// λ `E[S]`, seconds of work per second.
    fn work(&self) -> f64 {
        self.arrival_rate * self.demand.mean()
    }

    fn validate(&self) -> Result<(), SimulationError> {
        validate_service(&self.service)?;
        if !(self.arrival_rate.is_finite() && self.arrival_rate > 0.0) {
            let (name, requirement) = ("arrival_rate", "positive and finite");
            return Err(SimulationError::Parameter { name, requirement, value: self.arrival_rate });
        }
        if !(self.delta.is_finite() && self.delta >= 0.0) {
            let (name, requirement) = ("delta", "non-negative and finite");
            return Err(SimulationError::Parameter { name, requirement, value: self.delta });
        }
        refuse_overload("the station", None, self.work(), self.service.saturation())
    }

    /// The least number of jobs of a replication, so that it reaches steady state.
    fn jobs_min(&self) -> u64 {
        warm_up::jobs_min(self.work() / self.service.saturation(), self.demand.scv())
    }

    /// The exact mean work in the system where it is known: one server at constant speed.
    fn expected_workload(&self) -> Option<f64> {
        let rho = self.utilisation();
        let single = self.service.speed.is_single_server();
        single.then(|| self.arrival_rate * self.demand.second_moment() / (2.0 * (1.0 - rho)))
    }
}

#[derive(Clone, Copy)]
struct Job {
    arrived: f64,
    workload_found: f64,
}

struct Run<'a> {
    model: &'a PoissonStation,
    station: Station<Job>,
    arrivals: Random,
    demands: Random,
    next_arrival: f64,
    now: f64,
    workload: f64,
    workload_at: f64,
    finished: u64,
    response_sum: f64,
    control_sum: f64,
    /// The station's totals at the end of the last section.
    before: Totals,
}

impl<'a> Run<'a> {
    fn new(model: &'a PoissonStation, seed: u64) -> Self {
        let mut arrivals = Random::stream(seed, 0);
        Self {
            model,
            station: Station::new(model.service.clone()),
            next_arrival: arrivals.exponential() / model.arrival_rate,
            arrivals,
            demands: Random::stream(seed, 1),
            now: 0.0,
            workload: 0.0,
            workload_at: 0.0,
            finished: 0,
            response_sum: 0.0,
            control_sum: 0.0,
            before: Totals::default(),
        }
    }

    fn totals(&self) -> Totals {
        Totals {
            seconds: self.now,
            busy: self.station.busy_time(self.now),
            present: self.station.present_time(self.now),
            visits: self.finished as f64,
            residence: self.response_sum,
            ..Totals::default()
        }
    }

    #[cold]
    fn end_section(&mut self, records: &mut Records) {
        let mut section = self.totals();
        section.subtract(&self.before);
        self.before.add(&section);
        records.stations.add(self.finished, records.response[0].shift(), &[section]);
    }
}

impl Replica for Run<'_> {
    fn finish_jobs(&mut self, jobs: u64, records: &mut Records) -> bool {
        let gap = 1.0 / self.model.arrival_rate;
        while self.finished < jobs {
            if self.next_arrival < self.station.next_completion() {
                let now = self.next_arrival;
                let demand = self.model.demand.sample(&mut self.demands);
                let workload_found = (self.workload - (now - self.workload_at)).max(0.0);
                (self.workload, self.workload_at) = (workload_found + demand, now);
                self.station.arrive(now, demand, Job { arrived: now, workload_found });
                self.next_arrival = now + gap * self.arrivals.exponential();
            } else {
                self.now = self.station.next_completion();
                if let Some(job) = self.station.complete() {
                    let response = self.now - job.arrived;
                    self.response_sum += response;
                    self.control_sum += job.workload_found;
                    if records.response[0].record(&mut self.finished, response, job.workload_found) {
                        self.end_section(records);
                    }
                }
            }
        }
        true
    }
}

impl Observed for Run<'_> {
    fn finished(&self) -> u64 {
        self.finished
    }

    fn totals(&self) -> Vec<Totals> {
        vec![Run::totals(self)]
    }
}

impl PoissonStation {
    fn estimates(&self, replications: &Replications<Run<'_>>) -> (Sample, Estimates) {
        let short = replications.runs().any(|run| run.finished < self.jobs_min());
        let sample = Sample::of(&replications.recorders(0), true);
        let estimates =
            sample.estimates(self.delta, self.expected_workload(), short.then_some(Unreliable::WarmUp));
        (sample, estimates)
    }

    fn result(&self, replications: &Replications<Run<'_>>, plan: &Plan, stop: Stop) -> StationRun {
        let (sample, estimates) = self.estimates(replications);
        let whole = replications.total(0);
        let station = StationSample::of(&replications.timelines(), sample.grouping, 0, whole);
        let unreliable = estimates.unreliable_for_length();
        let capacity = self.service.peak();
        let utilisation = match capacity.is_finite() {
            true => station
                .figure(|totals| totals.busy, |totals| totals.seconds, unreliable)
                .times(1.0 / capacity),
            false => StationFigure { value: 0.0, half_width: None },
        };
        let queue = station.figure(|totals| totals.present, |totals| totals.seconds, unreliable);
        let jobs = whole.visits;
        let found: f64 = replications.runs().map(|run| run.control_sum).sum();
        let figures = convergence::figures(plan, &estimates, jobs as u64);
        let mut response_time_seconds = estimates.response_time();
        response_time_seconds.mean = response_time_seconds.mean.max(0.0);
        StationRun {
            complete: stop != Stop::Interrupted,
            converged: convergence::converged(&figures),
            figures,
            stop,
            seed: plan.seed,
            replications: plan.replications,
            jobs: jobs as u64,
            warm_up_jobs: estimates.warm_up_jobs,
            simulated_seconds: whole.seconds,
            response_time_seconds,
            throughput_per_second: jobs / whole.seconds,
            utilisation: utilisation.value,
            utilisation_half_width: utilisation.half_width,
            utilisation_expected: self.utilisation(),
            queue_mean: queue.value,
            queue_mean_half_width: queue.half_width,
            little_relative_error: (whole.present - whole.residence) / whole.present,
            workload_seconds: self.expected_workload().map(|_| found / jobs),
            workload_expected_seconds: self.expected_workload(),
            variance_reduction: estimates.variance_reduction,
            lag_one: estimates.lag_one,
        }
    }
}
