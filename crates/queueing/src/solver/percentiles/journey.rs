//! Routes with processor sharing: the transform of the response time given the document, averaged and inverted.
//!
//! The inversion takes the transform at arguments that depend on the time alone. Times are those of a grid which all
//! classes have in common, so the transform of a station, given the document, is computed once for all of them; between
//! the grid's times the logarithm of the probability is interpolated. Where that bends too much the inversion is done
//! for the very time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::complex::Complex;
use crate::distribution::{Distribution, RandomVariable};
use crate::system::{Class, Demand, Route, Visit};

use super::PROBABILITIES;
use super::inversion::{self, VALUES};
use super::station::{Given, StationTime};
use super::transform::{Nodes, Transform, nodes};

/// Between neighbouring times of the grid, in logarithms: 15 %.
const STEP: f64 = 0.14;
/// Where the interpolations by a line and by a cubic differ by more, in the logarithm, neither is taken.
const BEND_MAX: f64 = 0.02;
/// A smaller probability is the inversion's own error.
const PROBABILITY_MIN: f64 = 1e-9;
/// The most values that are kept for classes to come: 256 MiB.
const KEPT_MAX: usize = 1 << 24;

/// The values of the transforms of stops, given the document, at the grid's times.
pub(super) struct Journeys<'s> {
    times: &'s [StationTime],
    /// Stops that were met, each once; a place is its number.
    stops: Vec<Stop<'s>>,
    /// By the stop's number and the place on the grid.
    kept: HashMap<(usize, i32), Rc<[Complex]>>,
    kept_values: usize,
}

/// A visit of jobs with documents of one law.
struct Stop<'s> {
    visit: &'s Visit,
    document: Option<&'s Distribution>,
    station: &'s StationTime,
    demands: Demands<'s>,
}

enum Demands<'s> {
    /// One per document size.
    BySize(Vec<Given>),
    /// Independent of the document size.
    Own { distribution: &'s Distribution, nodes: Vec<(f64, Given)>, transform: Transform },
}

impl<'s> Journeys<'s> {
    pub(super) fn new(times: &'s [StationTime]) -> Self {
        Self { times, stops: Vec::new(), kept: HashMap::new(), kept_values: 0 }
    }

    /// The percentiles of a class by numerical inversion: an approximation, as are the times at the stations.
    pub(super) fn percentiles(&mut self, class: &'s Class) -> [f64; 5] {
        let journeys: Vec<Journey> =
            class.routes.iter().map(|route| Journey::new(class, route, self)).collect();
        let shared = RefCell::new(self);
        let survival = |time: f64| -> f64 {
            let of_route =
                |journey: &Journey| journey.probability * journey.survival(time, &mut shared.borrow_mut());
            journeys.iter().map(of_route).sum::<f64>().clamp(0.0, 1.0)
        };
        let floor = journeys.iter().map(|journey| journey.floor).fold(f64::INFINITY, f64::min);
        let mean: f64 = journeys.iter().map(|journey| journey.probability * journey.mean).sum();
        // Each search begins at the percentile below.
        let mut from = (floor, 0.0);
        PROBABILITIES.map(|p| {
            from = (inversion::quantile(&survival, p, from, mean), p);
            class.latency + from.0
        })
    }

    /// The number of a visit's stop.
    fn number(&mut self, class: &'s Class, visit: &'s Visit, sizes: &Nodes) -> usize {
        let document = class.document.as_ref();
        let same = |stop: &Stop<'s>| {
            stop.visit.station == visit.station
                && stop.visit.demand == visit.demand
                && stop.document == document
        };
        self.stops.iter().position(same).unwrap_or_else(|| {
            let station = &self.times[visit.station];
            let demands = Demands::of(&visit.demand, station, sizes);
            self.stops.push(Stop { visit, document, station, demands });
            self.stops.len() - 1
        })
    }

    /// The values of a stop at a time of the grid.
    fn values(&mut self, number: usize, place: i32) -> Rc<[Complex]> {
        if let Some(values) = self.kept.get(&(number, place)) {
            return Rc::clone(values);
        }
        let values: Rc<[Complex]> = self.stops[number].values(time_of(place)).into();
        if self.kept_values + values.len() > KEPT_MAX {
            self.kept.clear();
            self.kept_values = 0;
        }
        self.kept_values += values.len();
        self.kept.insert((number, place), Rc::clone(&values));
        values
    }
}

/// A time of the grid.
fn time_of(place: i32) -> f64 {
    (f64::from(place) * STEP).exp()
}

/// A route with everything precomputed that does not depend on the argument of the transform.
struct Journey {
    probability: f64,
    /// The least possible response time. It is subtracted before the inversion, which is inaccurate at jumps away from
    /// zero.
    floor: f64,
    mean: f64,
    /// Numbers of its stops.
    stops: Vec<usize>,
    /// Probabilities of the document sizes.
    weights: Vec<f64>,
    /// ln P(response without latency and floor > time) at the grid's times.
    logarithms: RefCell<HashMap<i32, f64>>,
}

