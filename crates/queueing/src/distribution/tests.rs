//! Moments, quantiles and samples of every distribution.

use super::*;
use crate::testing::check;

/// The thesis's demand in milliseconds: 21.55 ms and 0.4851 µs/B over log-normal sizes.
fn thesis_demand() -> Distribution {
    Distribution::shifted_log_normal(7.811, 1.573, 0.000_485_1, 21.55).unwrap()
}

fn every_distribution() -> Vec<Distribution> {
    vec![
        Deterministic::new(3.0).unwrap().into(),
        Exponential::new(2.0).unwrap().into(),
        Erlang::new(5.0, 4).unwrap().into(),
        HyperExponential::balanced(1.0, 10.0).unwrap().into(),
        LogNormal::new(0.3, 0.5).unwrap().into(),
        LogNormal::from_mean_scv(4.0, 0.7).unwrap().into(),
        BoundedPareto::new(1.5, 1.0, 100.0).unwrap().into(),
        BoundedPareto::new(2.0, 1.0, 100.0).unwrap().into(),
        Empirical::weighted(&[4.0, 1.0, 2.5], &[1.0, 5.0, 2.0]).unwrap().into(),
        Mixture::new(vec![
            (0.3, Deterministic::new(0.0).unwrap().into()),
            (0.7, Exponential::new(2.0).unwrap().into()),
        ])
        .unwrap()
        .into(),
        Distribution::shifted_log_normal(0.3, 0.5, 2.0, 1.0).unwrap(),
        stepped(&LogNormal::new(0.3, 0.5).unwrap().into()),
        stepped(&Empirical::weighted(&[4.0, 1.0, 2.5], &[1.0, 5.0, 2.0]).unwrap().into()),
        stepped(&Distribution::shifted_log_normal(0.3, 0.5, 2.0, 1.0).unwrap()),
    ]
}

/// A constant below 1.5, then a jump up to a slope, then another slope.
fn stepped(sizes: &Distribution) -> Distribution {
    let segment = |below, factor, offset| Segment { below, factor, offset };
    of_size(Some(sizes), &[segment(1.5, 0.0, 2.0), segment(3.0, 4.0, 0.5), segment(f64::INFINITY, 1.0, 1.0)])
}

#[test]
fn the_excess_is_the_integral_of_the_survival_function() {
    for distribution in every_distribution() {
        check(distribution.excess(0.0), distribution.mean(), 1e-9);
        // Between two points, by the midpoint rule; jumps fall anywhere.
        for (from, until) in [(0.0, 1.0), (1.0, 3.3), (3.3, 20.0)] {
            let steps = 200_000;
            let width = (until - from) / f64::from(steps);
            let survival = |step| 1.0 - distribution.cdf(from + (f64::from(step) + 0.5) * width);
            let integral = (0..steps).map(survival).sum::<f64>() * width;
            let difference = distribution.excess(from) - distribution.excess(until);
            assert!((difference - integral).abs() < 1e-4, "{distribution:?} {from}: {difference} {integral}");
        }
    }
}

#[test]
fn second_moments_in_pieces_do_not_depend_on_where_the_pieces_end() {
    let segment = |below, factor| Segment { below, factor, offset: 0.0 };
    let second = |sizes: Distribution, below: f64, last: f64| {
        of_size(Some(&sizes), &[segment(below, 1e-6), segment(f64::INFINITY, last)]).second_moment()
    };
    // Exponential sizes: E[X²; X > b] = e^(−b/m) (b² + 2bm + 2m²), which for b = 12,500 m is nothing.
    let exponential = || Exponential::new(8e3).unwrap().into();
    check(second(exponential(), 100e6, 10e-6), 1.28e-4, 1e-6);
    for b in [0.01, 0.5, 2.0, 10.0, 30.0_f64] {
        let above = (-b).exp() * (b * b + 2.0 * b + 2.0);
        check(second(exponential(), 8e3 * b, 2e-6), 64e-6 * (2.0 - above + 4.0 * above), 1e-6);
    }
    // Log-normal sizes: E[X²; X ≤ b] = E[X²] Φ((ln b − μ)/σ − 2σ).
    let sizes = LogNormal::new(7.811, 1.573).unwrap();
    for b in [1e3, 1e5, 1e9_f64] {
        let below = normal_cdf((b.ln() - 7.811) / 1.573 - 2.0 * 1.573);
        let expected = 1e-12 * sizes.second_moment() * (below + 4.0 * (1.0 - below));
        check(second(sizes.clone().into(), b, 2e-6), expected, 1e-6);
    }
}

