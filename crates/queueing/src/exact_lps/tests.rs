//! The exact solution against known cases and long simulations by another program.

use super::*;
use crate::distribution::{Distribution, Erlang, Exponential, HyperExponential, LogNormal, Mixture};
use crate::testing::check;

const MEAN: f64 = 25.675;

fn solved(distribution: impl Into<Distribution>, rho: f64, limit: u32) -> ExactLps {
    let demand = PhaseType::of(&distribution.into()).unwrap();
    ExactLps::new(rho / demand.mean(), demand, limit).unwrap()
}

fn h2(scv: f64) -> HyperExponential {
    HyperExponential::balanced(MEAN, scv).unwrap()
}

#[test]
fn means_of_known_cases() {
    // The limit is invisible with exponential demand, decisive with any other.
    for limit in [1, 2, 4, 16] {
        check(solved(Exponential::new(MEAN).unwrap(), 0.8, limit).mean_response_time(), 128.375, 1e-9);
    }
    check(solved(h2(10.0), 0.8, 4).mean_response_time(), 349.6, 5e-4);
    let unit = |limit| solved(HyperExponential::balanced(1.0, 4.0).unwrap(), 0.5, limit).mean_response_time();
    check(unit(1), 3.5, 1e-9);
    check(unit(2), 2.662, 2e-4);
    check(unit(4), 2.138, 2e-4);
}

#[test]
fn one_at_a_time_is_pollaczek_khinchine() {
    for distribution in [Distribution::from(h2(25.0)), Erlang::new(MEAN, 3).unwrap().into()] {
        let exact = solved(distribution.clone(), 0.7, 1).mean_response_time();
        check(exact, Mg1::of(0.7 / MEAN, &distribution).unwrap().fifo_mean_response_time(), 1e-9);
    }
}

#[test]
fn a_large_limit_is_ps() {
    check(solved(h2(10.0), 0.5, 60).mean_response_time(), 2.0 * MEAN, 1e-4);
    check(solved(Erlang::new(MEAN, 2).unwrap(), 0.5, 24).mean_response_time(), 2.0 * MEAN, 1e-4);
}

#[test]
fn percentiles_of_very_variable_demand() {
    // Checked against 60 million simulated jobs: 60.3, 1729, 3148, 5199 and 479, 2224.
    let four = solved(h2(10.0), 0.8, 4);
    let distribution = four.distribution().unwrap();
    check(distribution.mean(), four.mean_response_time(), 1e-5);
    for (p, expected) in [(0.5, 59.9), (0.95, 1723.0), (0.99, 3157.0), (0.999, 5268.0)] {
        check(distribution.quantile(p), expected, 2e-3);
    }
    let sixteen = solved(h2(10.0), 0.8, 16);
    let distribution = sixteen.distribution().unwrap();
    check(distribution.mean(), sixteen.mean_response_time(), 1e-5);
    check(distribution.quantile(0.95), 478.0, 2e-3);
    check(distribution.quantile(0.99), 2192.0, 2e-3);
}

#[test]
fn percentiles_of_mm1() {
    let distribution = solved(Exponential::new(1.0).unwrap(), 0.5, 1).distribution().unwrap();
    for p in [0.5, 0.95, 0.999] {
        check(distribution.quantile(p), -2.0 * (1.0_f64 - p).ln(), 1e-5);
    }
    check(distribution.survival(0.0), 1.0, 1e-9);
}

#[test]
fn means_by_demand() {
    let station = solved(Exponential::new(MEAN).unwrap(), 0.8, 4);
    let means = station.conditional_means(&[4.92 * MEAN, 9.0 * MEAN, 0.0]);
    // Eq. 2.1 says 425.5 and 734.7; simulation 434.1 and 764.8.
    check(means[0], 433.6, 1e-3);
    check(means[1], 770.1, 1e-3);
    check(means[2], station.mean_wait(), 1e-12);
}

#[test]
fn means_by_demand_average_to_the_mean() {
    // With FIFO the slope is 1; with H2 the average over both branches must be the mean.
    let fifo = solved(h2(10.0), 0.8, 1);
    let means = fifo.conditional_means(&[10.0, 20.0]);
    check(means[1] - means[0], 10.0, 1e-6);
    let station = solved(h2(4.0), 0.7, 3);
    let distribution = h2(4.0);
    let grid: Vec<f64> = (0..8_000).map(|step| (f64::from(step) + 0.5) * 0.15).collect();
    let means = station.conditional_means(&grid);
    let density = |x: f64| {
        let (p, [first, second]) = (distribution.probability(), distribution.means());
        p / first * (-x / first).exp() + (1.0 - p) / second * (-x / second).exp()
    };
    let average: f64 = grid.iter().zip(&means).map(|(x, mean)| mean * density(*x) * 0.15).sum();
    check(average, station.mean_response_time(), 2e-3);
}

