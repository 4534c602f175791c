//! Percentiles of the end-to-end response time of open classes.
//!
//! Given the size of its document, a job's times at the stations of its route are taken as independent, and waits as
//! those of Poisson arrivals, scaled by what the departures before are instead. Where every time but for its demand is independent of the document (`independent_stations`), their sum is
//! bounded on a lattice for any law, and exact if the job queues once. Processor sharing stretches the demand: its law is
//! approximated, given the demand (`processor_sharing`), and where that is of the document, the sum found by transforms (`journey`).
//! A document that is large at every station is accounted for; a burst that fills two queues at once is not. Where full
//! stations turn jobs away, the times are those of the jobs that finish, and each station has what the others leave.
//! [`Percentiles::basis`] says what is exact; where the time at a station is not known, the solver refuses.

mod gamma;
mod independent_stations;
mod inversion;
mod journey;
mod processor_sharing;
mod station;
mod transform;

use crate::lattice::{Between, POINTS_MAX, TOLERANCE};
use crate::system::Class;

use super::approximation::of_several_queues;
use super::dispersion::waiting_factors;
use super::exact;
use super::flow::Flow;
use super::thinned::thin;
use independent_stations::RouteTimes;
use journey::Journeys;
use station::StationTime;

/// The reported percentiles.
pub(super) const PROBABILITIES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];
/// Bounds of an approximation agree to this. What is said is far better than they are, and its own error is larger.
const TOLERANCE_APPROXIMATE: f64 = 3e-2;

pub(super) struct Percentiles {
    /// `exact`, or the approximation in words.
    pub(super) basis: String,
    /// The bound of the relative error of all percentiles; `None` for an approximation.
    pub(super) relative_error: Option<f64>,
    /// By class: p50, p90, p95, p99 and p99.9 in seconds.
    pub(super) classes: Vec<[f64; 5]>,
}

/// Computes the percentiles, or returns the reason why there are none.
pub(super) fn of(flow: &Flow<'_>) -> Result<Percentiles, String> {
    if flow.closed().next().is_some() {
        return Err(
            "no percentiles: with a closed class the stations depend on each other; simulate".to_owned()
        );
    }
    if flow.never_full().is_ok() {
        flow.stable()?;
        return of_classes(flow, &flow.system.classes, &vec![0.0; flow.stations()]);
    }
    let thinned = thin(flow, exact::station_means)?;
    let classes: Vec<Class> = flow.system.classes.iter().map(|class| thinned.finishing(class)).collect();
    of_classes(&thinned.flow, &classes, &thinned.losses)
}

/// The percentiles of a flow's classes, whose routes have the probabilities of the jobs that finish.
fn of_classes<'c>(flow: &Flow<'_>, classes: &'c [Class], losses: &[f64]) -> Result<Percentiles, String> {
    let factors = waiting_factors(flow, losses);
    let time = |(station, &factor): (usize, &f64)| StationTime::of(flow, station, factor);
    let times: Vec<StationTime> = factors.iter().enumerate().map(time).collect::<Result<_, _>>()?;
    let approximations = approximations(flow, &times);
    let tolerance = if approximations.is_empty() { TOLERANCE } else { TOLERANCE_APPROXIMATE };
    let sharing = processor_sharing::Tables::of(flow, &times);
    let mut route_times = RouteTimes::new(&times, &sharing, tolerance);
    let bounds: Vec<Option<Vec<Between>>> =
        classes.iter().map(|class| route_times.percentiles(class)).collect();
    let mut journeys = Journeys::new(&times);
    let mut class = |(class, bounds): (&'c Class, &Option<Vec<Between>>)| match bounds {
        Some(bounds) => std::array::from_fn(|index| bounds[index].best),
        None => journeys.percentiles(class),
    };
    let found = classes.iter().zip(&bounds).map(&mut class).collect();
    let error = bounds.iter().flatten().flatten().map(|each| each.relative_error()).fold(0.0, f64::max);
    let basis = match (approximations.is_empty(), error <= TOLERANCE) {
        (false, _) => format!("approximation ({})", approximations.join("; ")),
        (true, true) => "exact".to_owned(),
        (true, false) => beyond_tolerance(error),
    };
    Ok(Percentiles { basis, relative_error: approximations.is_empty().then_some(error), classes: found })
}

fn beyond_tolerance(error: f64) -> String {
    if error.is_finite() && error < 1.0 {
        return format!(
            "bounds {:.2} % apart on either side: {POINTS_MAX} points resolve no more at this load, or a percentile lies \
             between two values that are both right",
            100.0 * error
        );
    }
    format!("lower bounds only: {POINTS_MAX} points do not reach the percentiles at this load; simulate")
}

/// Describes every approximation in words; empty if the percentiles are exact.
fn approximations(flow: &Flow<'_>, times: &[StationTime]) -> Vec<String> {
    let notes = flow.system.stations.iter().zip(times);
    let own = notes.filter_map(|(model, time)| Some(format!("{}: {}", model.name, time.approximation()?)));
    of_several_queues(flow).into_iter().chain(own).collect()
}

#[cfg(test)]
mod tests;
