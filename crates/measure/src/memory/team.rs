//! A team of threads that walk memory at the same time, each pinned to a core and with memory of its own.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use super::WORD_BYTES;
use super::arena::{Arena, HugePages};
use super::chase::Chase;
use super::kernel::Kernel;
use super::walk::{Walk, words_needed};
use crate::{Reading, affinity, clock};

#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// `None` means pointer chasing.
    pub kernel: Option<Kernel>,
    pub stride: usize,
    pub working_set_bytes: usize,
    pub about: Duration,
    /// The index of the repetition: each uses a different part of the memory, so that one unlucky placement does not
    /// decide.
    pub repetition: usize,
    pub seed: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Bytes per second; for pointer chasing, seconds per load.
    pub value: f64,
    /// The share of the time in which the thread had its core.
    pub core_fraction: f64,
}

#[derive(Debug)]
pub struct Team {
    members: Vec<(Sender<Order>, Receiver<Found>)>,
    pub huge_page_bytes: Vec<Reading<u64>>,
}

impl Team {
    /// Starts one thread per core, each with this much memory.
    pub fn new(cores: &[usize], bytes: usize, huge_pages: HugePages) -> io::Result<Team> {
        let start = Arc::new(Barrier::new(cores.len()));
        let mut team = Team { members: Vec::new(), huge_page_bytes: Vec::new() };
        for &core in cores {
            let (orders, work) = mpsc::channel();
            let (results, found) = mpsc::channel();
            let (ready, readiness) = mpsc::channel();
            let start = Arc::clone(&start);
            thread::spawn(move || {
                // First touch allocates memory near the core, so pin first.
                let arena = affinity::pin_to(core).and_then(|()| Arena::new(bytes, huge_pages));
                match arena {
                    Ok(arena) => {
                        let _ = ready.send(Ok(arena.huge_page_bytes()));
                        run_orders(&work, &results, arena, &start);
                    }
                    Err(error) => drop(ready.send(Err(error))),
                }
            });
            let huge_page_bytes = readiness.recv().map_err(io::Error::other)??;
            team.huge_page_bytes.push(huge_page_bytes);
            team.members.push((orders, found));
        }
        Ok(team)
    }

    /// Lets all threads perform `order` and waits for them.
    ///
    /// # Panics
    /// If a thread panicked.
    pub fn all_do(&self, order: Order) -> Vec<Found> {
        for (orders, _) in &self.members {
            orders.send(order).expect("a thread lives as long as its crew");
        }
        self.members.iter().map(|(_, found)| found.recv().expect("a thread answers each order")).collect()
    }
}

fn run_orders(work: &Receiver<Order>, results: &Sender<Found>, mut arena: Arena, start: &Barrier) {
    while let Ok(order) = work.recv() {
        let words = part(arena.words(), &order);
        let found = match order.kernel {
            Some(kernel) => {
                let mut walk = Walk::new(kernel, order.stride, words, order.repetition);
                walk.warm();
                start.wait();
                timed(|| walk.timed(order.about))
            }
            None => {
                let mut chase = Chase::new(words, order.seed);
                start.wait();
                timed(|| chase.timed(order.about))
            }
        };
        if results.send(found).is_err() {
            return;
        }
    }
}

/// The part of the memory that this repetition uses.
fn part<'a>(words: &'a mut [u64], order: &Order) -> &'a mut [u64] {
    let length = order
        .kernel
        .map_or(order.working_set_bytes / WORD_BYTES, |kernel| words_needed(kernel, order.working_set_bytes));
    let parts = words.len() / length;
    let start = order.repetition % parts * length;
    &mut words[start..start + length]
}

fn timed(measure: impl FnOnce() -> f64) -> Found {
    let (wall, cpu) = (Instant::now(), clock::thread_cpu());
    let value = measure();
    let used = (clock::thread_cpu() - cpu).seconds();
    Found { value, core_fraction: used / wall.elapsed().as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_them_answer() {
        let core = affinity::allowed_cores().unwrap()[0];
        let team = Team::new(&[core, core], 1 << 20, HugePages::Off).unwrap();
        let order = Order {
            kernel: Some(Kernel::LoadSum),
            stride: 1,
            working_set_bytes: 4096,
            about: Duration::from_millis(1),
            repetition: 3,
            seed: 1,
        };
        for order in [order, Order { kernel: None, ..order }] {
            let found = team.all_do(order);
            assert_eq!(found.len(), 2);
            assert!(found.iter().all(|found| found.value > 0.0), "{found:?}");
        }
    }

    #[test]
    fn a_core_that_does_not_exist_is_an_error() {
        assert!(Team::new(&[4096], 4096, HugePages::Off).unwrap_err().to_string().contains("4096"));
    }
}
