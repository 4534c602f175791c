//! The grid: every kernel × working set × stride × cores × huge pages, repeated in random order.

use std::time::Duration;
use std::{fs, io};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::arena::HugePages;
use super::kernel::Kernel;
use super::results::{Backing, GridPoint, Latency, Memory, Point, Spread};
use super::team::{Found, Order, Team};
use super::walk::words_needed;
use super::{STRIDE_WORDS_MAX, WORD_BYTES, WORKING_SET_BYTES_MAX, WORKING_SET_BYTES_MIN};

/// If a thread had its core for less than this share of the time, the measurement was disturbed and is repeated.
const CORE_FRACTION_MIN: f64 = 0.98;

/// After so many repetitions a disturbed measurement is kept and counted as disturbed.
const AGAIN_MAX: usize = 3;

/// The largest share of the free memory that a sweep may use.
const FREE_SHARE_MAX: f64 = 0.8;

#[derive(Clone, Debug)]
pub struct Sweep {
    pub kernels: Vec<Kernel>,
    /// Bytes that each core walks; for a copy, both halves together.
    pub working_sets: Vec<usize>,
    /// Distances between accesses in words.
    pub strides: Vec<usize>,
    /// Sets of cores that work at the same time: the first, the first two …
    pub teams: Vec<Vec<usize>>,
    /// With huge pages, without, or both.
    pub huge_pages: Vec<HugePages>,
    /// Also chase pointers to measure the latency of a load.
    pub latency: bool,
    pub repetitions: usize,
    pub about: Duration,
    /// Seed of the order of the points and of the pointer chains.
    pub seed: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub done: usize,
    pub total: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    #[error("{what} {value} is out of range: {low} to {high}")]
    Range { what: &'static str, value: usize, low: usize, high: usize },
    #[error("nothing to measure: {0} is empty")]
    Empty(&'static str),
    #[error("{needed} bytes on {cores} cores are more than {share:.0} % of the {free} bytes that are free")]
    TooLarge {
        needed: usize,
        cores: usize,
        /// [`FREE_SHARE_MAX`] in per cent.
        share: f64,
        free: u64,
    },
    /// The system refused memory or a core.
    #[error("cannot measure on cores {cores:?}: {cause}")]
    Refused { cores: Vec<usize>, cause: io::Error },
}

/// Measures. `should_continue` is called after each measurement and ends the sweep by returning false.
pub fn run(sweep: &Sweep, mut should_continue: impl FnMut(Progress) -> bool) -> Result<Memory, SweepError> {
    sweep.check()?;
    let mut memory = Memory { complete: true, ..Memory::default() };
    let total = sweep.measurements();
    let mut done = 0;
    for &huge_pages in &sweep.huge_pages {
        for cores in &sweep.teams {
            let bytes = sweep.arena_bytes();
            let refused = |cause| SweepError::Refused { cores: cores.clone(), cause };
            let team = Team::new(cores, bytes, huge_pages).map_err(refused)?;
            let huge_page_bytes = team.huge_page_bytes.clone();
            memory.backing.push(Backing { huge_pages, cores: cores.clone(), bytes, huge_page_bytes });
            let mut measured = Measured::new(sweep);
            for order in sweep.orders() {
                let value = memory.measure(&team, order);
                measured.add(&order, value);
                done += 1;
                if !should_continue(Progress { done, total }) {
                    memory.complete = done == total;
                    memory.keep(measured, cores.len(), huge_pages);
                    return Ok(memory);
                }
            }
            memory.keep(measured, cores.len(), huge_pages);
        }
    }
    Ok(memory)
}

impl Sweep {
    fn check(&self) -> Result<(), SweepError> {
        let empty = [
            (self.kernels.is_empty() && !self.latency, "the list of kernels"),
            (self.working_sets.is_empty(), "the list of working sets"),
            (self.strides.is_empty(), "the list of strides"),
            (self.teams.iter().any(Vec::is_empty) || self.teams.is_empty(), "the list of cores"),
            (self.huge_pages.is_empty(), "the choice of huge pages"),
            (self.repetitions == 0, "the number of repetitions"),
        ];
        if let Some((_, what)) = empty.into_iter().find(|(is_empty, _)| *is_empty) {
            return Err(SweepError::Empty(what));
        }
        let within = |what, values: &[usize], low, high| {
            let outside = values.iter().copied().find(|value| !(low..=high).contains(value));
            outside.map_or(Ok(()), |value| Err(SweepError::Range { what, value, low, high }))
        };
        within("working set", &self.working_sets, WORKING_SET_BYTES_MIN, WORKING_SET_BYTES_MAX)?;
        within("stride", &self.strides, 1, STRIDE_WORDS_MAX)?;
        let cores = self.teams.iter().map(Vec::len).max().unwrap_or(1);
        let needed = self.arena_bytes();
        match free_bytes() {
            Some(free) if (needed * cores) as f64 > FREE_SHARE_MAX * free as f64 => {
                Err(SweepError::TooLarge { needed, cores, share: 100.0 * FREE_SHARE_MAX, free })
            }
            _ => Ok(()),
        }
    }

    /// Memory per core: the largest working set and the gap between a copy's halves.
    fn arena_bytes(&self) -> usize {
        let largest = self.working_sets.iter().copied().max().unwrap_or(0);
        words_needed(Kernel::CopyBlock, largest) * WORD_BYTES
    }

    fn measurements(&self) -> usize {
        self.orders().len() * self.teams.len() * self.huge_pages.len()
    }

    /// In rounds, so that a disturbance of seconds spoils one repetition of a few points rather than all repetitions of
    /// one. Each round has a random order, so that no point always follows the same other one.
    fn orders(&self) -> Vec<Order> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let order = |kernel, stride, working_set_bytes, repetition| Order {
            kernel,
            stride,
            working_set_bytes,
            about: self.about,
            repetition,
            seed: self.seed.wrapping_add(repetition as u64),
        };
        let mut orders = Vec::new();
        for repetition in 0..self.repetitions {
            let mut round = Vec::new();
            for &bytes in &self.working_sets {
                for (kernel, stride) in self.walks() {
                    round.push(order(Some(kernel), stride, bytes, repetition));
                }
                if self.latency {
                    round.push(order(None, 1, bytes, repetition));
                }
            }
            round.shuffle(&mut random);
            orders.append(&mut round);
        }
        orders
    }

    fn walks(&self) -> impl Iterator<Item = (Kernel, usize)> + '_ {
        let strides = |kernel: Kernel| self.strides.iter().filter(move |&&stride| kernel.supports(stride));
        self.kernels.iter().flat_map(move |&kernel| strides(kernel).map(move |&stride| (kernel, stride)))
    }
}

