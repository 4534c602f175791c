//! Routes on which every time is independent given the document: waits, delays and demands are parts of a sum.

use crate::distribution::{self, Distribution, RandomVariable, Segment};
use crate::lattice::{self, Between, Part, Path};
use crate::system::{Class, Demand, Route, Visit, segments};

use super::PROBABILITIES;
use super::station::StationTime;
use super::stretched::Tables;

/// Bounds the percentiles of a class; `None` where a time at a station depends on the document other than by the demand
/// after its wait.
pub(super) fn percentiles(
    class: &Class,
    times: &[StationTime],
    stretched: &Tables<'_>,
    tolerance: f64,
) -> Option<Vec<Between>> {
    let visits = || class.visits().filter(|(probability, _)| *probability > 0.0);
    let by_size = |visit: &Visit| matches!(visit.demand, Demand::BySize(_));
    if visits().any(|(_, visit)| times[visit.station].shares() && by_size(visit)) {
        return None;
    }
    let routes: Vec<&Route> = class.routes.iter().filter(|route| route.probability > 0.0).collect();
    if let [route] = routes[..]
        && let [visit] = &route.visits[..]
        && let StationTime::Exact { response_time, .. } = &times[visit.station]
    {
        let between = |p: &f64| response_time.between(*p).plus(class.latency);
        return Some(PROBABILITIES.iter().map(between).collect());
    }
    let paths: Vec<Path<'_>> = routes.iter().map(|route| path(class, route, times, stretched)).collect();
    let document = class.document.as_ref();
    let mean = visits()
        .map(|(probability, visit)| probability * times[visit.station].mean(visit.demand.mean(document)));
    Some(lattice::percentiles(&paths, &PROBABILITIES, mean.sum(), class.latency, tolerance))
}

fn path<'l>(
    class: &Class,
    route: &'l Route,
    times: &'l [StationTime],
    stretched: &'l Tables<'_>,
) -> Path<'l> {
    let mut path = Path { probability: route.probability, constant: 0.0, parts: Vec::new() };
    let mut by_size: Vec<Segment> = vec![Segment { below: f64::INFINITY, factor: 0.0, offset: 0.0 }];
    for visit in &route.visits {
        let time = &times[visit.station];
        path.parts.extend(time.wait());
        if let Some(table) = stretched.find(visit) {
            let survival = Box::new(|t: f64| table.survival(t));
            path.parts.push(Part::Time { survival, doubt: 0.0 });
        }
        if !time.is_wait_then_demand() {
            continue;
        }
        match &visit.demand {
            Demand::Independent(demand) => add(&mut path, demand.clone()),
            Demand::BySize(pieces) => by_size = total(&by_size, &segments(pieces)),
        }
    }
    add(&mut path, distribution::of_size(class.document.as_ref(), &by_size));
    path
}

/// Splits a time into its least value, a constant, and what varies above it.
fn add(path: &mut Path<'_>, time: Distribution) {
    let least = time.quantile(0.0);
    path.constant += least;
    if !matches!(time, Distribution::Deterministic(_)) {
        let survival = Box::new(move |t: f64| 1.0 - time.cdf(least + t));
        path.parts.push(Part::Time { survival, doubt: 0.0 });
    }
}

/// The sum of two piecewise linear functions.
fn total(first: &[Segment], second: &[Segment]) -> Vec<Segment> {
    let mut ends: Vec<f64> = first.iter().chain(second).map(|segment| segment.below).collect();
    ends.sort_by(f64::total_cmp);
    ends.dedup();
    let covering = |segments: &[Segment], below: f64| -> (f64, f64) {
        let segment = segments.iter().find(|segment| segment.below >= below);
        segment.map_or((0.0, 0.0), |segment| (segment.factor, segment.offset))
    };
    let sum = |below: f64| {
        let ((a, b), (c, d)) = (covering(first, below), covering(second, below));
        Segment { below, factor: a + c, offset: b + d }
    };
    ends.into_iter().map(sum).collect()
}