#[test]
fn two_moment_fits_keep_two_moments() {
    for scv in [0.126, 0.281, 0.4, 0.5, 0.9, 1.0, 3.0] {
        let demand = PhaseType::from_mean_scv(MEAN, scv).unwrap();
        check(demand.mean(), MEAN, 1e-9);
        check(demand.second_moment(), (1.0 + scv) * MEAN * MEAN, 1e-9);
    }
    assert!(PhaseType::from_mean_scv(MEAN, 0.1).is_none());
    // The thesis's demand has C² = 0.281: Eq. 2.2 is within 1 % of the exact mean.
    let demand = PhaseType::from_mean_scv(MEAN, 0.281).unwrap();
    let approximate = crate::closed_form::Lps::new(
        Mg1::new(0.8 / MEAN, demand.mean(), demand.second_moment()).unwrap(),
        Some(4),
        0.0,
    );
    let exact = ExactLps::new(0.8 / MEAN, demand, 4).unwrap().mean_response_time();
    check(approximate.unwrap().mean_response_time(), exact, 0.012);
}

#[test]
fn a_law_that_is_scaled_is_the_same_law_of_another_mean() {
    let law: Distribution = h2(4.0).into();
    let scaled = PhaseType::of(&law.clone().affine(2.5, 0.0).unwrap()).unwrap();
    check(scaled.mean(), 2.5 * MEAN, 1e-9);
    check(scaled.second_moment(), 6.25 * 5.0 * MEAN * MEAN, 1e-9);
    assert!(PhaseType::of(&law.affine(2.5, 0.1).unwrap()).is_none(), "a shift is no scale");
}

#[test]
fn refusals_say_why() {
    // Branches of Erlang and hyper-exponential distributions are phases side by side.
    let mixture = |scv| PhaseType::of(&crate::fit::two_moments(MEAN, scv).unwrap()).unwrap();
    check(mixture(0.281).second_moment(), 1.281 * MEAN * MEAN, 1e-9);
    assert!(PhaseType::of(&crate::fit::two_moments(MEAN, 0.1).unwrap()).is_none());
    assert!(PhaseType::of(&LogNormal::new(0.0, 1.0).unwrap().into()).is_none());
    let demand = PhaseType::of(&Erlang::new(1.0, 8).unwrap().into()).unwrap();
    assert!(matches!(ExactLps::new(0.5, demand.clone(), 32), Err(ExactError::TooLarge { .. })));
    assert!(matches!(ExactLps::new(1.5, demand, 1), Err(ExactError::ClosedForm(_))));
}

#[test]
fn speeds_that_are_servers_are_the_multi_server_queue() {
    // M/M/4 FIFO at ρ = 0.8: Erlang C 0.5964; a job that does not wait has an exponential response time.
    let demand = PhaseType::of(&Exponential::new(1.0).unwrap().into()).unwrap();
    let four = ExactLps::with_speed(3.2, demand, 4, &Speed::Servers(4.0)).unwrap();
    check(four.mean_response_time(), 1.0 + 0.596_43 / 0.8, 1e-5);
    let distribution = four.distribution().unwrap();
    check(distribution.mean(), four.mean_response_time(), 1e-5);
    // P(R > t) = (1 − C) e⁻ᵗ + C P(S + W > t), W exponential at rate c(1 − ρ) = 0.8.
    let (c, t) = (0.596_43, 4.0_f64);
    let both = ((-0.8 * t).exp() - 0.8 * (-t).exp()) / 0.2;
    check(distribution.survival(t), (1.0 - c) * (-t).exp() + c * both, 1e-4);
    // Each runs at full speed once it is in service.
    let means = four.conditional_means(&[1.0, 3.0]);
    check(means[1] - means[0], 2.0, 1e-6);
}

#[test]
fn mean_and_distribution_agree_at_a_nonlinear_speed() {
    let demand = || PhaseType::of(&HyperExponential::balanced(1.0, 4.0).unwrap().into()).unwrap();
    let speed = Speed::usl(0.2, 0.05).unwrap();
    let station = ExactLps::with_speed(0.9, demand(), 4, &speed).unwrap();
    check(station.distribution().unwrap().mean(), station.mean_response_time(), 1e-4);
    // With r = 1 jobs never share, so the curve does not matter.
    let alone = ExactLps::with_speed(0.5, demand(), 1, &speed).unwrap();
    check(alone.mean_response_time(), 3.5, 1e-9);
    // v(4) = 4 / 2.2: beyond it the queue grows for ever.
    assert!(matches!(ExactLps::with_speed(1.9, demand(), 4, &speed), Err(ExactError::ClosedForm(_))));
}

#[test]
fn many_servers_at_a_low_load_let_nobody_wait() {
    // No job is as probable as 200 jobs are times 200!/aⁿ, more than 10³⁷⁴: a double ends at 10³⁰⁸.
    for (rate, mean) in [(1.0, 1.0), (0.7, 0.3)] {
        let demand = PhaseType::of(&Exponential::new(mean).unwrap().into()).unwrap();
        let station = ExactLps::with_speed(rate, demand, 200, &Speed::Servers(200.0)).unwrap();
        check(station.mean_response_time(), mean, 1e-12);
        check(station.distribution().unwrap().quantile(0.5), mean * 2.0_f64.ln(), 1e-5);
    }
}

