//! Users of one finite station who think again after a refusal: Engset's model, with any speed v(n).
//!
//! Cutting off the states with more than K jobs leaves the product form of thinking and sharing as it is, so the result is
//! exact for processor sharing and delays, whatever the distributions, and for exponential demand under FIFO and LPS.

use super::approximation::of_sharing;
use super::flow::{Flow, words};
use super::{Answer, ClassAnswer, ClassLoss, PredictedTime, StationAnswer};
use crate::named::Named;
use crate::system::WhenFull;

pub(super) fn solve(flow: &Flow<'_>) -> Result<Answer, String> {
    let refuse = |place: &str| Err(format!("{place} has a capacity; simulate"));
    let system = flow.system;
    let Some((station, model)) =
        system.stations.iter().enumerate().find(|(_, model)| model.capacity.is_some())
    else {
        return Err("no station has a capacity".to_owned());
    };
    let closed: Vec<_> = flow.closed().collect();
    let ([(class, users, away)], None) = (&closed[..], flow.open().next()) else {
        return refuse(&model.place());
    };
    let alone = system.classes[*class].routes.iter().all(|route| route.visits.len() == 1);
    let capacity = match &model.capacity {
        Some(capacity) if capacity.when_full == WhenFull::Refuse => capacity.jobs,
        _ => return refuse(&model.place()),
    };
    let visits = &flow.classes[*class].visits;
    if !alone || visits.iter().enumerate().any(|(other, visits)| other != station && *visits > 0.0) {
        return refuse(&model.place());
    }
    let (demand, service, users) =
        (flow.classes[*class].demands[station], model.service(), f64::from(*users));
    // Weights relative to the largest, as logarithms: users·(users − 1)… (demand/away)ⁿ / Π v(j).
    let mut logarithms = vec![0.0_f64];
    for jobs in 1..=capacity.min(users as u32) as usize {
        let speed = service.speed.at(jobs.min(service.limit));
        let ratio = (users - (jobs - 1) as f64) * demand / away / speed;
        logarithms.push(logarithms[jobs - 1] + ratio.ln());
    }
    let top = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logarithms.iter().map(|logarithm| (logarithm - top).exp()).collect();
    let total: f64 = weights.iter().sum();
    let mean = |of: &dyn Fn(usize) -> f64| -> f64 {
        weights.iter().enumerate().map(|(jobs, weight)| of(jobs) * weight / total).sum()
    };
    let requests = |jobs: usize| (users - jobs as f64) / away;
    let offered = mean(&requests);
    let throughput = mean(&|jobs| if jobs < capacity as usize { requests(jobs) } else { 0.0 });
    let present = mean(&|jobs| jobs as f64);
    let probability = 1.0 - throughput / offered;
    let answer = ClassAnswer {
        throughput_per_second: throughput,
        loss: ClassLoss { offered_per_second: offered, probability },
        response_time_seconds: PredictedTime::of_mean(present / throughput + flow.classes[*class].latency),
    };
    let of_station = |(index, other): (usize, &crate::system::StationModel)| {
        let here = index == station;
        let (jobs, work) = if here { (present, throughput * demand) } else { (0.0, 0.0) };
        let answer = StationAnswer {
            utilisation: (!other.is_delay()).then(|| work / other.service().peak()),
            queue_mean: jobs,
            residence_time_seconds: if here { present / throughput } else { 0.0 },
            full_probability: other.capacity.as_ref().map(|_| if here { probability } else { 0.0 }),
        };
        (other.name.clone(), answer)
    };
    Ok(Answer {
        means: words(&of_sharing(flow, false)),
        percentiles: "not asked for".to_owned(),
        percentiles_relative_error: None,
        classes: Named(vec![(system.classes[*class].name.clone(), answer)]),
        stations: Named(system.stations.iter().enumerate().map(of_station).collect()),
    })
}
