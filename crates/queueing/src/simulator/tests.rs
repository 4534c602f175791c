//! The simulator against closed forms, by hand, and by properties.

use proptest::prelude::*;

use super::*;
use crate::closed_form::{Lps, Mg1};
use crate::distribution::{
    Deterministic, Distribution, Exponential, HyperExponential, Mixture, RandomVariable,
};
use crate::station::Service;

fn check(actual: f64, expected: f64, relative: f64) {
    assert!(
        (actual - expected).abs() <= relative * expected.abs(),
        "{actual} is not {expected} within {relative}"
    );
}

fn deterministic() -> Distribution {
    Deterministic::new(25.675e-3).unwrap().into()
}

fn hyper_exponential() -> Distribution {
    HyperExponential::balanced(25.675e-3, 10.0).unwrap().into()
}

fn run(demand: &Distribution, rho: f64, service: Service, plan: &Plan) -> StationRun {
    let model = PoissonStation {
        arrival_rate: rho * service.saturation() / demand.mean(),
        demand: demand.clone(),
        service,
        delta: 0.0,
    };
    simulate_poisson(&model, plan, &mut |_| true).unwrap()
}

fn mean(demand: &Distribution, rho: f64, service: Service, jobs: u64) -> f64 {
    let plan = Plan { relative_half_width: 1e-9, jobs_max: jobs, ..Plan::default() };
    run(demand, rho, service, &plan).response_time_seconds.mean
}

#[test]
fn fifo_and_ps_match_the_closed_forms() {
    for demand in [deterministic(), hyper_exponential()] {
        let exact = Mg1::of(0.7 / demand.mean(), &demand).unwrap();
        check(mean(&demand, 0.7, Service::fifo(1), 2_000_000), exact.fifo_mean_response_time(), 0.02);
        check(mean(&demand, 0.7, Service::ps(1), 2_000_000), exact.ps_mean_response_time(), 0.02);
    }
}

#[test]
fn exponential_demand_does_not_see_the_limit() {
    let demand = Exponential::new(25.675e-3).unwrap().into();
    for limit in [1, 4, 16] {
        check(mean(&demand, 0.8, Service::lps(limit, 1), 1_000_000), 0.128375, 0.03);
    }
}

#[test]
fn h_star_makes_eq_2_2_exact() {
    // The two-point distribution with C² = 10: zero with probability 9/11, else exponential.
    let branch = Exponential::new(25.675e-3 * 5.5).unwrap().into();
    let demand: Distribution =
        Mixture::new(vec![(9.0 / 11.0, Deterministic::new(0.0).unwrap().into()), (2.0 / 11.0, branch)])
            .unwrap()
            .into();
    check(demand.scv(), 10.0, 1e-9);
    let exact = Lps::new(Mg1::of(0.6 / demand.mean(), &demand).unwrap(), Some(4), 0.0).unwrap();
    check(exact.mean_response_time(), 0.10162, 1e-3);
    check(mean(&demand, 0.6, Service::lps(4, 1), 4_000_000), exact.mean_response_time(), 0.015);
}

#[test]
fn very_variable_lps_matches_the_exact_mean() {
    // Exact phase-type result 349.6 ms where FIFO has 590.5 and Eq. 2.2 365.0.
    check(mean(&hyper_exponential(), 0.8, Service::lps(4, 1), 8_000_000), 0.3496, 0.02);
}

#[test]
fn many_servers_match_erlang_c() {
    // M/M/4 at ρ = 0.8: P(wait) = 0.5964, E[R] = E[S] (1 + 0.5964 / (4·0.2)).
    let demand = Exponential::new(1.0).unwrap().into();
    check(mean(&demand, 0.8, Service::fifo(4), 2_000_000), 1.0 + 0.5964 / 0.8, 0.02);
}

#[test]
fn exponential_percentiles() {
    // M/M/1 FIFO: the response time is exponential with mean 1/(1−ρ).
    let demand = Exponential::new(1.0).unwrap().into();
    let plan = Plan { relative_half_width: 0.015, targets: vec![Target::P999], seed: 3, ..Plan::default() };
    let response = run(&demand, 0.5, Service::fifo(1), &plan).response_time_seconds;
    for (actual, p) in
        [(response.p50, 0.5), (response.p95, 0.95), (response.p99, 0.99), (response.p999, 0.999)]
    {
        check(actual, -2.0 * (1.0_f64 - p).ln(), 0.04);
    }
    assert!(response.p95_half_width.unwrap() < 0.05 * response.p95);
}

