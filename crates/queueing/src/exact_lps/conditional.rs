//! `E[R | S = x]` exactly, with the tagged job's attained service as the clock.
//!
//! While the job receives da of service, da·n/v(n) seconds pass, where n = s + 1 with s others in service. The others
//! change phase at their natural rates, and jobs arrive at λ n/v(n). So `E[T(x)]` = ∫₀ˣ `E[n(a)/v(n(a))]` da, by
//! uniformisation in a. The wait does not depend on x.

use super::ExactLps;
use super::occupancy::{Move, Occupancy};

/// Levels are cut off where at most this probability is lost.
const LEVEL_TAIL: f64 = 1e-9;
const LEVELS_MAX: usize = 20_000;

pub(super) fn solve(model: &ExactLps, demands: &[f64]) -> Vec<f64> {
    let largest = demands.iter().copied().fold(0.0, f64::max);
    let mut others = Others::new(model);
    let rate = others.rate;
    let steps = largest * rate;
    let last = (steps + 8.0 * steps.sqrt() + 20.0) as usize;
    // pace[k]: E[n / v(n)], seconds per second of service, after k events of the uniformised clock.
    let pace: Vec<f64> = (0..=last).map(|_| others.pace_then_step()).collect();
    let wait = model.mean_wait();
    demands.iter().map(|&demand| wait + attained(&pace, rate, demand)).collect()
}

/// ∫₀ˣ Σ Poisson(k; qa) vₖ da = Σ vₖ P(Poisson(qx) > k) / q.
fn attained(values: &[f64], rate: f64, demand: f64) -> f64 {
    let events = rate * demand;
    if events <= 0.0 {
        return 0.0;
    }
    let mut beyond = 1.0;
    let mut sum = 0.0;
    for (k, value) in values.iter().enumerate() {
        beyond -= (k as f64 * events.ln() - events - libm::lgamma(k as f64 + 1.0)).exp();
        sum += value * f64::max(beyond, 0.0);
        if k as f64 > events && beyond < 1e-14 {
            break;
        }
    }
    sum / rate
}

/// The other jobs beside a tagged job that never ends: by their number and the phases of those in service.
struct Others<'m> {
    model: &'m ExactLps,
    levels: Vec<Vec<f64>>,
    rate: f64,
}

impl<'m> Others<'m> {
    /// The state at the moment a job enters service.
    fn new(model: &'m ExactLps) -> Self {
        let limit = model.limit;
        let slowest = (1..=limit).map(|jobs| jobs as f64 / model.speeds[jobs]).fold(0.0, f64::max);
        let rate = model.arrival_rate * slowest + (limit - 1) as f64 * model.demand.rate_max();
        let mut levels: Vec<Vec<f64>> = model.stationary.levels[..limit].to_vec();
        entered_after_waiting(model, &mut levels);
        Self { model, levels, rate }
    }

    fn pace_then_step(&mut self) -> f64 {
        let limit = self.model.limit;
        let in_service = self
            .levels
            .iter()
            .enumerate()
            .map(|(others, level)| self.pace(others.min(limit - 1) + 1) * level.iter().sum::<f64>());
        let expected = in_service.sum();
        self.step();
        expected
    }

    /// n / v(n): the seconds that pass while each of n jobs receives one second of service.
    fn pace(&self, jobs: usize) -> f64 {
        jobs as f64 / self.model.speeds[jobs]
    }

    fn step(&mut self) {
        let (limit, top) = (self.model.limit, self.levels.len() - 1);
        if self.levels[top].iter().sum::<f64>() > LEVEL_TAIL && top + 1 < LEVELS_MAX {
            self.levels.push(vec![0.0; self.model.occupancies.of((top + 1).min(limit - 1)).states]);
        }
        let mut next: Vec<Vec<f64>> = self.levels.iter().map(|level| vec![0.0; level.len()]).collect();
        for (others, from) in self.levels.iter().enumerate() {
            let sharing = others.min(limit - 1);
            let occupancy = self.model.occupancies.of(sharing);
            let arrival = self.model.arrival_rate * self.pace(sharing + 1) / self.rate;
            let mut left = vec![1.0 - arrival; from.len()];
            let mut go = |moves: &[Move], to: &mut [f64], unit: f64, leaves: bool| {
                for change in moves {
                    to[change.to] += from[change.from] * change.weight * unit;
                    if leaves {
                        left[change.from] -= change.weight * unit;
                    }
                }
            };
            go(&occupancy.inside, &mut next[others], 1.0 / self.rate, true);
            if others > sharing {
                for (exit, entry) in
                    exits_then_entries(occupancy, self.model.occupancies.of(sharing.max(1) - 1))
                {
                    let weight = exit.weight * entry.weight;
                    go(
                        &[Move { from: exit.from, to: entry.to, weight }],
                        &mut next[others - 1],
                        1.0 / self.rate,
                        true,
                    );
                }
            } else if others > 0 {
                go(&occupancy.exits, &mut next[others - 1], 1.0 / self.rate, true);
            }
            if others + 1 < limit {
                go(&occupancy.entries, &mut next[others + 1], arrival, false);
            } else if others + 1 < next.len() {
                next[others + 1].iter_mut().zip(from).for_each(|(sum, p)| *sum += p * arrival);
            } else {
                next[others].iter_mut().zip(from).for_each(|(sum, p)| *sum += p * arrival);
            }
            next[others].iter_mut().zip(from).zip(&left).for_each(|((sum, p), left)| *sum += p * left);
        }
        self.levels = next;
    }
}

fn exits_then_entries<'o>(
    occupancy: &'o Occupancy,
    below: &'o Occupancy,
) -> impl Iterator<Item = (&'o Move, &'o Move)> {
    occupancy.exits.iter().flat_map(|exit| {
        below.entries.iter().filter(|entry| entry.from == exit.to).map(move |entry| (exit, entry))
    })
}

/// Adds the jobs that had to wait, by the number of arrivals behind them meanwhile. The waiting job steps from event to
/// event of a clock that counts both arrivals and service events.
fn entered_after_waiting(model: &ExactLps, levels: &mut Vec<Vec<f64>>) {
    let mut waiting = super::tagged::Waiting::new(model);
    let total = waiting.mass();
    let arrival_share = model.arrival_rate / (model.arrival_rate + model.event_rate());
    // behind[b]: probability that b jobs have arrived by the service event just passed; its generating function gains a
    // factor (1−β)/(1−βz) per service event.
    let mut behind = vec![1.0];
    let mut entered = 0.0;
    while total - entered > LEVEL_TAIL * total && behind.len() < LEVELS_MAX {
        let states = waiting.step();
        behind = more_behind(&behind, arrival_share);
        entered += states.iter().sum::<f64>();
        for (count, probability) in behind.iter().enumerate() {
            let level = model.limit - 1 + count;
            while levels.len() <= level {
                levels.push(vec![0.0; states.len()]);
            }
            levels[level].iter_mut().zip(&states).for_each(|(sum, p)| *sum += p * probability);
        }
    }
}

fn more_behind(behind: &[f64], arrival_share: f64) -> Vec<f64> {
    let mut next = Vec::with_capacity(behind.len() + 8);
    let mut carried = 0.0;
    for count in 0.. {
        let own = behind.get(count).copied().unwrap_or(0.0);
        carried = carried * arrival_share + own * (1.0 - arrival_share);
        if count >= behind.len() && carried < LEVEL_TAIL * 1e-3 {
            break;
        }
        next.push(carried);
    }
    next
}
