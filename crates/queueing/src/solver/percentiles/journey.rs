//! Routes with processor sharing: the transform of the response time given the document, averaged and inverted.

use crate::complex::Complex;
use crate::distribution::{Distribution, RandomVariable};
use crate::system::{Class, Demand, Route, Visit};

use super::PROBABILITIES;
use super::inversion;
use super::nodes::{Nodes, Transform, nodes};
use super::station::{Given, StationTime};

/// Computes the percentiles of a class by numerical inversion. They are an approximation, as are the times at the
/// stations.
pub(super) fn percentiles(class: &Class, times: &[StationTime]) -> [f64; 5] {
    let journeys: Vec<Journey<'_>> =
        class.routes.iter().map(|route| Journey::new(class, route, times)).collect();
    let survival = |time: f64| -> f64 {
        journeys
            .iter()
            .map(|journey| journey.probability * journey.survival(time))
            .sum::<f64>()
            .clamp(0.0, 1.0)
    };
    let floor = journeys.iter().map(|journey| journey.floor).fold(f64::INFINITY, f64::min);
    let mean: f64 = journeys.iter().map(|journey| journey.probability * journey.mean).sum();
    // Each search starts at the percentile below.
    let mut from = (floor, 0.0);
    PROBABILITIES.map(|p| {
        from = (inversion::quantile(&survival, p, from, mean), p);
        class.latency + from.0
    })
}

/// A route, with everything precomputed that does not depend on the transform's argument.
struct Journey<'l> {
    probability: f64,
    /// The least possible response time. It is subtracted before the inversion, which is inaccurate at jumps away from
    /// zero.
    floor: f64,
    mean: f64,
    stops: Vec<Stop<'l>>,
    /// Probabilities of the document sizes.
    weights: Vec<f64>,
}

struct Stop<'l> {
    station: &'l StationTime,
    demands: Demands<'l>,
}

enum Demands<'l> {
    /// One per document size.
    BySize(Vec<Given>),
    /// The demand has its own distribution, independent of the document size.
    Own { distribution: &'l Distribution, nodes: Vec<(f64, Given)>, transform: Transform },
}

impl<'l> Journey<'l> {
    fn new(class: &Class, route: &'l Route, times: &'l [StationTime]) -> Self {
        let sizes = class.document.as_ref().map_or_else(|| vec![(1.0, 0.0)], nodes);
        let stop = |visit: &'l Visit| Stop {
            station: &times[visit.station],
            demands: Demands::of(&visit.demand, &times[visit.station], &sizes),
        };
        let stops: Vec<Stop<'l>> = route.visits.iter().map(stop).collect();
        let floor = stops.iter().map(|stop| stop.station.floor(stop.demands.least())).sum();
        let document = class.document.as_ref();
        let means = route.visits.iter().zip(&stops);
        let mean = means.map(|(visit, stop)| stop.station.mean(visit.demand.mean(document))).sum();
        let weights = sizes.iter().map(|size| size.0).collect();
        Self { probability: route.probability, floor, mean, stops, weights }
    }

    /// P(response without latency > time).
    fn survival(&self, time: f64) -> f64 {
        if time <= self.floor { 1.0 } else { inversion::survival(&|s| self.transform(s), time - self.floor) }
    }

    /// E[exp(−s (R − floor))].
    fn transform(&self, s: Complex) -> Complex {
        let waits: Vec<Complex> = self.stops.iter().map(|stop| stop.station.wait_transform(s)).collect();
        let mut common = (s * self.floor).exp();
        let mut by_size: Vec<(&Stop<'l>, Complex, &[Given])> = Vec::new();
        for (stop, wait) in self.stops.iter().zip(waits) {
            match &stop.demands {
                Demands::BySize(demands) => by_size.push((stop, wait, demands)),
                Demands::Own { transform, .. } if stop.station.is_wait_then_demand() => {
                    common = common * wait * transform.at(s);
                }
                Demands::Own { nodes, .. } => {
                    let parts =
                        nodes.iter().map(|(weight, given)| stop.station.transform(s, given, wait) * *weight);
                    common = common * parts.fold(Complex::ZERO, |sum, part| sum + part);
                }
            }
        }
        if by_size.is_empty() {
            return common;
        }
        let product = |size: usize| {
            let parts =
                by_size.iter().map(|(stop, wait, demands)| stop.station.transform(s, &demands[size], *wait));
            parts.fold(Complex::from(self.weights[size]), |product, part| product * part)
        };
        common * (0..self.weights.len()).map(product).fold(Complex::ZERO, |sum, part| sum + part)
    }
}

impl<'l> Demands<'l> {
    fn of(demand: &'l Demand, station: &StationTime, sizes: &Nodes) -> Self {
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
