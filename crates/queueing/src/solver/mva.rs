//! Mean value analysis of closed and mixed networks (Reiser & Lavenberg 1980): exact and approximate.
//!
//! By the arrival theorem a job finds the queues of the network with itself removed. Open classes take their share of
//! each station beforehand. Several servers are split into a faster server and a delay (Seidmann 1987).

use super::Answer;
use super::approximation::{of_bard_schweitzer, of_sharing};
use super::flow::Flow;

/// The most population vectors for the exact recursion.
const STATES_MAX: usize = 4_000_000;
const ITERATIONS_MAX: usize = 100_000;
const TOLERANCE: f64 = 1e-12;

/// The queueing demand and the added delay per station, for the closed classes.
struct Closed {
    classes: Vec<usize>,
    users: Vec<u32>,
    think_times: Vec<f64>,
    /// By closed class and station: the demand that queues, inflated by the open classes.
    queueing: Vec<Vec<f64>>,
    /// By closed class and station: the demand that does not queue.
    delays: Vec<Vec<f64>>,
}

impl Closed {
    fn new(flow: &Flow<'_>) -> Result<Self, String> {
        flow.stable()?;
        flow.without_speeds()?;
        flow.never_full()?;
        let open = flow.open_utilisations();
        let mut closed =
            Self { classes: vec![], users: vec![], think_times: vec![], queueing: vec![], delays: vec![] };
        for (class, users, think_time) in flow.closed() {
            let (mut queueing, mut delays) = (vec![0.0; flow.stations()], vec![0.0; flow.stations()]);
            for station in 0..flow.stations() {
                let (demand, servers) = (flow.classes[class].demands[station], flow.servers(station));
                if flow.is_delay(station) {
                    delays[station] = demand;
                } else {
                    queueing[station] = demand / servers / (1.0 - open[station]);
                    delays[station] = demand * (servers - 1.0) / servers;
                }
            }
            closed.classes.push(class);
            closed.users.push(users);
            closed.think_times.push(think_time);
            closed.queueing.push(queueing);
            closed.delays.push(delays);
        }
        if closed.classes.is_empty() {
            return Err("there is no closed class: the open solver applies".to_owned());
        }
        Ok(closed)
    }

    /// The residence time of closed class `c` at each station when it finds these queues.
    fn residence(&self, c: usize, found: &[f64]) -> Vec<f64> {
        let stations = self.queueing[c].iter().zip(&self.delays[c]).zip(found);
        stations.map(|((queueing, delay), found)| queueing * (1.0 + found) + delay).collect()
    }

    fn throughput(&self, c: usize, users: f64, residence: &[f64]) -> f64 {
        users / (self.think_times[c] + residence.iter().sum::<f64>())
    }

    /// Adds the jobs of class `c` that queue to `queues`; delayed jobs do not queue.
    fn add_queues(&self, c: usize, throughput: f64, residence: &[f64], queues: &mut [f64]) {
        for (station, queue) in queues.iter_mut().enumerate() {
            *queue += throughput * (residence[station] - self.delays[c][station]);
        }
    }

    /// Adds the residence times of the open classes, which find the closed jobs in the queue.
    fn answer(
        &self,
        flow: &Flow<'_>,
        closed: &[(f64, Vec<f64>)],
        queues: &[f64],
        method: Option<String>,
    ) -> Answer {
        let open = flow.open_utilisations();
        let mut throughputs = vec![0.0; flow.classes.len()];
        let mut residences = vec![vec![0.0; flow.stations()]; flow.classes.len()];
        for (c, (throughput, residence)) in closed.iter().enumerate() {
            throughputs[self.classes[c]] = *throughput;
            residences[self.classes[c]] = residence.clone();
        }
        for (class, rate) in flow.open() {
            throughputs[class] = rate;
            for station in 0..flow.stations() {
                let (demand, servers) = (flow.classes[class].demands[station], flow.servers(station));
                residences[class][station] = if flow.is_delay(station) {
                    demand
                } else {
                    demand / servers * (1.0 + queues[station]) / (1.0 - open[station])
                        + demand * (servers - 1.0) / servers
                };
            }
        }
        let mut approximations: Vec<String> = method.into_iter().collect();
        approximations.extend(of_sharing(flow, true));
        flow.answer(&throughputs, &residences, &approximations)
    }
}

