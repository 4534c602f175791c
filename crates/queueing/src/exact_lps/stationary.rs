//! The stationary distribution of the quasi-birth-death process: logarithmic reduction above level r, block
//! elimination below (Latouche & Ramaswami 1999, chapters 8 and 10).

use super::occupancy::Occupancies;
use crate::matrix::Matrix;

/// Levels are scaled down when a probability exceeds this, relative to the fullest station.
const SCALE_AT: f64 = 1e100;
/// Doubling steps of the reduction; it converges quadratically, in about ten.
const REDUCTION_STEPS_MAX: usize = 64;
const REDUCTION_TOLERANCE: f64 = 1e-14;

/// π by level: `levels[n]` for n ≤ r, then π_{n+1} = π_n·R; with a capacity K, for n ≤ K, and R is nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct Stationary {
    pub(super) levels: Vec<Vec<f64>>,
    pub(super) ratio: Matrix,
    present: f64,
    waiting: f64,
    /// The probability of level K.
    full: f64,
}

impl Stationary {
    /// Solves for the stationary distribution; `None` when a matrix is singular to rounding.
    pub(super) fn solve(arrival_rate: f64, speeds: &[f64], occupancies: &Occupancies) -> Option<Self> {
        let limit = occupancies.limit();
        let up = Matrix::identity(occupancies.of(limit).states);
        let (local, down) = (local(arrival_rate, speeds, occupancies, limit), down_full(speeds, occupancies));
        let first_passage = logarithmic_reduction(arrival_rate, &local, &down)?;
        // R = λ (−A₁ − λG)⁻¹, since arrivals at a full station leave the phases alone.
        let negative = Matrix::zeros(up.row_sums().len(), up.row_sums().len())
            .plus(-1.0, &local)
            .plus(-arrival_rate, &first_passage);
        let ratio = negative.solve(&up)?;
        let ratio = Matrix::zeros(ratio.row_sums().len(), ratio.row_sums().len()).plus(arrival_rate, &ratio);
        // What rises above level r comes back to it as R·down.
        let top = local.plus(1.0, &ratio.times(&down));
        Self::normalised(levels_up_to(limit, &top, arrival_rate, speeds, occupancies)?, ratio)
    }

    /// With room for `capacity` ≥ r jobs in all.
    pub(super) fn finite(
        arrival_rate: f64,
        speeds: &[f64],
        occupancies: &Occupancies,
        capacity: usize,
    ) -> Option<Self> {
        let limit = occupancies.limit();
        // Arrivals at the full station change nothing.
        let states = occupancies.of(limit).states;
        let top =
            local(arrival_rate, speeds, occupancies, limit).plus(arrival_rate, &Matrix::identity(states));
        Some(Self::of_levels(levels_up_to(capacity, &top, arrival_rate, speeds, occupancies)?, limit))
    }

    fn normalised(mut levels: Vec<Vec<f64>>, ratio: Matrix) -> Option<Self> {
        let limit = levels.len() - 1;
        let size = levels[limit].len();
        let mut ones = Matrix::zeros(size, 1);
        (0..size).for_each(|row| *ones.at_mut(row, 0) = 1.0);
        let geometric = Matrix::identity(size).plus(-1.0, &ratio);
        // (I−R)⁻¹·1 and (I−R)⁻²·1: the mass above and the mean level above.
        let first = geometric.solve(&ones)?;
        let second = geometric.solve(&first)?;
        let weigh = |vector: &Matrix| -> f64 {
            levels[limit].iter().enumerate().map(|(i, p)| p * vector.at(i, 0)).sum()
        };
        let (mass, mass_twice) = (weigh(&first), weigh(&second));
        let below = |of: fn(usize) -> f64| -> f64 {
            levels[..limit].iter().enumerate().map(|(n, level)| of(n) * level.iter().sum::<f64>()).sum()
        };
        let total = below(|_| 1.0) + mass;
        // Σ k R^k = (I−R)⁻² − (I−R)⁻¹.
        let waiting = (mass_twice - mass) / total;
        let present = below(|n| n as f64) / total + limit as f64 * mass / total + waiting;
        levels.iter_mut().flatten().for_each(|probability| *probability /= total);
        Some(Self { levels, ratio, present, waiting, full: 0.0 })
    }

    /// Normalises levels 0 … K, whose probabilities are given up to a common factor.
    fn of_levels(mut levels: Vec<Vec<f64>>, limit: usize) -> Self {
        let total: f64 = levels.iter().flatten().sum();
        levels.iter_mut().flatten().for_each(|probability| *probability /= total);
        let mean = |of: &dyn Fn(usize) -> usize| -> f64 {
            levels.iter().enumerate().map(|(n, level)| of(n) as f64 * level.iter().sum::<f64>()).sum()
        };
        let (present, waiting) = (mean(&|n| n), mean(&|n| n.saturating_sub(limit)));
        let full = levels.last().map_or(0.0, |level| level.iter().sum());
        Self { levels, ratio: Matrix::default(), present, waiting, full }
    }

    /// The probability of a full station; 0 without a capacity.
    pub(super) fn full(&self) -> f64 {
        self.full
    }

    pub(super) fn mean_present(&self) -> f64 {
        self.present
    }

    pub(super) fn mean_waiting(&self) -> f64 {
        self.waiting
    }
}