#[test]
fn a_run_checks_itself_and_repeats() {
    let plan = Plan { relative_half_width: 0.02, seed: 9, ..Plan::default() };
    let first = run(&hyper_exponential(), 0.8, Service::lps(4, 1), &plan);
    assert!(first.converged && first.complete && first.stop == Stop::HalfWidth);
    assert!(first.little_relative_error.abs() < 1e-3, "{first:?}");
    check(first.utilisation, first.utilisation_expected, 0.02);
    check(first.workload_seconds.unwrap(), first.workload_expected_seconds.unwrap(), 0.15);
    assert!(first.variance_reduction > 3.0, "{first:?}");
    assert_eq!(first, run(&hyper_exponential(), 0.8, Service::lps(4, 1), &plan));
}

#[test]
fn an_interrupted_run_is_marked() {
    let model = PoissonStation {
        arrival_rate: 0.5,
        demand: Exponential::new(1.0).unwrap().into(),
        service: Service::ps(1),
        delta: 0.25,
    };
    let plan = Plan { relative_half_width: 1e-9, ..Plan::default() };
    let result = simulate_poisson(&model, &plan, &mut |_| false).unwrap();
    assert!(!result.complete && !result.converged && result.stop == Stop::Interrupted);
    check(result.response_time_seconds.mean, 2.25, 0.05);
}

#[test]
fn overload_is_refused() {
    let model = PoissonStation {
        arrival_rate: 2.0,
        demand: Exponential::new(1.0).unwrap().into(),
        service: Service::ps(1),
        delta: 0.0,
    };
    let error = simulate_poisson(&model, &Plan::default(), &mut |_| true).unwrap_err();
    assert!(error.to_string().contains("unstable"), "{error}");
}

#[test]
fn trace_errors_name_the_place() {
    let ps = Service::ps(1);
    assert_eq!(
        simulate_station(&[0.0, 2.0, 1.0], &[1.0; 3], ps.clone()),
        Err(SimulationError::TraceOrder { index: 2 })
    );
    assert!(simulate_station(&[0.0], &[1.0, 2.0], ps.clone()).is_err());
    assert!(simulate_station(&[0.0, 1.0], &[1.0, f64::NAN], ps.clone()).is_err());
    assert!(simulate_station(&[0.0], &[1.0], Service::lps(0, 1)).is_err());
    assert_eq!(simulate_station(&[], &[], ps.clone()), Ok(vec![]));
}

#[test]
fn small_traces_by_hand() {
    // PS: two jobs of 2 s, one second apart, share from 1 to 3; then the second ends at 4.
    assert_eq!(simulate_station(&[0.0, 1.0], &[2.0, 2.0], Service::ps(1)), Ok(vec![3.0, 3.0]));
    // LPS with r = 1 is FIFO; with two servers no job waits.
    assert_eq!(simulate_station(&[0.0, 1.0], &[2.0, 2.0], Service::lps(1, 1)), Ok(vec![2.0, 3.0]));
    assert_eq!(simulate_station(&[0.0, 1.0], &[2.0, 2.0], Service::fifo(2)), Ok(vec![2.0, 2.0]));
    // A log's epoch seconds do not cost precision.
    assert_eq!(simulate_station(&[1e9, 1e9 + 1.0], &[2.0, 2.0], Service::ps(1)), Ok(vec![3.0, 3.0]));
}

fn system(text: &str) -> crate::system::System {
    crate::system_file::parse(text).unwrap()
}

fn run_system(text: &str, half_width: f64) -> SystemResult {
    let plan = Plan { relative_half_width: half_width, jobs_max: 20_000_000, ..Plan::default() };
    simulate_system(&system(text), &plan, &[], &mut |_| true).unwrap()
}

/// The public web site of the thesis (Figure 4.1) at 5 requests a second.
const SITE: &str = r#"
document = { law = "log-normal", mu = 7.811, sigma = 1.573, unit = "B" }
stations.backbone = { discipline = "is", demand = { law = "erlang", mean = "195ms", stages = 4 } }
stations.web = { discipline = "lps", r = 16, demand = { fixed = "21.55ms", per_byte = "0.4851us/B" } }
stations.line = { discipline = "ps", rate = "1.5Mbit/s" }
classes.visitors = { rate = "5/s", route = ["backbone", "web", "line"] }
"#;

