//! The time at a station, as a transform given the job's demand.

use super::nodes::{Transform, nodes};
use crate::complex::Complex;
use crate::exact_lps::{ExactLps, PhaseType, ResponseDistribution};
use crate::solver::exact::phase_type;
use crate::solver::flow::Flow;
use crate::solver::open::{erlang_c, wait_and_slope};
use crate::speed::Speed;
use crate::system::{Demand, Discipline};

/// A limit r that PS would reach with less than this probability is ignored.
const LIMIT_REACHED_MAX: f64 = 1e-4;
/// PS is solved as LPS with so many places that finding them full is this improbable, up to a maximum.
const UNLIMITED_TAIL: f64 = 1e-8;
const UNLIMITED_PLACES_MAX: f64 = 64.0;

/// The distribution of a job's time at the station, given its demand.
pub(super) enum StationTime {
    /// The demand and nothing else; also an unused station.
    Delay,
    /// The wait by Pollaczek and Khinchine, then the demand.
    Fifo {
        utilisation: f64,
        mean: f64,
        /// Transform of the demands of all arrivals.
        demands: Transform,
    },
    /// Several servers: a wait with this probability, exponential at this rate, then the demand.
    ManyServers { waiting: f64, rate: f64, exact: bool },
    /// M/G/1 processor sharing, by its first two moments given the demand.
    Sharing { arrival_rate: f64, idle: f64, wait_rate: f64 },
    /// The exact distribution; it does not depend on the document.
    Exact { response_time: ResponseDistribution, exact: bool, rate: f64 },
}

impl StationTime {
    pub(super) fn of(flow: &Flow<'_>, station: usize) -> Result<Self, String> {
        let (model, throughputs) = (&flow.system.stations[station], flow.nominal_mix());
        let (rate, mean, second) = flow.arrivals(station, &throughputs);
        if rate == 0.0 || mean == 0.0 || model.discipline == Discipline::Is {
            return Ok(Self::Delay);
        }
        let (rho, speed) = (rate * mean, model.service().speed);
        let refuse = |what: &str| Err(format!("no percentiles: {what} at {}; simulate", model.place()));
        match model.discipline {
            Discipline::Fifo if model.servers == 1 => {
                Ok(Self::Fifo { utilisation: rho, mean, demands: demands(flow, station, rate) })
            }
            Discipline::Fifo => {
                let waiting = erlang_c(model.servers, rho);
                let (wait, _) = wait_and_slope(flow, station, &throughputs)?;
                let exact = phase_type(flow, station).is_ok_and(|demand| demand.phases() == 1);
                Ok(Self::ManyServers { waiting, rate: waiting / wait, exact })
            }
            Discipline::Lps { limit } => {
                let exact = phase_type(flow, station);
                let reached = rho.powi(limit as i32) > LIMIT_REACHED_MAX;
                if exact.is_err() && !reached && speed.is_single_server() {
                    return Ok(Self::sharing(rate, mean, second));
                }
                let is_exact = exact.is_ok();
                let fitted = || PhaseType::from_mean_scv(mean, second / (mean * mean) - 1.0);
                let Some(distribution) = exact.ok().or_else(fitted) else {
                    return refuse("limited sharing of a demand without a small phase-type distribution");
                };
                let solved = ExactLps::with_speed(rate, distribution, limit, &speed);
                match solved {
                    Ok(solved) => Ok(Self::exact(&solved, is_exact, mean)),
                    Err(error) => refuse(&error.to_string()),
                }
            }
            Discipline::Ps if speed.is_single_server() => {
                let places = (UNLIMITED_TAIL.ln() / rho.ln()).ceil();
                let distribution = phase_type(flow, station).ok().filter(|_| places <= UNLIMITED_PLACES_MAX);
                let solved = distribution
                    .and_then(|distribution| ExactLps::new(rate, distribution, places.max(1.0) as u32).ok());
                Ok(solved.map_or_else(
                    || Self::sharing(rate, mean, second),
                    |solved| Self::exact(&solved, true, mean),
                ))
            }
            Discipline::Ps => {
                let beyond = UNLIMITED_PLACES_MAX - f64::from(model.servers);
                let unlimited =
                    beyond > 0.0 && (rho / f64::from(model.servers)).powf(beyond) < UNLIMITED_TAIL;
                match phase_type(flow, station) {
                    Ok(distribution) if model.speed.is_none() && unlimited => {
                        Self::shared_servers(rate, distribution, &speed, mean)
                    }
                    _ => refuse("sharing of several servers or at a speed v(n)"),
                }
            }
            Discipline::Is => Ok(Self::Delay),
        }
    }

    fn exact(solved: &ExactLps, exact: bool, mean: f64) -> Self {
        Self::Exact { response_time: solved.distribution(), exact, rate: solved.mean_response_time() / mean }
    }

    /// Processor sharing of several servers, as limited sharing with as many places as are ever needed.
    fn shared_servers(rate: f64, distribution: PhaseType, speed: &Speed, mean: f64) -> Result<Self, String> {
        let solved = ExactLps::with_speed(rate, distribution, UNLIMITED_PLACES_MAX as u32, speed);
        solved
            .map(|solved| Self::exact(&solved, true, mean))
            .map_err(|error| format!("no percentiles: {error}"))
    }

