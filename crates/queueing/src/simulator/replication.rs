//! Independent replications on all cores: the same system with different seeds, pooled into one estimate.
//!
//! Each replication drops its own warm-up and runs to √R times the half-width asked for, so that the average of R
//! replications meets it. The half-width of the average comes from those within the replications, not from the spread
//! among them: with one replication per core there are too few for a spread. The callback for progress and
//! interruption runs on the caller's thread only.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;

use super::{Plan, Progress};

/// The most replications of a plan.
pub const REPLICATIONS_MAX: u32 = 10_000;

/// Estimates of the replications differ a little; without this margin the pooled half-width would just miss its
/// target.
const SLACK: f64 = 0.99;

type Run<'r, R> = dyn Fn(&Plan, &mut dyn FnMut(&Progress) -> bool) -> R + Sync + 'r;

enum Message<R> {
    Progress(u32, Progress),
    Done(u32, R),
}

/// Runs `plan.replications` times on one thread per core and returns the results in order. After an interruption,
/// replications that have begun return what they have, and no more begin.
pub(super) fn replicate<R: Send>(
    plan: &Plan,
    go_on: &mut dyn FnMut(&Progress) -> bool,
    run: &Run<'_, R>,
) -> Vec<R> {
    let count = plan.replications;
    let threads = thread::available_parallelism().map_or(1, |cores| cores.get()).min(count as usize);
    let (next, cancelled) = (AtomicU32::new(0), AtomicBool::new(false));
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next, cancelled) = (sender.clone(), &next, &cancelled);
            scope.spawn(move || {
                while !cancelled.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    // The receiver outlives the senders: a failed send cannot happen before the scope ends.
                    let mut tell = |now: &Progress| {
                        let _ = sender.send(Message::Progress(index, *now));
                        !cancelled.load(Ordering::Relaxed)
                    };
                    let result = run(&plan.replication(index), &mut tell);
                    let _ = sender.send(Message::Done(index, result));
                }
            });
        }
        drop(sender);
        let mut seen: Vec<Option<Progress>> = vec![None; count as usize];
        let mut results: Vec<(u32, R)> = Vec::new();
        for message in receiver {
            match message {
                Message::Progress(index, now) => {
                    seen[index as usize] = Some(now);
                    if !cancelled.load(Ordering::Relaxed) && !go_on(&together(&seen, plan.jobs_max)) {
                        cancelled.store(true, Ordering::Relaxed);
                    }
                }
                Message::Done(index, result) => results.push((index, result)),
            }
        }
        results.sort_by_key(|(index, _)| *index);
        results.into_iter().map(|(_, result)| result).collect()
    })
}

/// Progress of all replications that have begun, taken together.
fn together(seen: &[Option<Progress>], jobs_max: u64) -> Progress {
    let begun: Vec<&Progress> = seen.iter().flatten().collect();
    let count = begun.len() as f64;
    let all =
        |of: fn(&Progress) -> Option<f64>| begun.iter().map(|now| of(now)).collect::<Option<Vec<f64>>>();
    Progress {
        jobs: begun.iter().map(|now| now.jobs).sum(),
        jobs_max,
        estimate_seconds: all(|now| now.estimate_seconds).map(|values| values.iter().sum::<f64>() / count),
        relative_half_width: all(|now| now.relative_half_width)
            .map(|widths| widths.iter().map(|width| width * width).sum::<f64>().sqrt() / count),
    }
}

impl Plan {
    /// The plan of one replication of several.
    fn replication(&self, index: u32) -> Self {
        let count = f64::from(self.replications);
        let jobs_max = self.jobs_max.div_ceil(u64::from(self.replications));
        Self {
            relative_half_width: self.relative_half_width * count.sqrt() * SLACK,
            jobs_min: self.jobs_min.min(jobs_max),
            jobs_max,
            // The first is what a single run would be; the others are a golden-ratio step apart, which the
            // generator's own seeding scrambles.
            seed: self.seed.wrapping_add(u64::from(index).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            replications: 1,
            target: self.target,
        }
    }
}
