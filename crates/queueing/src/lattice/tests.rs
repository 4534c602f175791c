//! Bounds against distributions in closed form: the exact value must lie between them, and they must agree.

use super::*;
use crate::testing::check;

fn exponential(rate: f64) -> Survival<'static> {
    Box::new(move |t| (-rate * t).exp())
}

fn time(survival: Survival<'_>) -> Part<'_> {
    Part::time(survival, 0.0)
}

fn path(probability: f64, constant: f64, parts: Vec<Part<'_>>) -> Path<'_> {
    Path { probability, constant, parts }
}

const PROBABILITIES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

fn holds(between: Between, expected: f64) {
    is_within(between, expected);
    // The estimate is better than its bounds.
    check(between.best, expected, 2e-4);
}

fn is_within(between: Between, expected: f64) {
    assert!(between.low <= expected && expected <= between.high, "{between:?} {expected}");
    assert!(between.relative_error() <= TOLERANCE, "{between:?}");
}

#[test]
fn response_times_of_mm1_are_exponential() {
    for rho in [0.1, 0.5, 0.9, 0.98] {
        let parts = vec![Part::geometric(exponential(1.0), rho), time(exponential(1.0))];
        let found = percentiles(
            &mut Series::default(),
            &[path(1.0, 0.0, parts)],
            &PROBABILITIES,
            1.0 / (1.0 - rho),
            0.0,
            TOLERANCE,
        );
        for (between, p) in found.into_iter().zip(PROBABILITIES) {
            holds(between, -(1.0 - p).ln() / (1.0 - rho));
        }
    }
}

#[test]
fn a_choice_of_sums_with_constants() {
    // 3 s with 0.4; else 1 s and an exponential of mean 2 s; 10 s are added to all.
    let paths = [path(0.4, 3.0, vec![]), path(0.6, 1.0, vec![time(exponential(0.5))])];
    let found = percentiles(&mut Series::default(), &paths, &PROBABILITIES, 3.0, 10.0, TOLERANCE);
    let survival = |t: f64| (if t < 3.0 { 0.4 } else { 0.0 }) + 0.6 * (-0.5 * (t - 1.0_f64)).exp();
    for (between, p) in found.into_iter().zip(PROBABILITIES) {
        if survival(3.0 - 1e-12) > 1.0 - p && survival(3.0) <= 1.0 - p {
            // A jump lies somewhere between two points.
            is_within(between, 13.0);
        } else {
            holds(between, 11.0 - 2.0 * ((1.0 - p) / 0.6).ln());
        }
    }
}

#[test]
fn a_gap_at_the_percentile_keeps_its_width() {
    let coin = |t: f64| {
        if t < 1.0 {
            1.0
        } else if t < 3.0 {
            0.5
        } else {
            0.0
        }
    };
    let found = percentiles(
        &mut Series::default(),
        &[path(1.0, 0.0, vec![time(Box::new(coin))])],
        &PROBABILITIES,
        2.0,
        0.0,
        TOLERANCE,
    );
    assert!(found[0].low <= 1.0 && found[0].high >= 3.0, "{:?}", found[0]);
    holds(found[1], 3.0);
}

#[test]
fn an_inexact_law_widens_the_bounds() {
    let with_error = |error_bound| vec![Part::time(exponential(1.0), error_bound)];
    let of = |error_bound| {
        percentiles(
            &mut Series::default(),
            &[path(1.0, 0.0, with_error(error_bound))],
            &[0.99],
            1.0,
            0.0,
            TOLERANCE,
        )[0]
    };
    let (sure, unsure) = (of(0.0), of(1e-3));
    assert!(unsure.low < sure.low && unsure.high > sure.high && unsure.relative_error() > 0.01, "{unsure:?}");
}

#[test]
fn a_load_beyond_the_lattice_says_so() {
    let parts = vec![Part::geometric(exponential(1.0), 0.9999)];
    let found =
        percentiles(&mut Series::default(), &[path(1.0, 0.0, parts)], &[0.99], 1e4, 0.0, TOLERANCE)[0];
    let exact = -(0.01_f64 / 0.9999).ln() * 1e4;
    assert!(found.low <= exact && exact <= found.high && found.relative_error() > TOLERANCE, "{found:?}");
}

#[test]
fn numbered_parts_give_other_sums_the_same_percentiles() {
    let parts = |numbered: bool| {
        let number = |part: Part<'static>, number| if numbered { part.numbered(number) } else { part };
        vec![
            number(Part::geometric(exponential(1.0), 0.7), 0),
            number(time(exponential(1.0)), 1),
            number(time(exponential(0.3)), 2),
        ]
    };
    let mut series = Series::default();
    let mut of = |numbered, constant| {
        percentiles(&mut series, &[path(1.0, constant, parts(numbered))], &PROBABILITIES, 6.7, 0.0, TOLERANCE)
    };
    let (first, again) = (of(true, 0.0), of(true, 0.0));
    assert_eq!(first, again);
    for (shared, own) in of(true, 2.0).into_iter().zip(of(false, 2.0)) {
        check(shared.best, own.best, 1e-9);
    }
}
