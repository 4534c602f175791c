//! Independent replications with different seeds, advanced together on the machine's cores, or in other processes.
//!
//! All replications have finished the same number of jobs whenever their figures are read. At most [`GROUPS_MAX`]
//! recorders are kept: with more replications, several share one, and memory stays bounded. The callback for progress
//! and interruption runs on the caller's thread only. A group depends on the plan and on the numbers of jobs at the looks
//! so far, so any process can advance it, and gives the same numbers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use super::Plan;
use super::encoding::{Encoded, encoded};
use super::recorder::Recorder;
use super::timeline::{Timeline, Totals};

/// The most replications of a plan.
pub const REPLICATIONS_MAX: u32 = 10_000;
/// The most recorders. Each serves the same number of replications or one more.
const GROUPS_MAX: usize = 32;
/// The most sections of a recorder: many for a single run, fewer each for many runs.
const SECTIONS_MAX: usize = 64;
const SECTIONS_MAX_OF_MANY: usize = 16;
const MANY: usize = 8;
/// Jobs between two calls of the progress callback.
const PROGRESS_JOBS: u64 = 1 << 17;

/// The state of a replication.
pub(super) trait Observed {
    fn finished(&self) -> u64;
    /// The totals of every station so far.
    fn totals(&self) -> Vec<Totals>;
}

/// A simulation that can be continued.
pub(super) trait Replica: Observed + Send {
    /// Runs until `jobs` jobs have finished in total, or for a number of events that takes a moment. Returns false when nothing
    /// is left to simulate.
    fn finish_jobs(&mut self, jobs: u64, records: &mut Records) -> bool;
}

#[derive(Default)]
pub(super) struct Records {
    pub(super) response: Vec<Recorder>,
    pub(super) stations: Timeline,
}

encoded!(Records { response, stations });

/// The replications that share a recorder.
pub(super) struct Group<R> {
    runs: Vec<R>,
    records: Records,
    ended: bool,
}

/// All replications of a plan.
pub(super) struct Replications<R> {
    groups: Vec<Group<R>>,
}

/// All replications of a plan, wherever they are.
pub(super) trait Advance {
    /// Advances every replication to `jobs` jobs. `report` receives the number of jobs so far, and stops all
    /// replications by returning false.
    fn advance(&mut self, jobs: u64, report: &mut dyn FnMut(u64) -> bool) -> Advanced;
}

/// What one call of [`Replica::finish_jobs`] did.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// Jobs finished.
    jobs: u64,
    /// True if events ran out before as many jobs as asked for had finished: where most jobs are lost, or make many visits.
    is_short: bool,
}

/// Tells whether the replications reached their target, ran out of jobs or were interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Advanced {
    Done,
    Ended,
    Interrupted,
}

/// The number of groups of so many replications.
pub(super) fn groups_of(replications: u32) -> usize {
    (replications as usize).min(GROUPS_MAX)
}

impl<R: Replica> Advance for Replications<R> {
    fn advance(&mut self, jobs: u64, report: &mut dyn FnMut(u64) -> bool) -> Advanced {
        let mut watch = Watch { reported: self.runs().map(R::finished).sum(), report };
        let threads = thread::available_parallelism().map_or(1, |cores| cores.get()).min(self.groups.len());
        let finished = if threads == 1 {
            self.groups.iter_mut().all(|group| group.advance(jobs, &mut |step| watch.should_continue(step)))
        } else {
            self.advance_in_parallel(jobs, threads, &mut watch)
        };
        if !finished { Advanced::Interrupted } else { self.advanced() }
    }
}

impl<R: Replica> Replications<R> {
    /// Starts the plan's replications, each with `recorders` recorders of response times.
    pub(super) fn new(plan: &Plan, recorders: usize, start: impl Fn(u64) -> R) -> Self {
        let group = |index| Group::new(plan, index, recorders, &start);
        Self { groups: (0..groups_of(plan.replications)).map(group).collect() }
    }

