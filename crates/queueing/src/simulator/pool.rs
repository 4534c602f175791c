//! Pools the results of independent replications into one.

use super::Plan;
use super::estimate::LAG_ONE_MAX;
use super::result::{
    ClassResult, Loss, ResponseTime, RouteResult, StationResult, StationRun, Stop, SystemResult,
};
use crate::named::Named;

/// The replications' results, averaged field by field.
struct Parts<'r, R>(&'r [R]);

impl<R> Parts<'_, R> {
    fn mean(&self, of: impl Fn(&R) -> f64) -> f64 {
        self.0.iter().map(of).sum::<f64>() / self.0.len() as f64
    }

    /// `None` if any replication has none.
    fn mean_if_all(&self, of: impl Fn(&R) -> Option<f64>) -> Option<f64> {
        let values: Option<Vec<f64>> = self.0.iter().map(of).collect();
        values.map(|values| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// The half-width of an average of independent estimates.
    fn half_width(&self, of: impl Fn(&R) -> Option<f64>) -> Option<f64> {
        let squares = self.mean_if_all(|part| of(part).map(|width| width * width))?;
        Some((squares / self.0.len() as f64).sqrt())
    }

    fn sum(&self, of: impl Fn(&R) -> u64) -> u64 {
        self.0.iter().map(of).sum()
    }

    /// The least favourable reason to stop: one interrupted replication makes the whole run interrupted.
    fn stop(&self, of: impl Fn(&R) -> Stop) -> Stop {
        let all: Vec<Stop> = self.0.iter().map(of).collect();
        let order = [Stop::Interrupted, Stop::JobsMax, Stop::TraceEnd];
        order.into_iter().find(|stop| all.contains(stop)).unwrap_or(Stop::HalfWidth)
    }

    fn response_time(&self, of: impl Fn(&R) -> ResponseTime) -> ResponseTime {
        let times: Vec<ResponseTime> = self.0.iter().map(of).collect();
        let times = Parts(&times);
        ResponseTime {
            mean: times.mean(|time| time.mean),
            p50: times.mean(|time| time.p50),
            p90: times.mean(|time| time.p90),
            p95: times.mean(|time| time.p95),
            p99: times.mean(|time| time.p99),
            p999: times.mean(|time| time.p999),
            max: times.0.iter().map(|time| time.max).fold(0.0, f64::max),
            mean_half_width: times.half_width(|time| time.mean_half_width),
            p50_half_width: times.half_width(|time| time.p50_half_width),
            p90_half_width: times.half_width(|time| time.p90_half_width),
            p95_half_width: times.half_width(|time| time.p95_half_width),
            p99_half_width: times.half_width(|time| time.p99_half_width),
            p999_half_width: times.half_width(|time| time.p999_half_width),
        }
    }

    fn loss(&self, of: impl Fn(&R) -> Loss) -> Loss {
        Loss {
            jobs: self.sum(|part| of(part).jobs),
            offered_per_second: self.mean(|part| of(part).offered_per_second),
            probability: self.mean(|part| of(part).probability),
            probability_half_width: self.half_width(|part| of(part).probability_half_width),
        }
    }

    /// Pools a table entry by entry; every replication has the same names in the same order.
    fn named<T>(&self, of: impl Fn(&R) -> &Named<T>, pool: impl Fn(&Parts<'_, &T>) -> T) -> Named<T> {
        let entry = |index: usize| {
            let entries: Vec<&T> = self.0.iter().map(|part| &of(part).0[index].1).collect();
            (of(&self.0[0]).0[index].0.clone(), pool(&Parts(&entries)))
        };
        Named((0..of(&self.0[0]).0.len()).map(entry).collect())
    }
}

fn converged(plan: &Plan, response: &ResponseTime, lag_one: f64) -> bool {
    let reached =
        response.relative_half_width(plan.target).is_some_and(|width| width <= plan.relative_half_width);
    reached && lag_one < LAG_ONE_MAX
}

/// Pools runs of one station; `runs` is not empty.
pub(super) fn station(runs: &[StationRun], plan: &Plan) -> StationRun {
    let parts = Parts(runs);
    let stop = parts.stop(|run| run.stop);
    let response_time_seconds = parts.response_time(|run| run.response_time_seconds);
    let lag_one = parts.mean(|run| run.lag_one);
    StationRun {
        complete: stop != Stop::Interrupted,
        converged: converged(plan, &response_time_seconds, lag_one),
        stop,
        seed: plan.seed,
        replications: runs.len() as u32,
        jobs: parts.sum(|run| run.jobs),
        warm_up_jobs: parts.sum(|run| run.warm_up_jobs),
        simulated_seconds: runs.iter().map(|run| run.simulated_seconds).sum(),
        response_time_seconds,
        throughput_per_second: parts.mean(|run| run.throughput_per_second),
        utilisation: parts.mean(|run| run.utilisation),
        utilisation_expected: parts.mean(|run| run.utilisation_expected),
        queue_mean: parts.mean(|run| run.queue_mean),
        little_relative_error: parts.mean(|run| run.little_relative_error),
        workload_seconds: parts.mean_if_all(|run| run.workload_seconds),
        workload_expected_seconds: parts.mean_if_all(|run| run.workload_expected_seconds),
        variance_reduction: parts.mean(|run| run.variance_reduction),
        lag_one,
    }
}

/// Pools runs of a system; `runs` is not empty.
pub(super) fn system(runs: &[SystemResult], plan: &Plan) -> SystemResult {
    let parts = Parts(runs);
    let stop = parts.stop(|run| run.stop);
    let response_time_seconds = parts.response_time(|run| run.response_time_seconds);
    let lag_one = parts.mean(|run| run.lag_one);
    let stations = parts.named(|run| &run.stations, visited);
    SystemResult {
        complete: stop != Stop::Interrupted,
        converged: converged(plan, &response_time_seconds, lag_one),
        stop,
        seed: plan.seed,
        replications: runs.len() as u32,
        jobs: parts.sum(|run| run.jobs),
        warm_up_jobs: parts.sum(|run| run.warm_up_jobs),
        simulated_seconds: runs.iter().map(|run| run.simulated_seconds).sum(),
        response_time_seconds,
        throughput_per_second: parts.mean(|run| run.throughput_per_second),
        loss: parts.loss(|run| run.loss),
        lag_one,
        little_relative_error: parts.mean(|run| run.little_relative_error),
        classes: parts.named(|run| &run.classes, class),
        bottleneck: SystemResult::busiest(&stations),
        stations,
    }
}

fn class(parts: &Parts<'_, &ClassResult>) -> ClassResult {
    ClassResult {
        jobs: parts.sum(|class| class.jobs),
        throughput_per_second: parts.mean(|class| class.throughput_per_second),
        loss: parts.loss(|class| class.loss),
        response_time_seconds: parts.response_time(|class| class.response_time_seconds),
        routes: parts.named(
            |class| &class.routes,
            |routes| RouteResult {
                jobs: routes.sum(|route| route.jobs),
                response_time_seconds: routes.response_time(|route| route.response_time_seconds),
            },
        ),
    }
}

fn visited(parts: &Parts<'_, &StationResult>) -> StationResult {
    StationResult {
        utilisation: parts.mean_if_all(|station| station.utilisation),
        utilisation_expected: parts.mean_if_all(|station| station.utilisation_expected),
        throughput_per_second: parts.mean(|station| station.throughput_per_second),
        queue_mean: parts.mean(|station| station.queue_mean),
        residence_time_seconds: parts.mean(|station| station.residence_time_seconds),
        demand_seconds: parts.mean(|station| station.demand_seconds),
        full_probability: parts.mean_if_all(|station| station.full_probability),
    }
}
