//! Percentiles against known distributions, the exact distribution of limited sharing, and simulation.

use super::PROBABILITIES;
use crate::distribution::{Distribution, RandomVariable};
use crate::random::Random;
use crate::simulator::{Plan, simulate_system};
use crate::solver::{PredictedTime, predict, predict_means};
use crate::system_file::parse;
use crate::testing::check;

/// The percentiles of the first class, with their basis.
fn predicted(text: &str) -> (PredictedTime, String) {
    let prediction = predict(&parse(text).unwrap());
    let answer = prediction.solvers.find("open").unwrap().answer.clone().unwrap();
    (answer.classes.0[0].1.response_time_seconds, answer.percentiles)
}

fn queue(station: &str, rate: f64) -> String {
    format!(
        "stations.a = {{ {station} }}\nclasses.c = {{ rate = \"{rate}/s\", route = [\"a\"], latency = \"1s\" }}"
    )
}

#[test]
fn mm1_is_exponential() {
    let text = queue(r#"discipline = "fifo", demand = { law = "exponential", mean = "1s" }"#, 0.8);
    let (found, basis) = predicted(&text);
    for (p, value) in
        [(0.5, found.p50), (0.9, found.p90), (0.95, found.p95), (0.99, found.p99), (0.999, found.p999)]
    {
        check(value.unwrap() - 1.0, -5.0 * (1.0_f64 - p).ln(), 1e-4);
    }
    assert_eq!(basis, "exact");
}

#[test]
fn a_tandem_of_delays_adds_up() {
    // Two Erlang delays of two stages each and equal rates make one of four: p99 of Erlang-4 is 10.045 stages.
    let text = r#"
        stations.a = { discipline = "is", demand = { law = "erlang", mean = "2s", stages = 2 } }
        stations.b = { discipline = "is", demand = "3s" }
        classes.c = { rate = "1/s", route = ["a", "b", "a"] }
    "#;
    let (found, basis) = predicted(text);
    check(found.p99.unwrap() - 3.0, 10.045_12, 1e-4);
    assert_eq!(basis, "exact");
}

#[test]
fn limited_sharing_is_exact() {
    let text = queue(
        r#"discipline = "lps", r = 4, demand = { law = "hyper-exponential", mean = "25.675ms", scv = 10 }"#,
        31.158_71,
    );
    let (found, basis) = predicted(&text);
    check(found.p50.unwrap() - 1.0, 0.0599, 2e-3);
    check(found.p95.unwrap() - 1.0, 1.723, 2e-3);
    check(found.p999.unwrap() - 1.0, 5.268, 2e-3);
    assert_eq!(basis, "exact");
}

#[test]
fn processor_sharing_by_two_moments_is_near_the_exact_distribution() {
    // Exponential demand at ρ = 0.7: the gamma shape beside the tagged job's distribution, which is exact.
    let exact = queue(r#"discipline = "ps", demand = { law = "exponential", mean = "1s" }"#, 0.7);
    let shaped = r#"
        document = { law = "exponential", mean = "1MB" }
        stations.a = { discipline = "ps", rate = "1MB/s" }
        classes.c = { rate = "0.7/s", route = ["a"], latency = "1s" }
    "#;
    let ((exact, label), (shaped, other)) = (predicted(&exact), predicted(shaped));
    assert!(label == "exact" && other.contains("two conditional moments"), "{label} {other}");
    for (a, b) in
        [(exact.p50, shaped.p50), (exact.p90, shaped.p90), (exact.p99, shaped.p99), (exact.p999, shaped.p999)]
    {
        check(b.unwrap() - 1.0, a.unwrap() - 1.0, 0.03);
    }
}

#[test]
fn a_shared_document_shows_end_to_end() {
    // Large documents are large at the server and on the line: percentiles of a sum of dependent times.
    let site = include_str!("../../../../../studies/systems/public-site.toml").replace("5/s", "10/s");
    let plan = Plan { relative_half_width: 0.01, seed: 3, ..Plan::default() };
    let simulated =
        simulate_system(&parse(&site).unwrap(), &plan, &[], &mut |_| true).unwrap().response_time_seconds;
    let (found, basis) = predicted(&site);
    assert!(basis.starts_with("approximation (stations independent given the document"), "{basis}");
    check(found.p50.unwrap(), simulated.p50, 0.02);
    check(found.p95.unwrap(), simulated.p95, 0.03);
    check(found.p99.unwrap(), simulated.p99, 0.05);
}

#[test]
fn what_is_not_known_is_refused() {
    let closed = r#"
        stations.a = { discipline = "ps", demand = "1s" }
        classes.c = { users = 3, think_time = "1s", route = ["a"] }
    "#;
    let answer = predict(&parse(closed).unwrap()).solvers.find("mva").unwrap().answer.clone().unwrap();
    assert!(answer.percentiles.contains("closed class") && answer.percentiles.contains("simulate"));
    assert_eq!(answer.classes.0[0].1.response_time_seconds.p99, None);
    let curve = queue(r#"discipline = "ps", speed = [1, 1.5], demand = "1s""#, 0.5);
    let (found, basis) = predicted(&curve);
    assert!(found.p50.is_none() && basis.contains("at a speed v(n) at station a"), "{basis}");
    let means = predict_means(&parse(&queue(r#"discipline = "ps", demand = "1s""#, 0.5)).unwrap());
    assert_eq!(means.solvers.find("open").unwrap().answer.as_ref().unwrap().percentiles, "not asked for");
}

/// Percentiles of the FIFO response time from simulated waits by Lindley's recursion: W' = max(0, W + S − A).
fn lindley(demand: &Distribution, rho: f64, jobs: usize, seed: u64) -> [f64; 5] {
    let (mut random, mut wait) = (Random::new(seed), 0.0_f64);
    let between = demand.mean() / rho;
    let mut times: Vec<f64> = (0..jobs)
        .map(|_| {
            let own = demand.sample(&mut random);
            let response = wait + own;
            wait = (response - between * random.exponential()).max(0.0);
            response
        })
        .collect();
    times.sort_by(f64::total_cmp);
    PROBABILITIES.map(|p| times[(p * jobs as f64) as usize])
}

#[test]
fn fifo_percentiles_of_any_law_are_those_of_simulated_waits() {
    let pareto = r#"{ law = "pareto", shape = 1.95, min = "1s", max = "428s" }"#;
    let four = r#"{ law = "empirical", values = ["1s", "2s", "5s", "20s"], weights = [50, 30, 15, 5] }"#;
    let pieces = r#"[{ below = "2MB", fixed = "1s" }, { fixed = "-1s", per_byte = "1us/B" }]"#;
    let log_normal = r#"{ law = "log-normal", mean = "1s", scv = 2 }"#;
    for (demand, rho) in [(log_normal, 0.7), (pareto, 0.5), (four, 0.315), (pieces, 0.6)] {
        let text = |rate: f64| {
            format!(
                "document = {{ law = \"exponential\", mean = \"1MB\" }}\n\
                 stations.a = {{ discipline = \"fifo\", demand = {demand} }}\n\
                 classes.c = {{ rate = \"{rate}/s\", route = [\"a\"] }}"
            )
        };
        let class = &parse(&text(1e-3)).unwrap().classes[0];
        let law = class.routes[0].visits[0].demand.distribution(class.document.as_ref());
        let (found, basis) = predicted(&text(rho / law.mean()));
        assert_eq!(basis, "exact");
        let simulated = lindley(&law, rho, 2_000_000, 5);
        let found = [found.p50, found.p90, found.p95, found.p99, found.p999].map(Option::unwrap);
        for ((found, simulated), tolerance) in
            found.into_iter().zip(simulated).zip([0.01, 0.02, 0.02, 0.04, 0.1])
        {
            check(found, simulated, tolerance);
        }
    }
}

#[test]
fn what_the_lattice_does_not_resolve_is_not_called_exact() {
    let (_, near) = predicted(&queue(r#"discipline = "fifo", demand = "1s""#, 0.9995));
    assert!(near.starts_with("bounds "), "{near}");
    // Half of the answers take 1 s, half take 3 s: the median is any value between.
    let coin = r#"discipline = "is", demand = { law = "empirical", values = ["1s", "3s"] }"#;
    let (_, gap) = predicted(&queue(coin, 0.5));
    assert!(gap.starts_with("bounds "), "{gap}");
}

#[test]
fn several_servers_are_exact_for_phases() {
    let text = queue(
        r#"discipline = "fifo", servers = 3, demand = { law = "hyper-exponential", mean = "25.675ms", scv = 10 }"#,
        0.7 * 3.0 / 0.025_675,
    );
    let (found, basis) = predicted(&text);
    assert_eq!(basis, "exact");
    check(found.p95.unwrap() - 1.0, 0.426_44, 1e-3);
}

#[test]
fn sharing_is_the_same_by_tables_and_by_transforms() {
    // The demand drawn at the station (a table on the lattice), or that of a document (transforms).
    let own = queue(r#"discipline = "ps", demand = { law = "log-normal", mean = "1s", scv = 2 }"#, 0.6);
    let sized = r#"
        document = { law = "log-normal", mean = "1MB", scv = 2 }
        stations.a = { discipline = "ps", rate = "1MB/s" }
        classes.c = { rate = "0.6/s", route = ["a"], latency = "1s" }
    "#;
    let ((own, basis), (sized, other)) = (predicted(&own), predicted(sized));
    assert_eq!(basis, other);
    for (a, b) in [(own.p50, sized.p50), (own.p90, sized.p90), (own.p99, sized.p99), (own.p999, sized.p999)] {
        check(a.unwrap() - 1.0, b.unwrap() - 1.0, 0.01);
    }
}

#[test]
fn a_job_that_cannot_be_followed_is_named_with_its_station() {
    let station = r#"discipline = "lps", r = 4, demand = { law = "exponential", mean = "1s" }"#;
    for station in [station.to_owned(), format!("{station}, capacity = 20000")] {
        let (found, basis) = predicted(&queue(&station, 0.9999));
        assert_eq!(found.p99, None);
        assert!(basis.starts_with("no percentiles: following a job through the queue"), "{basis}");
        assert!(basis.ends_with("varies much at station a (line 1); simulate"), "{basis}");
    }
}

#[test]
fn many_servers_at_a_low_load_take_the_demand_alone() {
    // Of 256 servers 5 are busy: P(all are) is about e⁻⁵ 5²⁵⁶ / 256! = 10⁻³³⁰, which a double does not hold.
    let (found, basis) = predicted(&queue(r#"discipline = "fifo", servers = 256, demand = "50ms""#, 100.0));
    for value in [found.p50, found.p95, found.p999] {
        check(value.unwrap(), 1.05, 1e-4);
    }
    assert_eq!(basis, "exact");
    let (found, _) = predicted(&queue(
        r#"discipline = "fifo", servers = 200, demand = { law = "exponential", mean = "1s" }"#,
        1.0,
    ));
    check(found.p99.unwrap(), 1.0 + 100.0_f64.ln(), 1e-4);
}
