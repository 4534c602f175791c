//! Imports a synthetic log and checks it against the generator's parameters.

use std::ops::ControlFlow;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_workload::characterise::{Goodness, characterise};
use sojourn_workload::import::{Imported, Options, import};
use sojourn_workload::synthesis::shape::{self, SHAPES, Shape};
use sojourn_workload::synthesis::{Synthesis, synthesise};

fn log(options: &Synthesis, seed: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    synthesise(options, &mut Xoshiro256PlusPlus::seed_from_u64(seed), &mut bytes).unwrap();
    bytes
}

fn imported(log: &[u8]) -> Imported {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    import(log, &Options::default(), &mut random, |_| ControlFlow::Continue(())).unwrap()
}

fn check(what: &str, value: f64, expected: f64, tolerance: f64) {
    assert!((value - expected).abs() <= tolerance, "{what}: {value}, not {expected} ± {tolerance}");
}

#[test]
fn a_seed_says_every_byte() {
    let options = Synthesis { requests: 2000, ..Synthesis::default() };
    assert_eq!(log(&options, 1), log(&options, 1));
    assert_ne!(log(&options, 1), log(&options, 2));
}

#[test]
fn the_laws_of_the_site_are_found_again() {
    let options = Synthesis::default();
    for seed in 1..4 {
        let Imported { trace, .. } = imported(&log(&options, seed));
        let found = characterise(&trace).unwrap();
        let sizes = found.document_sizes.log_normal.unwrap();
        let standard_error = options.size_sigma / f64::from(options.documents).sqrt();
        check("mu", sizes.mu, options.size_mu, 4.0 * standard_error);
        check("sigma", sizes.sigma, options.size_sigma, 4.0 * standard_error / 2_f64.sqrt());
        assert_eq!(sizes.goodness, Goodness::Close);
        check("popularity", found.popularity.slope.unwrap(), options.popularity_slope, 0.03);
        check("documents", found.table1.files as f64, f64::from(options.documents), 60.0);
    }
}

#[test]
fn sessions_and_the_day_are_like_real_ones() {
    let Imported { trace, report } = imported(&log(&Synthesis::default(), 1));
    let found = characterise(&trace).unwrap();
    check("requests per session", found.sessions.requests.mean, 10.0, 1.0);
    check("duration of a session in s", found.sessions.duration_seconds.mean, 10.0, 1.5);
    check("requests", report.lines as f64, 80_000.0, 800.0);
    let rate = |hour: usize| found.rhythm.hours[hour].requests_per_second.unwrap();
    assert!(rate(11) > 1.5 * rate(15) && rate(20) > 1.5 * rate(15) && rate(15) > rate(3));
    check(
        "peak over average",
        found.table1.peak_requests_per_second / found.table1.average_requests_per_second,
        3.5,
        1.5,
    );
}

#[test]
fn the_log_has_what_real_logs_have() {
    let Imported { report, .. } = imported(&log(&Synthesis::default(), 1));
    let share = |status| *report.requests_by_status.get(&status).unwrap() as f64 / report.lines as f64;
    check("304", share(304), 0.12, 0.01);
    check("404", share(404), 0.015, 0.003);
    check("with a query", report.skipped.with_query as f64 / report.lines as f64, 0.022, 0.003);
    assert!((1..20).contains(&report.malformed), "{}", report.malformed);
    assert_eq!(report.out_of_order_lines, 0);
}

#[test]
fn options_that_cannot_be_are_refused() {
    let check = |options: Synthesis, expected: &str| {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let error = synthesise(&options, &mut random, Vec::new()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(Synthesis { documents: 3, ..Synthesis::default() }, "documents must be from 10");
    check(Synthesis { requests: u32::MAX, ..Synthesis::default() }, "requests must be from 10");
    check(Synthesis { size_sigma: f64::NAN, ..Synthesis::default() }, "finite");
}

/// A part of each published log, read again.
#[test]
fn published_figures_are_met() {
    for (name, shape) in SHAPES {
        let shape = shape.scaled(0.01);
        let mut bytes = Vec::new();
        shape::write(&shape, &mut Xoshiro256PlusPlus::seed_from_u64(1), &mut bytes).unwrap();
        let Imported { trace, report } = imported(&bytes);
        let found = characterise(&trace).unwrap().table1;
        assert_eq!((report.malformed, report.out_of_order_lines), (0, 0), "{name}");
        assert_eq!((found.requests, found.files), (shape.requests.into(), shape.files.into()), "{name}");
        let near = |what: &str, value: f64, expected: f64| {
            check(&format!("{name}: {what}"), value / expected, 1.0, 0.002);
        };
        near("requests per connection", found.requests_per_connection, shape.requests_per_connection);
        let peak = found.peak_requests_per_second / found.average_requests_per_second;
        near("peak over average", peak, shape.peak_over_average);
        for (what, value, expected) in [
            ("files", found.files_total_bytes, shape.files_total_bytes),
            ("responses", found.responses_total_bytes, shape.responses_total_bytes),
            ("97 %", found.data_97_percent_bytes, shape.data_97_percent_bytes),
            ("98 %", found.data_98_percent_bytes, shape.data_98_percent_bytes),
            ("99 %", found.data_99_percent_bytes, shape.data_99_percent_bytes),
        ] {
            near(what, value as f64, expected as f64);
        }
    }
}

#[test]
fn figures_that_cannot_be_are_refused() {
    let (_, shape) = SHAPES[0];
    let shape = shape.scaled(0.01);
    for bad in [
        Shape { files: shape.requests + 1, ..shape },
        Shape { responses_total_bytes: shape.files_total_bytes - 1, ..shape },
        Shape { data_98_percent_bytes: shape.data_97_percent_bytes, ..shape },
        Shape { requests_per_connection: 0.5, ..shape },
        Shape { peak_over_average: f64::NAN, ..shape },
        Shape { span_seconds: 1.0, ..shape },
        // Sessions would be torn apart.
        Shape { requests: 10_000, files: 10_000, span_seconds: 86_400.0, ..shape },
        // Popular files would have to be larger than all are.
        Shape { responses_total_bytes: u64::MAX, ..shape },
    ] {
        let refused = shape::write(&bad, &mut Xoshiro256PlusPlus::seed_from_u64(1), std::io::sink());
        assert!(refused.is_err(), "{bad:?}");
    }
}
