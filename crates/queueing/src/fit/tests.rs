//! Fits of values drawn from a known law.

use super::*;
use crate::distribution::{BoundedPareto, Erlang, HyperExponential, LogNormal};
use crate::random::Random;
use crate::testing::check;

fn drawn(law: impl Into<Distribution>, count: usize) -> Vec<f64> {
    let (law, mut random) = (law.into(), Random::new(7));
    (0..count).map(|_| law.sample(&mut random)).filter(|value| *value > 0.0).collect()
}

#[test]
fn the_right_family_wins_with_its_parameters() {
    let fits = fit(&drawn(LogNormal::new(7.811, 1.573).unwrap(), 50_000)).unwrap();
    assert_eq!(fits[0].family, "log-normal");
    check(*fits[0].parameters.find("mu").unwrap(), 7.811, 0.01);
    check(*fits[0].parameters.find("sigma").unwrap(), 1.573, 0.01);
    assert!(fits[0].kolmogorov_smirnov < 0.01 && fits[3].kolmogorov_smirnov > fits[0].kolmogorov_smirnov);

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
    // Equal values have no density: log-normal steps aside, nothing panics.
    assert!(fit(&[2.0; 20]).unwrap().iter().all(|fit| fit.family != "log-normal"));
}
