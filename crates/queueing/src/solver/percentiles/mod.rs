//! Percentiles of the end-to-end response time of open classes, by transforms of the times at the stations.
//!
//! Given the size of its document, a job's times at the stations of its route are taken as independent, and arrivals
//! at each station as Poisson. The transform of their sum is then a product, averaged over sizes, and inverted
//! numerically. So a document that is large at every station is accounted for; a burst that fills two queues at once
//! is not. [`Percentiles::basis`] says what is exact; where the time at a station is not known, the solver refuses.

mod inversion;
mod nodes;
mod station;

use crate::complex::Complex;
use crate::distribution::{Distribution, RandomVariable};
use crate::system::{Class, Demand, Route, Visit};

use super::flow::Flow;
use nodes::{Nodes, Transform, nodes};
use station::StationTime;

/// The percentiles that are reported.
const PROBABILITIES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

pub(super) struct Percentiles {
    /// `exact`, or the approximation in words.
    pub(super) basis: String,
    /// By class: p50, p90, p95, p99 and p99.9 in seconds.
    pub(super) classes: Vec<[f64; 5]>,
}

/// The percentiles, or the reason why there are none.
pub(super) fn of(flow: &Flow<'_>) -> Result<Percentiles, String> {
    if flow.closed().next().is_some() {
        return Err(
            "no percentiles: with a closed class the stations depend on each other; simulate".to_owned()
        );
    }
    flow.stable()?;
    let times: Vec<StationTime> =
        (0..flow.stations()).map(|station| StationTime::of(flow, station)).collect::<Result<_, _>>()?;
    let classes = flow.system.classes.iter().map(|class| quantiles(class, &times)).collect();
    Ok(Percentiles { basis: basis(flow, &times), classes })
}

fn basis(flow: &Flow<'_>, times: &[StationTime]) -> String {
    let queues = |route: &Route| route.visits.iter().filter(|visit| !flow.is_delay(visit.station)).count();
    let tandem = flow.system.classes.iter().flat_map(|class| &class.routes).any(|route| queues(route) > 1);
    let notes = flow.system.stations.iter().zip(times);
    let mut parts: Vec<String> = notes
        .filter_map(|(model, time)| Some(format!("{}: {}", model.name, time.approximation()?)))
        .collect();
    if tandem {
        parts.insert(0, "stations independent given the document, arrivals Poisson at each".to_owned());
    }
    if parts.is_empty() { "exact".to_owned() } else { format!("approximation ({})", parts.join("; ")) }
}

/// A route with everything precomputed that does not depend on the argument of the transform.
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

/// The demands of a visit.
enum Demands<'l> {
    /// One per document size.
    BySize(Vec<f64>),
    /// Independent of the document size.
    Own { distribution: &'l Distribution, nodes: Nodes, transform: Transform },
}

fn quantiles(class: &Class, times: &[StationTime]) -> [f64; 5] {
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
    PROBABILITIES.map(|p| class.latency + inversion::quantile(&survival, p, floor, mean))
}

impl<'l> Journey<'l> {
    fn new(class: &Class, route: &'l Route, times: &'l [StationTime]) -> Self {
        let sizes = class.document.as_ref().map_or_else(|| vec![(1.0, 0.0)], nodes);
        let stop = |visit: &'l Visit| Stop {
            station: &times[visit.station],
            demands: Demands::of(&visit.demand, &sizes),
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
        let waits: Vec<Complex> = self.stops.iter().map(|stop| stop.station.wait(s)).collect();
        let mut common = (s * self.floor).exp();
        let mut by_size: Vec<(&Stop<'l>, Complex, &[f64])> = Vec::new();
        for (stop, wait) in self.stops.iter().zip(waits) {
            match &stop.demands {
                Demands::BySize(demands) => by_size.push((stop, wait, demands)),
                Demands::Own { transform, .. } if stop.station.is_wait_then_demand() => {
                    common = common * wait * transform.at(s);
                }
                Demands::Own { nodes, .. } => {
                    let parts =
                        nodes.iter().map(|(weight, demand)| stop.station.given(s, *demand, wait) * *weight);
                    common = common * parts.fold(Complex::ZERO, |sum, part| sum + part);
                }
            }
        }
        if by_size.is_empty() {
            return common;
        }
        let product = |size: usize| {
            let parts =
                by_size.iter().map(|(stop, wait, demands)| stop.station.given(s, demands[size], *wait));
            parts.fold(Complex::from(self.weights[size]), |product, part| product * part)
        };
        common * (0..self.weights.len()).map(product).fold(Complex::ZERO, |sum, part| sum + part)
    }
}

impl<'l> Demands<'l> {
    fn of(demand: &'l Demand, sizes: &Nodes) -> Self {
        match demand {
            Demand::Independent(distribution) => {
                let mut transform = Transform::default();
                transform.add_distribution(1.0, distribution);
                Self::Own { distribution, nodes: nodes(distribution), transform }
            }
            by_size => {
                Self::BySize(sizes.iter().map(|(_, size)| by_size.of_size(*size).unwrap_or(0.0)).collect())
            }
        }
    }

    fn least(&self) -> f64 {
        match self {
            Self::BySize(demands) => demands.iter().copied().fold(f64::INFINITY, f64::min),
            Self::Own { distribution, .. } => distribution.quantile(0.0),
        }
    }
}

#[cfg(test)]
mod tests;