/// Exact, by recursion over all populations.
pub(super) fn exact(flow: &Flow<'_>) -> Result<Answer, String> {
    let closed = Closed::new(flow)?;
    let states =
        closed.users.iter().try_fold(1_usize, |states, users| states.checked_mul(*users as usize + 1));
    let states = states.filter(|states| states.saturating_mul(flow.stations()) <= STATES_MAX);
    let Some(states) = states else {
        let line = closed.classes.first().map_or(0, |class| flow.system.classes[*class].line);
        return Err(format!(
            "the populations are too large for the exact recursion: see amva, or simulate (from line {line})"
        ));
    };
    let stations = flow.stations();
    // queues[state·stations + station]; a state is the population vector in mixed radix, class 0 fastest.
    let mut queues = vec![0.0; states * stations];
    let mut last = Vec::new();
    let mut population = vec![0_u32; closed.users.len()];
    for state in 1..states {
        increment(&mut population, &closed.users);
        let (mut here, mut stride) = (vec![0.0; stations], 1);
        last.clear();
        for (c, &present) in population.iter().enumerate() {
            let (throughput, residence) = if present > 0 {
                let without = (state - stride) * stations;
                let residence = closed.residence(c, &queues[without..without + stations]);
                (closed.throughput(c, f64::from(present), &residence), residence)
            } else {
                (0.0, vec![0.0; stations])
            };
            closed.add_queues(c, throughput, &residence, &mut here);
            last.push((throughput, residence));
            stride *= closed.users[c] as usize + 1;
        }
        queues[state * stations..(state + 1) * stations].copy_from_slice(&here);
    }
    Ok(closed.answer(flow, &last, &queues[(states - 1) * stations..], None))
}

fn increment(population: &mut [u32], users: &[u32]) {
    for (count, limit) in population.iter_mut().zip(users) {
        if *count < *limit {
            *count += 1;
            return;
        }
        *count = 0;
    }
}

/// Bard-Schweitzer: with one job of the class removed, its own queue shrinks in proportion.
pub(super) fn approximate(flow: &Flow<'_>) -> Result<Answer, String> {
    let closed = Closed::new(flow)?;
    let stations = flow.stations();
    let mut own: Vec<Vec<f64>> =
        closed.users.iter().map(|users| vec![f64::from(*users) / stations as f64; stations]).collect();
    for _ in 0..ITERATIONS_MAX {
        let total: Vec<f64> =
            (0..stations).map(|station| own.iter().map(|queues| queues[station]).sum()).collect();
        let (mut change, mut solved) = (0.0_f64, Vec::with_capacity(own.len()));
        for (c, queues) in own.iter_mut().enumerate() {
            let users = f64::from(closed.users[c]);
            let found: Vec<f64> =
                total.iter().zip(queues.iter()).map(|(all, mine)| all - mine / users).collect();
            let residence = closed.residence(c, &found);
            let throughput = closed.throughput(c, users, &residence);
            let mut next = vec![0.0; stations];
            closed.add_queues(c, throughput, &residence, &mut next);
            for (old, new) in queues.iter().zip(&next) {
                change = change.max((old - new).abs() / users);
            }
            *queues = next;
            solved.push((throughput, residence));
        }
        if change < TOLERANCE {
            let total: Vec<f64> = (0..stations).map(|k| own.iter().map(|queues| queues[k]).sum()).collect();
            return Ok(closed.answer(flow, &solved, &total, Some(of_bard_schweitzer())));
        }
    }
    Err("the iteration did not converge: simulate".to_owned())
}
