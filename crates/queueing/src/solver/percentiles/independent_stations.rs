//! Routes on which every time is independent given the document: waits, delays and demands are parts of a sum.

use crate::distribution::{self, Distribution, RandomVariable, Segment};
use crate::lattice::{self, Between, Part, Path, Series};
use crate::system::{Class, Demand, Route, Visit, segments};

use super::PROBABILITIES;
use super::processor_sharing::Tables;
use super::station::StationTime;

/// The times of routes, as sums, with what the classes of a system have in common.
pub(super) struct RouteTimes<'s> {
    times: &'s [StationTime],
    sharing: &'s Tables<'s>,
    /// Demands that were met, each once; its place is its number.
    demands: Vec<Distribution>,
    series: Series,
    tolerance: f64,
}

/// Kinds of parts that are numbered, each by places of its own.
#[derive(Clone, Copy)]
enum Numbered {
    Wait,
    Stretched,
    Demand,
}

impl Numbered {
    fn at(self, place: usize) -> usize {
        3 * place + self as usize
    }
}

impl<'s> RouteTimes<'s> {
    pub(super) fn new(times: &'s [StationTime], sharing: &'s Tables<'s>, tolerance: f64) -> Self {
        Self { times, sharing, demands: Vec::new(), series: Series::default(), tolerance }
    }

    /// Bounds of the percentiles of a class; `None` where the time at a station depends on the document in another way
    /// than by the demand that follows its wait.
    pub(super) fn percentiles(&mut self, class: &Class) -> Option<Vec<Between>> {
        let times = self.times;
        let visits = || class.visits().filter(|(probability, _)| *probability > 0.0);
        let by_size = |visit: &Visit| matches!(visit.demand, Demand::BySize(_));
        if visits().any(|(_, visit)| times[visit.station].shares() && by_size(visit)) {
            return None;
        }
        let routes: Vec<&Route> = class.routes.iter().filter(|route| route.probability > 0.0).collect();
        if let [route] = routes[..]
            && let [visit] = &route.visits[..]
            && let StationTime::Exact { response_time, stretch, .. } = &times[visit.station]
            && *stretch == 1.0
        {
            let between = |p: &f64| response_time.between(*p).plus(class.latency);
            return Some(PROBABILITIES.iter().map(between).collect());
        }
        let paths: Vec<Path<'s>> = routes.iter().map(|route| self.path(class, route)).collect();
        let document = class.document.as_ref();
        let mean = visits()
            .map(|(probability, visit)| probability * times[visit.station].mean(visit.demand.mean(document)));
        let (series, mean) = (&mut self.series, mean.sum());
        Some(lattice::percentiles(series, &paths, &PROBABILITIES, mean, class.latency, self.tolerance))
    }

    fn path(&mut self, class: &Class, route: &Route) -> Path<'s> {
        let mut path = Path { probability: route.probability, constant: 0.0, parts: Vec::new() };
        let mut by_size: Vec<Segment> = vec![Segment { below: f64::INFINITY, factor: 0.0, offset: 0.0 }];
        for visit in &route.visits {
            let time = &self.times[visit.station];
            path.parts.extend(time.wait().map(|wait| wait.numbered(Numbered::Wait.at(visit.station))));
            if let Some((place, table)) = self.sharing.find(visit) {
                let survival = Box::new(|t: f64| table.survival(t));
                path.parts.push(Part::time(survival, 0.0).numbered(Numbered::Stretched.at(place)));
            }
            if !time.is_wait_then_demand() {
                continue;
            }
            match &visit.demand {
                Demand::Independent(demand) => self.add(&mut path, demand.clone()),
                Demand::BySize(pieces) => by_size = total(&by_size, &segments(pieces)),
            }
        }
        self.add(&mut path, distribution::of_size(class.document.as_ref(), &by_size));
        path
    }

    /// The least value is a constant: what varies above it is a part.
    fn add(&mut self, path: &mut Path<'s>, time: Distribution) {
        let least = time.quantile(0.0);
        path.constant += least;
        if !matches!(time, Distribution::Deterministic(_)) {
            let place = self.demands.iter().position(|known| *known == time).unwrap_or_else(|| {
                self.demands.push(time.clone());
                self.demands.len() - 1
            });
            let survival = Box::new(move |t: f64| 1.0 - time.cdf(least + t));
            path.parts.push(Part::time(survival, 0.0).numbered(Numbered::Demand.at(place)));
        }
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