impl Memory {
    fn measure(&mut self, team: &Team, order: Order) -> f64 {
        for again in 0.. {
            let found = team.all_do(order);
            let disturbed = found.iter().any(|found| found.core_fraction < CORE_FRACTION_MIN);
            if !disturbed || again == AGAIN_MAX {
                self.disturbed += usize::from(disturbed);
                let sum: f64 = found.iter().map(|Found { value, .. }| value).sum();
                return if order.kernel.is_some() { sum } else { sum / found.len() as f64 };
            }
        }
        unreachable!("the loop ends by returning")
    }

    fn keep(&mut self, measured: Measured, cores: usize, huge_pages: HugePages) {
        for (kernel, stride_words, working_set_bytes, values) in measured.0 {
            let Some(spread) = Spread::of(values) else { continue };
            match kernel {
                Some(kernel) => {
                    let place = GridPoint { kernel, working_set_bytes, stride_words, cores, huge_pages };
                    self.points.push(Point { place, bytes_per_second: spread });
                }
                None => self.latencies.push(Latency {
                    working_set_bytes,
                    cores,
                    huge_pages,
                    seconds_per_load: spread,
                }),
            }
        }
    }
}

/// The repetitions by grid point, in the order of the results.
struct Measured(Vec<(Option<Kernel>, usize, usize, Vec<f64>)>);

impl Measured {
    fn new(sweep: &Sweep) -> Measured {
        let walks = sweep.walks().map(|(kernel, stride)| (Some(kernel), stride));
        let chase = sweep.latency.then_some((None, 1));
        let rows = walks.chain(chase).flat_map(|(kernel, stride)| {
            sweep.working_sets.iter().map(move |&bytes| (kernel, stride, bytes, Vec::new()))
        });
        Measured(rows.collect())
    }

    fn add(&mut self, order: &Order, value: f64) {
        let place = (order.kernel, order.stride, order.working_set_bytes);
        let row = self.0.iter_mut().find(|row| (row.0, row.1, row.2) == place);
        row.expect("orders and rows come from the same lists").3.push(value);
    }
}

/// MemAvailable: memory available without swapping.
fn free_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|count| count << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity;

    fn sweep() -> Sweep {
        let cores = affinity::allowed_cores().unwrap();
        Sweep {
            kernels: Kernel::ALL.to_vec(),
            working_sets: vec![512, 64 << 10, 1 << 20],
            strides: vec![1, 8, 192],
            teams: (1..=cores.len().min(2)).map(|count| cores[..count].to_vec()).collect(),
            huge_pages: vec![HugePages::Off, HugePages::On],
            latency: true,
            repetitions: 2,
            about: Duration::from_micros(200),
            seed: 1,
        }
    }

    #[test]
    fn every_place_of_the_grid_is_measured() {
        let sweep = sweep();
        let mut heard = 0;
        let memory = run(&sweep, |progress| {
            heard += 1;
            assert_eq!(progress.done, heard);
            assert_eq!(progress.total, sweep.measurements());
            true
        })
        .unwrap();
        // Four kernels with three strides, and the block copy with one.
        let factors = sweep.teams.len() * sweep.huge_pages.len() * sweep.working_sets.len();
        assert_eq!((memory.points.len(), memory.latencies.len()), (13 * factors, factors));
        assert!(memory.complete && heard == 14 * factors * sweep.repetitions);
        for point in &memory.points {
            let Spread { median, min, max, repetitions } = point.bytes_per_second;
            assert!(0.0 < min && min <= median && median <= max && repetitions == 2, "{point:?}");
        }
    }

    #[test]
    fn what_was_measured_before_an_interruption_is_kept() {
        let memory = run(&sweep(), |progress| progress.done < 10).unwrap();
        assert!(!memory.complete);
        assert_eq!(memory.points.len() + memory.latencies.len(), 10);
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_the_reason() {
        let refusal = |sweep: Sweep| run(&sweep, |_| true).unwrap_err().to_string();
        assert!(refusal(Sweep { strides: vec![0], ..sweep() }).contains("stride 0 is out of range"));
        assert!(refusal(Sweep { working_sets: vec![1], ..sweep() }).contains("working set 1"));
        assert!(refusal(Sweep { huge_pages: vec![], ..sweep() }).contains("huge pages is empty"));
        let large =
            Sweep { working_sets: vec![WORKING_SET_BYTES_MAX], teams: vec![vec![0; 4096]], ..sweep() };
        assert!(refusal(large).contains("free"));
    }
}