/// π of levels 0 … `top` ≥ r up to a common factor, by block elimination from the empty station upwards. `balance` has the
/// rates within the top level, with those by way of the levels above.
fn levels_up_to(
    top: usize,
    balance: &Matrix,
    arrival_rate: f64,
    speeds: &[f64],
    occupancies: &Occupancies,
) -> Option<Vec<Vec<f64>>> {
    let limit = occupancies.limit();
    let states = |level: usize| occupancies.of(level.min(limit)).states;
    // Above r arrivals leave the phases alone.
    let up_from = |level: usize| {
        if level < limit {
            up(arrival_rate, occupancies, level)
        } else {
            Matrix::zeros(states(level), states(level)).plus(arrival_rate, &Matrix::identity(states(level)))
        }
    };
    let full = down_full(speeds, occupancies);
    // The rates within a level, with those by way of the levels below; the rest leaves it upwards.
    let with_below = |here: Matrix, level: usize, steps: &[Matrix], leaving: f64| match steps.last() {
        Some(below) => here.plus(1.0, &below.times(&up_from(level - 1))).with_row_sums(-leaving),
        None => here.with_row_sums(-leaving),
    };
    // steps[n]: π_n = π_{n+1}·steps[n].
    let mut steps: Vec<Matrix> = Vec::with_capacity(top);
    for level in 0..top {
        let here = local(arrival_rate, speeds, occupancies, level.min(limit));
        let here = with_below(here, level, &steps, arrival_rate);
        let negative = Matrix::zeros(states(level), states(level)).plus(-1.0, &here);
        let down = if level < limit { down(speeds, occupancies, level + 1) } else { full.clone() };
        // down·(−U)⁻¹, by way of the transposed system.
        steps.push(negative.transposed().solve(&down.transposed())?.transposed());
    }
    let mut levels = vec![null_vector(&with_below(balance.clone(), top, &steps, 0.0))?];
    for step in steps.iter().rev() {
        let next = step.left_times(&levels[levels.len() - 1]);
        let largest = next.iter().map(|probability| probability.abs()).fold(0.0, f64::max);
        levels.push(next);
        // At a low load the empty station is more probable than the full one by more than a double can hold.
        if largest > SCALE_AT {
            levels.iter_mut().flatten().for_each(|probability| *probability /= largest);
        }
    }
    levels.reverse();
    Some(levels)
}

/// Phase changes within a level, with the diagonal: each job in service runs at v(n)/n.
fn local(arrival_rate: f64, speeds: &[f64], occupancies: &Occupancies, jobs: usize) -> Matrix {
    let occupancy = occupancies.of(jobs);
    let share = speeds[jobs] / jobs.max(1) as f64;
    let mut local = Matrix::zeros(occupancy.states, occupancy.states);
    for change in &occupancy.inside {
        *local.at_mut(change.from, change.to) += change.weight * share;
        *local.at_mut(change.from, change.from) -= change.weight * share;
    }
    for exit in &occupancy.exits {
        *local.at_mut(exit.from, exit.from) -= exit.weight * share;
    }
    (0..occupancy.states).for_each(|state| *local.at_mut(state, state) -= arrival_rate);
    local
}

fn up(arrival_rate: f64, occupancies: &Occupancies, jobs: usize) -> Matrix {
    let mut up = Matrix::zeros(occupancies.of(jobs).states, occupancies.of(jobs + 1).states);
    for entry in &occupancies.of(jobs).entries {
        *up.at_mut(entry.from, entry.to) += arrival_rate * entry.weight;
    }
    up
}

fn down(speeds: &[f64], occupancies: &Occupancies, jobs: usize) -> Matrix {
    let mut down = Matrix::zeros(occupancies.of(jobs).states, occupancies.of(jobs - 1).states);
    for exit in &occupancies.of(jobs).exits {
        *down.at_mut(exit.from, exit.to) += exit.weight * speeds[jobs] / jobs as f64;
    }
    down
}

/// A completion above level r: the first job in the queue takes the place.
fn down_full(speeds: &[f64], occupancies: &Occupancies) -> Matrix {
    let limit = occupancies.limit();
    down(speeds, occupancies, limit).times(&up(1.0, occupancies, limit - 1))
}

/// G: the distribution of the phases when the level first falls by one.
fn logarithmic_reduction(arrival_rate: f64, local: &Matrix, down: &Matrix) -> Option<Matrix> {
    let size = local.row_sums().len();
    let identity = Matrix::identity(size);
    let negative = Matrix::zeros(size, size).plus(-1.0, local);
    let mut higher = negative.solve(&Matrix::zeros(size, size).plus(arrival_rate, &identity))?;
    let mut lower = negative.solve(down)?;
    let (mut passage, mut through) = (lower.clone(), higher.clone());
    for _ in 0..REDUCTION_STEPS_MAX {
        let both = higher.times(&lower).plus(1.0, &lower.times(&higher));
        let rest = identity.clone().plus(-1.0, &both);
        higher = rest.solve(&higher.times(&higher))?;
        lower = rest.solve(&lower.times(&lower))?;
        passage = passage.plus(1.0, &through.times(&lower));
        through = through.times(&higher);
        if through.row_sums().iter().all(|sum| sum.abs() < REDUCTION_TOLERANCE) {
            break;
        }
    }
    Some(passage)
}

/// x with x·`balance` = 0 and Σ x = 1.
fn null_vector(balance: &Matrix) -> Option<Vec<f64>> {
    let mut system = balance.transposed();
    let size = system.row_sums().len();
    let mut right = Matrix::zeros(size, 1);
    (0..size).for_each(|column| *system.at_mut(size - 1, column) = 1.0);
    *right.at_mut(size - 1, 0) = 1.0;
    let solution = system.solve(&right)?;
    Some((0..size).map(|row| solution.at(row, 0)).collect())
}
