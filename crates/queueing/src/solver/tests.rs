//! Solvers against textbooks, each other and simulation.

use super::*;
use crate::simulator::{Plan, simulate_system};
use crate::system_file::parse;

fn check(actual: f64, expected: f64, relative: f64) {
    assert!(
        (actual - expected).abs() <= relative * expected.abs(),
        "{actual} is not {expected} within {relative}"
    );
}

fn answer(text: &str, solver: &str) -> Answer {
    let outcome = predict(&parse(text).unwrap()).solvers.find(solver).unwrap().clone();
    outcome.answer.unwrap_or_else(|| panic!("{solver} refused: {:?}", outcome.refusal))
}

fn class(text: &str, solver: &str, class: &str) -> (f64, f64) {
    let answer = *answer(text, solver).classes.find(class).unwrap();
    (answer.throughput_per_second, answer.response_time_seconds.mean)
}

/// The web server of the thesis behind a 6 Mbit/s line, asked by users without think time.
fn closed_site(users: u32, line: &str) -> String {
    format!(
        r#"
        document = {{ law = "log-normal", mu = 7.811, sigma = 1.573, unit = "B" }}
        stations.backbone = {{ discipline = "is", demand = "195ms" }}
        stations.web = {{ discipline = "lps", r = 16, demand = {{ fixed = "21.55ms", per_byte = "0.4851us/B" }} }}
        stations.line = {{ discipline = "ps", rate = "{line}" }}
        classes.users = {{ users = {users}, think_time = "0s", route = ["backbone", "web", "line"] }}
        "#
    )
}

#[test]
fn mva_matches_the_textbook() {
    // Lazowska et al. 1984, section 6.4: CPU 0.605 s, disks 2.1 and 1.35 s, think 15 s, 3 users.
    let text = r#"
        stations.cpu = { discipline = "ps", demand = "605ms" }
        stations.disk1 = { discipline = "ps", demand = "2100ms" }
        stations.disk2 = { discipline = "ps", demand = "1350ms" }
        classes.users = { users = 3, think_time = "15s", route = ["cpu", "disk1", "disk2"] }
    "#;
    let (throughput, response) = class(text, "mva", "users");
    check(throughput, 0.152, 5e-3);
    check(response, 4.74, 0.02);
    let (approximate, _) = class(text, "amva", "users");
    check(approximate, throughput, 0.02);
}

#[test]
fn two_classes_match_simulation() {
    let text = r#"
        stations.cpu = { discipline = "ps", demand = { law = "hyper-exponential", mean = "10ms", scv = 4 } }
        stations.disk = { discipline = "ps", demand = "30ms" }
        classes.a = { users = 3, think_time = "0s", route = ["cpu", "disk"] }
        classes.b = { users = 5, think_time = { law = "exponential", mean = "100ms" }, route = ["cpu", "disk", "cpu"] }
    "#;
    // Users in lock-step with constant demands never forget how they started, so something must be random.
    let plan = Plan { relative_half_width: 0.004, ..Plan::default() };
    let simulated = simulate_system(&parse(text).unwrap(), &plan, &[], &mut |_| true).unwrap();
    for name in ["a", "b"] {
        let (throughput, response) = class(text, "mva", name);
        check(simulated.classes.find(name).unwrap().throughput_per_second, throughput, 0.03);
        check(simulated.classes.find(name).unwrap().response_time_seconds.mean, response, 0.03);
    }
}

#[test]
fn mixed_networks_match_simulation() {
    let text = r#"
        stations.cpu = { discipline = "ps", demand = { law = "hyper-exponential", mean = "10ms", scv = 4 } }
        stations.net = { discipline = "is", demand = "50ms" }
        classes.open = { rate = "40/s", route = ["cpu"] }
        classes.closed = { users = 4, think_time = "0s", route = ["cpu", "net"] }
    "#;
    let plan = Plan { relative_half_width: 0.01, ..Plan::default() };
    let simulated = simulate_system(&parse(text).unwrap(), &plan, &[], &mut |_| true).unwrap();
    let (throughput, _) = class(text, "mva", "closed");
    check(simulated.classes.find("closed").unwrap().throughput_per_second, throughput, 0.01);
    let (_, response) = class(text, "mva", "open");
    check(simulated.classes.find("open").unwrap().response_time_seconds.mean, response, 0.03);
}

#[test]
fn closed_site_is_bracketed() {
    // N = 20 and 40, r = 16: the two methods bracket the simulation from opposite sides at N = 40.
    let text = closed_site(40, "6Mbit/s");
    let plan = Plan { relative_half_width: 0.005, ..Plan::default() };
    let simulated = simulate_system(&parse(&text).unwrap(), &plan, &[], &mut |_| true).unwrap();
    let simulated = simulated.response_time_seconds.mean;
    let (_, ps) = class(&text, "mva", "users");
    let (_, fixed) = class(&text, "fixed-point", "users");
    assert!(ps < simulated * 1.01 && simulated < fixed * 1.01, "{ps} {simulated} {fixed}");
    check(fixed, simulated, 0.10);
}

