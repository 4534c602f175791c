//! The tagged job, waiting and in service, as probabilities stepped from event to event.

use super::ExactLps;
use super::occupancy::{Move, Occupancy};

/// Levels are cut off where at most this probability is lost.
const LEVEL_TAIL: f64 = 1e-10;
const LEVELS_MAX: usize = 20_000;
/// The overhead of a level, counted in steps of one probability.
const STEPS_PER_LEVEL: usize = 8;

/// The tagged job in the queue: by jobs ahead of it and by the phases of the r jobs in service.
pub(super) struct Waiting<'m> {
    model: &'m ExactLps,
    /// At most this many levels are occupied; the tail empties from above.
    levels: Vec<Vec<f64>>,
    /// Within the level: a completion that admits the next job.
    inside: Vec<Move>,
    down: Vec<Move>,
    /// A completion that admits the tagged job.
    enter: Vec<Move>,
    stay: Vec<f64>,
}

impl<'m> Waiting<'m> {
    pub(super) fn new(model: &'m ExactLps) -> Self {
        let full = model.occupancies.of(model.limit);
        let share = model.event_share(model.limit);
        let (inside, enter) = (scaled(&full.inside, share), scaled(&full.exits, share));
        let down = replaced(&enter, model.occupancies.of(model.limit - 1));
        let stay = remaining(full.states, 1.0, &[&inside, &enter]);
        let mut levels = vec![model.stationary.levels[model.limit].clone()];
        loop {
            let last = &levels[levels.len() - 1];
            if last.iter().sum::<f64>() < LEVEL_TAIL || levels.len() >= LEVELS_MAX {
                break;
            }
            levels.push(model.stationary.ratio.left_times(last));
        }
        Self { model, levels, inside, down, enter, stay }
    }

    pub(super) fn mass(&self) -> f64 {
        self.levels.iter().flatten().sum()
    }

    /// The number of probabilities in one step.
    pub(super) fn size(&self) -> usize {
        self.levels.len() * (self.stay.len() + STEPS_PER_LEVEL)
    }

    /// Steps one service event; returns the probability of entering service at it, by the phases of the r − 1 others.
    pub(super) fn step(&mut self) -> Vec<f64> {
        let mut entered = vec![0.0; self.model.occupancies.of(self.model.limit - 1).states];
        if let Some(front) = self.levels.first() {
            apply(&self.enter, 1.0, front, &mut entered);
        }
        for level in 0..self.levels.len() {
            let mut next: Vec<f64> =
                self.levels[level].iter().zip(&self.stay).map(|(p, stay)| p * stay).collect();
            apply(&self.inside, 1.0, &self.levels[level], &mut next);
            if let Some(above) = self.levels.get(level + 1) {
                apply(&self.down, 1.0, above, &mut next);
            }
            // Level by level from the front: the level above is still the old one.
            self.levels[level] = next;
        }
        entered
    }
}

/// The tagged job in service: by the number of others, its own phase, and the phases of those in service.
pub(super) struct InService<'m> {
    model: &'m ExactLps,
    /// levels[n][own · states + others].
    levels: Vec<Vec<f64>>,
    next: Vec<Vec<f64>>,
    /// By the number of others in service, 0 to r − 1.
    moves: Vec<Moves>,
    arrival_share: f64,
    /// The most other jobs followed beside the tagged one.
    levels_max: usize,
    /// Levels above this have probability 0.
    occupied: usize,
}

/// Transitions of one event with a given number of others in service; weights are probabilities.
struct Moves {
    states: usize,
    inside: Vec<Move>,
    /// Another job ends and no job waits.
    down: Vec<Move>,
    /// Another job ends and the next in the queue enters.
    replace: Vec<Move>,
    /// An arrival enters service.
    enter: Vec<Move>,
    /// Per own phase: transitions to other own phases. The rest of the probability is no change.
    own: Vec<Vec<(usize, f64)>>,
    stay: Vec<Vec<f64>>,
}

impl<'m> InService<'m> {
    /// Starts with the tagged jobs that find a free place.
    pub(super) fn new(model: &'m ExactLps, arrival_share: f64) -> Self {
        let moves = (0..model.limit).map(|others| Moves::new(model, others, arrival_share)).collect();
        let levels_max = model.capacity.unwrap_or(LEVELS_MAX);
        let (levels, next) = (Vec::new(), Vec::new());
        let mut service =
            Self { model, levels, next, moves, arrival_share, levels_max, occupied: model.limit };
        for others in 0..model.limit {
            service.reserve(others);
            service.put(others, &model.found(others), 1.0);
        }
        service
    }

    pub(super) fn mass(&self) -> f64 {
        self.levels.iter().take(self.occupied + 1).flatten().sum()
    }

    /// The number of probabilities in one step.
    pub(super) fn size(&self) -> usize {
        let states = self.moves[self.model.limit - 1].states * self.model.demand.phases();
        (self.occupied + 1) * (states + STEPS_PER_LEVEL)
    }

    /// Adds probability: a job enters beside r − 1 others in these phases, with `behind` more waiting. Returns the
    /// probability moved.
    pub(super) fn admit(&mut self, others: &[f64], weight: f64, behind: usize) -> f64 {
        let level = (self.model.limit - 1 + behind).min(self.levels_max - 1);
        self.reserve(level);
        self.put(level, others, weight);
        weight * others.iter().sum::<f64>()
    }

