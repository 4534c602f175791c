//! How much longer or shorter jobs wait because their arrivals are departures of other stations, and not Poisson.
//!
//! Robust queueing (W. Whitt, W. You, Operations Research 66, 2018; Naval Research Logistics 69, 2022): a stream is known
//! by its index of dispersion I(t), the variance of the count over an interval of length t by its mean, 1 for Poisson
//! arrivals. A station with utilisation ρ, and demand with mean m and C², has about the mean workload
//!
//! ```text
//! max over t of  sqrt(2 ρ m t (I(t) + C²)) - (1 - ρ) t,
//! ```
//!
//! which is exact for M/G/1. Here only its ratio to that of Poisson arrivals is used: it scales the wait that the closed
//! form or the Markov chain gives. At low utilisation regular arrivals hardly wait; there the correction of Krämer and
//! Langenbach-Belz (8th International Teletraffic Congress, 1976) is applied, too.
//!
//! Departures have the dispersion w I + (1 - w) J of the arrivals and of a busy station. The weight w(t) is that of the
//! reflected Brownian motion in heavy traffic. A busy station is a renewal process in each of its places, whose dispersion
//! goes from 1 to C²; if not all places are busy, it smooths like a delay. Streams that meet are taken as independent,
//! routes as independent choices.

use super::flow::{Flow, is_memoryless, scv};
use crate::closed_form::erlang_c;
use crate::distribution::normal_cdf;
use crate::system::{Class, Discipline, Source};

/// Times in geometric progression; between neighbours the workload is off by less than 0.1 %.
const POINTS: usize = 256;
/// The first time, in mean demands of the fastest station.
const FIRST: f64 = 1e-3;
/// Rounds beyond the number of stations, for routes that return.
const ROUNDS_MORE: usize = 20;
const TOLERANCE: f64 = 1e-4;
/// A smaller excess of the dispersion is rounding.
const EXCESS_MIN: f64 = 1e-9;
/// The dispersion of a renewal process is half-way to its limit after (1 + C²) times this many mean demands. For
/// hyper-exponential demand of balanced means it is 1/4; laws with longer tails take longer.
const VARIED_HALF_WAY: f64 = 0.5;
const REGULAR_HALF_WAY: f64 = 0.25;

/// I(t) - 1 at every time.
type Excess = Vec<f64>;

/// A station as a source of departures and as a queue.
struct Queue {
    kind: Kind,
    utilisation: f64,
    arrival_rate: f64,
    /// Seconds per job of the whole station, all servers busy.
    interval: f64,
    scv: f64,
}

enum Kind {
    /// Nobody waits: jobs are delayed by a demand of this standard deviation, in seconds.
    Delay { deviation: f64 },
    /// What leaves is taken as Poisson: a full station, or one that nobody visits.
    Poisson,
    /// `saturated` is the probability that all places are busy over the utilisation, `place` the time in a place in seconds,
    /// `varied` is C² - 1 of a place's renewal process.
    Limited { saturated: f64, place: f64, varied: f64 },
}

/// The rates at which jobs go from station to station, in jobs per second.
struct Streams {
    arrivals: Vec<f64>,
    /// By station left and station entered.
    between: Vec<Vec<f64>>,
}

/// Returns true if departures of Poisson arrivals are not Poisson at this station.
pub(super) fn is_irregular(flow: &Flow<'_>, station: usize) -> bool {
    let model = &flow.system.stations[station];
    !model.is_lossy() && model.has_places() && !is_memoryless(flow, station)
}

/// By station, the factor of the wait under Poisson arrivals; 1 where they are Poisson or the station can be full.
/// `losses` are the probabilities that a station turns a job away.
pub(super) fn waiting_factors(flow: &Flow<'_>, losses: &[f64]) -> Vec<f64> {
    let stations = flow.stations();
    let mut factors = vec![1.0; stations];
    if !(0..stations).any(|station| is_irregular(flow, station)) {
        return factors;
    }
    let streams = Streams::new(flow, losses);
    let queues: Vec<Queue> = (0..stations).map(|station| Queue::new(flow, station, &streams)).collect();
    let Some(times) = times(&queues) else { return factors };
    let mut departures: Vec<Excess> = vec![vec![0.0; times.len()]; stations];
    for _ in 0..stations + ROUNDS_MORE {
        let mut change = 0.0_f64;
        for (station, queue) in queues.iter().enumerate() {
            let found = queue.departures(&streams.excess(station, losses, &departures), &times);
            for (old, new) in departures[station].iter().zip(&found) {
                change = change.max((old - new).abs());
            }
            departures[station] = found;
        }
        if change < TOLERANCE {
            break;
        }
    }
    for (station, factor) in factors.iter_mut().enumerate() {
        if flow.system.stations[station].capacity.is_none() {
            *factor = queues[station].waiting_factor(&streams.excess(station, losses, &departures), &times);
        }
    }
    factors
}

