//! Jobs, the tokens that wait for them, and outcomes: the part that all kinds of helpers share.
//!
//! Equal jobs are done once: a second request waits for the one that is queued or running. The most urgent go
//! first, and among equals the oldest. The queue does nothing itself and knows no helper.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::{HelperCounts, Refused};
use crate::job::{Done, Job, Urgency};
use crate::resource::Resource;

/// Queued jobs and their outcomes.
#[derive(Debug)]
pub struct Queue {
    /// A queue per urgency, the most urgent first.
    jobs: [VecDeque<Queued>; Urgency::COUNT],
    /// The tokens waiting for each queued or running job.
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
    urgency: Urgency,
    submitted: Instant,
    taken: Option<Instant>,
}

/// Jobs with the same key are done once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Resource(Resource<'static>),
    Range { document: u64, offset: u64, length: usize, into_memory: bool },
}

impl Key {
    fn of(job: &Job) -> Key {
        match job {
            Job::Open(opening) => Key::Resource(opening.resource.clone()),
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
    /// A queue in which at most `length_max` jobs of each urgency wait.
    pub fn new(length_max: usize) -> Queue {
        Queue {
            jobs: Default::default(),
            waiting: HashMap::new(),
            outcomes: Vec::new(),
            counts: HelperCounts::default(),
            length_max,
        }
    }

    /// Queues `job` for `token`, unless the same job is under way: that is then as urgent as this one.
    pub fn submit(&mut self, token: u64, job: Job, urgency: Urgency) -> Result<(), Refused> {
        let key = Key::of(&job);
        if let Some(tokens) = self.waiting.get_mut(&key) {
            tokens.push(token);
            self.counts.coalesced += 1;
            self.hasten(&key, urgency);
            return Ok(());
        }
        let jobs = &mut self.jobs[urgency as usize];
        if jobs.len() >= self.length_max {
            self.counts.refused += 1;
            return Err(Refused);
        }
        self.waiting.insert(key.clone(), vec![token]);
        let submitted = Instant::now();
        jobs.push_back(Queued { job, lost_helpers: 0, key, urgency, submitted, taken: None });
        Ok(())
    }

    /// If the job with this key waits among less urgent ones, it does so no more.
    fn hasten(&mut self, key: &Key, urgency: Urgency) {
        for jobs in &mut self.jobs[urgency as usize + 1..] {
            if let Some(place) = jobs.iter().position(|queued| queued.key == *key) {
                let hastened = jobs.remove(place).map(|queued| Queued { urgency, ..queued });
                self.jobs[urgency as usize].extend(hastened);
                return;
            }
        }
    }

    /// The oldest of the most urgent jobs, for a helper that starts it now.
    pub fn take(&mut self) -> Option<Queued> {
        let mut queued = self.jobs.iter_mut().find_map(VecDeque::pop_front)?;
        let now = Instant::now();
        // Of one that was put back the time with the helper that is gone was waiting, too.
        let since = queued.taken.replace(now).unwrap_or(queued.submitted);
        self.counts.queue_wait += now - since;
        Some(queued)
    }

    /// The helper is gone and the job is not done: it is the next one again.
    pub fn put_back(&mut self, queued: Queued) {
        self.counts.repeated += 1;
        self.jobs[queued.urgency as usize].push_front(queued);
    }

    /// The job is done: adds its outcome for every token that waits for it.
    pub fn finish(&mut self, queued: &Queued, done: &Done) {
        for token in self.waiting.remove(&queued.key).unwrap_or_default() {
            self.outcomes.push((token, done.clone()));
        }
        self.counts.jobs += 1;
        self.counts.busy += queued.taken.map_or_else(Default::default, |taken| taken.elapsed());
    }

    /// Tries up to `count` jobs, the longest untried first, without helpers: a job is done when `attempt`, given its
    /// waiting time, returns a result.
    pub fn try_each(&mut self, count: usize, mut attempt: impl FnMut(&Job, Duration) -> Option<Done>) {
        let mut left = count;
        for urgency in 0..Urgency::COUNT {
            let tries = left.min(self.jobs[urgency].len());
            left -= tries;
            for _ in 0..tries {
                let Some(queued) = self.jobs[urgency].pop_front() else { break };
                let waited = queued.submitted.elapsed();
                match attempt(&queued.job, waited) {
                    Some(done) => {
                        self.counts.queue_wait += waited;
                        self.finish(&queued, &done);
                    }
                    None => self.jobs[urgency].push_back(queued),
                }
            }
        }
    }

    pub fn count_lost_helper(&mut self) {
        self.counts.helpers_lost += 1;
    }

    /// Moves all outcomes, with the tokens of their jobs, to the end of `into`.
    pub fn collect(&mut self, into: &mut Vec<(u64, Done)>) {
        into.append(&mut self.outcomes);
    }

    /// Returns true if no job waits for a helper.
    pub fn is_empty(&self) -> bool {
        self.jobs.iter().all(VecDeque::is_empty)
    }

    /// Returns true if outcomes wait to be collected.
    pub fn has_outcomes(&self) -> bool {
        !self.outcomes.is_empty()
    }

    pub fn counts(&self) -> HelperCounts {
        let queue_length = self.jobs.iter().map(|jobs| jobs.len() as u64).sum();
        HelperCounts { queue_length, ..self.counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::helpers::tests::open;

    /// The paths of all jobs, in the order in which they are taken.
    fn order(queue: &mut Queue) -> Vec<String> {
        let path = |queued: Queued| match &queued.job {
            Job::Open(opening) => String::from_utf8_lossy(opening.resource.path.as_bytes()).into_owned(),
            Job::Load(_) => unreachable!("only openings are submitted"),
        };
        std::iter::from_fn(|| queue.take()).map(path).collect()
    }

    #[test]
    fn what_is_due_goes_before_what_is_asked_and_what_is_read_ahead() {
        let mut queue = Queue::new(2);
        for (path, urgency) in [
            ("/ahead", Urgency::Ahead),
            ("/ahead-but-due", Urgency::Ahead),
            ("/asked", Urgency::Asked),
            ("/due", Urgency::Due),
            // Wanted sooner than it was, and then no later than it is.
            ("/ahead-but-due", Urgency::Due),
            ("/due", Urgency::Ahead),
        ] {
            queue.submit(1, open(path), urgency).unwrap();
        }
        assert_eq!(queue.submit(1, open("/third-due"), Urgency::Due), Err(Refused));
        assert_eq!(queue.submit(1, open("/second-ahead"), Urgency::Ahead), Ok(()));
        assert_eq!(queue.counts().queue_length, 5);
        assert_eq!(order(&mut queue), ["due", "ahead-but-due", "asked", "ahead", "second-ahead"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn what_was_put_back_is_the_next_of_its_urgency() {
        let mut queue = Queue::new(8);
        for (path, urgency) in [("/a", Urgency::Ahead), ("/b", Urgency::Ahead)] {
            queue.submit(1, open(path), urgency).unwrap();
        }
        let lost = queue.take().unwrap();
        queue.put_back(lost);
        queue.submit(1, open("/due"), Urgency::Due).unwrap();
        assert_eq!(order(&mut queue), ["due", "a", "b"]);
    }

    #[test]
    fn the_urgent_are_tried_first() {
        let mut queue = Queue::new(8);
        queue.submit(1, open("/ahead"), Urgency::Ahead).unwrap();
        queue.submit(2, open("/due"), Urgency::Due).unwrap();
        let mut tried = 0;
        queue.try_each(1, |_, _| {
            tried += 1;
            Some(Done::Opened(Err(crate::origin::OpenError::NotFound)))
        });
        let mut outcomes = Vec::new();
        queue.collect(&mut outcomes);
        assert_eq!((tried, outcomes.len(), outcomes[0].0), (1, 1, 2));
    }
}
