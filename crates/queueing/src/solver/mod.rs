//! Analytic solvers of a [`System`], side by side: each answers or refuses with a reason.
//!
//! A table of solvers, one file each. Where several answer they bracket the truth: PS-MVA ignores the limit r, and the
//! thesis's fixed point ignores that a closed class reacts to the queue. Simulation settles it.

mod approximation;
mod bottleneck;
mod dispersion;
mod engset;
mod exact;
mod fixed_point;
mod flow;
mod load_dependent;
mod mva;
mod open;
mod percentiles;
mod product_form;
mod thinned;

use serde::Serialize;

use crate::named::Named;
use crate::system::{StationModel, System, WhenFull};
use flow::Flow;
use percentiles::Percentiles;

pub use bottleneck::{Bottleneck, Bounds, StationLoad};

/// A solver and the assumptions that its answer rests on.
struct Solver {
    name: &'static str,
    basis: &'static str,
    run: fn(&Flow<'_>) -> Result<Answer, String>,
}

/// The solvers in order of preference.
const SOLVERS: &[Solver] = &[
    Solver {
        name: "exact-lps",
        basis: "exact M/PH/c/LPS-r at the lps stations and FIFO with several servers, with a capacity too, as far as \
                arrivals are Poisson; waits behind other stations by their departures' dispersion",
        run: exact::solve,
    },
    Solver {
        name: "open",
        basis: "each station on its own, waits behind others by their departures' dispersion: exact under Poisson \
                arrivals for PS (at any speed v(n)) and delays, with a capacity too, for M/M/c/K, M/G/c/c and FIFO \
                (Pollaczek-Khinchine), Eq. 2.2 for LPS, Allen-Cunneen for FIFO with several servers",
        run: open::solve,
    },
    Solver {
        name: "mva",
        basis: "exact mean value analysis; LPS and FIFO taken as PS, so exact where users ≤ r or demand is \
                exponential",
        run: mva::exact,
    },
    Solver {
        name: "amva",
        basis: "Bard-Schweitzer approximate mean value analysis, for populations too large for the exact one",
        run: mva::approximate,
    },
    Solver {
        name: "load-dependent-mva",
        basis: "exact product form with several servers or speeds v(n), one closed class beside open ones, or alone \
                at a station with a capacity; LPS and FIFO taken as PS",
        run: load_dependent::solve,
    },
    Solver {
        name: "fixed-point",
        basis: "the thesis's method: the LPS station as a delay by Eq. 2.2 at the throughput that it yields, \
                found by bisection",
        run: fixed_point::solve,
    },
];

/// The answers of all solvers for a system.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// Station loads and the station that saturates first.
    pub bottleneck: Bottleneck,
    /// Asymptotic and balanced-job bounds of a single closed class; `None` where they do not hold.
    pub bounds: Option<Bounds>,
    pub solvers: Named<Outcome>,
}

/// One solver's answer, or its reason for refusing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The assumptions of the solver, in words.
    pub basis: &'static str,
    pub answer: Option<Answer>,
    /// The reason, when there is no answer.
    pub refusal: Option<String>,
}

/// Means, and percentiles where they are known.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// `exact`, or each approximation of the means with its error range.
    pub means: String,
    /// `exact`, the approximation behind the percentiles, or the reason why there are none.
    pub percentiles: String,
    /// The proven bound of the relative error of every percentile, of all classes; `None` for approximations.
    pub percentiles_relative_error: Option<f64>,
    pub classes: Named<ClassAnswer>,
    pub stations: Named<StationAnswer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClassAnswer {
    /// Jobs finished per second, without lost jobs.
    pub throughput_per_second: f64,
    pub loss: ClassLoss,
    /// The response time, without think time.
    pub response_time_seconds: PredictedTime,
}

/// Jobs refused by full stations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClassLoss {
    /// Jobs finished or lost, per second.
    pub offered_per_second: f64,
    /// The share of the offered jobs that is lost.
    pub probability: f64,
}

