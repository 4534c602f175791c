//! Load-dependent stations with one closed class, by the exact product form.
//!
//! Several servers and v(n) are treated alike: n closed jobs at a station weigh Dⁿ / Π v(j), open classes add the sum
//! over their own numbers, and the weights of the stations are convolved up to the population (Buzen 1973; Lazowska et
//! al. 1984, chapter 8). All terms are positive and kept as logarithms, so nothing cancels; the textbook's mean value
//! recursion loses its digits near saturation. PS is insensitive to the distribution of demand.

use super::Answer;
use super::approximation::of_sharing;
use super::engset;
use super::flow::Flow;
use super::product_form::{Weights, convolve, log_sum};

/// The largest population: the convolution is quadratic in it.
const USERS_MAX: u32 = 20_000;

struct Queue {
    station: usize,
    /// Weights of 0 … N closed jobs.
    weights: Weights,
    /// The demand, if the speed is constant: the convolution is then one recursion.
    demand: Option<f64>,
}

pub(super) fn solve(flow: &Flow<'_>) -> Result<Answer, String> {
    if flow.never_full().is_err() {
        return engset::solve(flow);
    }
    let closed: Vec<_> = flow.closed().collect();
    let [(class, users, think_time)] = closed[..] else {
        return Err("it needs exactly one closed class".to_owned());
    };
    flow.stable()?;
    if flow
        .system
        .stations
        .iter()
        .all(|station| station.service().speed.is_single_server() || station.is_delay())
    {
        return Err("no station has several servers or a speed v(n): mva is the same".to_owned());
    }
    if users > USERS_MAX {
        let line = flow.system.classes[class].line;
        return Err(format!(
            "more than {USERS_MAX} users are too many for the convolution: see amva, or simulate (line {line})"
        ));
    }
    let (users, demands) = (users as usize, &flow.classes[class].demands);
    let queues = queues(flow, class, users)?;
    let away =
        think_time + (0..flow.stations()).filter(|k| flow.is_delay(*k)).map(|k| demands[k]).sum::<f64>();
    let network = Network { users, away, queues };
    let constants = network.convolved(None);
    let throughput = (constants[users - 1] - constants[users]).exp();
    let mut throughputs = vec![0.0; flow.classes.len()];
    flow.open().for_each(|(open, rate)| throughputs[open] = rate);
    throughputs[class] = throughput;
    let mut residences: Vec<Vec<f64>> = vec![vec![0.0; flow.stations()]; flow.classes.len()];
    for (index, own) in flow.classes.iter().enumerate() {
        (0..flow.stations())
            .filter(|k| flow.is_delay(*k))
            .for_each(|k| residences[index][k] = own.demands[k]);
    }
    let work = flow.open_work();
    for (number, queue) in network.queues.iter().enumerate() {
        let (closed, open) = network.present(number, &constants);
        residences[class][queue.station] = closed / throughput;
        for (index, _) in flow.open().filter(|_| work[queue.station] > 0.0) {
            // Open jobs present are divided among the classes in proportion to their work.
            residences[index][queue.station] =
                open / work[queue.station] * flow.classes[index].demands[queue.station];
        }
    }
    Ok(flow.answer(&throughputs, &residences, &of_sharing(flow, false)))
}

fn queues(flow: &Flow<'_>, class: usize, users: usize) -> Result<Vec<Queue>, String> {
    let work = flow.open_work();
    let build = |station: usize| {
        let (demand, service) =
            (flow.classes[class].demands[station], flow.system.stations[station].service());
        let constant = service.speed.is_single_server().then(|| demand / (1.0 - work[station]));
        let weights = Weights::new(demand, work[station], &service, users)
            .map_err(|error| format!("{}: {error}", flow.system.stations[station].place()))?;
        Ok(Queue { station, weights, demand: constant })
    };
    (0..flow.stations()).filter(|k| !flow.is_delay(*k)).map(build).collect()
}

struct Network {
    users: usize,
    /// Seconds per cycle at delays and thinking.
    away: f64,
    queues: Vec<Queue>,
}

impl Network {
    /// ln G(0 … N) of all queues except `without`.
    fn convolved(&self, without: Option<usize>) -> Vec<f64> {
        let mut log_factorial = 0.0;
        let mut constants: Vec<f64> = (0..=self.users)
            .map(|jobs| {
                log_factorial += (jobs.max(1) as f64).ln();
                if jobs == 0 { 0.0 } else { jobs as f64 * self.away.ln() - log_factorial }
            })
            .collect();
        let others = self.queues.iter().enumerate().filter(|(number, _)| Some(*number) != without);
        for (_, queue) in others {
            match queue.demand {
                Some(demand) => {
                    for jobs in 1..=self.users {
                        constants[jobs] = log_sum([constants[jobs], constants[jobs - 1] + demand.ln()]);
                    }
                }
                None => constants = convolve(&constants, &queue.weights.closed),
            }
        }
        constants
    }

    /// Mean closed and mean open jobs at a queue.
    fn present(&self, number: usize, constants: &[f64]) -> (f64, f64) {
        let (users, queue) = (self.users, &self.queues[number]);
        let others = self.convolved(Some(number));
        let probability =
            |jobs: usize| (queue.weights.closed[jobs] + others[users - jobs] - constants[users]).exp();
        // The weights of a constant speed leave out the factor that the recursion leaves out: normalise both.
        let total: f64 = (0..=users).map(probability).sum();
        let closed: f64 = (0..=users).map(|jobs| jobs as f64 * probability(jobs)).sum();
        let open: f64 = (0..=users).map(|jobs| queue.weights.open[jobs] * probability(jobs)).sum();
        (closed / total, open / total)
    }
}
