//! The oracle suite: compares the solvers and the simulator with exact values.
//!
//! Service is deterministic, hyper-exponential or the thesis's shifted log-normal as well as exponential:
//! exponential demand hides every error in limited processor sharing. `docs/models.md` publishes the table;
//! `cargo test --release -p sojourn-queueing --test integration oracles -- --nocapture` prints it.

use sojourn_queueing::closed_form::{Lps, Mg1};
use sojourn_queueing::distribution::{
    Deterministic, Distribution, Erlang, Exponential, HyperExponential, LogNormal, Mixture, RandomVariable,
};
use sojourn_queueing::exact_lps::{ExactLps, PhaseType};
use sojourn_queueing::simulator::{
    Plan, PoissonStation, StationRun, SystemResult, simulate_poisson, simulate_system,
};
use sojourn_queueing::solver::{Answer, predict};
use sojourn_queueing::speed::Speed;
use sojourn_queueing::station::Service;
use sojourn_queueing::system_file::parse;

/// The thesis's mean demand, milliseconds; all times here are milliseconds.
const MEAN: f64 = 25.675;
const JOBS: u64 = 6_000_000;

/// One comparison: its name, the source of the expected value, and the relative tolerance.
struct Oracle {
    name: String,
    source: &'static str,
    expected: f64,
    obtained: f64,
    tolerance: f64,
}

impl Oracle {
    fn error(&self) -> f64 {
        (self.obtained - self.expected) / self.expected
    }
}

#[derive(Default)]
struct Suite(Vec<Oracle>);

impl Suite {
    fn add(
        &mut self,
        name: impl Into<String>,
        source: &'static str,
        expected: f64,
        obtained: f64,
        tolerance: f64,
    ) {
        self.0.push(Oracle { name: name.into(), source, expected, obtained, tolerance });
    }
}

#[test]
fn oracles_hold() {
    let mut suite = Suite::default();
    moments(&mut suite);
    closed_forms(&mut suite);
    exact_means(&mut suite);
    exact_distributions(&mut suite);
    simulated_fifo_and_ps(&mut suite);
    simulated_lps(&mut suite);
    simulated_percentiles(&mut suite);
    networks(&mut suite);
    speeds(&mut suite);
    possession(&mut suite);
    mixed(&mut suite);
    end_to_end(&mut suite);
    assert!(suite.0.len() >= 40, "only {} oracles", suite.0.len());
    eprintln!("| oracle | source | expected | obtained | error | tolerance |\n|---|---|---|---|---|---|");
    for row in &suite.0 {
        let (error, tolerance) = (100.0 * row.error(), 100.0 * row.tolerance);
        let (name, source) = (&row.name, row.source);
        eprintln!(
            "| {name} | {source} | {:.5} | {:.5} | {error:+.3} % | {tolerance} % |",
            row.expected, row.obtained
        );
    }
    let wrong: Vec<&str> =
        suite.0.iter().filter(|row| row.error().abs() > row.tolerance).map(|row| row.name.as_str()).collect();
    assert!(wrong.is_empty(), "out of tolerance: {wrong:?}");
}

#[test]
fn the_documentation_publishes_the_suite() {
    let documentation = include_str!("../../../../docs/models.md");
    for name in
        ["E[S] of the thesis", "M/H2/1/LPS-4, C² = 10, ρ = 0.8: p99", "simulated M/D/1/LPS-4, ρ = 0.8"]
    {
        assert!(documentation.contains(name), "docs/models.md lacks the oracle: {name}");
    }
}

fn deterministic() -> Distribution {
    Deterministic::new(MEAN).unwrap().into()
}

fn exponential() -> Distribution {
    Exponential::new(MEAN).unwrap().into()
}

fn h2(scv: f64) -> Distribution {
    HyperExponential::balanced(MEAN, scv).unwrap().into()
}

fn thesis() -> Distribution {
    Distribution::shifted_log_normal(7.811, 1.573, 0.000_485_1, 21.55).unwrap()
}

