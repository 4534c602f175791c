//! What is to be done, who waits for it, and what became of it: the part that all kinds of helpers share.
//!
//! Jobs for the same thing are done once: whoever asks while one is queued or running waits for that one. The
//! queue does nothing itself and knows no helper.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::{HelperCounts, Refused};
use crate::job::{Done, Job};
use crate::place::Place;

/// Jobs on their way from those who ask to the helpers, and outcomes on their way back.
#[derive(Debug)]
pub struct Queue {
    jobs: VecDeque<Queued>,
    /// Who waits for each job queued or running.
    waiting: HashMap<Key, Vec<u64>>,
    outcomes: Vec<(u64, Done)>,
    counts: HelperCounts,
    length_max: usize,
}

/// A job that waits for a helper, or that one has taken.
#[derive(Debug)]
pub struct Queued {
    pub job: Job,
    /// Helpers that ended while they were at it.
    pub lost_helpers: u32,
    key: Key,
    submitted: Instant,
    taken: Option<Instant>,
}

/// What makes two jobs the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Place(Place<'static>),
    Range { document: u64, offset: u64, length: usize, into_memory: bool },
}

impl Key {
    fn of(job: &Job) -> Key {
        match job {
            Job::Open(opening) => Key::Place(opening.place.clone()),
            Job::Load(range) => Key::Range {
                document: range.document.id,
                offset: range.offset,
                length: range.length,
                into_memory: range.into_memory,
            },
        }
    }
}

impl Queue {
    /// A queue in which at most `length_max` jobs wait.
    pub fn new(length_max: usize) -> Queue {
        Queue {
            jobs: VecDeque::new(),
            waiting: HashMap::new(),
            outcomes: Vec::new(),
            counts: HelperCounts::default(),
            length_max,
        }
    }

    /// Queues `job` for `token`, unless the same job is under way.
    pub fn submit(&mut self, token: u64, job: Job) -> Result<(), Refused> {
        let key = Key::of(&job);
        if let Some(tokens) = self.waiting.get_mut(&key) {
            tokens.push(token);
            self.counts.coalesced += 1;
            return Ok(());
        }
        if self.jobs.len() >= self.length_max {
            self.counts.refused += 1;
            return Err(Refused);
        }
        self.waiting.insert(key.clone(), vec![token]);
        let submitted = Instant::now();
        self.jobs.push_back(Queued { job, lost_helpers: 0, key, submitted, taken: None });
        Ok(())
    }

    /// The job that has waited longest, for a helper that begins it now.
    pub fn take(&mut self) -> Option<Queued> {
        let mut queued = self.jobs.pop_front()?;
        let now = Instant::now();
        // Of one that was put back the time with the helper that is gone was waiting, too.
        let since = queued.taken.replace(now).unwrap_or(queued.submitted);
        self.counts.queue_wait += now - since;
        Some(queued)
    }

    /// The helper is gone and the job is not done: it is the next one again.
    pub fn put_back(&mut self, queued: Queued) {
        self.counts.repeated += 1;
        self.jobs.push_front(queued);
    }

    /// The job is done: everybody who asked for it shall know.
    pub fn finish(&mut self, queued: &Queued, done: &Done) {
        for token in self.waiting.remove(&queued.key).unwrap_or_default() {
            self.outcomes.push((token, done.clone()));
        }
        self.counts.jobs += 1;
        self.counts.busy += queued.taken.map_or_else(Default::default, |taken| taken.elapsed());
    }

    /// Tries up to `count` of the jobs, those first that were not tried for longest, where nobody has to take them:
    /// each is done when `attempt`, told how long it has waited, gives its outcome.
    pub fn try_each(&mut self, count: usize, mut attempt: impl FnMut(&Job, Duration) -> Option<Done>) {
        for _ in 0..count.min(self.jobs.len()) {
            let Some(queued) = self.jobs.pop_front() else { return };
            let waited = queued.submitted.elapsed();
            match attempt(&queued.job, waited) {
                Some(done) => {
                    self.counts.queue_wait += waited;
                    self.finish(&queued, &done);
                }
                None => self.jobs.push_back(queued),
            }
        }
    }

    /// A helper ended unasked.
    pub fn count_lost_helper(&mut self) {
        self.counts.helpers_lost += 1;
    }

    /// Moves all outcomes, with the tokens of those who asked, to the end of `into`.
    pub fn collect(&mut self, into: &mut Vec<(u64, Done)>) {
        into.append(&mut self.outcomes);
    }

    /// Whether no job waits for a helper.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether outcomes wait to be collected.
    pub fn has_outcomes(&self) -> bool {
        !self.outcomes.is_empty()
    }

    /// The counters.
    pub fn counts(&self) -> HelperCounts {
        HelperCounts { queue_length: self.jobs.len() as u64, ..self.counts }
    }
}