#[test]
fn the_fixed_point_converges_at_any_load() {
    for users in [1, 10, 100, 10_000] {
        let (throughput, response) = class(&closed_site(users, "6Mbit/s"), "fixed-point", "users");
        check(throughput * response, f64::from(users), 1e-3);
        assert!(throughput < 38.96);
    }
}

#[test]
fn bounds_hold_and_name_the_population() {
    let text = closed_site(20, "1.5Mbit/s");
    let prediction = predict(&parse(&text).unwrap());
    let bounds = prediction.bounds.unwrap();
    let (throughput, response) = class(&text, "mva", "users");
    assert!(bounds.throughput_min_per_second <= throughput && throughput <= bounds.throughput_max_per_second);
    assert!(bounds.response_time_min_seconds <= response && response <= bounds.response_time_max_seconds);
    check(bounds.saturation_users, (0.195 + 0.025675 + 0.045349) / 0.045349, 1e-3);
    assert_eq!(prediction.bottleneck.station.as_deref(), Some("line"));
    assert_eq!(prediction.bottleneck.next.as_deref(), Some("web"));
}

fn bounds(text: &str) -> Option<Bounds> {
    predict_means(&parse(text).unwrap()).bounds
}

#[test]
fn bounds_count_the_latency_as_mean_value_analysis_does() {
    let text = r#"
        stations.a = { discipline = "ps", demand = "10ms" }
        classes.users = { users = 1, think_time = "1s", latency = "100ms", route = ["a"] }
    "#;
    // A user alone never waits: 10 ms and the latency.
    let found = bounds(text).unwrap();
    for bound in [found.response_time_min_seconds, found.response_time_max_seconds] {
        check(bound, 0.11, 1e-12);
    }
    check(class(text, "mva", "users").1, 0.11, 1e-12);
}