/// Zero with a probability, else exponential: the distribution for which Eq. 2.2 is exact at any r.
fn h_star(scv: f64) -> Distribution {
    let busy = 2.0 / (scv + 1.0);
    let branch = Exponential::new(MEAN / busy).unwrap().into();
    Mixture::new(vec![(1.0 - busy, Deterministic::new(0.0).unwrap().into()), (busy, branch)]).unwrap().into()
}

fn mg1(demand: &Distribution, rho: f64) -> Mg1 {
    Mg1::of(rho / demand.mean(), demand).unwrap()
}

fn eq_2_2(demand: &Distribution, rho: f64, limit: u32) -> f64 {
    Lps::new(mg1(demand, rho), Some(limit), 0.0).unwrap().mean_response_time()
}

fn exact(demand: &Distribution, rho: f64, limit: u32) -> ExactLps {
    ExactLps::new(rho / demand.mean(), PhaseType::of(demand).unwrap(), limit).unwrap()
}

fn simulated(demand: &Distribution, rho: f64, service: Service) -> StationRun {
    let arrival_rate = rho * service.saturation() / demand.mean();
    let model = PoissonStation { arrival_rate, demand: demand.clone(), service, delta: 0.0 };
    let plan = Plan { relative_half_width: 1e-9, jobs_max: JOBS, seed: 11, ..Plan::default() };
    simulate_poisson(&model, &plan, &mut |_| true).unwrap()
}

fn simulated_mean(demand: &Distribution, rho: f64, service: Service) -> f64 {
    simulated(demand, rho, service).response_time_seconds.mean
}

fn moments(suite: &mut Suite) {
    let printed = "thesis 2.3.2, recomputed from its parameters";
    let sizes = LogNormal::new(7.811, 1.573).unwrap();
    suite.add("E[X] of the thesis, B", printed, 8_502.9, sizes.mean(), 1e-4);
    suite.add("E[S] of the thesis, ms", printed, 25.675, thesis().mean(), 1e-3);
    suite.add("E[S²] of the thesis, ms²", printed, 844.20, thesis().second_moment(), 1e-3);
    let exponential_sizes = Distribution::from(Exponential::new(sizes.mean()).unwrap());
    let exponential_sizes = exponential_sizes.affine(0.000_485_1, 21.55).unwrap();
    suite.add("E[S²], exponential sizes, ms²", printed, 676.21, exponential_sizes.second_moment(), 1e-3);
    suite.add("saturation of the web server, /s", printed, 38.95, 1e3 / thesis().mean(), 1e-3);
}

fn closed_forms(suite: &mut Suite) {
    let (pk, hstar) = ("Pollaczek-Khinchine", "H* proof: Eq. 2.2 is exact");
    suite.add("thesis FIFO, ρ = 0.8, ms", pk, 91.44, mg1(&thesis(), 0.8).fifo_mean_response_time(), 1e-3);
    suite.add(
        "thesis PS, ρ = 0.8, ms",
        "E[S]/(1−ρ)",
        128.4,
        mg1(&thesis(), 0.8).ps_mean_response_time(),
        1e-3,
    );
    suite.add("Eq. 2.2, H*, C² = 10, ρ = 0.8, r = 4, ms", hstar, 365.0, eq_2_2(&h_star(10.0), 0.8, 4), 1e-3);
    suite.add("Eq. 2.2, H*, C² = 10, ρ = 0.6, r = 4, ms", hstar, 101.62, eq_2_2(&h_star(10.0), 0.6, 4), 1e-3);
    suite.add(
        "Eq. 2.2, exponential, ρ = 0.8, r = 16, ms",
        "M/M/1",
        128.375,
        eq_2_2(&exponential(), 0.8, 16),
        1e-9,
    );
    suite.add(
        "Eq. 2.2, deterministic, r = 1, ms",
        "P-K: 77.03",
        77.025,
        eq_2_2(&deterministic(), 0.8, 1),
        1e-4,
    );
}