/// From well below the shortest demand to where the fullest station has reached its largest workload.
fn times(queues: &[Queue]) -> Option<Vec<f64>> {
    let visited = || queues.iter().filter(|queue| queue.interval > 0.0 && queue.utilisation < 1.0);
    let largest = visited().map(|queue| queue.scv).fold(1.0, f64::max);
    let reached = |queue: &Queue| queue.interval * (largest + queue.scv) / (1.0 - queue.utilisation).powi(2);
    let first = FIRST * visited().map(|queue| queue.interval).reduce(f64::min)?;
    let last = visited().map(reached).reduce(f64::max)?;
    let step = (last / first).ln() / (POINTS - 1) as f64;
    Some((0..POINTS).map(|point| first * (step * point as f64).exp()).collect())
}

impl Queue {
    fn new(flow: &Flow<'_>, station: usize, streams: &Streams) -> Self {
        let model = &flow.system.stations[station];
        let (_, mean, _) = flow.arrivals(station, &flow.nominal_mix());
        let arrival_rate = streams.arrivals[station];
        let scv = scv(flow, station).max(0.0);
        let (servers, capacity) = match &model.speed {
            Some(_) => (1, model.service().peak()),
            None => (model.servers, f64::from(model.servers)),
        };
        let interval = mean / capacity;
        let utilisation = arrival_rate * interval;
        let kind = if arrival_rate == 0.0 || mean == 0.0 || model.is_lossy() {
            Kind::Poisson
        } else {
            let offered = utilisation * f64::from(servers);
            let saturated = |places: u32| {
                let all_servers = erlang_c(servers, offered) / utilisation;
                all_servers * utilisation.powi(places.saturating_sub(servers) as i32)
            };
            let varied = if is_memoryless(flow, station) { 0.0 } else { scv - 1.0 };
            match model.discipline {
                Discipline::Is => Kind::Delay { deviation: mean * scv.sqrt() },
                Discipline::Ps => Kind::Limited { saturated: 0.0, place: mean, varied: 0.0 },
                Discipline::Fifo => Kind::Limited { saturated: saturated(servers), place: mean, varied },
                Discipline::Lps { limit } => {
                    let place = interval * f64::from(limit);
                    Kind::Limited { saturated: saturated(limit), place, varied }
                }
            }
        };
        Self { kind, utilisation, arrival_rate, interval, scv }
    }

    fn departures(&self, arrivals: &[f64], times: &[f64]) -> Excess {
        let of = |(&arrived, &time): (&f64, &f64)| match self.kind {
            Kind::Poisson => 0.0,
            Kind::Delay { deviation } => arrived * time / (time + deviation),
            Kind::Limited { saturated, place, varied } => {
                let idle = (1.0 - self.utilisation).powi(2);
                let scale = self.utilisation * (1.0 + arrived + self.scv);
                let weight = arrivals_weight(idle * self.arrival_rate * time / scale);
                let half_way = if varied > 0.0 { VARIED_HALF_WAY } else { REGULAR_HALF_WAY };
                let served = self.utilisation * time;
                let renewal = varied * served / (served + half_way * (2.0 + varied) * place);
                weight * arrived + (1.0 - weight) * saturated * renewal
            }
        };
        arrivals.iter().zip(times).map(of).collect()
    }

    fn waiting_factor(&self, arrivals: &[f64], times: &[f64]) -> f64 {
        let waits = matches!(self.kind, Kind::Limited { .. }) && self.utilisation < 1.0;
        if !waits || arrivals.iter().all(|excess| excess.abs() < EXCESS_MIN) {
            return 1.0;
        }
        let idle = 1.0 - self.utilisation;
        let workload = |dispersion: f64, time: f64| {
            (2.0 * self.utilisation * self.interval * time * dispersion.max(0.0)).sqrt() - idle * time
        };
        let poisson = self.utilisation * self.interval * (1.0 + self.scv) / (2.0 * idle);
        let largest = |best: (f64, f64), (&excess, &time): (&f64, &f64)| {
            let found = workload(1.0 + excess + self.scv, time);
            if found > best.0 { (found, excess) } else { best }
        };
        let (found, excess) = arrivals.iter().zip(times).fold((0.0, 0.0), largest);
        let dispersion = 1.0 + excess;
        let regular = if excess < 0.0 && dispersion + self.scv > 0.0 {
            let distance = -2.0 * idle * excess * excess;
            (distance / (3.0 * self.utilisation * (dispersion + self.scv))).exp()
        } else {
            1.0
        };
        found / poisson * regular
    }
}

/// `E[R|x]` = wait + slope·x with the wait, and the slope beyond the demand itself, longer by this factor.
pub(super) fn stretched((wait, slope): (f64, f64), factor: f64) -> (f64, f64) {
    if factor == 1.0 { (wait, slope) } else { (wait * factor, 1.0 + (slope - 1.0) * factor) }
}

