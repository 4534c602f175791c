//! Measures how fast the models run and prints one JSON object whose keys name the unit.
//!
//! `cargo run --release -p sojourn-queueing --example speed [JOBS]`. Rates are the best of nine runs, each on one
//! core: on a shared machine short runs find a quiet moment, and the best is the least disturbed.
//! `benchmarks/models/lps.c` is the bare C loop that `lps_jobs_per_second` is to be compared with, in the same minute.

#![allow(clippy::print_stdout, reason = "an example that prints its figures")]

use std::time::Instant;

use sojourn_queueing::distribution::{Distribution, HyperExponential, RandomVariable};
use sojourn_queueing::exact_lps::{ExactLps, PhaseType};
use sojourn_queueing::simulator::{Plan, PoissonStation, simulate_poisson, simulate_system};
use sojourn_queueing::solver::{predict, predict_means};
use sojourn_queueing::station::Service;
use sojourn_queueing::system_file::parse;

const REPEATS: usize = 9;
/// The thesis's mean demand, ms.
const MEAN: f64 = 25.675;

fn main() {
    let jobs = std::env::args().nth(1).map_or(4_000_000, |jobs| jobs.parse().expect("JOBS is a number"));
    let plan = Plan { relative_half_width: 1e-9, jobs_max: jobs, seed: 7, ..Plan::default() };
    let figures = [
        ("lps_jobs_per_second", lps(&plan)),
        ("closed_network_visits_per_second", closed_network(&plan)),
        ("exact_lps_4_seconds", exact_lps(4)),
        ("exact_lps_16_seconds", exact_lps(16)),
        ("mva_1000_users_4_stations_seconds", mva()),
        ("predict_percentiles_seconds", predict_site()),
    ];
    let figures: Vec<String> =
        figures.iter().map(|(name, value)| format!("\"{name}\": {value:.6e}")).collect();
    println!("{{{}}}", figures.join(", "));
}

/// Seconds of the fastest of some runs.
fn best<T>(mut run: impl FnMut() -> T) -> (f64, T) {
    let mut timed = || {
        let begun = Instant::now();
        let result = std::hint::black_box(run());
        (begun.elapsed().as_secs_f64(), result)
    };
    let mut best = timed();
    for _ in 1..REPEATS {
        let next = timed();
        if next.0 < best.0 {
            best = next;
        }
    }
    best
}

/// The thesis's web server at ρ = 0.8 with four helpers, all statistics on.
fn lps(plan: &Plan) -> f64 {
    let demand = Distribution::shifted_log_normal(7.811, 1.573, 0.000_485_1, 21.55).expect("valid");
    let model =
        PoissonStation { arrival_rate: 0.8 / demand.mean(), demand, service: Service::lps(4, 1), delta: 0.0 };
    let (seconds, result) = best(|| simulate_poisson(&model, plan, &mut |_| true).expect("stable"));
    result.jobs as f64 / seconds
}

/// The thesis's provider with a proxy: closed, a document shared by up to four stations.
fn closed_network(plan: &Plan) -> f64 {
    let system = parse(include_str!("../../../studies/systems/isp-with-proxy.toml")).expect("valid");
    let plan = Plan { jobs_max: plan.jobs_max / 4, ..plan.clone() };
    let (seconds, result) = best(|| simulate_system(&system, &plan, &[], &mut |_| true).expect("stable"));
    let stations = result.stations.0.iter();
    let visits: f64 =
        stations.map(|(_, station)| station.throughput_per_second * result.simulated_seconds).sum();
    visits / seconds
}

/// The response-time distribution of hyper-exponential demand, C² = 10, at ρ = 0.8, with its percentiles.
fn exact_lps(limit: u32) -> f64 {
    let distribution = HyperExponential::balanced(MEAN, 10.0).expect("valid").into();
    let solve = || {
        let demand = PhaseType::of(&distribution).expect("phase type");
        let distribution = ExactLps::new(0.8 / MEAN, demand, limit)
            .expect("small")
            .distribution()
            .expect("the load is moderate");
        [0.5, 0.9, 0.95, 0.99, 0.999].map(|p| distribution.quantile(p))
    };
    best(solve).0
}

fn mva() -> f64 {
    let station =
        |index: u32| format!("stations.s{index} = {{ discipline = \"ps\", demand = \"{}ms\" }}\n", 5 + index);
    let class = r#"classes.users = { users = 1000, think_time = "1s", route = ["s0", "s1", "s2", "s3"] }"#;
    let text = (0..4).map(station).collect::<String>() + class;
    let system = parse(&text).expect("valid");
    // All solvers together. The exact recursion takes most of the time.
    best(|| predict_means(&system)).0
}

fn predict_site() -> f64 {
    let system = parse(include_str!("../../../studies/systems/public-site.toml")).expect("valid");
    best(|| predict(&system)).0
}