fn exact_means(suite: &mut Suite) {
    let literature = "independent matrix-analytic solution";
    let unit =
        |limit| exact(&HyperExponential::balanced(1.0, 4.0).unwrap().into(), 0.5, limit).mean_response_time();
    suite.add("M/H2/1/LPS-1, C² = 4, ρ = 0.5", "Pollaczek-Khinchine", 3.5, unit(1), 1e-9);
    suite.add("M/H2/1/LPS-2, C² = 4, ρ = 0.5", literature, 2.662, unit(2), 2e-4);
    suite.add("M/H2/1/LPS-4, C² = 4, ρ = 0.5", literature, 2.138, unit(4), 2e-4);
    let ten = exact(&h2(10.0), 0.8, 4);
    suite.add("M/H2/1/LPS-4, C² = 10, ρ = 0.8, ms", literature, 349.6, ten.mean_response_time(), 5e-4);
    let one = exact(&h2(10.0), 0.8, 1).mean_response_time();
    suite.add("M/H2/1/LPS-1, C² = 10, ρ = 0.8, ms", "Pollaczek-Khinchine", 590.5, one, 5e-4);
    let many = exact(&h2(10.0), 0.5, 60).mean_response_time();
    suite.add("M/H2/1/LPS-60, C² = 10, ρ = 0.5, ms", "PS: E[S]/(1−ρ)", 2.0 * MEAN, many, 1e-4);
    let erlang = Erlang::new(MEAN, 3).unwrap().into();
    let fifo = mg1(&erlang, 0.7).fifo_mean_response_time();
    suite.add(
        "M/E3/1/LPS-1, ρ = 0.7, ms",
        "Pollaczek-Khinchine",
        fifo,
        exact(&erlang, 0.7, 1).mean_response_time(),
        1e-9,
    );
}

fn exact_distributions(suite: &mut Suite) {
    let sixty = "60 million simulated jobs, another program";
    let four = exact(&h2(10.0), 0.8, 4).distribution().unwrap();
    for (p, label, expected, tolerance) in [
        (0.5, "p50", 60.3, 0.01),
        (0.95, "p95", 1729.0, 0.01),
        (0.99, "p99", 3148.0, 0.01),
        (0.999, "p99.9", 5199.0, 0.02),
    ] {
        let name = format!("M/H2/1/LPS-4, C² = 10, ρ = 0.8: {label}, ms");
        suite.add(name, sixty, expected, four.quantile(p), tolerance);
    }
    let sixteen = exact(&h2(10.0), 0.8, 16).distribution().unwrap();
    suite.add("M/H2/1/LPS-16, C² = 10, ρ = 0.8: p95, ms", sixty, 479.0, sixteen.quantile(0.95), 0.01);
    suite.add("M/H2/1/LPS-16, C² = 10, ρ = 0.8: p99, ms", sixty, 2224.0, sixteen.quantile(0.99), 0.02);
    let mm1 = exact(&exponential(), 0.8, 1).distribution().unwrap();
    suite.add(
        "M/M/1 FIFO, ρ = 0.8: p99, ms",
        "exponential distribution",
        -128.375 * 0.01_f64.ln(),
        mm1.quantile(0.99),
        1e-5,
    );
    let means = exact(&exponential(), 0.8, 4).conditional_means(&[4.92 * MEAN, 9.0 * MEAN]);
    suite.add(
        "E[R|x], M/M/1/LPS-4, ρ = 0.8, x = 4.92 E[S], ms",
        "simulation, another program",
        434.1,
        means[0],
        0.005,
    );
    suite.add(
        "E[R|x], M/M/1/LPS-4, ρ = 0.8, x = 9 E[S], ms",
        "simulation, another program",
        764.8,
        means[1],
        0.01,
    );
}

