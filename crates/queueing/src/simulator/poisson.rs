//! One open station under Poisson arrivals: the fast simulator that checks the closed forms.
//!
//! With one server the work that an arrival finds has a known mean, whatever the discipline. As a control variate it
//! removes most of the variance from the estimate of the mean response time.

use super::estimate::Estimate;
use super::percentile::{look, response_time};
use super::replication::replicate;
use super::result::{StationRun, Stop};
use super::sequential::{Look, Simulation, until_stop};
use super::trace::validate_service;
use super::{Plan, Progress, Recorder, SimulationError, pool, refuse_overload};
use crate::distribution::{Distribution, RandomVariable};
use crate::random::Random;
use crate::station::{Service, Station};

/// An M/G/· station with any discipline and speed.
#[derive(Debug, Clone, PartialEq)]
pub struct PoissonStation {
    pub arrival_rate: f64,
    /// The distribution of the demand, in seconds.
    pub demand: Distribution,
    pub service: Service,
    /// Seconds added to every response.
    pub delta: f64,
}

/// Simulates until the plan is fulfilled or `go_on` returns false; `go_on` runs on the caller's thread.
///
/// # Errors
/// [`SimulationError`] when the station is unstable or a parameter is out of its domain.
pub fn simulate_poisson(
    model: &PoissonStation,
    plan: &Plan,
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> Result<StationRun, SimulationError> {
    plan.validate()?;
    model.validate()?;
    let run = |plan: &Plan, go_on: &mut dyn FnMut(&Progress) -> bool| {
        let mut run = Run::new(model, plan);
        let stop = until_stop(&mut run, plan, false, go_on);
        run.result(stop)
    };
    Ok(match plan.replications {
        1 => run(plan, go_on),
        _ => pool::station(&replicate(plan, go_on, &run), plan),
    })
}

impl PoissonStation {
    /// λ `E[S]` / capacity: a fraction of c servers, or of the peak of v(n).
    pub fn utilisation(&self) -> f64 {
        self.work() / self.service.capacity()
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
    plan: &'a Plan,
    station: Station<Job>,
    recorder: Recorder,
    arrivals: Random,
    demands: Random,
    next_arrival: f64,
    now: f64,
    workload: f64,
    workload_at: f64,
    expected_workload: Option<f64>,
}

impl<'a> Run<'a> {
    fn new(model: &'a PoissonStation, plan: &'a Plan) -> Self {
        let mut arrivals = Random::stream(plan.seed, 0);
        Self {
            model,
            plan,
            station: Station::new(model.service.clone()),
            recorder: Recorder::default(),
            next_arrival: arrivals.exponential() / model.arrival_rate,
            arrivals,
            demands: Random::stream(plan.seed, 1),
            now: 0.0,
            workload: 0.0,
            workload_at: 0.0,
            expected_workload: model.expected_workload(),
        }
    }
}

impl Simulation for Run<'_> {
    fn finish_jobs(&mut self, jobs: u64) -> bool {
        let gap = 1.0 / self.model.arrival_rate;
        let mut left = jobs - self.recorder.jobs();
        while left > 0 {
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
                    self.recorder.record(self.now - job.arrived, job.workload_found);
                    left -= 1;
                }
            }
        }
        true
    }

    fn look(&self) -> Look {
        let estimate = Estimate::of(&self.recorder, self.expected_workload);
        look(&self.recorder, &estimate, self.model.delta, self.plan.target)
    }
}

impl Run<'_> {
    fn result(&self, stop: Stop) -> StationRun {
        let estimate = Estimate::of(&self.recorder, self.expected_workload);
        let (capacity, jobs) = (self.model.service.capacity(), self.recorder.jobs());
        let (queue_mean, throughput) =
            (self.station.present_time(self.now) / self.now, jobs as f64 / self.now);
        let mut response = response_time(&self.recorder, &estimate, self.model.delta);
        response.mean = response.mean.max(0.0);
        StationRun {
            complete: stop != Stop::Interrupted,
            converged: estimate.is_settled()
                && response
                    .relative_half_width(self.plan.target)
                    .is_some_and(|width| width <= self.plan.relative_half_width),
            stop,
            seed: self.plan.seed,
            replications: 1,
            jobs,
            warm_up_jobs: estimate.warm_up_batches as u64 * self.recorder.batch_jobs(),
            simulated_seconds: self.now,
            response_time_seconds: response,
            throughput_per_second: throughput,
            utilisation: if capacity.is_finite() {
                self.station.busy_time(self.now) / self.now / capacity
            } else {
                0.0
            },
            utilisation_expected: self.model.utilisation(),
            queue_mean,
            little_relative_error: (queue_mean - throughput * self.recorder.mean_overall()) / queue_mean,
            workload_seconds: self.expected_workload.map(|_| self.recorder.control_mean_overall()),
            workload_expected_seconds: self.expected_workload,
            variance_reduction: estimate.variance_reduction,
            lag_one: estimate.lag_one,
        }
    }
}