    fn sharing(arrival_rate: f64, mean: f64, second: f64) -> Self {
        let rho = arrival_rate * mean;
        // P(W > y) of the FIFO wait ≈ ρ exp(−y ρ/E[W]): its value at 0 and its integral are right.
        let wait = arrival_rate * second / (2.0 * (1.0 - rho));
        Self::Sharing { arrival_rate, idle: 1.0 - rho, wait_rate: rho / wait }
    }

    /// The approximation in words; `None` if exact.
    pub(super) fn approximation(&self) -> Option<&'static str> {
        match self {
            Self::Delay | Self::Fifo { .. } => None,
            Self::ManyServers { exact, .. } => (!exact).then_some("exponential wait by Allen and Cunneen"),
            Self::Sharing { .. } => Some("two conditional moments of processor sharing"),
            Self::Exact { exact, .. } => {
                (!exact).then_some("two-moment phase-type demand, apart from the document")
            }
        }
    }

    /// The least time of a job with at least this demand.
    pub(super) fn floor(&self, demand: f64) -> f64 {
        if matches!(self, Self::Exact { .. }) { 0.0 } else { demand }
    }

    /// Roughly the mean time of jobs with this mean demand: where the search for a quantile starts.
    pub(super) fn mean(&self, demand: f64) -> f64 {
        match self {
            Self::Delay => demand,
            Self::Fifo { utilisation, mean, .. } => demand + mean * utilisation / (1.0 - utilisation),
            Self::ManyServers { waiting, rate, .. } => demand + waiting / rate,
            Self::Sharing { idle, .. } => demand / idle,
            Self::Exact { rate, .. } => demand * rate,
        }
    }

    /// The factor that does not depend on the demand, computed once for all demands.
    pub(super) fn wait(&self, s: Complex) -> Complex {
        match self {
            Self::Delay | Self::Sharing { .. } => Complex::ONE,
            Self::Fifo { utilisation, mean, demands } => {
                let residual = (Complex::ONE - demands.at(s)) / (s * *mean);
                Complex::from(1.0 - utilisation) / (Complex::ONE - residual * *utilisation)
            }
            Self::ManyServers { waiting, rate, .. } => {
                Complex::from(1.0 - waiting) + Complex::from(waiting * rate) / (Complex::from(*rate) + s)
            }
            Self::Exact { response_time, .. } => response_time.transform(s),
        }
    }

    /// Returns true if the time is a wait followed by the demand.
    pub(super) fn is_wait_then_demand(&self) -> bool {
        matches!(self, Self::Delay | Self::Fifo { .. } | Self::ManyServers { .. })
    }

    /// E[exp(−sR)] of a job with this demand; `wait` is [`StationTime::wait`] at s.
    pub(super) fn given(&self, s: Complex, demand: f64, wait: Complex) -> Complex {
        match self {
            Self::Delay => (s * -demand).exp(),
            Self::Fifo { .. } | Self::ManyServers { .. } => wait * (s * -demand).exp(),
            Self::Exact { .. } => wait,
            Self::Sharing { arrival_rate, idle, wait_rate } => {
                (s * -demand).exp() * delay_by_others(s, demand, *arrival_rate, *idle, *wait_rate)
            }
        }
    }
}

/// The part of R beyond the demand x under PS: zero if no other job is present and none arrives, else gamma with the
/// rest of the first two moments. E = xρ/(1−ρ); Var = 2/(1−ρ)² ∫₀ˣ (x−y) P(W > y) dy (Yashkov 1983, Ott 1984).
fn delay_by_others(s: Complex, demand: f64, arrival_rate: f64, idle: f64, wait_rate: f64) -> Complex {
    if demand == 0.0 {
        return Complex::ONE;
    }
    let (rho, decay) = (1.0 - idle, wait_rate * demand);
    let mean = demand * rho / idle;
    // (e⁻ᵈ − 1 + d)/d² without cancellation for small d.
    let shape = if decay < 1e-3 { 0.5 - decay / 6.0 } else { ((-decay).exp_m1() + decay) / (decay * decay) };
    let variance = 2.0 * rho * demand * demand * shape / (idle * idle);
    let alone = idle * (-arrival_rate * demand).exp();
    let mean_delayed = mean / (1.0 - alone);
    let variance_delayed = (variance + mean * mean) / (1.0 - alone) - mean_delayed * mean_delayed;
    let delayed = if variance_delayed > 1e-12 * mean_delayed * mean_delayed {
        let scale = variance_delayed / mean_delayed;
        (Complex::ONE + s * scale).powf(-mean_delayed / scale)
    } else {
        (s * -mean_delayed).exp()
    };
    Complex::from(alone) + delayed * (1.0 - alone)
}

/// The transform of the demands of all visits to a station; `rate` is its total arrival rate.
fn demands(flow: &Flow<'_>, station: usize, rate: f64) -> Transform {
    let mut found = Transform::default();
    for (class, throughput) in flow.system.classes.iter().zip(flow.nominal_mix()) {
        let sizes = class.document.as_ref().map_or_else(|| vec![(1.0, 0.0)], nodes);
        for (probability, visit) in class.visits().filter(|(_, visit)| visit.station == station) {
            let share = throughput * probability / rate;
            match &visit.demand {
                Demand::Independent(distribution) => found.add_distribution(share, distribution),
                by_size => {
                    let demand =
                        |&(weight, size): &(f64, f64)| (weight, by_size.of_size(size).unwrap_or(0.0));
                    found.add_points(share, sizes.iter().map(demand));
                }
            }
        }
    }
    found
}
