//! The job queue that all kinds of helpers share: jobs, the tokens that wait for them, and outcomes.
//!
//! Equal jobs are coalesced: a second request waits for the one that is queued or running. The most urgent go first,
//! and among those the oldest.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::{HelperCounts, Refused};
use crate::job::{Done, Job, Urgency};
use crate::resource::Resource;

#[derive(Debug)]
pub struct Queue {
    /// One queue per urgency, the most urgent first.
    jobs: [VecDeque<Queued>; Urgency::COUNT],
    /// The tokens that wait for each queued or running job.
    waiting: HashMap<Key, Vec<u64>>,
    outcomes: Vec<(u64, Done)>,
    counts: HelperCounts,
    length_max: usize,
}

/// A job waiting for a helper or performed by one.
#[derive(Debug)]
pub struct Queued {
    pub job: Job,
    /// How many helpers have ended during this job.
    pub lost_helpers: u32,
    key: Key,
    urgency: Urgency,
    submitted: Instant,
    taken: Option<Instant>,
}

/// Jobs with equal keys are performed once.
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

    /// Queues `job` for `token`. If an equal job is in progress, joins it and raises its urgency to this one.
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

    /// Moves the job with this key to the queue of a higher urgency, if it waits in a lower one.
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
        // For a repeated job, the time with the lost helper counts as waiting.
        let since = queued.taken.replace(now).unwrap_or(queued.submitted);
        self.counts.queue_wait += now - since;
        Some(queued)
    }

    /// Returns a job to the front of its queue because its helper ended.
    pub fn put_back(&mut self, queued: Queued) {
        self.counts.repeated += 1;
        self.jobs[queued.urgency as usize].push_front(queued);
    }

    /// Completes a job: adds its outcome for every token that waits for it.
    pub fn finish(&mut self, queued: &Queued, done: &Done) {
        for token in self.waiting.remove(&queued.key).unwrap_or_default() {
            self.outcomes.push((token, done.clone()));
        }
        self.counts.jobs += 1;
        self.counts.busy += queued.taken.map_or_else(Default::default, |taken| taken.elapsed());
    }

    /// Tries up to `count` jobs without helpers, least recently tried first. A job is done when `attempt`, given its
    /// waiting time, returns an outcome.
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

    /// Appends all outcomes, with the tokens of their jobs, to `into`.
    pub fn collect(&mut self, into: &mut Vec<(u64, Done)>) {
        into.append(&mut self.outcomes);
    }

    pub fn is_empty(&self) -> bool {
        self.jobs.iter().all(VecDeque::is_empty)
    }

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

    /// The paths of all jobs in the order in which helpers take them.
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
            // Requested with a higher urgency later, and then with a lower one, which changes nothing.
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
