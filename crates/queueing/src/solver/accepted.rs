//! Percentiles of the response time of accepted jobs, for a route through a single finite station.
//!
//! The tagged job of `exact_lps`, among those that find room. A route through several stations would need the joint law
//! of what full stations let through: refused.

use super::exact;
use super::flow::Flow;
use super::percentiles::{PROBABILITIES, Percentiles};
use super::phases::phase_type;
use super::thinned::thin;
use crate::exact_lps::{ExactLps, ResponseDistribution};
use crate::system::{Class, Discipline};

const BISECTIONS: usize = 100;

pub(super) fn percentiles(flow: &Flow<'_>) -> Result<Percentiles, String> {
    let refuse = |what: &str| Err(format!("no percentiles: {what}; simulate"));
    if flow.closed().next().is_some() {
        return refuse("with a closed class the stations depend on each other");
    }
    let visits = flow.system.classes.iter().flat_map(|class| &class.routes).map(|route| &route.visits);
    if visits.clone().any(|visits| visits.len() > 1) {
        return refuse("a route has several stations, of which one turns jobs away");
    }
    let thinned = thin(flow, exact::station_means)?;
    let laws: Vec<Option<ResponseDistribution>> = (0..flow.stations())
        .map(|station| visits.clone().any(|visits| visits[0].station == station).then_some(station))
        .map(|station| station.map(|station| law(&thinned.flow, station)).transpose())
        .collect::<Result<_, _>>()?;
    let doubt = laws.iter().flatten().map(ResponseDistribution::doubt).fold(0.0, f64::max);
    let quantiles = |class: &Class| {
        let shares = class.routes.iter().map(|route| route.probability * thinned.finished(route));
        let finished: f64 = shares.clone().sum();
        let survival = |time: f64| -> f64 {
            let of_route = |(route, share): (&crate::system::Route, f64)| {
                let law = laws[route.visits[0].station].as_ref();
                share / finished * law.map_or(0.0, |law| law.survival(time))
            };
            class.routes.iter().zip(shares.clone()).map(of_route).sum()
        };
        PROBABILITIES.map(|p| {
            // The part of the tail that was not followed may add this much.
            let [low, high] = [0.0, doubt].map(|doubt| class.latency + quantile(&survival, p + doubt));
            (low, (high - low) / low)
        })
    };
    let found: Vec<[(f64, f64); 5]> = flow.system.classes.iter().map(quantiles).collect();
    let relative_error = found.iter().flatten().map(|(_, error)| *error).fold(0.0, f64::max);
    let classes = found.iter().map(|class| class.map(|(seconds, _)| seconds)).collect();
    Ok(Percentiles { basis: "exact".to_owned(), relative_error: Some(relative_error), classes })
}

fn law(flow: &Flow<'_>, station: usize) -> Result<ResponseDistribution, String> {
    let model = &flow.system.stations[station];
    let refuse = |what: &str| Err(format!("no percentiles: {what} at {}; simulate", model.place()));
    let Some(capacity) = &model.capacity else {
        return refuse("a station without a capacity beside one that turns jobs away");
    };
    let (rate, _, _) = flow.arrivals(station, &flow.nominal_mix());
    let limit = match model.discipline {
        Discipline::Fifo => model.servers,
        Discipline::Lps { limit } => limit,
        Discipline::Ps | Discipline::Is => capacity.jobs,
    };
    let demand = phase_type(flow, station)?;
    let solved = ExactLps::finite(rate, demand, limit, &model.service().speed, capacity.jobs)
        .map_err(|error| format!("no percentiles: {error}"))?;
    solved.distribution().or_else(|_| refuse("room for too many jobs, or far too many of them,"))
}

fn quantile(survival: &dyn Fn(f64) -> f64, p: f64) -> f64 {
    let mut high = 1e-6;
    while survival(high) > 1.0 - p && high < 1e12 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..BISECTIONS {
        let middle = (low + high) / 2.0;
        if survival(middle) > 1.0 - p { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}