#[test]
fn the_public_site_of_the_thesis() {
    let result = run_system(SITE, 0.005);
    assert!(result.converged, "{result:?}");
    // T21: web 29-30 ms of about 283 ms at 1.5 Mbit/s; the line is M/G/1/PS fed by a nearly Poisson stream.
    check(result.stations.find("web").unwrap().residence_time_seconds, 0.0295, 0.02);
    check(result.response_time_seconds.mean, 0.283, 0.02);
    check(result.stations.find("backbone").unwrap().residence_time_seconds, 0.195, 0.01);
    for (name, station) in &result.stations.0 {
        if let (Some(measured), Some(expected)) = (station.utilisation, station.utilisation_expected) {
            assert!((measured - expected).abs() < 0.02 * expected, "{name}: {station:?}");
        }
    }
    assert!(result.little_relative_error.abs() < 1e-9, "{}", result.little_relative_error);
    assert_eq!(result.bottleneck.as_deref(), Some("line"));
}

#[test]
fn a_closed_class_follows_machine_repair() {
    // M/M/1//N, N = 10, think 1 s, demand 0.2 s: the exact product-form throughput.
    let (think, demand, users) = (1.0_f64, 0.2_f64, 10);
    let (mut queue, mut throughput) = (0.0, 0.0);
    for population in 1..=users {
        let residence = demand * (1.0 + queue);
        throughput = f64::from(population) / (think + residence);
        queue = throughput * residence;
    }
    for demand in [
        r#"{ law = "exponential", mean = "200ms" }"#,
        // PS is insensitive to the distribution of demand: the oracle that exponential service cannot give.
        r#"{ law = "hyper-exponential", mean = "200ms", scv = 10 }"#,
        r#""200ms""#,
    ] {
        let result = run_system(
            &format!(
                r#"
                stations.cpu = {{ discipline = "ps", demand = {demand} }}
                classes.users = {{ users = {users}, think_time = {{ law = "exponential", mean = "1s" }}, route = ["cpu"] }}
                "#
            ),
            0.01,
        );
        check(result.throughput_per_second, throughput, 0.01);
        check(result.response_time_seconds.mean, queue / throughput, 0.02);
        assert!(result.little_relative_error.abs() < 1e-9, "{result:?}");
    }
}

#[test]
fn routes_and_classes_are_reported_apart() {
    let result = run_system(
        r#"
        stations.proxy = { discipline = "ps", demand = "1ms" }
        stations.origin = { discipline = "is", demand = "100ms" }
        [classes.members]
        rate = "100/s"
        latency = "5ms"
        routes = [
            { name = "hit", probability = 0.6, visits = ["proxy"] },
            { name = "miss", probability = 0.4, visits = ["proxy", "origin"] },
        ]
        [classes.crawlers]
        users = 2
        think_time = "1s"
        route = [{ station = "origin", demand = "50ms" }]
        "#,
        0.01,
    );
    let members = result.classes.find("members").unwrap();
    let mean = |route: &str| members.routes.find(route).unwrap().response_time_seconds.mean;
    check(mean("miss") - mean("hit"), 0.1, 0.001);
    check(members.routes.find("hit").unwrap().jobs as f64 / members.jobs as f64, 0.6, 0.01);
    let crawlers = result.classes.find("crawlers").unwrap();
    check(crawlers.response_time_seconds.mean, 0.05, 1e-6);
    check(crawlers.throughput_per_second, 2.0 / 1.05, 5e-3);
}

#[test]
fn a_trace_drives_an_open_class() {
    let text = r#"
        document = "1B"
        stations.web = { discipline = "ps", demand = { fixed = "0s", per_byte = "1000ms/KB" } }
        classes.log = { rate = "1/s", route = ["web"] }
    "#;
    let trace = Trace { class: "log", times: &[1e9, 1e9 + 1.0], sizes: &[2e3, 2e3] };
    let result = simulate_system(&system(text), &Plan::default(), &[trace], &mut |_| true).unwrap();
    assert_eq!((result.jobs, result.stop, result.complete), (2, Stop::TraceEnd, true));
    check(result.response_time_seconds.mean, 3.0, 1e-9);
    // Users beside the trace do not keep the run going.
    let mixed = text.to_owned() + r#"classes.users = { users = 2, think_time = "1s", route = ["web"] }"#;
    let result = simulate_system(&system(&mixed), &Plan::default(), &[trace], &mut |_| true).unwrap();
    assert_eq!((result.classes.find("log").unwrap().jobs, result.stop), (2, Stop::TraceEnd));
    let unknown = Trace { class: "logs", ..trace };
    assert!(simulate_system(&system(text), &Plan::default(), &[unknown], &mut |_| true).is_err());
}

