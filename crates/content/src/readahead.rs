//! Waits for a disk without helpers: the kernel reads ahead, and a timer checks whether the data has arrived.
//!
//! `POSIX_FADV_WILLNEED` starts reading and returns at once. The kernel does not report when the data is there, so
//! every waiting range is tested every [`RETRY_AFTER`]. Pages may be dropped before the test, and a failing disk
//! reports nothing, so the advice is repeated at intervals, and there is a timeout.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::helpers::queue::Queue;
use crate::helpers::{HelperCounts, Refused};
use crate::job::{Done, FileRange, Job, LoadError, Urgency};
use crate::residency::Tester;

/// The interval between tests. A fast disk needs less, but each test costs a system call per range.
const RETRY_AFTER: Duration = Duration::from_millis(2);

/// The most ranges tested in one loop iteration, so that testing does not delay the loop's clients.
const TRIES_PER_ITERATION: usize = 256;

/// After this time the advice is repeated.
const ADVISE_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// After this time the disk counts as failed.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Ranges being read from disk, with the tokens of what waits for them.
pub struct Readahead {
    queue: Queue,
    timer: OwnedFd,
    is_ticking: bool,
    advised: Instant,
}

impl Readahead {
    /// An empty set that takes at most `queue_max` ranges.
    pub fn new(queue_max: usize) -> io::Result<Readahead> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Readahead { queue: Queue::new(queue_max), timer, is_ticking: false, advised: Instant::now() })
    }

    /// Asks the kernel to read `range`; the outcome is collected with `token`.
    pub fn submit(&mut self, token: u64, range: &FileRange) -> Result<(), Refused> {
        self.queue.submit(token, Job::Load(range.clone()), Urgency::Due)?;
        advise(range);
        self.tick();
        Ok(())
    }

    /// Becomes readable when it is time to test.
    pub fn completion_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }

    /// Tests the ranges and appends the outcomes of those that have arrived to `into`.
    pub fn collect(&mut self, tester: &mut Tester, into: &mut Vec<(u64, Done)>) {
        let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        let is_to_advise = self.advised.elapsed() >= ADVISE_AGAIN_AFTER;
        if is_to_advise {
            self.advised = Instant::now();
        }
        // When the advice is repeated, all ranges are tested; otherwise as many as one iteration allows.
        let tries = if is_to_advise { usize::MAX } else { TRIES_PER_ITERATION };
        self.queue.try_each(tries, |job, waited| {
            let Job::Load(range) = job else { unreachable!("only ranges are submitted") };
            let arrived = tester.load_if_arrived(range).ok();
            if arrived.is_none() && waited > WAIT_MAX {
                return Some(Done::Loaded(Err(LoadError::Failed)));
            }
            if arrived.is_none() && is_to_advise {
                advise(range);
            }
            arrived
        });
        self.queue.collect(into);
        self.tick();
    }

    pub fn counts(&self) -> HelperCounts {
        self.queue.counts()
    }

    /// Runs the timer while a range waits.
    fn tick(&mut self) {
        let is_needed = !self.queue.is_empty();
        if is_needed != self.is_ticking {
            let interval = if is_needed { RETRY_AFTER } else { Duration::ZERO };
            let interval = Timespec { tv_sec: 0, tv_nsec: i64::from(interval.subsec_nanos()) };
            let times = Itimerspec { it_interval: interval, it_value: interval };
            let set = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &times);
            self.is_ticking = set.is_ok() && is_needed;
        }
    }
}

/// Asks the kernel to read ahead. If that fails, the waiting connection runs into its timeout.
fn advise(range: &FileRange) {
    let Some(file) = range.document.file() else { return };
    let _ = fadvise(file, range.offset, NonZeroU64::new(range.length as u64), Advice::WillNeed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::residency::Nowait;
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::fs::fstat;
    use sojourn_testing::drop_pages;
    use std::io::Write;
    use std::sync::Arc;

    const LENGTH: usize = 1 << 20;

    fn range() -> FileRange {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; LENGTH]).unwrap();
        drop_pages(&file);
        let stat = fstat(&file).unwrap();
        let document = Arc::new(Document::new(file.into(), b"file", &stat));
        FileRange { document, offset: 0, length: LENGTH, into_memory: false }
    }

    fn is_ticking(readahead: &Readahead) -> bool {
        let timeout = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        poll(&mut [PollFd::new(&readahead.timer, PollFlags::IN)], Some(&timeout)) == Ok(1)
    }

    #[test]
    fn what_is_read_ahead_arrives() {
        let mut readahead = Readahead::new(1).unwrap();
        let mut tester = Tester::new(&Nowait, Duration::ZERO);
        let (range, other) = (range(), range());
        assert!(!is_ticking(&readahead));
        readahead.submit(1, &range).unwrap();
        readahead.submit(2, &range).unwrap();
        assert_eq!(readahead.submit(3, &other), Err(Refused));
        let (mut outcomes, begun) = (Vec::new(), Instant::now());
        while outcomes.is_empty() {
            assert!(is_ticking(&readahead) && begun.elapsed() < Duration::from_secs(10));
            readahead.collect(&mut tester, &mut outcomes);
        }
        assert!(matches!(outcomes[..], [(1, Done::Loaded(Ok(None))), (2, Done::Loaded(Ok(None)))]));
        assert!(!is_ticking(&readahead), "nobody waits");
        let counts = readahead.counts();
        assert_eq!((counts.jobs, counts.coalesced, counts.refused, counts.queue_length), (1, 1, 1, 0));
        assert!(counts.queue_wait > Duration::ZERO);
    }
}