fn finite(
    distribution: impl Into<Distribution>,
    rate: f64,
    limit: u32,
    servers: f64,
    capacity: u32,
) -> ExactLps {
    let demand = PhaseType::of(&distribution.into()).unwrap();
    ExactLps::finite(rate, demand, limit, &Speed::Servers(servers), capacity).unwrap()
}

#[test]
fn finite_and_exponential_is_birth_and_death() {
    // M/M/2/5 at 2.4 per service time: weights aⁿ/n! up to 2, then halved.
    let weights: [f64; 6] = [1.0, 2.4, 2.88, 3.456, 4.1472, 4.97664];
    let total: f64 = weights.iter().sum();
    let lost = weights[5] / total;
    let present: f64 = weights.iter().enumerate().map(|(n, weight)| n as f64 * weight / total).sum();
    for limit in [2, 3, 5] {
        let station = finite(Exponential::new(MEAN).unwrap(), 2.4 / MEAN, limit, 2.0, 5);
        check(station.loss_probability(), lost, 1e-12);
        check(station.mean_response_time(), present / (2.4 / MEAN) / (1.0 - lost), 1e-12);
        check(station.distribution().unwrap().mean(), station.mean_response_time(), 1e-6);
    }
    // First come, first served: all places in service are left within Erlang's time.
    let station = finite(Exponential::new(1.0).unwrap(), 2.4, 2, 2.0, 5);
    let wait = |n: usize| if n < 2 { 0.0 } else { (n - 1) as f64 / 2.0 };
    let mean: f64 = (0..5).map(|n| weights[n] * (1.0 + wait(n))).sum::<f64>() / (total - weights[5]);
    check(station.mean_response_time(), mean, 1e-12);
}

#[test]
fn sharing_among_few_is_insensitive() {
    // M/G/1/K-PS: P(K) = (1 − ρ) ρᴷ / (1 − ρᴷ⁺¹), whatever the law.
    let expected = 0.1 * 0.9_f64.powi(6) / (1.0 - 0.9_f64.powi(7));
    for distribution in [Distribution::from(h2(10.0)), Erlang::new(MEAN, 3).unwrap().into()] {
        check(finite(distribution, 0.9 / MEAN, 6, 1.0, 6).loss_probability(), expected, 1e-10);
    }
}

#[test]
fn much_room_is_no_limit() {
    for (limit, servers) in [(4, 1.0), (4, 2.0), (2, 2.0)] {
        let demand = PhaseType::of(&h2(4.0).into()).unwrap();
        let rate = 0.7 * servers / MEAN;
        let unlimited = ExactLps::with_speed(rate, demand, limit, &Speed::Servers(servers)).unwrap();
        let station = finite(h2(4.0), rate, limit, servers, 160);
        check(station.mean_response_time(), unlimited.mean_response_time(), 1e-6);
        let (finite, unlimited) = (station.distribution().unwrap(), unlimited.distribution().unwrap());
        for p in [0.5, 0.95, 0.99] {
            check(finite.quantile(p), unlimited.quantile(p), 1e-5);
        }
    }
}

#[test]
fn overloaded_and_very_variable_matches_its_own_mean() {
    let station = finite(h2(10.0), 1.5 / MEAN, 3, 1.0, 12);
    let throughput = 1.5 * (1.0 - station.loss_probability());
    // The server is idle as rarely as an empty station: 1 − P(0).
    check(throughput, 1.0 - station.stationary.levels[0][0], 1e-12);
    check(station.distribution().unwrap().mean(), station.mean_response_time(), 1e-6);
    assert!(
        ExactLps::finite(1.0, PhaseType::of(&h2(2.0).into()).unwrap(), 4, &Speed::Servers(1.0), 3).is_err()
    );
}

#[test]
fn rare_losses_keep_their_digits() {
    // M/M/1/K: P(K) = (1 − ρ) ρᴷ / (1 − ρᴷ⁺¹), here 4·10⁻³².
    let station = finite(Exponential::new(MEAN).unwrap(), 0.3 / MEAN, 4, 1.0, 60);
    check(station.loss_probability(), 0.7 * 0.3_f64.powi(60) / (1.0 - 0.3_f64.powi(61)), 1e-10);
}

#[test]
fn a_tail_that_is_not_followed_to_its_end_is_refused() {
    // One job in a hundred takes 1 s, so P(R > 5 s) is at least e⁻⁵ / 100; the events that are followed are 5 s of those of the
    // short jobs.
    let exponential = |mean| Exponential::new(mean).unwrap().into();
    let demand = Mixture::new(vec![(0.99, exponential(5e-5)), (0.01, exponential(1.0))]).unwrap();
    let station = finite(demand, 69.66, 2, 1.0, 3);
    assert!(station.has_distribution());
    assert_eq!(station.distribution().err(), Some(ExactError::TooNearSaturation));
}
