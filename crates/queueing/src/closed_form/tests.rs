//! Closed forms against the thesis and each other.

use super::*;
use crate::distribution::Distribution;
use crate::testing::check;

/// The thesis's station at load `rho`, in milliseconds.
fn thesis(rho: f64) -> Mg1 {
    let demand = Distribution::shifted_log_normal(7.811, 1.573, 0.000_485_1, 21.55).unwrap();
    Mg1::of(rho / crate::distribution::RandomVariable::mean(&demand), &demand).unwrap()
}

fn lps(station: Mg1, limit: u32) -> Lps {
    Lps::new(station, Some(limit), 0.0).unwrap()
}

#[test]
fn thesis_fifo_and_ps_means() {
    check(thesis(0.8).fifo_mean_response_time(), 91.44, 1e-3);
    check(thesis(0.8).ps_mean_response_time(), 128.4, 1e-3);
    check(thesis(0.8).saturation_per_second() * 1e3, 38.95, 1e-3);
    check(thesis(0.8).mean_residual(), 16.44, 1e-3);
}

#[test]
fn lps_reduces_to_fifo_and_ps() {
    let station = thesis(0.8);
    check(lps(station, 1).mean_response_time(), station.fifo_mean_response_time(), 1e-12);
    check(lps(station, 10_000).mean_response_time(), station.ps_mean_response_time(), 1e-12);
    let unlimited = Lps::new(station, None, 0.0).unwrap();
    check(unlimited.mean_response_time(), station.ps_mean_response_time(), 1e-15);
}

#[test]
fn exponential_demand_does_not_see_the_limit() {
    let station = Mg1::new(0.8 / 25.675, 25.675, 2.0 * 25.675 * 25.675).unwrap();
    for limit in [1, 2, 4, 16, 1000] {
        check(lps(station, limit).mean_response_time(), 128.375, 1e-9);
    }
}

#[test]
fn very_variable_demand_h_star() {
    // C² = 10, ρ = 0.8 and 0.6, r = 4, mean 25.675: exact for the two-point distribution H*.
    let second_moment = 11.0 * 25.675 * 25.675;
    let mean = |rho: f64| lps(Mg1::new(rho / 25.675, 25.675, second_moment).unwrap(), 4).mean_response_time();
    check(mean(0.8), 365.0, 1e-3);
    check(mean(0.6), 101.62, 1e-3);
}

#[test]
fn conditional_mean_averages_to_the_mean() {
    let station = lps(thesis(0.9), 4);
    check(station.conditional_mean(25.675), station.mean_response_time(), 1e-3);
    let wait = station.mean_wait();
    check(station.conditional_mean(0.0), wait, 1e-12);
    check(lps(thesis(0.8), 4).conditional_slope_asymptotic(), 4.0, 1e-12);
    check(lps(thesis(0.8), 16).conditional_slope_asymptotic(), 5.0, 1e-9);
}

#[test]
fn delta_is_added_to_every_response() {
    let with = Lps::new(thesis(0.5), Some(4), 7.0).unwrap();
    let without = lps(thesis(0.5), 4);
    check(with.mean_response_time() - without.mean_response_time(), 7.0, 1e-12);
    check(with.conditional_mean(30.0) - without.conditional_mean(30.0), 7.0, 1e-12);
}

#[test]
fn no_cancellation_near_saturation() {
    // 1 − ρ = 1e-12: (1 − ρʳ)/(1 − ρ) is r, and the waiting part is mₑ/(1−ρ).
    let rho = 1.0 - 1e-12;
    let station = Mg1::new(rho, 1.0, 1.0).unwrap();
    let idle = 1.0 - station.utilisation();
    let expected = 0.5 / idle + 8.0 * 0.5;
    check(lps(station, 8).mean_response_time(), expected, 1e-9);
    assert_eq!(lps(Mg1::new(0.0, 1.0, 2.0).unwrap(), 3).mean_response_time(), 1.0);
}

#[test]
fn overload_and_nonsense_are_refused() {
    assert!(matches!(Mg1::new(1.0, 1.0, 2.0), Err(ClosedFormError::Unstable { .. })));
    assert!(Mg1::new(0.5, 1.0, 0.5).is_err());
    assert!(Mg1::new(f64::NAN, 1.0, 2.0).is_err());
    assert!(Lps::new(thesis(0.5), Some(0), 0.0).is_err());
    assert!(Lps::new(thesis(0.5), Some(4), -1.0).is_err());
    let message = Mg1::new(50.0, 0.025, 0.001).unwrap_err().to_string();
    assert!(message.contains("1.25") && message.contains("40.0"), "{message}");
}

#[test]
fn heavy_traffic_brackets_from_below() {
    let station = Mg1::new(0.8 / 25.675, 25.675, 11.0 * 25.675 * 25.675).unwrap();
    let (high, low) =
        (lps(station, 4).mean_response_time(), lps(station, 4).heavy_traffic_mean_response_time());
    // The exact mean of the balanced H2 is 349.6.
    assert!(low < 349.6 && 349.6 < high, "{low} {high}");
}