/// Mean and percentiles in seconds; [`Answer::percentiles`] says how exact the percentiles are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PredictedTime {
    pub mean: f64,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub p999: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StationAnswer {
    /// Busy fraction of the servers; `None` at an infinite server.
    pub utilisation: Option<f64>,
    /// Mean jobs present.
    pub queue_mean: f64,
    /// Mean time per visit.
    pub residence_time_seconds: f64,
    /// The probability that an arrival finds the station full; `None` without a capacity.
    pub full_probability: Option<f64>,
}

const POSSESSION: &str = "a job holds one station while it is served at another: simulate";

const PRIORITIES: &str = "jobs with `priority` wait ahead of others: simulate";

/// Refuses systems that no analytic solver covers.
fn unsolvable(system: &System) -> Result<(), String> {
    if system.has_simultaneous_possession() {
        return Err(POSSESSION.to_owned());
    }
    if system.has_priorities() {
        return Err(PRIORITIES.to_owned());
    }
    let unsolved = |station: &&StationModel| {
        station.capacity.as_ref().is_some_and(|capacity| capacity.when_full != WhenFull::Refuse)
    };
    match system.stations.iter().find(unsolved) {
        Some(station) if station.blocks() => {
            Err(format!("{} blocks the station before when it is full; simulate", station.place()))
        }
        Some(station) => Err(format!("clients retry when {} is full; simulate", station.place())),
        None => Ok(()),
    }
}

/// Runs every solver. Percentiles cost some ten milliseconds per class; [`predict_means`] leaves them out.
pub fn predict(system: &System) -> Prediction {
    let mut prediction = predict_means(system);
    if unsolvable(system).is_ok() {
        prediction.add_percentiles(percentiles::of(&Flow::new(system)));
    }
    prediction
}

/// As [`predict`] without percentiles: for sweeps and searches, in microseconds to milliseconds.
pub fn predict_means(system: &System) -> Prediction {
    let flow = Flow::new(system);
    let outcome = |solver: &Solver| {
        let solved = unsolvable(system).and_then(|()| (solver.run)(&flow));
        let (answer, refusal) = match solved {
            Ok(answer) => (Some(answer), None),
            Err(reason) => (None, Some(reason)),
        };
        (solver.name.to_owned(), Outcome { basis: solver.basis, answer, refusal })
    };
    let solvers: Vec<(String, Outcome)> = SOLVERS.iter().map(outcome).collect();
    let answer = solvers.iter().find_map(|(_, outcome)| outcome.answer.as_ref());
    let mix = answer.map_or_else(|| flow.nominal_mix(), Answer::throughputs);
    Prediction {
        bottleneck: bottleneck::find(&flow, &mix),
        bounds: unsolvable(system).ok().and_then(|()| bottleneck::bounds(&flow)),
        solvers: Named(solvers),
    }
}

impl Prediction {
    /// Gives all answers the same percentiles: the distribution of the response time does not depend on the method of
    /// the mean.
    fn add_percentiles(&mut self, found: Result<Percentiles, String>) {
        for answer in self.solvers.0.iter_mut().filter_map(|(_, outcome)| outcome.answer.as_mut()) {
            match &found {
                Err(reason) => answer.percentiles.clone_from(reason),
                Ok(found) => {
                    answer.percentiles.clone_from(&found.basis);
                    answer.percentiles_relative_error = found.relative_error;
                    for ((_, class), percentiles) in answer.classes.0.iter_mut().zip(&found.classes) {
                        class.response_time_seconds.set(percentiles);
                    }
                }
            }
        }
    }
}

impl PredictedTime {
    /// A mean without percentiles, which are computed separately.
    fn of_mean(mean: f64) -> Self {
        Self { mean, p50: None, p90: None, p95: None, p99: None, p999: None }
    }

    fn set(&mut self, percentiles: &[f64; 5]) {
        [self.p50, self.p90, self.p95, self.p99, self.p999] = percentiles.map(Some);
    }
}

impl Answer {
    fn throughputs(&self) -> Vec<f64> {
        self.classes.0.iter().map(|(_, class)| class.throughput_per_second).collect()
    }
}

#[cfg(test)]
mod tests;
