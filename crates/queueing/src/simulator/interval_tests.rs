//! Intervals cover the exact value, and figures without a sound interval say so. `benchmarks/models/coverage.py` does
//! the same at length.

use super::*;
use crate::distribution::{Deterministic, Distribution, Exponential, RandomVariable};
use crate::station::Service;

fn poisson(demand: &Distribution, rho: f64, service: Service, plan: &Plan) -> StationRun {
    let arrival_rate = rho / demand.mean();
    let model = PoissonStation { arrival_rate, demand: demand.clone(), service, delta: 0.0 };
    simulate_poisson(&model, plan, &mut |_| true).unwrap()
}

fn system(text: &str, plan: &Plan) -> SystemResult {
    simulate_system(&crate::system_file::parse(text).unwrap(), plan, &[], &mut |_| true).unwrap()
}

const QUEUE: &str = r#"
stations.web = { discipline = "fifo", demand = { law = "exponential", mean = "1s" } }
classes.visitors = { rate = "0.8/s", route = ["web"] }
"#;

#[test]
fn intervals_of_replications_cover() {
    let runs = 50;
    for replications in [1, 4, 16, 100] {
        let (mut covered, mut given, mut bias) = ([0; 4], [0; 4], 0.0);
        for seed in 0..runs {
            let plan = Plan { relative_half_width: 0.07, seed, replications, ..Plan::default() };
            let found = system(QUEUE, &plan);
            assert!(found.converged, "{found:?}");
            let response = found.response_time_seconds;
            let station = found.stations.find("web").unwrap();
            let figures = [
                (response.mean, response.mean_half_width, 5.0),
                (response.p95, response.p95_half_width, 5.0 * 20.0_f64.ln()),
                (station.utilisation.unwrap(), station.utilisation_half_width, 0.8),
                (station.queue_mean, station.queue_mean_half_width, 4.0),
            ];
            for (index, (value, half_width, truth)) in figures.into_iter().enumerate() {
                given[index] += u32::from(half_width.is_some());
                covered[index] += u32::from(half_width.is_some_and(|width| (value - truth).abs() <= width));
            }
            bias += (response.mean / 5.0 - 1.0) / runs as f64;
        }
        // Seven of 50 or more miss once in 100 times where the coverage is 95 %.
        let enough = given.iter().zip(&covered).all(|(given, covered)| *given >= 40 && given - covered <= 7);
        assert!(enough, "{replications} replications: {covered:?} of {given:?} cover");
        assert!(bias.abs() < 0.01, "{replications} replications: {bias}");
    }
}

#[test]
fn each_figure_has_a_verdict_of_its_own() {
    let demand = Exponential::new(1.0).unwrap().into();
    let plan = |targets| Plan { relative_half_width: 0.03, targets, ..Plan::default() };
    let of_mean = poisson(&demand, 0.9, Service::fifo(1), &plan(vec![Target::Mean]));
    let figure = |run: &StationRun, name: &str| run.figures.find(name).unwrap().clone();
    assert!(of_mean.converged && figure(&of_mean, "mean").converged && figure(&of_mean, "mean").asked_for);
    // The control variate serves the mean alone: p95 has an interval, and it is wider than asked.
    let p95 = figure(&of_mean, "p95");
    assert!(!p95.converged && !p95.asked_for && p95.relative_half_width.unwrap() > 0.03);
    assert!(p95.reason.unwrap().contains("half-width"));
    let of_both = poisson(&demand, 0.9, Service::fifo(1), &plan(vec![Target::Mean, Target::P95]));
    assert!(of_both.converged && figure(&of_both, "p95").converged && of_both.jobs > 2 * of_mean.jobs);
}

#[test]
fn a_heavy_tail_is_not_called_converged_too_early() {
    let text = r#"
        stations.web = { discipline = "fifo", demand = { law = "log-normal", mean = "1s", scv = 20 } }
        classes.visitors = { rate = "0.7/s", route = ["web"] }
    "#;
    for seed in 0..10 {
        let plan = Plan { relative_half_width: 0.05, jobs_max: 300_000, seed, ..Plan::default() };
        let found = system(text, &plan);
        let mean = found.figures.find("mean").unwrap();
        assert!(!found.converged && mean.reason.is_some(), "{mean:?}");
    }
}

#[test]
fn too_many_replications_for_the_jobs_say_so() {
    let text = QUEUE.replace("0.8/s", "0.98/s");
    let plan = Plan { replications: 1000, jobs_max: 1_000_000, ..Plan::default() };
    let found = system(&text, &plan);
    assert!(!found.converged && found.response_time_seconds.mean_half_width.is_none());
    assert!(found.figures.find("mean").unwrap().reason.as_ref().unwrap().contains("fewer replications"));
}

#[test]
fn equal_response_times_are_known_to_the_width_of_a_bin() {
    let demand: Distribution = Deterministic::new(25.675e-3).unwrap().into();
    // 70 % of the jobs find an empty station: the median is the demand, one value in a bin of 0.8 %.
    let response = poisson(&demand, 0.3, Service::fifo(1), &Plan::default()).response_time_seconds;
    let half_width = response.p50_half_width.unwrap();
    assert!((response.p50 - 25.675e-3).abs() <= half_width, "{response:?}");
    assert!(half_width > 1e-4 * response.p50 && half_width < 0.01 * response.p50, "{response:?}");
}