fn simulated_fifo_and_ps(suite: &mut Suite) {
    for (distribution, demand) in [
        ("D", deterministic()),
        ("M", exponential()),
        ("H2 (C² = 10)", h2(10.0)),
        ("thesis log-normal", thesis()),
    ] {
        for rho in [0.5, 0.8] {
            let exact = mg1(&demand, rho);
            let name = |discipline: &str| format!("simulated M/{distribution}/1 {discipline}, ρ = {rho}, ms");
            let fifo = simulated_mean(&demand, rho, Service::fifo(1));
            suite.add(name("FIFO"), "Pollaczek-Khinchine", exact.fifo_mean_response_time(), fifo, 0.01);
            let ps = simulated_mean(&demand, rho, Service::ps(1));
            suite.add(name("PS"), "E[S]/(1−ρ)", exact.ps_mean_response_time(), ps, 0.01);
        }
    }
    let unit = Exponential::new(1.0).unwrap().into();
    let waiting = 1.0 + 0.596_43 / 0.8;
    suite.add(
        "simulated M/M/4 FIFO, ρ = 0.8",
        "Erlang C",
        waiting,
        simulated_mean(&unit, 0.8, Service::fifo(4)),
        0.01,
    );
}

fn simulated_lps(suite: &mut Suite) {
    let lps =
        |demand: &Distribution, rho: f64, limit: usize| simulated_mean(demand, rho, Service::lps(limit, 1));
    let other = "another simulator";
    suite.add("simulated M/D/1/LPS-4, ρ = 0.8, ms", other, 101.5, lps(&deterministic(), 0.8, 4), 0.01);
    suite.add("simulated M/D/1/LPS-16, ρ = 0.8, ms", other, 126.0, lps(&deterministic(), 0.8, 16), 0.01);
    suite.add(
        "simulated M/H*/1/LPS-4, C² = 10, ρ = 0.6, ms",
        "Eq. 2.2, exact here",
        101.62,
        lps(&h_star(10.0), 0.6, 4),
        0.01,
    );
    let erlang = Erlang::new(MEAN, 3).unwrap().into();
    for (distribution, demand) in
        [("H2 (C² = 2)", h2(2.0)), ("H2 (C² = 10)", h2(10.0)), ("E3", erlang), ("M", exponential())]
    {
        for (rho, limit) in [(0.5, 2), (0.8, 4), (0.8, 16)] {
            let expected = if distribution == "E3" && limit == 16 {
                continue;
            } else {
                exact(&demand, rho, limit).mean_response_time()
            };
            let name = format!("simulated M/{distribution}/1/LPS-{limit}, ρ = {rho}, ms");
            suite.add(name, "exact QBD", expected, lps(&demand, rho, limit as usize), 0.015);
        }
    }
}

fn simulated_percentiles(suite: &mut Suite) {
    let distribution = exact(&h2(10.0), 0.8, 4).distribution().unwrap();
    let run = simulated(&h2(10.0), 0.8, Service::lps(4, 1)).response_time_seconds;
    for (label, p, obtained) in [("p50", 0.5, run.p50), ("p95", 0.95, run.p95), ("p99", 0.99, run.p99)] {
        let name = format!("simulated M/H2/1/LPS-4, C² = 10, ρ = 0.8: {label}, ms");
        suite.add(name, "exact distribution", distribution.quantile(p), obtained, 0.03);
    }
}

fn run(text: &str) -> SystemResult {
    let plan = Plan { relative_half_width: 0.002, jobs_max: JOBS, seed: 5, ..Plan::default() };
    simulate_system(&parse(text).unwrap(), &plan, &[], &mut |_| true).unwrap()
}

