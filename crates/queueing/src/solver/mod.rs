//! Analytic solvers of a [`System`], side by side: each answers, or refuses with the reason.
//!
//! A table of solvers, a file each. Where several answer they bracket the truth: PS-MVA ignores the limit r,
//! the fixed point of the thesis ignores that a closed class reacts to the queue. Simulation settles it.

mod bottleneck;
mod bounds;
mod exact;
mod fixed_point;
mod flow;
mod load_dependent;
mod mva;
mod open;
mod percentiles;
mod product_form;

use serde::Serialize;

use crate::simulator::Named;
use crate::system::System;
use flow::Flow;
use percentiles::Percentiles;

pub use bottleneck::{Bottleneck, StationLoad};
pub use bounds::Bounds;

/// A solver: what it is called, what it rests on, and how it is run.
struct Solver {
    name: &'static str,
    basis: &'static str,
    run: fn(&Flow<'_>) -> Result<Answer, String>,
}

/// In the order of preference where several answer.
const SOLVERS: &[Solver] = &[
    Solver {
        name: "exact-lps",
        basis: "exact M/PH/1/LPS-r at the lps stations, as far as their arrivals are Poisson",
        run: exact::solve,
    },
    Solver {
        name: "open",
        basis: "each station on its own under Poisson arrivals: exact for PS (at any speed v(n)) and delays, Eq. 2.2 \
                for LPS, Pollaczek-Khinchine for FIFO; LPS at a speed v(n) taken as PS at v(min(n, r))",
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
        basis: "exact product form with several servers or speeds v(n), one closed class beside open ones; LPS and \
                FIFO taken as PS",
        run: load_dependent::solve,
    },
    Solver {
        name: "fixed-point",
        basis: "the thesis's method: the LPS station as a delay by Eq. 2.2 at the throughput that it yields, \
                found by bisection",
        run: fixed_point::solve,
    },
];

/// What the solvers say about a system.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// Loads, saturation and what gives first.
    pub bottleneck: Bottleneck,
    /// Asymptotic and balanced-job bounds of a single closed class.
    pub bounds: Option<Bounds>,
    /// By solver.
    pub solvers: Named<Outcome>,
}

/// An answer or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// What the solver rests on.
    pub basis: &'static str,
    /// `None` when refused.
    pub answer: Option<Answer>,
    /// Why refused.
    pub refusal: Option<String>,
}

/// Means, and percentiles where they are known, in the unit of the keys.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// What the percentiles rest on, `exact` or an approximation by name; or why there are none.
    pub percentiles: String,
    /// By class.
    pub classes: Named<ClassAnswer>,
    /// By station.
    pub stations: Named<StationAnswer>,
}

/// A class in an [`Answer`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClassAnswer {
    /// Jobs finished per second.
    pub throughput_per_second: f64,
    /// Think time excluded.
    pub response_time_seconds: PredictedTime,
}

/// Mean and percentiles in seconds; [`Answer::percentiles`] says how far to trust the latter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PredictedTime {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
}

/// A station in an [`Answer`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StationAnswer {
    /// Busy fraction of the servers; `None` at an infinite server.
    pub utilisation: Option<f64>,
    /// Mean jobs present.
    pub queue_mean: f64,
    /// Mean time per visit.
    pub residence_time_seconds: f64,
}

const POSSESSION: &str = "a job holds one station while it is served at another: simulate";

/// Runs every solver that applies. Percentiles cost some ten milliseconds per class; see [`predict_means`].
pub fn predict(system: &System) -> Prediction {
    let mut prediction = predict_means(system);
    if !system.has_simultaneous_possession() {
        prediction.add_percentiles(percentiles::of(&Flow::new(system)));
    }
    prediction
}

/// As [`predict`] without percentiles: for sweeps and searches, in microseconds to milliseconds.
pub fn predict_means(system: &System) -> Prediction {
    let flow = Flow::new(system);
    let outcome = |solver: &Solver| {
        let held = system.has_simultaneous_possession();
        let solved = if held { Err(POSSESSION.to_owned()) } else { (solver.run)(&flow) };
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
        bounds: bounds::of(&flow),
        solvers: Named(solvers),
    }
}

impl Prediction {
    /// The law of a response time does not depend on how its mean was found: all answers get the same percentiles.
    fn add_percentiles(&mut self, found: Result<Percentiles, String>) {
        for answer in self.solvers.0.iter_mut().filter_map(|(_, outcome)| outcome.answer.as_mut()) {
            match &found {
                Err(reason) => answer.percentiles.clone_from(reason),
                Ok(found) => {
                    answer.percentiles.clone_from(&found.basis);
                    for ((_, class), percentiles) in answer.classes.0.iter_mut().zip(&found.classes) {
                        class.response_time_seconds.set(percentiles);
                    }
                }
            }
        }
    }
}

impl PredictedTime {
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
