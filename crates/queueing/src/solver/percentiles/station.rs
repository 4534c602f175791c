//! The distribution of a job's time at a station given its demand: as parts of a sum, and as a transform.

use super::gamma;
use super::transform::Transform;
use crate::closed_form::erlang_c;
use crate::complex::Complex;
use crate::distribution::{Distribution, Mixture, RandomVariable};
use crate::exact_lps::{ExactError, ExactLps, PhaseType, ResponseDistribution};
use crate::lattice::Part;
use crate::solver::approximation::{InSweep, in_sweep};
use crate::solver::flow::Flow;
use crate::solver::flow::phase_type;
use crate::solver::open::wait_and_slope;
use crate::speed::Speed;
use crate::system::Discipline;

/// A limit r that PS would reach with less than this probability is ignored.
const LIMIT_REACHED_MAX: f64 = 1e-4;
/// PS is solved as LPS with enough places that finding all of them taken is this improbable, up to a maximum.
const UNLIMITED_TAIL: f64 = 1e-8;
const UNLIMITED_PLACES_MAX: f64 = 64.0;

/// The squared coefficient of variation of an approximated demand.
type Scv = f64;

/// Pairs of the largest C² and the errors of p50 to p99.9 in per cent that a sweep found up to it: one station, ρ 0.3 to 0.9,
/// two and eight servers.
const EXPONENTIAL_WAIT: [InSweep; 3] = [(1.0, -10, 15), (4.0, -45, 55), (25.0, -55, 125)];
/// The same for limited sharing, r = 4 and 16.
const TWO_MOMENTS: [InSweep; 3] = [(1.0, -20, 15), (4.0, -40, 55), (25.0, -55, 115)];
/// The same for processor sharing.
const SHARING_IN_SWEEP: &str = "p50 to p95 off by at most 5 %, p99 by 10 %, p99.9 by 15 % in a sweep of laws, more at the jumps of discrete ones";

/// The distribution of a job's time at the station, given its demand.
pub(super) enum StationTime {
    /// The time is the demand alone; also an unused station.
    Delay,
    /// A wait by Pollaczek and Khinchine, longer by `stretch`, then the demand.
    Fifo { utilisation: f64, demand: Distribution, demands: Transform, stretch: f64 },
    /// A wait with this probability, exponential at this rate, then the demand.
    ExponentialWait { waiting: f64, rate: f64, approximated: Option<Scv> },
    /// M/G/1 processor sharing, by its first two moments given the demand; the delay by others is longer by `stretch`.
    Sharing { arrival_rate: f64, idle: f64, wait_rate: f64, stretch: f64 },
    /// The exact distribution, longer by `stretch`; it does not depend on the document. `rate` is its mean over the demand's.
    Exact { response_time: ResponseDistribution, approximated: Option<Scv>, rate: f64, stretch: f64 },
}

impl StationTime {
    /// Under arrivals that lengthen the mean wait of Poisson arrivals by this factor.
    pub(super) fn of(flow: &Flow<'_>, station: usize, factor: f64) -> Result<Self, String> {
        Ok(Self::under_poisson(flow, station)?.stretched(factor))
    }

    fn stretched(mut self, factor: f64) -> Self {
        match &mut self {
            Self::Delay => {}
            Self::Fifo { stretch, .. } | Self::Sharing { stretch, .. } => *stretch = factor,
            Self::ExponentialWait { rate, .. } => *rate /= factor,
            Self::Exact { rate, stretch, .. } => {
                let stretched = 1.0 + (*rate - 1.0) * factor;
                *stretch = stretched / *rate;
                *rate = stretched;
            }
        }
        self
    }

