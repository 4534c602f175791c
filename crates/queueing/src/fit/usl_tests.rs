//! The universal scalability law fitted to curves with known coefficients, exact and noisy.

use super::*;
use crate::random::Random;
use crate::testing::check;

const LOADS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0];

fn drawn(gamma: f64, alpha: f64, beta: f64, noise: f64, seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    let exact = |n: &f64| gamma * n / (1.0 + alpha * (n - 1.0) + beta * n * (n - 1.0));
    LOADS.iter().map(|n| exact(n) * (1.0 + noise * random.normal())).collect()
}

#[test]
fn exact_measurements_give_exact_parameters() {
    let fit = fit_usl(&LOADS, &drawn(995.65, 0.0267, 0.000_769, 0.0, 1), None).unwrap();
    check(fit.gamma.estimate, 995.65, 1e-6);
    check(fit.alpha.estimate, 0.0267, 1e-5);
    check(fit.beta.estimate, 0.000_769, 1e-5);
    check(fit.peak_load.unwrap(), 35.576, 1e-3);
    assert!(fit.r_squared > 1.0 - 1e-9);
    check(fit.throughput(8.0), 995.65 * fit.speed().unwrap().at(8), 1e-6);
}

#[test]
fn one_job_need_not_be_measured() {
    let throughputs = drawn(50.0, 0.05, 0.002, 0.0, 1);
    let fit = fit_usl(&LOADS[3..], &throughputs[3..], None).unwrap();
    check(fit.gamma.estimate, 50.0, 1e-4);
}

#[test]
fn coefficients_stay_within_their_bounds() {
    // Linear growth, and superlinear growth that would fit with negative coefficients.
    for exponent in [1.0, 1.1] {
        let throughputs = LOADS.map(|n: f64| 10.0 * n.powf(exponent));
        let fit = fit_usl(&LOADS, &throughputs, None).unwrap();
        assert!(fit.alpha.estimate.abs() < 1e-6 && fit.beta.estimate.abs() < 1e-6, "{fit:?}");
        assert!(fit.beta.low == 0.0);
    }
}

#[test]
fn confidence_intervals_cover_the_exact_value() {
    let truth = [200.0, 0.03, 0.001];
    let runs = 100;
    let mut covered = [0; 3];
    for seed in 0..runs {
        let fit = fit_usl(&LOADS, &drawn(truth[0], truth[1], truth[2], 0.0, seed), None).unwrap();
        // The noise is the same at every load, as the intervals assume.
        let mut random = Random::new(1_000 + seed);
        let noisy: Vec<f64> = LOADS.iter().map(|n| fit.throughput(*n) + 20.0 * random.normal()).collect();
        let fit = fit_usl(&LOADS, &noisy, None).unwrap();
        for (index, interval) in [fit.gamma, fit.alpha, fit.beta].into_iter().enumerate() {
            covered[index] += u32::from((interval.low..=interval.high).contains(&truth[index]));
        }
    }
    eprintln!("of {runs} intervals cover γ, α, β: {covered:?}");
    assert!(covered.iter().all(|count| f64::from(*count) >= 0.90 * runs as f64), "{covered:?}");
}

#[test]
fn weights_count() {
    let mut throughputs = drawn(100.0, 0.02, 0.001, 0.0, 1);
    throughputs[7] *= 0.5;
    let weights = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1e-9];
    check(fit_usl(&LOADS, &throughputs, Some(&weights)).unwrap().gamma.estimate, 100.0, 1e-4);
    assert!((fit_usl(&LOADS, &throughputs, None).unwrap().gamma.estimate - 100.0).abs() > 1.0);
}

#[test]
fn what_cannot_be_fitted_is_refused() {
    assert_eq!(fit_usl(&[1.0, 2.0, 2.0, 4.0], &[1.0; 4], None), Err(FitError::TooFewLoads(3)));
    assert_eq!(fit_usl(&LOADS, &[1.0; 3], None), Err(FitError::Columns { loads: 8, values: 3 }));
    assert!(matches!(fit_usl(&LOADS, &[-1.0; 8], None), Err(FitError::Value { index: 0, .. })));
    assert!(fit_usl(&LOADS, &[f64::NAN; 8], None).is_err());
}