#[test]
fn bounds_are_asymptotic_without_product_form() {
    // M/D/1//2: a service during which the other user does not ask (e⁻¹) is followed by an idle time of 1/2 on average, so
    // X = 1 / (1 + e⁻¹/2) = 0.845. The balanced-job bound is 2 / (2 + 1/2) = 0.8, right for exponential demand only.
    let text = |demand: &str| {
        format!(
            "stations.a = {{ discipline = \"fifo\", demand = {demand} }}\n\
             classes.users = {{ users = 2, think_time = {{ law = \"exponential\", mean = \"1s\" }}, route = [\"a\"] }}"
        )
    };
    let constant = bounds(&text("\"1s\"")).unwrap();
    check(constant.throughput_min_per_second, 2.0 / 3.0, 1e-12);
    check(constant.throughput_max_per_second, 1.0, 1e-12);
    let exponential = bounds(&text(r#"{ law = "exponential", mean = "1s" }"#)).unwrap();
    check(exponential.throughput_max_per_second, 0.8, 1e-12);
}

#[test]
fn places_that_are_held_have_no_bounds_and_no_saturation() {
    // The only place at the web server is taken for 10 + 90 ms: at most 10 jobs a second, not 100.
    let text = |source: &str| {
        format!(
            r#"
            stations.web = {{ discipline = "fifo", demand = "10ms" }}
            stations.db = {{ discipline = "is", demand = "90ms" }}
            stations.line = {{ discipline = "ps", demand = "2ms" }}
            classes.c = {{ {source}, route = ["web", {{ station = "db", holds = "web" }}, "line"] }}
            "#
        )
    };
    let prediction = predict_means(&parse(&text("users = 10, think_time = \"0s\"")).unwrap());
    assert_eq!(prediction.bounds, None);
    let found = prediction.bottleneck;
    assert_eq!(found.stations.find("web").unwrap().saturation_throughput_per_second, None);
    assert_eq!((found.station.as_deref(), found.next), (Some("line"), None));
    check(found.saturation_throughput_per_second.unwrap(), 500.0, 1e-12);
    let open = predict_means(&parse(&text("rate = \"5/s\"")).unwrap()).bottleneck;
    assert_eq!(open.growth_factor_max, None);
}

#[test]
fn open_traffic_saturates_a_station_at_the_speed_of_all_its_places() {
    // v(100) = 100 / (1 + 0.001 · 100 · 99) = 9.174; the peak is v(32) = 16.06. 250/s of 20 ms are 5 s of work per second.
    let text = r#"
        stations.web = { discipline = "lps", r = 100, speed = { alpha = 0, beta = 0.001 }, demand = "20ms" }
        classes.jobs = { rate = "250/s", route = ["web"] }
    "#;
    let found = predict_means(&parse(text).unwrap()).bottleneck;
    let full = 100.0 / 10.9;
    check(found.growth_factor_max.unwrap(), full / 5.0, 1e-9);
    check(found.saturation_throughput_per_second.unwrap(), full / 0.02, 1e-9);
    let station = found.stations.find("web").unwrap();
    let peak = 32.0 / (1.0 + 0.001 * 32.0 * 31.0);
    check(station.open_utilisation.unwrap(), 5.0 / peak, 1e-9);
    // A closed class may keep it at its peak.
    let closed = text.replace("rate = \"250/s\"", "users = 40, think_time = \"1s\"");
    let found = predict_means(&parse(&closed).unwrap()).bottleneck;
    check(found.saturation_throughput_per_second.unwrap(), peak / 0.02, 1e-9);
}

#[test]
fn open_stations_add_up() {
    // T20: the open PS line at 10 requests a second needs 1.36 Mbit/s for a mean of 100 ms.
    let text = r#"
        document = { law = "log-normal", mu = 7.811, sigma = 1.573, unit = "B" }
        stations.line = { discipline = "ps", rate = "1.3605Mbit/s" }
        classes.visitors = { rate = "10/s", route = ["line"], latency = "5ms" }
    "#;
    let (_, response) = class(text, "open", "visitors");
    check(response, 0.105, 2e-3);
    let prediction = predict(&parse(text).unwrap());
    assert!(prediction.solvers.find("mva").unwrap().refusal.as_ref().unwrap().contains("no closed class"));
    check(prediction.bottleneck.growth_factor_max.unwrap(), 2.0, 2e-3);
}

#[test]
fn exact_lps_behind_a_delay() {
    let text = r#"
        stations.backbone = { discipline = "is", demand = "100ms" }
        stations.web = { discipline = "lps", r = 4, demand = { law = "hyper-exponential", mean = "25.675ms", scv = 10 } }
        classes.visitors = { rate = "31.15871/s", route = ["backbone", "web"] }
    "#;
    check(class(text, "exact-lps", "visitors").1, 0.1 + 0.34965, 1e-3);
    check(class(text, "open", "visitors").1, 0.1 + 0.365, 1e-3);
    let sized = closed_site(3, "6Mbit/s").replace("users = 3, think_time = \"0s\"", "rate = \"1/s\"");
    let refusal = predict(&parse(&sized).unwrap()).solvers.find("exact-lps").unwrap().refusal.clone();
    assert!(refusal.unwrap().contains("depends on the document size"));
}

#[test]
fn several_servers() {
    let text = |servers: u32, kind: &str| {
        format!(
            r#"
            stations.cpu = {{ discipline = "{kind}", servers = {servers}, demand = {{ law = "exponential", mean = "1s" }} }}
            classes.open = {{ rate = "3.2/s", route = ["cpu"] }}
            "#
        )
    };
    // Erlang C of 4 servers at ρ = 0.8 is 0.5964.
    for kind in ["fifo", "ps"] {
        check(class(&text(4, kind), "open", "open").1, 1.0 + 0.5964 / 0.8, 1e-3);
    }
    let refusal = predict(&parse(&text(3, "ps")).unwrap()).solvers.find("open").unwrap().refusal.clone();
    let refusal = refusal.unwrap();
    assert!(refusal.contains("station cpu is unstable") && refusal.ends_with("(line 2)"), "{refusal}");
}

#[test]
fn load_dependent_mva_matches_simulation() {
    let text = r#"
        stations.cpu = { discipline = "ps", servers = 4, demand = "100ms" }
        classes.users = { users = 30, think_time = { law = "exponential", mean = "500ms" }, route = ["cpu"] }
    "#;
    let plan = Plan { relative_half_width: 0.005, ..Plan::default() };
    let simulated = simulate_system(&parse(text).unwrap(), &plan, &[], &mut |_| true).unwrap();
    let (throughput, response) = class(text, "load-dependent-mva", "users");
    check(simulated.throughput_per_second, throughput, 0.01);
    check(simulated.response_time_seconds.mean, response, 0.02);
}

#[test]
fn a_large_population_is_referred_to_amva() {
    let class = |name: &str| {
        format!(r#"classes.{name} = {{ users = 900, think_time = "1s", route = ["a", "b"] }}"#) + "\n"
    };
    let text = "stations.a = { discipline = \"ps\", demand = \"1ms\" }\n".to_owned()
        + "stations.b = { discipline = \"ps\", demand = \"1ms\" }\n"
        + &["x", "y", "z"].map(class).concat();
    let prediction = predict(&parse(&text).unwrap());
    assert!(
        prediction
            .solvers
            .find("mva")
            .unwrap()
            .refusal
            .as_ref()
            .unwrap()
            .ends_with("see amva, or simulate (from line 3)")
    );
    assert!(prediction.solvers.find("amva").unwrap().answer.is_some());
}

/// A web server whose speed peaks at about eight jobs and then falls, with `r` helpers.
fn thrashing(discipline: &str, demand: &str) -> String {
    format!(
        r#"
        stations.web = {{ {discipline}, speed = {{ alpha = 0.1, beta = 0.012 }}, demand = {demand} }}
        stations.net = {{ discipline = "is", demand = "50ms" }}
        "#
    )
}

const H2: &str = r#"{ law = "hyper-exponential", mean = "100ms", scv = 4 }"#;

#[test]
fn speeds_that_are_servers_agree_with_servers() {
    let text = |station: &str| {
        format!(
            r#"
            stations.cpu = {{ discipline = "ps", {station}, demand = "100ms" }}
            stations.disk = {{ discipline = "ps", demand = "30ms" }}
            classes.users = {{ users = 25, think_time = "0.5s", route = ["cpu", "disk"] }}
            "#
        )
    };
    let servers = class(&text("servers = 3"), "load-dependent-mva", "users");
    let table = class(&text("speed = [1, 2, 3]"), "load-dependent-mva", "users");
    check(table.0, servers.0, 1e-12);
    // A single server given as a table is plain MVA by another recursion.
    let single = class(&text("speed = [1, 1]"), "load-dependent-mva", "users");
    check(single.0, class(&text("servers = 1"), "mva", "users").0, 1e-9);
    check(single.1, class(&text("servers = 1"), "mva", "users").1, 1e-9);
    let open = |station: &str| text(station).replace("users = 25, think_time = \"0.5s\"", "rate = \"25/s\"");
    check(
        class(&open("speed = [1, 2, 3]"), "open", "users").1,
        class(&open("servers = 3"), "open", "users").1,
        1e-9,
    );
}

#[test]
fn state_dependent_speeds_match_simulation() {
    let closed = r#"classes.users = { users = 30, think_time = { law = "exponential", mean = "500ms" }, route = ["web", "net"] }"#;
    let mixed = closed.to_owned() + "\n" + r#"classes.open = { rate = "6/s", route = ["web"] }"#;
    let plan = Plan { relative_half_width: 0.012, ..Plan::default() };
    for demand in [r#""100ms""#, H2] {
        for classes in [closed, &mixed] {
            // A table levels off, so that open jobs can be served at any number of closed jobs.
            let web = thrashing(r#"discipline = "ps""#, demand)
                .replace("{ alpha = 0.1, beta = 0.012 }", "[1, 1.8, 2.4, 2.6, 2.3]");
            let text = web + classes;
            let simulated = simulate_system(&parse(&text).unwrap(), &plan, &[], &mut |_| true).unwrap();
            for (name, found) in &simulated.classes.0 {
                let (throughput, response) = class(&text, "load-dependent-mva", name);
                check(found.throughput_per_second, throughput, 0.02);
                check(found.response_time_seconds.mean, response, 0.03);
            }
        }
    }
}

#[test]
fn open_speeds_are_insensitive_and_limited_ones_exact() {
    let route = r#"classes.open = { rate = "20/s", route = ["web"] }"#;
    let plan = Plan { relative_half_width: 0.012, ..Plan::default() };
    let mean = |text: &str| {
        let system = parse(text).unwrap();
        simulate_system(&system, &plan, &[], &mut |_| true).unwrap().response_time_seconds.mean
    };
    for demand in [r#""100ms""#, H2] {
        let text = thrashing(r#"discipline = "ps""#, demand)
            .replace("{ alpha = 0.1, beta = 0.012 }", "[1, 1.8, 2.4, 2.6, 2.3]")
            + route;
        check(mean(&text), class(&text, "open", "open").1, 0.03);
    }
    // With r the excess waits in the queue; the distribution of demand matters, and the exact solution reflects it.
    let limited = thrashing(r#"discipline = "lps", r = 5"#, H2) + route;
    check(mean(&limited), class(&limited, "exact-lps", "open").1, 0.03);
    let exponential =
        thrashing(r#"discipline = "lps", r = 5"#, r#"{ law = "exponential", mean = "100ms" }"#) + route;
    check(class(&exponential, "open", "open").1, class(&exponential, "exact-lps", "open").1, 1e-8);
}

#[test]
fn a_speed_that_falls_to_nothing_is_refused() {
    let text = thrashing(r#"discipline = "ps""#, H2) + r#"classes.open = { rate = "1/s", route = ["web"] }"#;
    let system = parse(&text).unwrap();
    let refusal = predict(&system).solvers.find("open").unwrap().refusal.clone().unwrap();
    assert!(refusal.contains("station web is unstable at any rate") && refusal.contains("lps"), "{refusal}");
    assert!(simulate_system(&system, &Plan::default(), &[], &mut |_| true).is_err());
    let full = thrashing(r#"discipline = "lps", r = 5"#, H2)
        + r#"classes.open = { rate = "40/s", route = ["web"] }"#;
    let refusal = predict(&parse(&full).unwrap()).solvers.find("open").unwrap().refusal.clone().unwrap();
    assert!(refusal.contains("its utilisation would be 1.31"), "{refusal}");
}

fn server(station: &str, rate: f64) -> String {
    format!(
        "stations.server = {{ {station} }}\nclasses.jobs = {{ rate = \"{rate}/s\", route = [\"server\"] }}"
    )
}

#[test]
fn finite_stations_lose_what_birth_and_death_says() {
    // M/M/2/5 at 2.4 Erlang: weights 1, 2.4, 2.88, 3.456, 4.1472, 4.97664.
    let lost = 4.97664 / 18.85984;
    let exponential = r#"demand = { law = "exponential", mean = "1s" }"#;
    let fifo = server(&format!(r#"discipline = "fifo", servers = 2, queue = 3, {exponential}"#), 2.4);
    let lps = server(&format!(r#"discipline = "lps", r = 3, servers = 2, queue = 2, {exponential}"#), 2.4);
    for (text, solvers) in [(&fifo, ["open", "exact-lps"]), (&lps, ["open", "exact-lps"])] {
        for solver in solvers {
            let found = answer(text, solver);
            let class = found.classes.find("jobs").unwrap();
            check(class.loss.probability, lost, 1e-10);
            check(class.throughput_per_second, 2.4 * (1.0 - lost), 1e-10);
            check(class.loss.offered_per_second, 2.4, 1e-12);
            let station = found.stations.find("server").unwrap();
            check(station.full_probability.unwrap(), lost, 1e-10);
            // Little's law, and the utilisation law.
            check(station.queue_mean, class.throughput_per_second * class.response_time_seconds.mean, 1e-10);
            check(station.utilisation.unwrap(), class.throughput_per_second / 2.0, 1e-10);
            assert_eq!(found.percentiles, "exact");
        }
    }
    // The response time of an accepted job, by hand: exponential after n − 1 departures at rate 2.
    let p50 = answer(&fifo, "open").classes.find("jobs").unwrap().response_time_seconds.p50.unwrap();
    let plan = Plan { relative_half_width: 0.004, ..Plan::default() };
    let simulated = simulate_system(&parse(&fifo).unwrap(), &plan, &[], &mut |_| true).unwrap();
    check(simulated.response_time_seconds.p50, p50, 0.01);
    // Erlang's loss formula holds for any law: B(3, 2) = 4/19.
    let delay = server(r#"discipline = "is", capacity = 3, demand = "1s""#, 2.0);
    check(answer(&delay, "open").classes.find("jobs").unwrap().loss.probability, 4.0 / 19.0, 1e-12);
}

#[test]
fn a_finite_station_thins_what_comes_behind_it() {
    // The second station would be overloaded by what is offered; the first lets half through (M/M/1/1, ρ = 1).
    let text = r#"
        stations.door = { discipline = "fifo", capacity = 1, demand = { law = "exponential", mean = "1s" } }
        stations.line = { discipline = "ps", demand = "1600ms" }
        classes.jobs = { rate = "1/s", route = ["door", "line"], latency = "100ms" }
    "#;
    let found = answer(text, "open");
    let class = found.classes.find("jobs").unwrap();
    check(class.throughput_per_second, 0.5, 1e-9);
    check(class.response_time_seconds.mean, 0.1 + 1.0 + 1.6 / 0.2, 1e-9);
    // What the door lets through is not Poisson, and the percentiles say so, too.
    assert!(found.percentiles.starts_with("approximation (stations independent"), "{}", found.percentiles);
    // Behind the door a delay does not mind: an accepted job takes an exponential second, and then the delay.
    let delayed = answer(&text.replace("\"ps\"", "\"is\""), "open");
    assert_eq!(delayed.percentiles, "exact");
    let times = delayed.classes.find("jobs").unwrap().response_time_seconds;
    check(times.p50.unwrap(), 1.7 + 2_f64.ln(), 1e-3);
    check(times.p99.unwrap(), 1.7 + 100_f64.ln(), 1e-3);
    let unstable = text.replace("1600ms", "2100ms");
    let refusal = predict(&parse(&unstable).unwrap()).solvers.find("open").unwrap().refusal.clone().unwrap();
    assert!(
        refusal.contains("station line (line 3) is unstable: its utilisation would be 1.05"),
        "{refusal}"
    );
}

#[test]
fn what_no_solver_knows_of_finite_stations_is_refused_by_name() {
    let refusal = |text: &str, solver: &str| {
        predict(&parse(text).unwrap()).solvers.find(solver).unwrap().refusal.clone().unwrap()
    };
    let retry =
        server(r#"discipline = "fifo", capacity = 1, when_full = { retry = "1s" }, demand = "1s""#, 0.5);
    assert_eq!(refusal(&retry, "open"), "clients retry when station server (line 1) is full; simulate");
    let constant = server(r#"discipline = "fifo", capacity = 4, demand = "1s""#, 0.5);
    assert!(refusal(&constant, "open").contains("not exponential at station server (line 1); see exact-lps"));
    assert!(refusal(&constant, "exact-lps").contains("is not exponential, Erlang or hyper-exponential"));
    let users = r#"
        stations.a = { discipline = "fifo", demand = "1s" }
        stations.b = { discipline = "fifo", demand = "1s", capacity = 4, when_full = "block" }
        classes.users = { users = 9, think_time = "1s", route = ["a", "b"] }
    "#;
    assert_eq!(
        refusal(users, "mva"),
        "station b (line 3) blocks the station before when it is full; simulate"
    );
    let overtaking = users.replace("\"b\"]", "{ station = \"b\", priority = true }]");
    assert_eq!(refusal(&overtaking, "mva"), "jobs with `priority` wait ahead of others: simulate");
    let refusing = users.replace(", when_full = \"block\"", "");
    assert_eq!(refusal(&refusing, "mva"), "station b (line 3) has a capacity; simulate");
    // A capacity of at least the number of users is never reached.
    let roomy = refusing.replace("capacity = 4", "capacity = 9");
    check(
        class(&roomy, "mva", "users").0,
        class(&roomy.replace(", capacity = 9", ""), "mva", "users").0,
        1e-12,
    );
}

#[test]
fn turned_away_users_are_engsets() {
    let text = r#"
        stations.lines = { discipline = "is", capacity = 2, demand = "1s" }
        classes.users = { users = 6, think_time = "2s", route = ["lines"] }
    "#;
    let found = answer(text, "load-dependent-mva");
    let users = found.classes.find("users").unwrap();
    check(users.throughput_per_second, (3.0 + 2.0 * 3.75) / 7.75, 1e-12);
    check(users.loss.probability, 2.5 / 6.0, 1e-12);
    check(users.response_time_seconds.mean, 1.0, 1e-12);
    let shared = text.replace("\"is\", capacity = 2", "\"ps\", servers = 2, capacity = 4");
    let users = *answer(&shared, "load-dependent-mva").classes.find("users").unwrap();
    let random =
        shared.replace("demand = \"1s\"", "demand = { law = \"erlang\", mean = \"1s\", stages = 2 }");
    let plan = Plan { relative_half_width: 0.004, ..Plan::default() };
    let simulated = simulate_system(&parse(&random).unwrap(), &plan, &[], &mut |_| true).unwrap();
    check(simulated.loss.probability, users.loss.probability, 0.03);
    check(simulated.throughput_per_second, users.throughput_per_second, 0.01);
}

#[test]
fn several_servers_share_among_at_most_r() {
    // With exponential demand r changes nothing: Erlang's C of 4 servers at ρ = 0.8 is 0.5964.
    let text = |r: u32, law: &str| {
        server(&format!(r#"discipline = "lps", r = {r}, servers = 4, demand = {law}"#), 3.2)
    };
    let exponential = r#"{ law = "exponential", mean = "1s" }"#;
    for r in [4, 6, 30] {
        for solver in ["open", "exact-lps"] {
            check(class(&text(r, exponential), solver, "jobs").1, 1.0 + 0.5964 / 0.8, 1e-4);
        }
    }
    let variable = text(6, r#"{ law = "hyper-exponential", mean = "1s", scv = 4 }"#);
    let plan = Plan { relative_half_width: 0.005, ..Plan::default() };
    let simulated = simulate_system(&parse(&variable).unwrap(), &plan, &[], &mut |_| true).unwrap();
    check(simulated.response_time_seconds.mean, class(&variable, "exact-lps", "jobs").1, 0.02);
}

#[test]
fn limited_sharing_by_several_servers_lies_between_fifo_and_processor_sharing() {
    let varied = r#"{ law = "log-normal", mean = "1s", scv = 6 }"#;
    let mean = |station: &str, demand: &str| {
        class(&server(&format!("{station}, servers = 3, demand = {demand}"), 2.4), "open", "jobs").1
    };
    let lps = |r: u32, demand: &str| mean(&format!(r#"discipline = "lps", r = {r}"#), demand);
    check(lps(3, varied), mean(r#"discipline = "fifo""#, varied), 1e-12);
    check(lps(4_000, varied), mean(r#"discipline = "ps""#, varied), 1e-12);
    assert!(lps(3, varied) > lps(6, varied) && lps(6, varied) > lps(12, varied));
    // Against the Markov chain.
    let h2 = r#"{ law = "hyper-exponential", mean = "1s", scv = 4 }"#;
    let text = server(&format!(r#"discipline = "lps", r = 6, servers = 3, demand = {h2}"#), 2.4);
    let error = lps(6, h2) / class(&text, "exact-lps", "jobs").1 - 1.0;
    assert!((0.0..0.2).contains(&error), "{error}");
    let said = answer(&text, "open").means;
    assert!(said.contains("Eq. 2.2 carried over to several servers, mean off by -"), "{said}");
}

#[test]
fn a_station_without_places_to_wait_loses_as_erlang_says_whatever_the_demand() {
    // B(3, 2) = 4/19.
    let log_normal = r#"{ law = "log-normal", mean = "1s", scv = 9 }"#;
    let fifo = server(&format!(r#"discipline = "fifo", servers = 3, queue = 0, demand = {log_normal}"#), 2.0);
    let found = answer(&fifo, "open");
    assert_eq!((found.means.as_str(), found.percentiles.as_str()), ("exact", "exact"));
    let class = found.classes.find("jobs").unwrap();
    check(class.loss.probability, 4.0 / 19.0, 1e-12);
    check(class.response_time_seconds.mean, 1.0, 1e-12);
    // An accepted job takes its demand: the median of this distribution is 1/√(1 + C²).
    check(class.response_time_seconds.p50.unwrap(), 10_f64.sqrt().recip(), 1e-3);
    // As many places as jobs is processor sharing: M/G/1/3 at ρ = 1.2 has the levels of M/M/1/3.
    let lps = server(&format!(r#"discipline = "lps", r = 3, capacity = 3, demand = {log_normal}"#), 1.2);
    let found = answer(&lps, "open");
    assert_eq!(found.means, "exact");
    check(found.classes.find("jobs").unwrap().loss.probability, 1.728 / 5.368, 1e-12);
}

#[test]
fn fifo_with_several_servers_is_exact_beside_a_station_that_turns_jobs_away() {
    let text = r#"
        stations.door = { discipline = "is", capacity = 2, demand = "1s" }
        stations.desk = { discipline = "fifo", servers = 3, demand = { law = "hyper-exponential", mean = "1s", scv = 8 } }
        classes.callers = { rate = "1/s", route = ["door"] }
        classes.jobs = { rate = "2/s", route = ["desk"] }
    "#;
    let found = answer(text, "exact-lps");
    assert_eq!(found.means, "exact");
    let alone = text.replace(", capacity = 2", "");
    check(class(text, "exact-lps", "jobs").1, class(&alone, "exact-lps", "jobs").1, 1e-12);
}

#[test]
fn every_solver_answers_every_limit_or_refuses_it_by_name() {
    const ANSWERS: &str = "";
    const SOLVERS: [&str; 6] = ["exact-lps", "open", "mva", "amva", "load-dependent-mva", "fixed-point"];
    let open = r#"rate = "0.5/s""#;
    let closed = r#"users = 6, think_time = { law = "exponential", mean = "5s" }"#;
    let exponential = r#"{ law = "exponential", mean = "1s" }"#;
    let phases = r#"{ law = "hyper-exponential", mean = "1s", scv = 4 }"#;
    let heavy = r#"{ law = "log-normal", mean = "1s", scv = 4 }"#;
    let (fifo, lps) = (r#"discipline = "fifo""#, r#"discipline = "lps", r = 4, servers = 2"#);
    let sharing = r#"discipline = "ps", capacity = 3"#;
    let capacity = "station b (line 2) has a capacity; simulate";
    let (open_only, closed_only, one) =
        ("there is a closed class", "there is no closed class", "it needs exactly one closed class");
    let form = "no closed form for a capacity and demand that is not exponential at station b (line 2)";
    let no_phases = "demand at station b (line 2) is not exponential, Erlang or hyper-exponential";
    let as_open = "the open solver is as exact";
    let blocks = "station b (line 2) blocks the station before when it is full; simulate";
    let retries = "clients retry when station b (line 2) is full; simulate";
    let rows = [
        (
            open,
            format!("{fifo}, queue = 3"),
            exponential,
            [ANSWERS, ANSWERS, capacity, capacity, capacity, one],
        ),
        (open, format!("{fifo}, queue = 3"), phases, [ANSWERS, form, capacity, capacity, capacity, one]),
        (open, format!("{fifo}, queue = 3"), heavy, [no_phases, form, capacity, capacity, capacity, one]),
        (open, format!("{fifo}, queue = 0"), heavy, [as_open, ANSWERS, capacity, capacity, capacity, one]),
        (open, format!("{lps}, queue = 3"), phases, [ANSWERS, form, capacity, capacity, capacity, one]),
        (open, lps.to_owned(), phases, [ANSWERS, ANSWERS, closed_only, closed_only, one, one]),
        (open, lps.to_owned(), heavy, [no_phases, ANSWERS, closed_only, closed_only, one, one]),
        (open, sharing.to_owned(), heavy, [as_open, ANSWERS, capacity, capacity, capacity, one]),
        (open, format!(r#"{fifo}, queue = 3, when_full = "block""#), exponential, [blocks; 6]),
        (open, format!(r#"{fifo}, queue = 3, when_full = {{ retry = "1s" }}"#), exponential, [retries; 6]),
        (
            closed,
            format!("{fifo}, queue = 3"),
            exponential,
            [open_only, open_only, capacity, capacity, capacity, capacity],
        ),
        (
            closed,
            format!("{fifo}, queue = 5"),
            exponential,
            [open_only, open_only, ANSWERS, ANSWERS, "mva is the same", "it needs exactly one lps station"],
        ),
        (
            closed,
            lps.to_owned(),
            heavy,
            [open_only, open_only, ANSWERS, ANSWERS, ANSWERS, "Eq. 2.1 is for one server"],
        ),
        (closed, format!(r#"{lps}, queue = 1, when_full = "block""#), exponential, [blocks; 6]),
    ];
    for (source, station, demand, expected) in rows {
        let text = format!(
            "stations.a = {{ {fifo}, demand = {{ law = \"exponential\", mean = \"100ms\" }} }}\n\
             stations.b = {{ {station}, demand = {demand} }}\nclasses.c = {{ {source}, route = [\"a\", \"b\"] }}"
        );
        let solvers = predict_means(&parse(&text).unwrap()).solvers;
        for (solver, expected) in SOLVERS.into_iter().zip(expected) {
            let refusal = solvers.find(solver).unwrap().refusal.clone().unwrap_or_default();
            let as_expected =
                if expected == ANSWERS { refusal.is_empty() } else { refusal.contains(expected) };
            assert!(as_expected, "{solver}: {station}, {demand}: {refusal:?}, not {expected:?}");
        }
    }
}

#[test]
fn a_million_places_are_solved_at_once() {
    // Exponential demand does not see the limit: M/M/1 at ρ = 0.8, and E[R] = 1 / (1 − 0.8) s. The median is that of PS.
    let text = r#"
        stations.a = { discipline = "lps", r = 1000000, demand = { law = "exponential", mean = "1s" } }
        classes.jobs = { rate = "0.8/s", route = ["a"] }
    "#;
    let found = answer(text, "exact-lps");
    let unlimited = answer(&text.replace(r#""lps", r = 1000000"#, r#""ps""#), "open");
    let median = |answer: &Answer| answer.classes.find("jobs").unwrap().response_time_seconds.p50.unwrap();
    check(found.classes.find("jobs").unwrap().response_time_seconds.mean, 5.0, 1e-9);
    assert_eq!((found.means.as_str(), found.percentiles.as_str()), ("exact", "exact"));
    check(median(&found), median(&unlimited), 0.03);
    let varied = text.replace("\"exponential\", mean", "\"hyper-exponential\", scv = 4, mean");
    let refusal = predict_means(&parse(&varied).unwrap()).solvers.find("exact-lps").unwrap().refusal.clone();
    assert!(refusal.unwrap().contains("or 20000 levels"));
    // A large capacity is no different.
    let roomy = text.replace("r = 1000000", "r = 4, capacity = 1000000");
    check(answer(&roomy, "exact-lps").classes.find("jobs").unwrap().response_time_seconds.mean, 5.0, 1e-9);
}

#[test]
fn eq_2_2_at_a_speed_is_itself_at_speed_one_and_exact_for_exponential_demand() {
    let text = |speed: &str, demand: &str| {
        format!(
            "stations.a = {{ discipline = \"lps\", r = 4, demand = {demand}{speed} }}\n\
             classes.jobs = {{ rate = \"0.7/s\", route = [\"a\"] }}"
        )
    };
    let mean = |text: &str| answer(text, "open").classes.find("jobs").unwrap().response_time_seconds.mean;
    let varied = r#"{ law = "log-normal", mean = "1s", scv = 6 }"#;
    check(mean(&text(", speed = [1, 1]", varied)), mean(&text("", varied)), 1e-12);
    let exponential = text(", speed = [1, 1.6, 1.5]", r#"{ law = "exponential", mean = "1s" }"#);
    let exact = answer(&exponential, "exact-lps").classes.find("jobs").unwrap().response_time_seconds.mean;
    check(mean(&exponential), exact, 1e-9);
    assert_eq!(answer(&exponential, "open").means, "exact");
    let said = answer(&text(", speed = [1, 1.6]", varied), "open").means;
    assert!(said.contains("Eq. 2.2 carried over to a speed v(n), mean off by -5 % to +60 %"), "{said}");
}

#[test]
fn a_large_document_at_two_stations_has_a_finite_tail() {
    // Whatever the quadrature of the documents' law leaves out may not stand at its far end: p99.9 was 2·10⁹ s.
    let text = r#"
        document = { law = "log-normal", mu = 8.67, sigma = 1.034, unit = "B" }
        stations.server = { discipline = "fifo", demand = { fixed = "420ms", per_byte = "42us/B" } }
        stations.line = { discipline = "ps", demand = { fixed = "225ms", per_byte = "22.5us/B" } }
        classes.jobs = { rate = "1/s", route = ["server", "line"] }
    "#;
    let found = answer(text, "open");
    let times = found.classes.find("jobs").unwrap().response_time_seconds;
    let plan = Plan { relative_half_width: 0.01, ..Plan::default() };
    let simulated = simulate_system(&parse(text).unwrap(), &plan, &[], &mut |_| true).unwrap();
    check(times.p999.unwrap(), simulated.response_time_seconds.p999, 0.3);
}