    fn under_poisson(flow: &Flow<'_>, station: usize) -> Result<Self, String> {
        let (model, throughputs) = (&flow.system.stations[station], flow.nominal_mix());
        let (rate, mean, second) = flow.arrivals(station, &throughputs);
        if rate == 0.0 || mean == 0.0 || model.discipline == Discipline::Is {
            return Ok(Self::Delay);
        }
        let (rho, speed) = (rate * mean, model.service().speed);
        let refuse = |what: &str| Err(format!("no percentiles: {what} at {}; simulate", model.place()));
        if model.discipline == Discipline::Fifo && !model.can_queue() && phase_type(flow, station).is_err() {
            return Ok(Self::Delay);
        }
        if let Some(capacity) = &model.capacity {
            return Self::accepted(flow, station, rate, capacity.jobs);
        }
        match model.discipline {
            // With one place per server, jobs are served in order and do not share.
            Discipline::Fifo => Self::in_order(flow, station, (rate, mean)),
            Discipline::Lps { limit } if model.speed.is_none() && limit == model.servers => {
                Self::in_order(flow, station, (rate, mean))
            }
            Discipline::Lps { limit } => {
                // Places that are never taken together make no difference.
                let limit = if speed.is_single_server() { limit.min(unlimited_places(rho)) } else { limit };
                let exact = phase_type(flow, station);
                let reached = rho.powi(limit as i32) > LIMIT_REACHED_MAX;
                if exact.is_err() && !reached && speed.is_single_server() {
                    return Ok(Self::sharing(rate, mean, second));
                }
                if exact.is_err() && !speed.is_single_server() {
                    // A job that finds a server idle takes its demand, whose distribution two moments do not give.
                    return refuse(
                        "sharing of several servers or at a speed v(n), with demand that is not phase-type,",
                    );
                }
                let scv = second / (mean * mean) - 1.0;
                let approximated = exact.is_err().then_some(scv);
                let fitted = || PhaseType::from_mean_scv(mean, scv);
                let Some(distribution) = exact.ok().or_else(fitted) else {
                    return refuse("limited sharing of a demand without a small phase-type distribution");
                };
                let solved = ExactLps::with_speed(rate, distribution, limit, &speed);
                let found = solved.and_then(|solved| Self::exact(&solved, approximated, mean));
                found.or_else(|error| refuse(&without_cure(&error)))
            }
            Discipline::Ps if speed.is_single_server() => {
                let places = unlimited_places(rho);
                let few = f64::from(places) <= UNLIMITED_PLACES_MAX;
                let distribution = phase_type(flow, station).ok().filter(|_| few);
                let solved =
                    distribution.and_then(|distribution| ExactLps::new(rate, distribution, places).ok());
                let found = solved.and_then(|solved| Self::exact(&solved, None, mean).ok());
                Ok(found.unwrap_or_else(|| Self::sharing(rate, mean, second)))
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

    /// The time of the jobs that find room.
    fn accepted(flow: &Flow<'_>, station: usize, rate: f64, room: u32) -> Result<Self, String> {
        let model = &flow.system.stations[station];
        let limit = match model.discipline {
            Discipline::Fifo => model.servers,
            Discipline::Lps { limit } => limit,
            Discipline::Ps | Discipline::Is => room,
        };
        let demand = phase_type(flow, station).map_err(|reason| format!("no percentiles: {reason}"))?;
        let mean = demand.mean();
        let found = ExactLps::finite(rate, demand, limit, &model.service().speed, room)
            .and_then(|solved| Self::exact(&solved, None, mean));
        found.map_err(|error| {
            format!("no percentiles: {} at {}; simulate", without_cure(&error), model.place())
        })
    }

    fn in_order(flow: &Flow<'_>, station: usize, (rate, mean): (f64, f64)) -> Result<Self, String> {
        let (model, phases) = (&flow.system.stations[station], phase_type(flow, station));
        let memoryless = phases.as_ref().is_ok_and(|demand| demand.phases() == 1);
        if model.servers == 1 && !memoryless {
            let demand = demand_of_arrivals(flow, station, rate);
            let demands = Transform::of(&demand);
            return Ok(Self::Fifo { utilisation: rate * mean, demands, demand, stretch: 1.0 });
        }
        if let Ok(phases) = phases
            && !memoryless
        {
            let speed = Speed::Servers(f64::from(model.servers));
            let solved = ExactLps::with_speed(rate, phases, model.servers, &speed);
            if let Ok(found) = solved.and_then(|solved| Self::exact(&solved, None, mean)) {
                return Ok(found);
            }
        }
        let (_, _, second) = flow.arrivals(station, &flow.nominal_mix());
        let approximated = (!memoryless).then_some(second / (mean * mean) - 1.0);
        let waiting = erlang_c(model.servers, rate * mean);
        let (wait, _) = wait_and_slope(flow, station, &flow.nominal_mix())?;
        // Of many servers at a low load, all are never busy at once: the probability underflows.
        if waiting == 0.0 || wait == 0.0 {
            return Ok(Self::Delay);
        }
        Ok(Self::ExponentialWait { waiting, rate: waiting / wait, approximated })
    }

    fn exact(solved: &ExactLps, approximated: Option<Scv>, mean: f64) -> Result<Self, ExactError> {
        let rate = solved.mean_response_time() / mean;
        Ok(Self::Exact { response_time: solved.distribution()?, approximated, rate, stretch: 1.0 })
    }

    /// Processor sharing of several servers, as limited sharing with as many places as are ever needed.
    fn shared_servers(rate: f64, distribution: PhaseType, speed: &Speed, mean: f64) -> Result<Self, String> {
        let solved = ExactLps::with_speed(rate, distribution, UNLIMITED_PLACES_MAX as u32, speed);
        solved
            .and_then(|solved| Self::exact(&solved, None, mean))
            .map_err(|error| format!("no percentiles: {}; simulate", without_cure(&error)))
    }

    fn sharing(arrival_rate: f64, mean: f64, second: f64) -> Self {
        let rho = arrival_rate * mean;
        // P(W > y) of the FIFO wait ≈ ρ exp(−y ρ/E[W]): its value at 0 and its integral are right.
        let wait = arrival_rate * second / (2.0 * (1.0 - rho));
        Self::Sharing { arrival_rate, idle: 1.0 - rho, wait_rate: rho / wait, stretch: 1.0 }
    }

    /// The approximation in words, with the range of its errors; `None` if exact.
    pub(super) fn approximation(&self) -> Option<String> {
        match self {
            Self::Delay | Self::Fifo { .. } => None,
            Self::ExponentialWait { approximated, .. } => {
                let range = in_sweep(&EXPONENTIAL_WAIT, (*approximated)?);
                Some(format!("exponential wait by Allen and Cunneen, {range}"))
            }
            Self::Sharing { .. } => {
                Some(format!("two conditional moments of processor sharing, {SHARING_IN_SWEEP}"))
            }
            Self::Exact { approximated, .. } => {
                let range = in_sweep(&TWO_MOMENTS, (*approximated)?);
                Some(format!("two-moment phase-type demand, apart from the document, {range}"))
            }
        }
    }

    /// The least time of a job with at least this demand.
    pub(super) fn floor(&self, demand: f64) -> f64 {
        if matches!(self, Self::Exact { .. }) { 0.0 } else { demand }
    }

    /// The approximate mean time of jobs with this mean demand: the start of the search for a quantile.
    pub(super) fn mean(&self, demand: f64) -> f64 {
        match self {
            Self::Delay => demand,
            Self::Fifo { utilisation, demand: all, stretch, .. } => {
                let residual = all.second_moment() / (2.0 * all.mean());
                demand + stretch * residual * utilisation / (1.0 - utilisation)
            }
            Self::ExponentialWait { waiting, rate, .. } => demand + waiting / rate,
            Self::Sharing { idle, stretch, .. } => demand + stretch * demand * (1.0 - idle) / idle,
            Self::Exact { rate, .. } => demand * rate,
        }
    }

    /// Returns true if sharing stretches the demand.
    pub(super) fn shares(&self) -> bool {
        matches!(self, Self::Sharing { .. })
    }

    /// The part of the time that does not depend on the demand, as part of a sum.
    pub(super) fn wait(&self) -> Option<Part<'_>> {
        match self {
            Self::Delay | Self::Sharing { .. } => None,
            Self::Fifo { utilisation, demand, stretch, .. } => {
                let (mean, stretch) = (demand.mean(), *stretch);
                let survival = Box::new(move |t: f64| demand.excess(t / stretch) / mean);
                Some(Part::geometric(survival, *utilisation))
            }
            Self::ExponentialWait { waiting, rate, .. } => {
                let survival = Box::new(move |t: f64| waiting * (-rate * t).exp());
                Some(Part::time(survival, 0.0))
            }
            Self::Exact { response_time, stretch, .. } => {
                let survival = Box::new(move |t: f64| response_time.survival(t / stretch));
                Some(Part::time(survival, response_time.error_bound()))
            }
        }
    }

    /// The factor of the transform that does not depend on the demand, computed once for all demands.
    pub(super) fn wait_transform(&self, s: Complex) -> Complex {
        match self {
            Self::Delay | Self::Sharing { .. } => Complex::ONE,
            Self::Fifo { utilisation, demand, demands, stretch } => {
                let s = s * *stretch;
                let residual = (Complex::ONE - demands.at(s)) / (s * demand.mean());
                Complex::from(1.0 - utilisation) / (Complex::ONE - residual * *utilisation)
            }
            Self::ExponentialWait { waiting, rate, .. } => {
                Complex::from(1.0 - waiting) + Complex::from(waiting * rate) / (Complex::from(*rate) + s)
            }
            Self::Exact { response_time, stretch, .. } => response_time.transform(s * *stretch),
        }
    }

    /// Returns true if the time is a wait followed by the demand.
    pub(super) fn is_wait_then_demand(&self) -> bool {
        matches!(self, Self::Delay | Self::Fifo { .. } | Self::ExponentialWait { .. })
    }

    /// Precomputes what depends on the job's demand but not on the transform's argument.
    pub(super) fn given(&self, demand: f64) -> Given {
        let delayed = match self {
            Self::Sharing { arrival_rate, idle, wait_rate, stretch } => {
                Delayed::by_others(demand, *arrival_rate, *idle, *wait_rate, *stretch)
            }
            _ => None,
        };
        Given { demand, delayed }
    }

    /// E[exp(−sR)] of such a job; `wait` is [`StationTime::wait_transform`] at s.
    pub(super) fn transform(&self, s: Complex, given: &Given, wait: Complex) -> Complex {
        match self {
            Self::Exact { .. } => wait,
            _ => {
                let own = wait * (s * -given.demand).exp();
                given.delayed.as_ref().map_or(own, |delayed| own * delayed.transform(s))
            }
        }
    }
}

/// The reason, to which the caller adds the place and the cure.
fn without_cure(error: &ExactError) -> String {
    error.to_string().trim_end_matches(": simulate").to_owned()
}

/// The places of which one server, shared by all jobs, is taken to have enough.
fn unlimited_places(rho: f64) -> u32 {
    (UNLIMITED_TAIL.ln() / rho.ln()).ceil().max(1.0) as u32
}

/// A job's demand, and the delay that sharing adds to it.
pub(super) struct Given {
    pub(super) demand: f64,
    delayed: Option<Delayed>,
}

impl Given {
    /// P(R > time) under sharing.
    pub(super) fn survival(&self, time: f64) -> f64 {
        if time < self.demand {
            return 1.0;
        }
        self.delayed.as_ref().map_or(0.0, |delayed| delayed.survival(time - self.demand))
    }
}

/// The part of R beyond the demand x under PS: zero if no other job is present and none arrives, else gamma with the
/// rest of the first two moments. E = xρ/(1−ρ); Var = 2/(1−ρ)² ∫₀ˣ (x−y) P(W > y) dy (Yashkov 1983, Ott 1984).
struct Delayed {
    alone: f64,
    /// Mean and scale of the gamma distribution; its scale is 0 where it is a constant.
    mean: f64,
    scale: f64,
}

impl Delayed {
    /// The delay by other jobs; `None` for a job without demand.
    fn by_others(demand: f64, arrival_rate: f64, idle: f64, wait_rate: f64, stretch: f64) -> Option<Self> {
        let (rho, decay) = (1.0 - idle, wait_rate * demand);
        let mean = demand * rho / idle;
        // (e⁻ᵈ − 1 + d)/d² without cancellation for small d.
        let shape =
            if decay < 1e-3 { 0.5 - decay / 6.0 } else { ((-decay).exp_m1() + decay) / (decay * decay) };
        let variance = 2.0 * rho * demand * demand * shape / (idle * idle);
        let alone = idle * (-arrival_rate * demand).exp();
        let delayed = mean / (1.0 - alone);
        let spread = (variance + mean * mean) / (1.0 - alone) - delayed * delayed;
        let scale = if spread > 1e-12 * delayed * delayed { spread / delayed } else { 0.0 };
        (demand > 0.0).then_some(Self { alone, mean: stretch * delayed, scale: stretch * scale })
    }

    fn survival(&self, time: f64) -> f64 {
        let delayed = if self.scale > 0.0 {
            gamma::survival(self.mean / self.scale, time / self.scale)
        } else {
            f64::from(u8::from(time < self.mean))
        };
        delayed * (1.0 - self.alone)
    }

    fn transform(&self, s: Complex) -> Complex {
        let delayed = if self.scale > 0.0 {
            (Complex::ONE + s * self.scale).powf(-self.mean / self.scale)
        } else {
            (s * -self.mean).exp()
        };
        Complex::from(self.alone) + delayed * (1.0 - self.alone)
    }
}

/// The demands of all visits to a station; `rate` is its total arrival rate.
fn demand_of_arrivals(flow: &Flow<'_>, station: usize, rate: f64) -> Distribution {
    let mut parts = Vec::new();
    for (class, throughput) in flow.system.classes.iter().zip(flow.nominal_mix()) {
        for (probability, visit) in class.visits().filter(|(_, visit)| visit.station == station) {
            let demand = visit.demand.distribution(class.document.as_ref());
            parts.push((throughput * probability / rate, demand));
        }
    }
    if parts.len() == 1 {
        return parts.remove(0).1;
    }
    Mixture::new(parts).expect("the station has arrivals").into()
}