impl Journey {
    fn new<'s>(class: &'s Class, route: &'s Route, shared: &mut Journeys<'s>) -> Self {
        let sizes = class.document.as_ref().map_or_else(|| vec![(1.0, 0.0)], nodes);
        let stops: Vec<usize> =
            route.visits.iter().map(|visit| shared.number(class, visit, &sizes)).collect();
        let floor = |number: &usize| {
            let stop = &shared.stops[*number];
            stop.station.floor(stop.demands.least())
        };
        let mean =
            |visit: &Visit| shared.times[visit.station].mean(visit.demand.mean(class.document.as_ref()));
        Self {
            probability: route.probability,
            floor: stops.iter().map(floor).sum(),
            mean: route.visits.iter().map(mean).sum(),
            weights: sizes.iter().map(|size| size.0).collect(),
            logarithms: RefCell::default(),
            stops,
        }
    }

    /// P(response without latency > time).
    fn survival(&self, time: f64, shared: &mut Journeys<'_>) -> f64 {
        let time = time - self.floor;
        if time <= 0.0 {
            return 1.0;
        }
        let position = time.ln() / STEP;
        let place = position.floor();
        let along = position - place;
        let [before, low, high, after] =
            [-1, 0, 1, 2].map(|offset| self.logarithm(place as i32 + offset, shared));
        let line = low + along * (high - low);
        // The cubic through four equidistant points, beyond the line.
        let (left, right) = (before - 2.0 * low + high, low - 2.0 * high + after);
        let bend = along * (along - 1.0) / 6.0 * ((2.0 - along) * left + (1.0 + along) * right);
        if bend.abs() <= BEND_MAX {
            return (line + bend).exp();
        }
        let values: Vec<Rc<[Complex]>> =
            self.stops.iter().map(|number| shared.stops[*number].values(time).into()).collect();
        self.inverted(&values, time)
    }

    fn logarithm(&self, place: i32, shared: &mut Journeys<'_>) -> f64 {
        if let Some(known) = self.logarithms.borrow().get(&place) {
            return *known;
        }
        let values: Vec<Rc<[Complex]>> =
            self.stops.iter().map(|number| shared.values(*number, place)).collect();
        let found = self.inverted(&values, time_of(place)).max(PROBABILITY_MIN).ln();
        self.logarithms.borrow_mut().insert(place, found);
        found
    }

    /// P(response without latency and floor > time) from the values of its stops.
    fn inverted(&self, stops: &[Rc<[Complex]>], time: f64) -> f64 {
        let sizes = self.weights.len();
        let mut by_size: Vec<Complex> =
            (0..VALUES * sizes).map(|index| Complex::from(self.weights[index % sizes])).collect();
        let mut common = inversion::arguments(time).map(|s| (s * self.floor).exp());
        for values in stops {
            // A single size counts as one that is common to all.
            let own = if values.len() == by_size.len() { &mut by_size[..] } else { &mut common[..] };
            own.iter_mut().zip(&values[..]).for_each(|(own, value)| *own = *own * *value);
        }
        let of_all = |k: usize| {
            let sizes = by_size[k * sizes..(k + 1) * sizes].iter();
            common[k] * sizes.fold(Complex::ZERO, |sum, size| sum + *size)
        };
        inversion::survival(&std::array::from_fn(of_all), time)
    }
}

impl Stop<'_> {
    /// E[exp(−sR)] at each argument for a time: of every document size in turn, or of all together.
    fn values(&self, time: f64) -> Vec<Complex> {
        let mut values = Vec::new();
        for s in inversion::arguments(time) {
            let wait = self.station.wait_transform(s);
            match &self.demands {
                Demands::BySize(demands) => {
                    values.extend(demands.iter().map(|given| self.station.transform(s, given, wait)));
                }
                Demands::Own { transform, .. } if self.station.is_wait_then_demand() => {
                    values.push(wait * transform.at(s));
                }
                Demands::Own { nodes, .. } => {
                    let parts =
                        nodes.iter().map(|(weight, given)| self.station.transform(s, given, wait) * *weight);
                    values.push(parts.fold(Complex::ZERO, |sum, part| sum + part));
                }
            }
        }
        values
    }
}

impl<'s> Demands<'s> {
    fn of(demand: &'s Demand, station: &StationTime, sizes: &Nodes) -> Self {
        match demand {
            Demand::Independent(distribution) => {
                let given = |(weight, demand): (f64, f64)| (weight, station.given(demand));
                let nodes = nodes(distribution).into_iter().map(given).collect();
                Self::Own { distribution, nodes, transform: Transform::of(distribution) }
            }
            by_size => {
                let demand = |size: f64| by_size.of_size(size).unwrap_or(0.0);
                Self::BySize(sizes.iter().map(|(_, size)| station.given(demand(*size))).collect())
            }
        }
    }

    fn least(&self) -> f64 {
        match self {
            Self::BySize(demands) => demands.iter().map(|given| given.demand).fold(f64::INFINITY, f64::min),
            Self::Own { distribution, .. } => distribution.quantile(0.0),
        }
    }
}