#[test]
fn thesis_moments() {
    let documents = LogNormal::new(7.811, 1.573).unwrap();
    check(documents.mean(), 8_502.9, 1e-4);
    check(thesis_demand().mean(), 25.675, 1e-3);
    check(thesis_demand().second_moment(), 844.20, 1e-3);
    // T5: exponential document sizes, not exponential work.
    let exponential =
        Distribution::from(Exponential::new(8_502.9).unwrap()).affine(0.000_485_1, 21.55).unwrap();
    check(exponential.second_moment(), 676.21, 1e-3);
    // The printed figures are within 0.1 % too: the thesis rounded.
    check(thesis_demand().mean(), 25.68, 1e-3);
    check(thesis_demand().second_moment(), 844.7, 1e-3);
    check(exponential.second_moment(), 676.5, 1e-3);
}

#[test]
fn samples_have_the_exact_moments() {
    for (index, distribution) in every_distribution().iter().enumerate() {
        let mut random = Random::new(index as u64);
        let samples: Vec<f64> = (0..400_000).map(|_| distribution.sample(&mut random)).collect();
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let second = samples.iter().map(|x| x * x).sum::<f64>() / samples.len() as f64;
        check(mean, distribution.mean(), 0.02);
        check(second, distribution.second_moment(), 0.06);
    }
}

#[test]
fn samples_follow_the_distribution_function() {
    for (index, distribution) in every_distribution().iter().enumerate() {
        let mut random = Random::new(100 + index as u64);
        let samples: Vec<f64> = (0..200_000).map(|_| distribution.sample(&mut random)).collect();
        for p in [0.01, 0.3, 0.5, 0.9, 0.999] {
            let quantile = distribution.quantile(p);
            let below = samples.iter().filter(|&&x| x <= quantile).count() as f64 / samples.len() as f64;
            assert!(
                (below - distribution.cdf(quantile)).abs() < 0.005,
                "distribution {index}: {below} at {p}"
            );
            assert!(distribution.cdf(quantile) >= p - 1e-9, "distribution {index}: quantile {p}");
        }
    }
}

#[test]
fn ziggurat_tails_are_right() {
    let mut random = Random::new(5);
    let draws = 4_000_000;
    let beyond = |count: usize| count as f64 / f64::from(draws);
    let normal = (0..draws).filter(|_| random.normal() > 3.7).count();
    let exponential = (0..draws).filter(|_| random.exponential() > 8.0).count();
    check(beyond(normal), 1.0 - normal_cdf(3.7), 0.15);
    check(beyond(exponential), (-8.0_f64).exp(), 0.1);
}

#[test]
fn normal_and_student_quantiles() {
    check(normal_quantile(0.975), 1.959_963_984_540_054, 1e-14);
    check(normal_quantile(1e-10), -6.361_340_902_404_056, 1e-12);
    check(normal_cdf(normal_quantile(0.3)), 0.3, 1e-14);
    check(student_quantile(0.975, 43.5), 2.0160, 1e-3);
    check(student_quantile(0.975, 10.0), 2.2281, 1e-3);
}

#[test]
fn balanced_means_keep_mean_and_variability() {
    for scv in [1.0, 2.0, 10.0, 25.0] {
        let distribution = Distribution::from(HyperExponential::balanced(3.0, scv).unwrap());
        check(distribution.mean(), 3.0, 1e-12);
        check(distribution.scv(), scv, 1e-9);
    }
}

#[test]
fn bad_parameters_are_refused() {
    assert!(Deterministic::new(-1.0).is_err());
    assert!(Exponential::new(f64::NAN).is_err());
    assert!(Erlang::new(1.0, 0).is_err());
    assert!(HyperExponential::balanced(1.0, 0.5).is_err());
    assert!(LogNormal::new(0.0, -1.0).is_err());
    assert!(BoundedPareto::new(1.0, 2.0, 1.0).is_err());
    assert!(Empirical::new(&[]).is_err());
    assert!(Empirical::weighted(&[1.0], &[0.0]).is_err());
    assert!(Mixture::new(vec![]).is_err());
    assert_eq!(Exponential::new(-2.0).unwrap_err().to_string(), "mean must be positive and finite, not -2");
}