#[test]
fn traces_of_several_classes_keep_their_distance() {
    let text = r#"
        document = "1B"
        stations.web = { discipline = "ps", demand = { fixed = "0s", per_byte = "1000ms/KB" } }
        classes.first = { rate = "1/s", route = ["web"] }
        classes.second = { rate = "1/s", route = ["web"] }
    "#;
    let first = Trace { class: "first", times: &[1e9], sizes: &[2e3] };
    let second = Trace { class: "second", times: &[1e9 + 5.0], sizes: &[2e3] };
    let result = simulate_system(&system(text), &Plan::default(), &[first, second], &mut |_| true).unwrap();
    check(result.response_time_seconds.mean, 2.0, 1e-9);
}

#[test]
fn a_helper_is_held_until_the_document_is_sent() {
    let text = |visit: &str| {
        format!(
            r#"
            stations.web = {{ discipline = "lps", r = 2, demand = "1s" }}
            stations.line = {{ discipline = "is", demand = "3s" }}
            [classes.log]
            document = "1B"
            rate = "1/s"
            route = ["web", {visit}]
            "#
        )
    };
    let finish = |visit: &str| {
        let trace = Trace { class: "log", times: &[0.0, 0.0, 0.0], sizes: &[1.0; 3] };
        let system = system(&text(visit));
        simulate_system(&system, &Plan::default(), &[trace], &mut |_| true).unwrap().response_time_seconds.max
    };
    // Two share the server until 2 s; without holding the third is served from 2 to 3 s and sent by 6 s.
    check(finish(r#""line""#), 6.0, 1e-9);
    // Holding, it is let in when the first two have been sent, at 5 s.
    check(finish(r#"{ station = "line", holds = "web" }"#), 9.0, 1e-9);
    let prediction = crate::solver::predict(&system(&text(r#"{ station = "line", holds = "web" }"#)));
    assert!(prediction.solvers.0.iter().all(|(_, outcome)| outcome.answer.is_none()));
}

#[test]
fn processes_that_hold_themselves_queue_for_a_core() {
    let system = system(
        r#"
        stations.one = { discipline = "fifo", demand = "0s" }
        stations.other = { discipline = "fifo", demand = "0s" }
        stations.core = { discipline = "fifo", demand = "2s" }
        [classes.log]
        rate = "1/s"
        route = ["one", { station = "core", holds = "one" }]
        [classes.others]
        rate = "1/s"
        route = ["other", { station = "core", holds = "other" }]
        "#,
    );
    let traces = [("log", &[0.0, 0.0][..]), ("others", &[1.0][..])].map(|(class, times)| Trace {
        class,
        times,
        sizes: &[1.0; 2][..times.len()],
    });
    let result = simulate_system(&system, &Plan::default(), &traces, &mut |_| true).unwrap();
    // The first has the core until 2 s, then the other process, which asked for it at 1 s; the second job of the first
    // process begins to wait for the core only when the first is done.
    let slowest = |class: &str| result.classes.find(class).unwrap().response_time_seconds.max;
    check(slowest("log"), 6.0, 1e-9);
    check(slowest("others"), 3.0, 1e-9);
}

#[test]
fn workers_of_one_process_have_a_core_in_its_turn() {
    let system = system(
        r#"
        stations.workers = { discipline = "lps", r = 2, demand = "0s" }
        stations.process = { discipline = "fifo", demand = "0s" }
        stations.cores = { discipline = "fifo", servers = 2, demand = "2s" }
        stations.line = { discipline = "is", demand = "3s" }
        [classes.log]
        rate = "1/s"
        route = [
            "workers", { station = "process", holds = "workers" },
            { station = "cores", holds = ["workers", "process"] }, { station = "line", holds = ["workers"] },
        ]
        "#,
    );
    let trace = Trace { class: "log", times: &[0.0; 3], sizes: &[1.0; 3] };
    let result = simulate_system(&system, &Plan::default(), &[trace], &mut |_| true).unwrap();
    // The second worker has its turn from 2 to 4 s, while the line takes from the first what it has; the third job
    // becomes a worker when the first is done, at 5 s.
    check(result.response_time_seconds.mean, (5.0 + 7.0 + 10.0) / 3.0, 1e-9);
    check(result.response_time_seconds.max, 10.0, 1e-9);
}

#[test]
fn holding_through_a_delay_is_a_queue_with_r_servers() {
    // Negligible work, then an exponential delay with the place held: M/M/r, here r = 4 at ρ = 0.8.
    let result = run_system(
        r#"
        stations.web = { discipline = "lps", r = 4, demand = "0s" }
        stations.line = { discipline = "is", demand = { law = "exponential", mean = "1s" } }
        classes.visitors = { rate = "3.2/s", route = ["web", { station = "line", holds = "web" }] }
        "#,
        0.01,
    );
    check(result.response_time_seconds.mean, 1.0 + 0.5964 / 0.8, 0.02);
    assert!(result.little_relative_error.abs() < 1e-9, "{}", result.little_relative_error);
}

#[test]
fn an_unstable_system_names_the_station() {
    let text = SITE.replace("5/s", "30/s");
    let error = simulate_system(&system(&text), &Plan::default(), &[], &mut |_| true).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("station line is unstable: its utilisation would be 1.3"), "{error}");
    let line = text.lines().position(|line| line.contains("stations.line")).unwrap() + 1;
    assert!(error.ends_with(&format!("lower the rate or the demand (line {line})")), "{error}");
}

fn lindley(arrivals: &[f64], demands: &[f64]) -> Vec<f64> {
    let mut free_at = 0.0_f64;
    let response = |(&arrival, &demand): (&f64, &f64)| {
        free_at = free_at.max(arrival) + demand;
        free_at - arrival
    };
    arrivals.iter().zip(demands).map(response).collect()
}

fn traces() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
    let job = (0.0..2.0_f64, prop_oneof![Just(0.0), 0.0..3.0_f64]);
    prop::collection::vec(job, 1..80).prop_map(|jobs| {
        let mut now = 0.0;
        let arrivals = jobs.iter().map(|job| {
            now += job.0;
            now
        });
        (arrivals.collect(), jobs.iter().map(|job| job.1).collect())
    })
}

proptest! {
    #[test]
    fn one_at_a_time_is_lindley((arrivals, demands) in traces()) {
        let simulated = simulate_station(&arrivals, &demands, Service::lps(1, 1)).unwrap();
        for (actual, expected) in simulated.iter().zip(lindley(&arrivals, &demands)) {
            prop_assert!((actual - expected).abs() < 1e-9);
        }
    }

    #[test]
    fn a_limit_never_reached_is_ps((arrivals, demands) in traces()) {
        let limited = simulate_station(&arrivals, &demands, Service::lps(demands.len(), 1)).unwrap();
        prop_assert_eq!(limited, simulate_station(&arrivals, &demands, Service::ps(1)).unwrap());
    }

    #[test]
    fn the_limit_does_not_change_when_work_ends((arrivals, demands) in traces(), limit in 1_usize..10) {
        // Work conservation: busy periods end at the same instants whatever r is.
        let last = |responses: Vec<f64>| {
            responses.iter().zip(&arrivals).map(|(r, a)| r + a).fold(0.0, f64::max)
        };
        let limited = last(simulate_station(&arrivals, &demands, Service::lps(limit, 1)).unwrap());
        let fifo = last(simulate_station(&arrivals, &demands, Service::fifo(1)).unwrap());
        prop_assert!((limited - fifo).abs() < 1e-9);
    }

    #[test]
    fn no_job_is_served_faster_than_alone((arrivals, demands) in traces(), limit in 1_usize..10, servers in 1_u32..4) {
        let responses = simulate_station(&arrivals, &demands, Service::lps(limit, servers)).unwrap();
        for (response, demand) in responses.iter().zip(&demands) {
            prop_assert!(*response >= demand - 1e-9);
        }
    }
}

/// Nominal 95 % intervals at ρ = 0.9 cover, for PS, whose mean is known whatever the demand. `docs/models.md` has the
/// figures.
fn confidence_intervals_cover_the_exact_value(demand: &Distribution) {
    let runs = 400;
    let exact = Mg1::of(0.9 / demand.mean(), demand).unwrap().ps_mean_response_time();
    let covered = (0..runs)
        .filter(|seed| {
            let plan = Plan { relative_half_width: 0.05, seed: *seed, ..Plan::default() };
            let response = run(demand, 0.9, Service::ps(1), &plan).response_time_seconds;
            (response.mean - exact).abs() <= response.mean_half_width.unwrap()
        })
        .count();
    eprintln!("C² = {:.1}: {covered} of {runs} intervals cover", demand.scv());
    assert!(covered as f64 >= 0.90 * runs as f64, "{covered} of {runs}");
}

// One test each, so that the three run side by side.
#[test]
fn intervals_cover_with_deterministic_demand() {
    confidence_intervals_cover_the_exact_value(&deterministic());
}

#[test]
fn intervals_cover_with_exponential_demand() {
    confidence_intervals_cover_the_exact_value(&Exponential::new(25.675e-3).unwrap().into());
}

#[test]
fn intervals_cover_with_hyper_exponential_demand() {
    confidence_intervals_cover_the_exact_value(&hyper_exponential());
}

#[test]
fn a_percentile_can_be_the_target() {
    let demand = Exponential::new(1.0).unwrap().into();
    let exact = |p: f64| -2.0 * (1.0_f64 - p).ln();
    for (target, p) in [(Target::P50, 0.5), (Target::P99, 0.99)] {
        let plan = Plan { relative_half_width: 0.02, targets: vec![target], seed: 4, ..Plan::default() };
        let result = run(&demand, 0.5, Service::fifo(1), &plan);
        let (value, half_width) = result.response_time_seconds.target(target);
        assert!(result.converged && half_width.unwrap() <= 0.02 * value, "{result:?}");
        check(value, exact(p), 0.03);
    }
    // The tail needs more jobs than the mean for the same half-width.
    let jobs = |target| {
        let plan = Plan { relative_half_width: 0.015, targets: vec![target], seed: 4, ..Plan::default() };
        run(&demand, 0.5, Service::fifo(1), &plan).jobs
    };
    assert!(jobs(Target::P999) > 4 * jobs(Target::Mean));
    assert_eq!(Target::of("p95"), Some(Target::P95));
    assert_eq!(Target::of("p96"), None);
}

#[test]
fn replications_pool_to_the_half_width_asked_for() {
    let plan = Plan { relative_half_width: 0.01, replications: 4, seed: 6, ..Plan::default() };
    let pooled = run(&hyper_exponential(), 0.7, Service::ps(1), &plan);
    assert_eq!((pooled.replications, pooled.stop, pooled.converged), (4, Stop::HalfWidth, true));
    let exact = hyper_exponential().mean() / 0.3;
    check(pooled.response_time_seconds.mean, exact, 0.02);
    // Threads finish in any order; the result does not show it.
    assert_eq!(pooled, run(&hyper_exponential(), 0.7, Service::ps(1), &plan));
    let other = run(&hyper_exponential(), 0.7, Service::ps(1), &Plan { seed: 7, ..plan });
    assert_ne!(pooled.response_time_seconds.mean, other.response_time_seconds.mean);

    let plan = Plan { relative_half_width: 0.02, replications: 3, ..Plan::default() };
    let site = simulate_system(&system(SITE), &plan, &[], &mut |_| true).unwrap();
    check(site.response_time_seconds.mean, 0.283, 0.03);
    assert_eq!((site.replications, site.bottleneck.as_deref()), (3, Some("line")));
    assert!(site.little_relative_error.abs() < 1e-9 && site.converged, "{site:?}");
    assert!(simulate_system(&system(SITE), &Plan { replications: 0, ..plan }, &[], &mut |_| true).is_err());
}

#[test]
fn progress_shows_the_estimate_and_ends_all_replications() {
    let model = PoissonStation {
        arrival_rate: 0.5,
        demand: Exponential::new(1.0).unwrap().into(),
        service: Service::ps(1),
        delta: 0.0,
    };
    let plan = Plan { relative_half_width: 1e-6, replications: 4, ..Plan::default() };
    let here = std::thread::current().id();
    let mut told = Vec::new();
    let mut on_progress = |now: &Progress| {
        assert_eq!(std::thread::current().id(), here, "asked on another thread");
        told.push(*now);
        told.len() < 6
    };
    let result = simulate_poisson(&model, &plan, &mut on_progress).unwrap();
    assert!(!result.complete && !result.converged && result.stop == Stop::Interrupted);
    assert_eq!(told.len(), 6);
    check(told[5].estimate_seconds.unwrap(), 2.0, 0.1);
    assert!(told[5].relative_half_width.unwrap() < 0.2 && told[5].jobs > told[0].jobs);
    check(result.response_time_seconds.mean, 2.0, 0.1);
}
