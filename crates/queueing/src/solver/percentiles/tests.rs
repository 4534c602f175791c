//! Percentiles against known distributions, the exact distribution of limited sharing, and simulation.

use crate::simulator::{Plan, simulate_system};
use crate::solver::{PredictedTime, predict, predict_means};
use crate::system_file::parse;
use crate::testing::check;

/// The percentiles of the first class, and what they rest on.
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
        check(value.unwrap() - 1.0, -5.0 * (1.0_f64 - p).ln(), 2e-5);
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