fn networks(suite: &mut Suite) {
    let site = include_str!("../../../../studies/systems/public-site.toml");
    let found = run(site);
    let web = found.stations.find("web").unwrap().residence_time_seconds * 1e3;
    suite.add(
        "simulated public site at 5/s: web server, ms",
        "E[S]/(1−ρ): r is never reached",
        29.46,
        web,
        0.01,
    );
    let total = found.response_time_seconds.mean * 1e3;
    suite.add("simulated public site at 5/s: total, ms", "thesis Figure 4.4, about 283", 283.2, total, 0.01);
    let line = site.replace("5/s", "10/s").replace("1.5Mbit/s", "1.3605Mbit/s");
    let residence = run(&line).stations.find("line").unwrap().residence_time_seconds * 1e3;
    suite.add(
        "simulated line of 1.36 Mbit/s at 10/s, ms",
        "thesis Figure 4.3: 100 ms",
        100.0,
        residence,
        0.02,
    );
    for (distribution, demand) in
        [("D", r#""200ms""#), ("H2", r#"{ law = "hyper-exponential", mean = "200ms", scv = 10 }"#)]
    {
        let text = format!(
            r#"
            stations.cpu = {{ discipline = "ps", demand = {demand} }}
            classes.users = {{ users = 10, think_time = {{ law = "exponential", mean = "1s" }}, route = ["cpu"] }}
            "#
        );
        let expected = answer(&text, "mva").classes.find("users").unwrap().throughput_per_second;
        let name = format!("simulated M/{distribution}/1/PS//10, think 1 s, /s");
        suite.add(name, "exact MVA (insensitive)", expected, run(&text).throughput_per_second, 0.005);
    }
}

fn answer(text: &str, solver: &str) -> Answer {
    predict(&parse(text).unwrap()).solvers.find(solver).unwrap().answer.clone().unwrap()
}

/// Deterministic and very variable demand of this mean, as in system files.
fn demands(mean: &str) -> [(&'static str, String); 2] {
    let variable = format!(r#"{{ law = "hyper-exponential", mean = "{mean}", scv = 10 }}"#);
    [("D", format!("\"{mean}\"")), ("H2", variable)]
}

fn speeds(suite: &mut Suite) {
    let table = "[1, 1.8, 2.4, 2.6, 2.3]";
    for (distribution, demand) in demands("100ms") {
        let open = format!(
            r#"
            stations.web = {{ discipline = "ps", speed = {table}, demand = {demand} }}
            classes.open = {{ rate = "18/s", route = ["web"] }}
            "#
        );
        let expected = answer(&open, "open").classes.0[0].1.response_time_seconds.mean;
        let name = format!("simulated M/{distribution}/1/PS at v(n) = {table}, 18/s, s");
        suite.add(name, "product form", expected, run(&open).response_time_seconds.mean, 0.02);
        let closed = format!(
            r#"
            stations.web = {{ discipline = "ps", speed = {{ alpha = 0.1, beta = 0.012 }}, demand = {demand} }}
            classes.users = {{ users = 30, think_time = {{ law = "exponential", mean = "500ms" }}, route = ["web"] }}
            "#
        );
        let expected = answer(&closed, "load-dependent-mva").classes.0[0].1.throughput_per_second;
        let name = format!("simulated M/{distribution}/1/PS//30 at the USL speed, /s");
        suite.add(name, "product form by convolution", expected, run(&closed).throughput_per_second, 0.01);
    }
    let usl = Speed::usl(0.1, 0.012).unwrap();
    for (distribution, demand, speed, limit, rho) in [
        ("H2 (C² = 10)", h2(10.0), usl.clone(), 5, 0.8),
        ("E3", Erlang::new(MEAN, 3).unwrap().into(), usl, 5, 0.8),
        ("H2 (C² = 10)", h2(10.0), Speed::Servers(3.0), 3, 0.7),
    ] {
        let service = Service::lps(limit, 1).at_speed(speed.clone());
        let rate = rho * service.saturation() / demand.mean();
        let solved =
            ExactLps::with_speed(rate, PhaseType::of(&demand).unwrap(), limit as u32, &speed).unwrap();
        let curve = if limit == 3 { "three servers" } else { "the USL speed" };
        let obtained = simulated(&demand, rho, service);
        let name = format!("simulated M/{distribution}/LPS-{limit} at {curve}, ρ = {rho}");
        let mean = obtained.response_time_seconds.mean;
        suite.add(format!("{name}, ms"), "exact QBD", solved.mean_response_time(), mean, 0.03);
        let p95 = solved.distribution().unwrap().quantile(0.95);
        suite.add(
            format!("{name}: p95, ms"),
            "exact distribution",
            p95,
            obtained.response_time_seconds.p95,
            0.03,
        );
    }
}

fn possession(suite: &mut Suite) {
    let text = |r: u32, rate: f64, delay: &str| {
        format!(
            r#"
            stations.web = {{ discipline = "lps", r = {r}, demand = "0s" }}
            stations.line = {{ discipline = "is", demand = {delay} }}
            classes.visitors = {{ rate = "{rate}/s", route = ["web", {{ station = "line", holds = "web" }}] }}
            "#
        )
    };
    // The place held while the document is sent is the server of an M/G/r queue.
    for (distribution, delay) in demands("100ms") {
        let scv = if distribution == "D" { 0.0 } else { 10.0 };
        let expected = 0.1 + 0.7 / 0.3 * 0.1 * (1.0 + scv) / 2.0;
        let obtained = run(&text(1, 7.0, &delay)).response_time_seconds.mean;
        let name =
            format!("simulated one helper held through a delay of distribution {distribution}, ρ = 0.7, s");
        suite.add(name, "Pollaczek-Khinchine", expected, obtained, 0.03);
    }
    let delay = r#"{ law = "exponential", mean = "100ms" }"#;
    let obtained = run(&text(4, 32.0, delay)).response_time_seconds.mean;
    let expected = 0.1 * (1.0 + 0.596_43 / 0.8);
    suite.add(
        "simulated four helpers held through a delay, ρ = 0.8, s",
        "Erlang C",
        expected,
        obtained,
        0.02,
    );
}

fn mixed(suite: &mut Suite) {
    for (distribution, demand) in demands("10ms") {
        let text = format!(
            r#"
            stations.cpu = {{ discipline = "ps", demand = {demand} }}
            stations.net = {{ discipline = "is", demand = {{ law = "erlang", mean = "50ms", stages = 4 }} }}
            classes.open = {{ rate = "40/s", route = ["cpu"] }}
            classes.closed = {{ users = 4, think_time = "0s", route = ["cpu", "net"] }}
            "#
        );
        let (expected, obtained) = (answer(&text, "mva"), run(&text));
        let throughput = expected.classes.find("closed").unwrap().throughput_per_second;
        let found = obtained.classes.find("closed").unwrap().throughput_per_second;
        suite.add(
            format!("simulated mixed network, {distribution}: closed class, /s"),
            "exact MVA",
            throughput,
            found,
            0.01,
        );
        let response = expected.classes.find("open").unwrap().response_time_seconds.mean;
        let found = obtained.classes.find("open").unwrap().response_time_seconds.mean;
        suite.add(
            format!("simulated mixed network, {distribution}: open class, s"),
            "exact MVA",
            response,
            found,
            0.02,
        );
    }
}

fn end_to_end(suite: &mut Suite) {
    let source = "transforms of the stations";
    let mut add = |name: &str, text: &str, tolerance: f64| {
        let expected = answer(text, "open").classes.0[0].1.response_time_seconds;
        let found = run(text).response_time_seconds;
        for (label, expected, found) in [
            ("p50", expected.p50, found.p50),
            ("p95", expected.p95, found.p95),
            ("p99", expected.p99, found.p99),
        ] {
            suite.add(format!("simulated {name}: {label}, s"), source, expected.unwrap(), found, tolerance);
        }
    };
    for (distribution, demand) in demands("100ms") {
        let text = format!(
            r#"
            stations.disk = {{ discipline = "fifo", demand = {demand} }}
            stations.net = {{ discipline = "is", demand = {{ law = "erlang", mean = "200ms", stages = 4 }} }}
            classes.visitors = {{ rate = "6/s", route = ["net", "disk"] }}
            "#
        );
        add(&format!("delay and M/{distribution}/1 FIFO, ρ = 0.6"), &text, 0.03);
    }
    add("public site at 5/s", include_str!("../../../../studies/systems/public-site.toml"), 0.03);
}
