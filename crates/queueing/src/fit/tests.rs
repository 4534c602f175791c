//! Fits of values drawn from a known distribution.

use super::*;
use crate::distribution::{BoundedPareto, Erlang, HyperExponential, LogNormal};
use crate::random::Random;
use crate::testing::check;

fn drawn(distribution: impl Into<Distribution>, count: usize) -> Vec<f64> {
    let (distribution, mut random) = (distribution.into(), Random::new(7));
    (0..count).map(|_| distribution.sample(&mut random)).filter(|value| *value > 0.0).collect()
}

#[test]
fn the_right_family_wins_with_its_parameters() {
    let fits = fit(&drawn(LogNormal::new(7.811, 1.573).unwrap(), 50_000)).unwrap();
    assert_eq!(fits[0].family, "log-normal");
    check(*fits[0].parameters.find("mu").unwrap(), 7.811, 0.01);
    check(*fits[0].parameters.find("sigma").unwrap(), 1.573, 0.01);
    assert!(
        fits[0].kolmogorov_smirnov < 0.01
            && fits.last().unwrap().kolmogorov_smirnov > fits[0].kolmogorov_smirnov
    );

    let fits = fit(&drawn(HyperExponential::balanced(1.0, 10.0).unwrap(), 50_000)).unwrap();
    assert!(fits[0].family.starts_with("hyper"), "{}", fits[0].family);
    check(fits[0].scv, 10.0, 0.1);
    check(fits[0].mean, 1.0, 0.03);

    let fits = fit(&drawn(Erlang::new(3.0, 4).unwrap(), 20_000)).unwrap();
    assert_eq!(fits[0].family, "hyper-erlang");
    check(fits[0].scv, 0.25, 0.1);
}

#[test]
fn the_tail_index_is_found() {
    let tail = fit_tail(&drawn(BoundedPareto::new(1.2, 1.0, 1e9).unwrap(), 100_000), 0.1).unwrap();
    assert!((tail.shape - 1.2).abs() < 3.0 * tail.shape_standard_error, "{tail:?}");
    check(tail.start, 10.0_f64.powf(1.0 / 1.2), 0.05);
    assert!(tail.kolmogorov_smirnov < 0.02);
}

#[test]
fn bad_values_are_refused() {
    assert_eq!(fit(&[1.0; 3]), Err(FitError::TooFew(3)));
    assert!(matches!(fit(&[0.0; 20]), Err(FitError::Value { index: 0, .. })));
    assert!(matches!(fit_tail(&[1.0; 20], 1.5), Err(FitError::TailFraction(_))));
    // Equal values have no density: log-normal and Pareto step aside, nothing panics.
    let families: Vec<&str> = fit(&[2.0; 20]).unwrap().iter().map(|fit| fit.family).collect();
    assert!(families.contains(&"exponential") && !families.iter().any(|family| family.contains("normal")));
    assert!(!families.contains(&"bounded-pareto"));
    assert_eq!(fit_moments(&[2.0; 20]), Err(FitError::Equal));
}

fn find<'f>(fits: &'f [Fit], family: &str) -> &'f Fit {
    fits.iter().find(|fit| fit.family == family).unwrap_or_else(|| panic!("no {family}"))
}

#[test]
fn a_shift_is_found() {
    // The thesis's demand: 21.55 ms and 0.4851 us/B of a log-normal size.
    let demand = Distribution::shifted_log_normal(7.811, 1.573, 0.000_485_1, 21.55).unwrap();
    let fits = fit(&drawn(demand.clone(), 30_000)).unwrap();
    assert_eq!(fits[0].family, "shifted-log-normal");
    check(*fits[0].parameters.find("shift").unwrap(), 21.55, 1e-3);
    check(*fits[0].parameters.find("sigma").unwrap(), 1.573, 0.02);
    let mu = *fits[0].parameters.find("mu").unwrap();
    assert!((mu - 7.811 - 0.000_485_1_f64.ln()).abs() < 0.03, "{mu}");
    check(fits[0].mean, demand.mean(), 0.01);
    assert!(fits[0].anderson_darling < 2.5 && find(&fits, "log-normal").anderson_darling > 100.0);
}

#[test]
fn a_bounded_pareto_is_found() {
    let fits = fit(&drawn(BoundedPareto::new(1.2, 3.0, 3e4).unwrap(), 30_000)).unwrap();
    assert_eq!(fits[0].family, "bounded-pareto");
    check(*fits[0].parameters.find("shape").unwrap(), 1.2, 0.02);
    check(*fits[0].parameters.find("min").unwrap(), 3.0, 1e-3);
    // Mass at the upper end is no tail.
    let rising: Vec<f64> = (1..200).map(|k| f64::from(k).sqrt()).collect();
    assert!(fit(&rising).unwrap().iter().all(|fit| fit.family != "bounded-pareto"));
}

#[test]
fn goodness_of_fit_exceeds_its_critical_values_in_five_percent_of_samples() {
    // Of the true distribution: A² exceeds 2.492 and √n D exceeds 1.358 in 5 % of samples (Anderson & Darling 1954).
    let distribution = Distribution::from(Exponential::new(2.0).unwrap());
    let (mut random, samples) = (Random::new(3), 600);
    let (mut squares, mut distances) = (0, 0);
    for _ in 0..samples {
        let mut values: Vec<f64> = (0..200).map(|_| distribution.sample(&mut random)).collect();
        values.sort_by(f64::total_cmp);
        squares += u32::from(anderson_darling(&distribution, &values) > 2.492);
        distances += u32::from(distance(&distribution, &values) * 200_f64.sqrt() > 1.358);
    }
    for exceeded in [squares, distances] {
        assert!((15..=45).contains(&exceeded), "{squares} {distances} of {samples}");
    }
}

#[test]
fn two_moments_are_kept() {
    for scv in [0.0, 0.002, 0.126, 0.281, 0.5, 0.99, 1.0, 1.5, 10.0] {
        let distribution = two_moments(25.675, scv).unwrap();
        check(distribution.mean(), 25.675, 1e-9);
        assert!((distribution.scv() - scv).abs() < 1e-9, "{scv}: {}", distribution.scv());
    }
    assert!(
        two_moments(-1.0, 0.5).is_err()
            && two_moments(1.0, -0.5).is_err()
            && two_moments(1.0, f64::NAN).is_err()
    );
    let erlang = fit_moments(&drawn(Erlang::new(3.0, 4).unwrap(), 20_000)).unwrap();
    check(erlang.scv, 0.25, 0.03);
    assert!(erlang.anderson_darling < 5.0 && erlang.kolmogorov_smirnov < 0.02, "{erlang:?}");
    // Its likelihood can be at most that of the best mixture of stages.
    let fits = fit(&drawn(Erlang::new(3.0, 4).unwrap(), 20_000)).unwrap();
    assert!(erlang.log_likelihood <= find(&fits, "hyper-erlang").log_likelihood + 1.0);
    let variable = fit_moments(&drawn(HyperExponential::balanced(1.0, 4.0).unwrap(), 20_000)).unwrap();
    check(variable.mean, 1.0, 0.05);
}
