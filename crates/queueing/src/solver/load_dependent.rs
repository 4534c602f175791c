//! Exact mean value analysis with multi-server stations, one closed class (Reiser 1981).
//!
//! A station with c servers works at min(n, c): the recursion carries the probabilities of 0 … c − 1 jobs.

use super::Answer;
use super::flow::Flow;

/// The largest population: the recursion is linear in it.
const USERS_MAX: u32 = 1_000_000;

struct Queue {
    demand: f64,
    servers: usize,
    mean: f64,
    /// P(j jobs) for j < servers.
    few: Vec<f64>,
}

impl Queue {
    /// By the arrival theorem: with j in front, the departure rate is min(j + 1, c) per demand.
    fn residence(&self) -> f64 {
        let idle: f64 = self
            .few
            .iter()
            .take(self.servers - 1)
            .enumerate()
            .map(|(jobs, p)| (self.servers - 1 - jobs) as f64 * p)
            .sum();
        self.demand / self.servers as f64 * (1.0 + self.mean + idle)
    }

    fn update(&mut self, throughput: f64, residence: f64) {
        self.mean = throughput * residence;
        let work = throughput * self.demand;
        for jobs in (1..self.servers).rev() {
            self.few[jobs] = work / jobs as f64 * self.few[jobs - 1];
        }
        // Σ (c − j) pⱼ = c − U: what the utilisation law leaves for the empty station. Near saturation the
        // difference is rounding, which must not become a negative probability.
        let servers = self.servers as f64;
        let others: f64 = (1..self.servers).map(|jobs| (servers - jobs as f64) * self.few[jobs]).sum();
        self.few[0] = ((servers - work - others) / servers).max(0.0);
    }
}

pub(super) fn solve(flow: &Flow<'_>) -> Result<Answer, String> {
    let closed: Vec<_> = flow.closed().collect();
    let [(class, users, think_time)] = closed[..] else {
        return Err("it takes one closed class".to_owned());
    };
    if flow.open().next().is_some() {
        return Err("it takes no open class beside the closed one".to_owned());
    }
    if flow.system.stations.iter().all(|station| station.servers == 1) {
        return Err("no station has several servers: mva is the same".to_owned());
    }
    if users > USERS_MAX {
        return Err(format!("more than {USERS_MAX} users: see amva"));
    }
    let demands = &flow.classes[class].demands;
    let mut queues: Vec<Option<Queue>> = (0..flow.stations())
        .map(|station| {
            let servers = flow.system.stations[station].servers as usize;
            let few = (0..servers).map(|jobs| if jobs == 0 { 1.0 } else { 0.0 }).collect();
            (!flow.is_delay(station)).then(|| Queue { demand: demands[station], servers, mean: 0.0, few })
        })
        .collect();
    let (mut throughput, mut residences) = (0.0, vec![0.0; flow.stations()]);
    for population in 1..=users {
        for (station, queue) in queues.iter().enumerate() {
            residences[station] = queue.as_ref().map_or(demands[station], Queue::residence);
        }
        throughput = f64::from(population) / (think_time + residences.iter().sum::<f64>());
        for (queue, residence) in queues.iter_mut().zip(&residences) {
            if let Some(queue) = queue {
                queue.update(throughput, *residence);
            }
        }
    }
    Ok(flow.answer(&[throughput], &[residences]))
}
