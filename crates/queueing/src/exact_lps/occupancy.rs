//! The number of jobs in service in each phase, and its transitions: the sparse skeleton of the Markov chain.

use std::collections::HashMap;

use super::PhaseType;

/// A transition between state indices, at a rate (1/s, unshared) or with a probability.
#[derive(Debug, Clone, Copy)]
pub(super) struct Move {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) weight: f64,
}

/// The states with a given number of jobs in service.
#[derive(Debug, Clone)]
pub(super) struct Occupancy {
    pub(super) states: usize,
    /// A job changes phase.
    pub(super) inside: Vec<Move>,
    /// A job ends: `to` has one job less.
    pub(super) exits: Vec<Move>,
    /// A job enters with this probability: `to` has one job more.
    pub(super) entries: Vec<Move>,
}

/// One [`Occupancy`] for each number of jobs in service, 0 to r.
#[derive(Debug, Clone)]
pub(super) struct Occupancies(Vec<Occupancy>);

impl Occupancies {
    pub(super) fn new(demand: &PhaseType, limit: usize) -> Self {
        let spaces: Vec<Vec<Vec<usize>>> =
            (0..=limit + 1).map(|jobs| compositions(jobs, demand.phases())).collect();
        let index = |space: &Vec<Vec<usize>>| -> HashMap<Vec<usize>, usize> {
            space.iter().cloned().enumerate().map(|(index, counts)| (counts, index)).collect()
        };
        let indices: Vec<_> = spaces.iter().map(index).collect();
        Self((0..=limit).map(|jobs| Occupancy::new(demand, jobs, &spaces[jobs], &indices)).collect())
    }

    pub(super) fn of(&self, jobs: usize) -> &Occupancy {
        &self.0[jobs]
    }

    pub(super) fn limit(&self) -> usize {
        self.0.len() - 1
    }
}

impl Occupancy {
    fn new(
        demand: &PhaseType,
        jobs: usize,
        space: &[Vec<usize>],
        indices: &[HashMap<Vec<usize>, usize>],
    ) -> Self {
        let (mut inside, mut exits, mut entries) = (Vec::new(), Vec::new(), Vec::new());
        for (from, counts) in space.iter().enumerate() {
            for phase in 0..demand.phases() {
                let changed = |down: Option<usize>, up: Option<usize>| {
                    let mut counts = counts.clone();
                    down.into_iter().for_each(|phase| counts[phase] -= 1);
                    up.into_iter().for_each(|phase| counts[phase] += 1);
                    counts
                };
                let entering = demand.initial()[phase];
                if entering > 0.0 {
                    entries.push(Move {
                        from,
                        to: indices[jobs + 1][&changed(None, Some(phase))],
                        weight: entering,
                    });
                }
                if counts[phase] == 0 {
                    continue;
                }
                let here = counts[phase] as f64;
                if demand.exit(phase) > 0.0 {
                    let to = indices[jobs - 1][&changed(Some(phase), None)];
                    exits.push(Move { from, to, weight: here * demand.exit(phase) });
                }
                for (next, rate) in demand.rates(phase).iter().enumerate().filter(|(_, rate)| **rate > 0.0) {
                    let to = indices[jobs][&changed(Some(phase), Some(next))];
                    inside.push(Move { from, to, weight: here * rate });
                }
            }
        }
        Self { states: space.len(), inside, exits, entries }
    }
}

/// Every way to put `jobs` into `phases`.
fn compositions(jobs: usize, phases: usize) -> Vec<Vec<usize>> {
    if phases == 1 {
        return vec![vec![jobs]];
    }
    let with_first = |first: usize| {
        compositions(jobs - first, phases - 1).into_iter().map(move |rest| [vec![first], rest].concat())
    };
    (0..=jobs).flat_map(with_first).collect()
}

/// C(r + p − 1, p − 1), the number of states; `None` when it overflows.
pub(super) fn state_count(limit: u32, phases: usize) -> Option<usize> {
    let mut count: usize = 1;
    for k in 1..phases {
        count = count.checked_mul(limit as usize + k)? / k;
    }
    Some(count)
}
