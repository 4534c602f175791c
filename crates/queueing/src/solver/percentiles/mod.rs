//! Percentiles of the end-to-end response time of open classes, from the transforms of the stations' laws.
//!
//! Given the size of its document, a job's times at the stations of its route are taken as independent, and arrivals
//! at each as Poisson: the transform of their sum is a product, averaged over sizes, and inverted numerically. So the
//! one document that is large everywhere is seen, the one burst that fills two queues is not. [`Percentiles::basis`]
//! says what is exact and what is not; where a station's law is not known there is a refusal instead.

mod inversion;
mod nodes;
mod station;

use crate::complex::Complex;
use crate::distribution::{Distribution, Law};
use crate::system::{Class, Demand, Route, Visit};

use super::flow::Flow;
use nodes::{Nodes, Transform, nodes};
use station::StationLaw;

/// The percentiles that are reported.
const PROBABILITIES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

/// Of all classes.
pub(super) struct Percentiles {
    /// What they rest on.
    pub(super) basis: String,
    /// By class: p50, p90, p95, p99 and p99.9 in seconds.
    pub(super) classes: Vec<[f64; 5]>,
}

/// The percentiles, or why there are none.
pub(super) fn of(flow: &Flow<'_>) -> Result<Percentiles, String> {
    if flow.closed().next().is_some() {
        return Err(
            "no percentiles: with a closed class the stations depend on each other; simulate".to_owned()
        );
    }
    flow.stable()?;
    let laws: Vec<StationLaw> =
        (0..flow.stations()).map(|station| StationLaw::of(flow, station)).collect::<Result<_, _>>()?;
    let classes = flow.system.classes.iter().map(|class| quantiles(class, &laws)).collect();
    Ok(Percentiles { basis: basis(flow, &laws), classes })
}

fn basis(flow: &Flow<'_>, laws: &[StationLaw]) -> String {
    let queues = |route: &Route| route.visits.iter().filter(|visit| !flow.is_delay(visit.station)).count();
    let tandem = flow.system.classes.iter().flat_map(|class| &class.routes).any(|route| queues(route) > 1);
    let notes = flow.system.stations.iter().zip(laws);
    let mut parts: Vec<String> =
        notes.filter_map(|(model, law)| Some(format!("{}: {}", model.name, law.approximation()?))).collect();
    if tandem {
        parts.insert(0, "stations independent given the document, arrivals Poisson at each".to_owned());
    }
    if parts.is_empty() { "exact".to_owned() } else { format!("approximation ({})", parts.join("; ")) }
}

/// A route with all that does not depend on the argument of the transform worked out.
struct Journey<'l> {
    probability: f64,
    /// No answer is faster: it is taken out before the inversion, which dislikes jumps away from zero.
    floor: f64,
    mean: f64,
    stops: Vec<Stop<'l>>,
    /// Probabilities of the document sizes.
    weights: Vec<f64>,
}

struct Stop<'l> {
    law: &'l StationLaw,
    demands: Demands<'l>,
}

/// The demands of a visit.
enum Demands<'l> {
    /// One per document size.
    BySize(Vec<f64>),
    /// With their probabilities, whatever the size.
    Own { law: &'l Distribution, nodes: Nodes, transform: Transform },
}

fn quantiles(class: &Class, laws: &[StationLaw]) -> [f64; 5] {
    let journeys: Vec<Journey<'_>> =
        class.routes.iter().map(|route| Journey::new(class, route, laws)).collect();
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
    fn new(class: &Class, route: &'l Route, laws: &'l [StationLaw]) -> Self {
        let sizes = class.document.as_ref().map_or_else(|| vec![(1.0, 0.0)], nodes);
        let stop = |visit: &'l Visit| Stop {
            law: &laws[visit.station],
            demands: Demands::of(&visit.demand, &sizes),
        };
        let stops: Vec<Stop<'l>> = route.visits.iter().map(stop).collect();
        let floor = stops.iter().map(|stop| stop.law.floor(stop.demands.least())).sum();
        let document = class.document.as_ref();
        let means = route.visits.iter().zip(&stops);
        let mean = means.map(|(visit, stop)| stop.law.mean(visit.demand.mean(document))).sum();
        let weights = sizes.iter().map(|size| size.0).collect();
        Self { probability: route.probability, floor, mean, stops, weights }
    }

    /// P(response without latency > time).
    fn survival(&self, time: f64) -> f64 {
        if time <= self.floor { 1.0 } else { inversion::survival(&|s| self.transform(s), time - self.floor) }
    }

    /// E[exp(−s (R − floor))].
    fn transform(&self, s: Complex) -> Complex {
        let waits: Vec<Complex> = self.stops.iter().map(|stop| stop.law.wait(s)).collect();
        let mut common = (s * self.floor).exp();
        let mut by_size: Vec<(&Stop<'l>, Complex, &[f64])> = Vec::new();
        for (stop, wait) in self.stops.iter().zip(waits) {
            match &stop.demands {
                Demands::BySize(demands) => by_size.push((stop, wait, demands)),
                Demands::Own { transform, .. } if stop.law.is_wait_then_demand() => {
                    common = common * wait * transform.at(s);
                }
                Demands::Own { nodes, .. } => {
                    let parts =
                        nodes.iter().map(|(weight, demand)| stop.law.given(s, *demand, wait) * *weight);
                    common = common * parts.fold(Complex::ZERO, |sum, part| sum + part);
                }
            }
        }
        if by_size.is_empty() {
            return common;
        }
        let product = |size: usize| {
            let parts = by_size.iter().map(|(stop, wait, demands)| stop.law.given(s, demands[size], *wait));
            parts.fold(Complex::from(self.weights[size]), |product, part| product * part)
        };
        common * (0..self.weights.len()).map(product).fold(Complex::ZERO, |sum, part| sum + part)
    }
}

impl<'l> Demands<'l> {
    fn of(demand: &'l Demand, sizes: &Nodes) -> Self {
        match demand {
            Demand::Law(law) => {
                let mut transform = Transform::default();
                transform.add_law(1.0, law);
                Self::Own { law, nodes: nodes(law), transform }
            }
            by_size => {
                Self::BySize(sizes.iter().map(|(_, size)| by_size.of_size(*size).unwrap_or(0.0)).collect())
            }
        }
    }

    fn least(&self) -> f64 {
        match self {
            Self::BySize(demands) => demands.iter().copied().fold(f64::INFINITY, f64::min),
            Self::Own { law, .. } => law.quantile(0.0),
        }
    }
}

#[cfg(test)]
mod tests;
