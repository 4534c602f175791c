//! Asymptotic and balanced-job bounds of one closed class (Lazowska et al. 1984, chapter 5).

use serde::Serialize;

use super::flow::Flow;

/// What no network with these demands can exceed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bounds {
    /// Balanced job, from below.
    pub throughput_min_per_second: f64,
    /// The lesser of asymptotic and balanced job.
    pub throughput_max_per_second: f64,
    /// From the largest throughput.
    pub response_time_min_seconds: f64,
    /// From the smallest throughput.
    pub response_time_max_seconds: f64,
    /// N*: with more users than this the slowest station must queue.
    pub saturation_users: f64,
}

pub(super) fn of(flow: &Flow<'_>) -> Option<Bounds> {
    let closed: Vec<_> = flow.closed().collect();
    let [(class, users, think_time)] = closed[..] else { return None };
    // With several servers, speeds v(n) or open classes the asymptote alone would hold; MVA says more.
    if flow.open().next().is_some()
        || flow.system.stations.iter().any(|station| station.servers > 1 || station.speed.is_some())
    {
        return None;
    }
    let demands = &flow.classes[class].demands;
    let queueing: Vec<f64> = (0..demands.len()).filter(|k| !flow.is_delay(*k)).map(|k| demands[k]).collect();
    let delay: f64 = (0..demands.len()).filter(|k| flow.is_delay(*k)).map(|k| demands[k]).sum();
    let (total, largest) = (queueing.iter().sum::<f64>(), queueing.iter().copied().fold(0.0, f64::max));
    if largest == 0.0 {
        return None;
    }
    let (users, away) = (f64::from(users), think_time + delay);
    let average = total / queueing.iter().filter(|demand| **demand > 0.0).count() as f64;
    let lower = users / (total + away + (users - 1.0) * largest / (1.0 + away / (users * total)));
    let upper = (1.0 / largest).min(users / (total + away + (users - 1.0) * average / (1.0 + away / total)));
    Some(Bounds {
        throughput_min_per_second: lower,
        throughput_max_per_second: upper,
        response_time_min_seconds: users / upper - think_time,
        response_time_max_seconds: users / lower - think_time,
        saturation_users: (total + away) / largest,
    })
}