    fn advance_in_parallel(&mut self, jobs: u64, threads: usize, watch: &mut Watch<'_>) -> bool {
        let (next, cancelled) = (AtomicUsize::new(0), AtomicBool::new(false));
        let groups: Vec<Mutex<&mut Group<R>>> = self.groups.iter_mut().map(Mutex::new).collect();
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..threads {
                let (sender, next, cancelled, groups) = (sender.clone(), &next, &cancelled, &groups);
                scope.spawn(move || {
                    while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let mut group = group.lock().unwrap_or_else(PoisonError::into_inner);
                        // The receiver outlives the senders: a failed send cannot happen before the scope ends.
                        let finished = group.advance(jobs, &mut |step| {
                            let _ = sender.send(step);
                            !cancelled.load(Ordering::Relaxed)
                        });
                        if !finished {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            for step in receiver {
                if !cancelled.load(Ordering::Relaxed) && !watch.should_continue(step) {
                    cancelled.store(true, Ordering::Relaxed);
                }
            }
        });
        !cancelled.into_inner()
    }
}

impl<R: Observed> Replications<R> {
    /// The groups as they are after an advance.
    pub(super) fn of(groups: Vec<Group<R>>) -> Self {
        Self { groups }
    }

    /// Whether all replications have reached their number of jobs.
    pub(super) fn advanced(&self) -> Advanced {
        if self.groups.iter().any(|group| group.ended) { Advanced::Ended } else { Advanced::Done }
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = &R> {
        self.groups.iter().flat_map(|group| &group.runs)
    }

    pub(super) fn recorders(&self, index: usize) -> Vec<&Recorder> {
        self.groups.iter().map(|group| &group.records.response[index]).collect()
    }

    pub(super) fn timelines(&self) -> Vec<&Timeline> {
        self.groups.iter().map(|group| &group.records.stations).collect()
    }

    /// The totals of a station over all replications.
    pub(super) fn total(&self, station: usize) -> Totals {
        let mut total = Totals::default();
        self.runs().for_each(|run| total.add(&run.totals()[station]));
        total
    }
}

impl<S: Encoded> Group<S> {
    /// Reads what [`Group::observed`] wrote.
    pub(super) fn read(mut bytes: &[u8]) -> Option<Self> {
        let (runs, records) = Encoded::read(&mut bytes)?;
        let ended = bool::read(&mut bytes)?;
        bytes.is_empty().then_some(Self { runs, records, ended })
    }

    /// Returns true if it has so many recorders and totals, and all its replications fit.
    pub(super) fn is_of(&self, recorders: usize, totals: usize, fits: impl Fn(&S) -> bool) -> bool {
        let Records { response, stations } = &self.records;
        response.len() == recorders && stations.is_of(totals) && self.runs.iter().all(fits)
    }
}

impl<R: Replica> Group<R> {
    /// Starts the replications of one group of a plan.
    pub(super) fn new(plan: &Plan, index: usize, recorders: usize, start: impl Fn(u64) -> R) -> Self {
        let replications = plan.replications as usize;
        let groups = groups_of(plan.replications);
        let sections_max = if groups < MANY { SECTIONS_MAX } else { SECTIONS_MAX_OF_MANY };
        // The first seed is that of a single run. The step is the increment of SplitMix64, which fills the generator's state
        // from the seed. So the states at which two neighbours start share three of four words, each in another place: they are
        // still far apart in the generator's sequence.
        let seeds = (index..replications).step_by(groups).map(|replication| {
            plan.seed.wrapping_add((replication as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
        });
        let runs: Vec<R> = seeds.map(start).collect();
        let recorder = Recorder::new(sections_max, runs.len() as u64);
        let records = Records { response: vec![recorder; recorders], stations: Timeline::default() };
        Self { runs, records, ended: false }
    }

    /// The group with the state of its replications.
    pub(super) fn observed<S: Encoded>(&self, state: impl Fn(&R) -> S) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.runs.iter().map(state).collect::<Vec<_>>().write(&mut bytes);
        self.records.write(&mut bytes);
        self.ended.write(&mut bytes);
        bytes
    }

    /// Advances to `jobs` jobs, reporting each step to `should_continue`; returns false if `should_continue` interrupts.
    pub(super) fn advance(&mut self, jobs: u64, should_continue: &mut dyn FnMut(Step) -> bool) -> bool {
        for run in &mut self.runs {
            while run.finished() < jobs {
                let before = run.finished();
                let until = jobs.min(before + PROGRESS_JOBS);
                if !run.finish_jobs(until, &mut self.records) {
                    self.ended = true;
                    break;
                }
                let finished = run.finished();
                if !should_continue(Step { jobs: finished - before, is_short: finished < until }) {
                    return false;
                }
            }
        }
        true
    }
}

struct Watch<'t> {
    reported: u64,
    report: &'t mut dyn FnMut(u64) -> bool,
}

impl Watch<'_> {
    fn should_continue(&mut self, step: Step) -> bool {
        let before = self.reported / PROGRESS_JOBS;
        self.reported += step.jobs;
        let is_due = step.is_short || self.reported / PROGRESS_JOBS != before;
        !is_due || (self.report)(self.reported)
    }
}