/// The share of the arrivals' dispersion in that of the departures, w*(t) of the stationary reflected Brownian motion with
/// drift -1 and variance 1, at time t.
fn arrivals_weight(time: f64) -> f64 {
    // Beyond, the terms cancel but for 1/(2t).
    const FAR: f64 = 50.0;
    if time > FAR {
        return 1.0 - 0.5 / time;
    }
    let root = time.sqrt();
    let density = (-time / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let within = 1.0 - 2.0 * normal_cdf(-root);
    let square = time * time;
    let weight =
        ((square + 2.0 * time - 1.0) * within + 2.0 * density * root * (1.0 + time) - square) / (2.0 * time);
    weight.clamp(0.0, 1.0)
}

impl Streams {
    fn new(flow: &Flow<'_>, losses: &[f64]) -> Self {
        let stations = flow.stations();
        let mut streams =
            Self { arrivals: vec![0.0; stations], between: vec![vec![0.0; stations]; stations] };
        for class in &flow.system.classes {
            streams.add(class, losses);
        }
        streams
    }

    fn add(&mut self, class: &Class, losses: &[f64]) {
        let Source::Open { rate } = class.source else { return };
        for route in &class.routes {
            let mut reached = rate * route.probability;
            let mut before: Option<usize> = None;
            for visit in &route.visits {
                self.arrivals[visit.station] += reached;
                if let Some(before) = before {
                    self.between[before][visit.station] += reached;
                }
                reached *= 1.0 - losses[visit.station];
                before = Some(visit.station);
            }
        }
    }

    /// The excess of a station's arrivals, given that of all departures.
    fn excess(&self, station: usize, losses: &[f64], departures: &[Excess]) -> Excess {
        let mut found = vec![0.0; departures[station].len()];
        if self.arrivals[station] == 0.0 {
            return found;
        }
        for (before, excess) in departures.iter().enumerate() {
            let stream = self.between[before][station];
            let left = self.arrivals[before] * (1.0 - losses[before]);
            if stream > 0.0 && left > 0.0 {
                // Chosen at random with probability p, a stream keeps p of its excess.
                let share = stream / self.arrivals[station] * (stream / left);
                found.iter_mut().zip(excess).for_each(|(sum, excess)| *sum += share * excess);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system_file::parse;

    fn factors(text: &str) -> Vec<f64> {
        let system = parse(text).unwrap();
        let flow = Flow::new(&system);
        waiting_factors(&flow, &vec![0.0; flow.stations()])
    }

    fn tandem(first: &str, second: &str) -> String {
        format!(
            "stations.a = {{ {first} }}\nstations.b = {{ {second} }}\n\
             classes.jobs = {{ rate = \"1/s\", route = [\"a\", \"b\"] }}"
        )
    }

    const EXPONENTIAL: &str = r#"discipline = "fifo", demand = { law = "exponential", mean = "700ms" }"#;

    #[test]
    fn the_weight_goes_from_none_to_all_and_joins_its_asymptote() {
        assert!(arrivals_weight(1e-6) < 0.002);
        let mut last = 0.0;
        for step in 0..200 {
            let weight = arrivals_weight(1e-4 * 1.1_f64.powi(step));
            assert!(weight >= last, "{weight} after {last}");
            last = weight;
        }
        assert!((arrivals_weight(49.999_999) - arrivals_weight(50.000_001)).abs() < 1e-6);
    }

    #[test]
    fn poisson_departures_change_nothing() {
        for before in [
            EXPONENTIAL,
            r#"discipline = "ps", demand = { law = "log-normal", mean = "700ms", scv = 9 }"#,
            r#"discipline = "is", demand = "3s""#,
            r#"discipline = "fifo", servers = 3, demand = { law = "exponential", mean = "2s" }"#,
        ] {
            assert_eq!(factors(&tandem(before, EXPONENTIAL)), [1.0, 1.0], "{before}");
        }
    }

    #[test]
    fn regular_departures_shorten_the_wait_and_varied_ones_lengthen_it() {
        let behind = |demand: &str| {
            let first = format!(r#"discipline = "fifo", demand = {demand}"#);
            factors(&tandem(&first, EXPONENTIAL))[1]
        };
        let constant = behind("\"800ms\"");
        let varied = behind(r#"{ law = "log-normal", mean = "800ms", scv = 9 }"#);
        assert!((0.4..0.9).contains(&constant), "{constant}");
        assert!((1.2..5.0).contains(&varied), "{varied}");
        // Half of the departures, chosen at random, are nearer to Poisson arrivals.
        let first = r#"discipline = "fifo", demand = "800ms""#;
        let split = format!(
            "stations.a = {{ {first} }}\nstations.b = {{ {} }}\n[classes.jobs]\nrate = \"1/s\"\n\
             [[classes.jobs.routes]]\nname = \"on\"\nprobability = 0.5\nvisits = [\"a\", \"b\"]\n\
             [[classes.jobs.routes]]\nname = \"out\"\nprobability = 0.5\nvisits = [\"a\"]\n",
            EXPONENTIAL.replace("700ms", "1400ms")
        );
        let half = factors(&split)[1];
        assert!(constant < half && half < 1.0, "{half} after {constant}");
    }
}