    fn put(&mut self, level: usize, others: &[f64], weight: f64) {
        let states = others.len();
        for (own, probability) in self.model.demand.initial().iter().enumerate() {
            let target = &mut self.levels[level][own * states..(own + 1) * states];
            target.iter_mut().zip(others).for_each(|(sum, p)| *sum += p * weight * probability);
        }
        self.occupied = self.occupied.max(level);
    }

    fn reserve(&mut self, level: usize) {
        while self.levels.len() <= level {
            let states = self.moves[self.levels.len().min(self.model.limit - 1)].states;
            let empty = vec![0.0; states * self.model.demand.phases()];
            self.levels.push(empty.clone());
            self.next.push(empty);
        }
    }

    /// Steps one event, an arrival or a service event.
    pub(super) fn step(&mut self) {
        if self.occupied + 1 < self.levels_max {
            self.reserve(self.occupied + 1);
        }
        self.next.iter_mut().for_each(|level| level.fill(0.0));
        for others in 0..=self.occupied.min(self.levels.len() - 1) {
            self.step_level(others);
        }
        std::mem::swap(&mut self.levels, &mut self.next);
        self.occupied = (self.occupied + 1).min(self.levels.len() - 1);
        while self.occupied > 0 && self.levels[self.occupied].iter().sum::<f64>() < LEVEL_TAIL * 1e-6 {
            self.occupied -= 1;
        }
    }

    fn step_level(&mut self, others: usize) {
        let limit = self.model.limit;
        let moves = &self.moves[others.min(limit - 1)];
        let states = moves.states;
        for own in 0..self.model.demand.phases() {
            let block = own * states..(own + 1) * states;
            let from = &self.levels[others][block.clone()];
            let here = &mut self.next[others];
            for (state, (probability, stay)) in from.iter().zip(&moves.stay[own]).enumerate() {
                here[own * states + state] += probability * stay;
            }
            apply(&moves.inside, 1.0, from, &mut here[block.clone()]);
            for (to, weight) in &moves.own[own] {
                let target = &mut here[to * states..(to + 1) * states];
                target.iter_mut().zip(from).for_each(|(sum, p)| *sum += p * weight);
            }
            if others >= limit {
                apply(&moves.replace, 1.0, from, &mut self.next[others - 1][block.clone()]);
            } else if others > 0 {
                let below = self.moves[others - 1].states;
                apply(&moves.down, 1.0, from, &mut self.next[others - 1][own * below..(own + 1) * below]);
            }
            if others + 1 < limit {
                let above = self.moves[others + 1].states;
                apply(&moves.enter, 1.0, from, &mut self.next[others + 1][own * above..(own + 1) * above]);
            } else {
                // At the cap an arrival is lost: with K others at most, or where the probability is below LEVEL_TAIL.
                let level = (others + 1).min(self.next.len() - 1);
                let target = &mut self.next[level][block];
                target.iter_mut().zip(from).for_each(|(sum, p)| *sum += p * self.arrival_share);
            }
        }
    }
}

impl Moves {
    fn new(model: &ExactLps, others: usize, arrival_share: f64) -> Self {
        let occupancy = model.occupancies.of(others);
        // The server is shared by the others and the tagged job; a service event is not an arrival.
        let share = (1.0 - arrival_share) * model.event_share(others + 1);
        let (inside, down) = (scaled(&occupancy.inside, share), scaled(&occupancy.exits, share));
        let replace = if others > 0 { replaced(&down, model.occupancies.of(others - 1)) } else { Vec::new() };
        let phases = 0..model.demand.phases();
        let own_moves = |phase: usize| {
            let rates = model.demand.rates(phase).iter().enumerate();
            rates.filter(|(_, rate)| **rate > 0.0).map(|(to, rate)| (to, rate * share)).collect()
        };
        let stay_of = |phase: usize| {
            let still = 1.0 - arrival_share - model.demand.total_rate(phase) * share;
            remaining(occupancy.states, still, &[&inside, &down])
        };
        Self {
            states: occupancy.states,
            own: phases.clone().map(own_moves).collect(),
            stay: phases.map(stay_of).collect(),
            enter: scaled(&occupancy.entries, arrival_share),
            inside,
            down,
            replace,
        }
    }
}

pub(super) fn scaled(moves: &[Move], factor: f64) -> Vec<Move> {
    moves.iter().map(|change| Move { weight: change.weight * factor, ..*change }).collect()
}

/// Combines each exit with an entry into the state it leaves.
pub(super) fn replaced(exits: &[Move], below: &Occupancy) -> Vec<Move> {
    let after = |exit: &Move| {
        let (from, weight, middle) = (exit.from, exit.weight, exit.to);
        let entries = below.entries.iter().filter(move |entry| entry.from == middle);
        entries.map(move |entry| Move { from, to: entry.to, weight: weight * entry.weight })
    };
    exits.iter().flat_map(after).collect()
}

/// `total` minus the weights of these moves, for each state.
pub(super) fn remaining(states: usize, total: f64, moves: &[&[Move]]) -> Vec<f64> {
    let mut left = vec![total; states];
    moves.iter().copied().flatten().for_each(|change| left[change.from] -= change.weight);
    left
}

pub(super) fn apply(moves: &[Move], factor: f64, from: &[f64], to: &mut [f64]) {
    for change in moves {
        to[change.to] += from[change.from] * change.weight * factor;
    }
}
