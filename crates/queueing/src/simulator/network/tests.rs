//! Finite queues against results of the literature: losses, blocking, retries.

use super::*;
use crate::simulator::Target;
use crate::system_file::parse;
use crate::testing::check;

fn simulated(text: &str) -> SystemResult {
    let plan = Plan { relative_half_width: 0.005, jobs_max: 3_000_000, ..Plan::default() };
    let result = simulate_system(&parse(text).unwrap(), &plan, &[], &mut |_| true).unwrap();
    assert!(result.little_relative_error.abs() < 1e-9, "{}", result.little_relative_error);
    result
}

fn one_station(station: &str, rate: f64) -> String {
    format!(
        "stations.server = {{ {station} }}\nclasses.jobs = {{ rate = \"{rate}/s\", route = [\"server\"] }}"
    )
}

/// P(n jobs), 0 … K, of the birth-death chain with this arrival rate and these rates of service.
fn birth_death(arrivals: f64, capacity: usize, service: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut weights = vec![1.0];
    (1..=capacity).for_each(|n| weights.push(weights[n - 1] * arrivals / service(n)));
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

fn check_station(station: &str, rate: f64, capacity: usize, service: impl Fn(usize) -> f64) {
    let found = simulated(&one_station(station, rate));
    let levels = birth_death(rate, capacity, service);
    let present: f64 = levels.iter().enumerate().map(|(n, p)| n as f64 * p).sum();
    let lost = levels[capacity];
    check(found.loss.probability, lost, 0.03);
    assert!((found.loss.probability - lost).abs() < 2.5 * found.loss.probability_half_width.unwrap());
    check(found.response_time_seconds.mean, present / rate / (1.0 - lost), 0.015);
    check(found.throughput_per_second, rate * (1.0 - lost), 0.01);
    check(found.loss.offered_per_second, rate, 0.01);
    check(found.stations.0[0].1.full_probability.unwrap(), lost, 0.03);
    check(found.stations.0[0].1.queue_mean, present, 0.02);
}

#[test]
fn losses_are_those_of_birth_and_death() {
    let exponential = r#"demand = { law = "exponential", mean = "1s" }"#;
    check_station(&format!(r#"discipline = "fifo", servers = 2, queue = 3, {exponential}"#), 2.4, 5, |n| {
        n.min(2) as f64
    });
    check_station(
        &format!(r#"discipline = "lps", r = 4, servers = 2, capacity = 6, {exponential}"#),
        1.8,
        6,
        |n| n.min(2) as f64,
    );
    // Processor sharing and delays are insensitive to the law of demand: Erlang's loss formula for the latter.
    let variable = r#"demand = { law = "hyper-exponential", mean = "1s", scv = 4 }"#;
    check_station(&format!(r#"discipline = "ps", capacity = 4, {variable}"#), 1.2, 4, |_| 1.0);
    check_station(&format!(r#"discipline = "is", capacity = 3, {variable}"#), 2.0, 3, |n| n as f64);
}

#[test]
fn turned_away_users_think_again() {
    // Engset: 6 users, thinking 2 s, 2 lines.
    let text = r#"
        stations.lines = { discipline = "is", capacity = 2, demand = { law = "exponential", mean = "1s" } }
        classes.users = { users = 6, think_time = { law = "exponential", mean = "2s" }, route = ["lines"] }
    "#;
    let found = simulated(text);
    // P(n) ~ C(6, n)/2ⁿ: 1, 3, 3.75; an arrival sees the other five: 1, 2.5, 2.5.
    check(found.throughput_per_second, (3.0 + 2.0 * 3.75) / 7.75, 0.01);
    check(found.loss.probability, 2.5 / 6.0, 0.01);
}

#[test]
fn a_full_station_blocks_the_one_before() {
    // Two exponential servers, the first never idle, no room between: (μ + μ)/(3μ²)·μ² = 2/3 (Hunt 1956).
    let text = |capacity: u32| {
        format!(
            r#"
            stations.a = {{ discipline = "fifo", demand = {{ law = "exponential", mean = "1s" }} }}
            stations.b = {{ discipline = "fifo", capacity = {capacity}, when_full = "block", demand = {{ law = "exponential", mean = "1s" }} }}
            classes.users = {{ users = 40, think_time = "0s", route = ["a", "b"] }}
            "#
        )
    };
    check(simulated(&text(1)).throughput_per_second, 2.0 / 3.0, 0.01);
    // With room for q jobs between: (q + 2)/(q + 3).
    let found = simulated(&text(4));
    check(found.throughput_per_second, 5.0 / 6.0, 0.01);
    let stations = &found.stations;
    // A blocked job is still at its station: all users are at one or the other.
    check(stations.0[0].1.queue_mean + stations.0[1].1.queue_mean, 40.0, 1e-9);
    assert!(stations.0[1].1.full_probability.unwrap() > 0.1 && found.loss.jobs == 0);
}

#[test]
fn blocking_passes_back_through_several_stations() {
    // No room before b and c: with constant demands the line moves in step with its slowest station.
    let text = r#"
        stations.a = { discipline = "lps", r = 2, servers = 2, queue = 3, demand = "100ms" }
        stations.b = { discipline = "fifo", capacity = 1, when_full = "block", demand = "100ms" }
        stations.c = { discipline = "fifo", capacity = 1, when_full = "block", demand = "250ms" }
        classes.jobs = { rate = "20/s", route = ["a", "b", "c"] }
    "#;
    let found = simulated(text);
    check(found.throughput_per_second, 4.0, 1e-3);
    check(found.loss.probability, 0.8, 1e-2);
}

#[test]
fn clients_come_again() {
    // M/M/1/1 with exponential retries: ρ(λ + ρν)/((1 − ρ)ν) in orbit (Falin & Templeton 1997, section 1.1).
    let text = |retry: &str| {
        one_station(
            &format!(
                r#"discipline = "fifo", capacity = 1, when_full = {{ {retry} }}, demand = {{ law = "exponential", mean = "1s" }}"#
            ),
            0.5,
        )
    };
    let found = simulated(&text(r#"retry = { law = "exponential", mean = "1s" }"#));
    check(found.response_time_seconds.mean, 3.0, 0.02);
    assert_eq!((found.loss.jobs, found.loss.probability_half_width), (0, None));
    // A job that never retries is lost as if refused: ρ/(1 + ρ).
    let found = simulated(&text(r#"retry = "1s", retries = 0"#));
    check(found.loss.probability, 1.0 / 3.0, 0.02);
    let patient = simulated(&text(r#"retry = "1s", backoff = 2, retries = 6"#));
    assert!(patient.loss.probability > 0.0 && patient.loss.probability < 0.1);
    assert!(patient.response_time_seconds.p99 > 3.0);
}

#[test]
fn an_overloaded_station_that_never_loses_is_refused_or_does_not_converge() {
    let server = r#"discipline = "fifo", capacity = 8, demand = { law = "exponential", mean = "1s" }"#;
    let forever = one_station(&format!(r#"{server}, when_full = {{ retry = "1s" }}"#), 1.1);
    let plan = Plan { jobs_max: 200_000, ..Plan::default() };
    let run = |text: &str| simulate_system(&parse(text).unwrap(), &plan, &[], &mut |_| true);
    assert!(matches!(run(&forever), Err(SimulationError::Unstable { .. })));
    assert!(run(&one_station(server, 1.1)).is_ok());
    // Each station alone would be stable; together, without room between them, they are not.
    let tandem = r#"
        stations.a = { discipline = "fifo", demand = { law = "exponential", mean = "1s" } }
        stations.b = { discipline = "fifo", capacity = 1, when_full = "block", demand = { law = "exponential", mean = "1s" } }
        classes.jobs = { rate = "0.9/s", route = ["a", "b"] }
    "#;
    assert!(!run(tandem).unwrap().converged);
}

#[test]
fn a_held_place_is_given_back_by_a_lost_job() {
    // The helper is held while the line is used; the line turns away: without giving back, the helpers run out.
    let text = r#"
        stations.web = { discipline = "fifo", servers = 3, demand = "10ms" }
        stations.line = { discipline = "is", capacity = 1, demand = { law = "exponential", mean = "100ms" } }
        classes.jobs = { rate = "20/s", route = ["web", { station = "line", holds = "web" }] }
    "#;
    let found = simulated(text);
    assert!(found.loss.probability > 0.4 && found.throughput_per_second > 5.0);
}

#[test]
fn jobs_with_priority_wait_for_the_one_in_service_and_each_other() {
    // Cobham: W0 = (0.4 * 2 + 0.2 * 2^2) / 2, W1 = W0 / (1 - 0.4), W2 = W1 / (1 - 0.8).
    let text = r#"
        stations.one = { discipline = "fifo", demand = { law = "exponential", mean = "1s" } }
        classes.first = { rate = "0.4/s", route = [{ station = "one", priority = true }] }
        classes.second = { rate = "0.2/s", route = [{ station = "one", demand = "2s" }] }
    "#;
    let found = simulated(text);
    let wait = (0.4 * 2.0 + 0.2 * 4.0) / 2.0 / 0.6;
    for (name, expected) in [("first", wait + 1.0), ("second", wait / 0.2 + 2.0)] {
        check(found.classes.find(name).unwrap().response_time_seconds.mean, expected, 0.02);
    }
}

#[test]
fn short_jobs_overtake_long_ones_that_had_their_slice() {
    // Multilevel feedback with two levels. A slice with priority waits for what is left of the one in service, of
    // whatever level, W0 = 0.8 / 2 * 1, and for the others with priority: W0 / (1 - 0.4).
    let text = r#"
        stations.one = { discipline = "fifo", demand = "1s" }
        classes.short = { rate = "0.2/s", route = [{ station = "one", priority = true }] }
        classes.long = { rate = "0.2/s", route = [{ station = "one", priority = true }, "one", "one"] }
    "#;
    check(simulated(text).classes.find("short").unwrap().response_time_seconds.mean, 0.4 / 0.6 + 1.0, 0.02);
}

#[test]
fn throughputs_of_classes_have_intervals() {
    // Two users at M/M/1//2 with as long a thought as a demand: busy in 4 of 5 seconds. Visitors come at 1/s.
    let text = r#"
        stations.one = { discipline = "ps", demand = { law = "exponential", mean = "1s" } }
        stations.other = { discipline = "ps", demand = { law = "exponential", mean = "200ms" } }
        classes.users = { users = 2, think_time = { law = "exponential", mean = "1s" }, route = ["one"] }
        classes.visitors = { rate = "1/s", route = ["other"] }
    "#;
    let found = simulated(text);
    for (name, expected) in [("users", 0.8), ("visitors", 1.0)] {
        let class = found.classes.find(name).unwrap();
        let half_width = class.throughput_half_width_per_second.unwrap();
        assert!(half_width < 0.02 * expected, "{name} {half_width}");
        check(class.throughput_per_second, expected, 2.0 * half_width / expected);
        check(class.loss.offered_per_second, class.throughput_per_second, 1e-12);
    }
    let half_width = found.throughput_half_width_per_second.unwrap();
    check(found.throughput_per_second, 1.8, 2.0 * half_width / 1.8);
}

#[test]
fn many_healthy_stations_are_not_taken_for_a_run_without_its_tail() {
    // Each of 20 stations would pass a test at 95 % in 19 of 20 runs, but all 20 in 0.95²⁰ = 36 % of the runs only.
    let station = |index: usize| {
        format!(
            "stations.s{index} = {{ discipline = \"fifo\", demand = {{ law = \"exponential\", mean = \"1s\" }} }}\n"
        )
    };
    let route =
        |index: usize| format!(r#"{{ name = "{index}", probability = 0.05, visits = ["s{index}"] }}"#);
    let (stations, routes): (String, Vec<String>) =
        ((0..20).map(station).collect(), (0..20).map(route).collect());
    let text = format!("{stations}classes.c = {{ rate = \"6/s\", routes = [{}] }}", routes.join(", "));
    let system = parse(&text).unwrap();
    let lacks_its_tail = |seed: &u64| {
        let plan = Plan { seed: *seed, jobs_min: 200_000, jobs_max: 200_000, ..Plan::default() };
        let found = simulate_system(&system, &plan, &[], &mut |_| true).unwrap();
        let reason = found.figures.find("mean").unwrap().reason.clone();
        reason.is_some_and(|reason| reason.contains("rare large demands"))
    };
    let refused = (1..=12).filter(lacks_its_tail).count();
    assert!(refused <= 2, "{refused} of 12");
}

#[test]
fn a_run_in_which_nearly_all_jobs_are_lost_can_be_interrupted() {
    // One job in a million finds the server free: 1,000 finished jobs are 10⁹ arrivals.
    let system = parse(&one_station(r#"discipline = "fifo", queue = 0, demand = "1s""#, 1e6)).unwrap();
    let plan = Plan { jobs_max: 1_000, ..Plan::default() };
    let mut calls = 0;
    let found = simulate_system(&system, &plan, &[], &mut |progress| {
        calls += 1;
        progress.jobs < 6
    });
    let found = found.unwrap();
    assert!(!found.complete && found.jobs < 20 && calls > 1, "{} jobs, {calls} calls", found.jobs);
}

#[test]
fn each_kind_of_class_needs_its_own_length() {
    // The open queue at ρ = 0.8 and C² = 1 needs 8 · 2 · 2 (1 + C²)/(1 − ρ)² = 1,600 jobs. Beside the fast user, a run of 100,000
    // jobs has about 80 of them, one of 3,000,000 has 2,400.
    let text = r#"
        stations.slow = { discipline = "fifo", demand = { law = "exponential", mean = "1s" } }
        stations.fast = { discipline = "ps", demand = { law = "exponential", mean = "1ms" } }
        classes.open = { rate = "0.8/s", route = ["slow"] }
        classes.user = { users = 1, think_time = "0s", route = ["fast"] }
    "#;
    let system = parse(text).unwrap();
    let is_too_short = |jobs: u64| {
        let plan = Plan { jobs_min: jobs, jobs_max: jobs, relative_half_width: 1e-6, ..Plan::default() };
        let found = simulate_system(&system, &plan, &[], &mut |_| true).unwrap();
        let reason = found.figures.find("mean").unwrap().reason.clone();
        reason.is_some_and(|reason| reason.contains("to reach steady state"))
    };
    assert!(is_too_short(100_000));
    assert!(!is_too_short(3_000_000));
}

/// The states of all groups after these looks, each group started anew.
fn states(system: &System, plan: &Plan, looks: &[u64]) -> Vec<Vec<u8>> {
    let state = |index| {
        ReplicationGroup::serve(system, plan, index, |group| group.advance(looks, &mut || true).unwrap())
    };
    (0..group_count(plan.replications)).map(|index| state(index).unwrap()).collect()
}

fn lossy() -> System {
    let station = r#"discipline = "fifo", capacity = 5, demand = { law = "exponential", mean = "1s" }"#;
    parse(&one_station(station, 0.9)).unwrap()
}

#[test]
fn replications_elsewhere_give_the_same_result() {
    let system = lossy();
    // More replications than groups: some share their records.
    for (replications, jobs_max) in [(3, 300_000), (40, 150_000)] {
        let targets = vec![Target::Mean, Target::P95];
        let plan = Plan { replications, jobs_max, targets, relative_half_width: 0.01, ..Plan::default() };
        let here = simulate_system(&system, &plan, &[], &mut |_| true).unwrap();
        let mut looks_seen = 0;
        let mut advance = |looks: &[u64]| {
            looks_seen = looks.len();
            Some(states(&system, &plan, looks))
        };
        let elsewhere = simulate_in_groups(&system, &plan, &mut advance, &mut |_| true).unwrap();
        assert_eq!(elsewhere, here);
        assert!(looks_seen > 1, "a single look tests little");
    }
}

#[test]
fn replications_elsewhere_may_be_interrupted() {
    let (system, plan) = (lossy(), Plan { replications: 2, relative_half_width: 1e-6, ..Plan::default() });
    let mut advance = |looks: &[u64]| (looks.len() < 3).then(|| states(&system, &plan, looks));
    let found = simulate_in_groups(&system, &plan, &mut advance, &mut |_| true).unwrap();
    assert!(!found.complete && found.jobs > 65_536, "{} jobs", found.jobs);
    let none = simulate_in_groups(&system, &plan, &mut |_| None, &mut |_| true).unwrap();
    assert_eq!((none.complete, none.jobs), (false, 0));
}

#[test]
fn states_that_are_none_are_refused() {
    let (system, plan) = (lossy(), Plan { replications: 1, jobs_min: 10, jobs_max: 3000, ..Plan::default() });
    let whole = states(&system, &plan, &[3000]);
    let refused = |states: Vec<Vec<u8>>| {
        simulate_in_groups(&system, &plan, &mut |_| Some(states.clone()), &mut |_| true).is_err()
    };
    assert!(!refused(whole.clone()));
    assert!(refused(vec![]) && refused([&whole[..], &whole[..]].concat()));
    // Its first fields densely, then a hundred places in the histograms that follow.
    let bytes = whole[0].len();
    let places = || (0..1000.min(bytes)).step_by(7).chain((1000..bytes).step_by(bytes / 100));
    for length in places() {
        assert!(refused(vec![whole[0][..length].to_vec()]), "{length} bytes");
    }
    // Whatever a byte becomes, nothing panics.
    for place in places() {
        let mut changed = whole[0].clone();
        changed[place] ^= 0xff;
        refused(vec![changed]);
    }
}
