//! A process's children: starts them, tells them to stop, and reaps them.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, waitpid};

use super::child::live;
use crate::counters::scoreboard::{Permit, Scoreboard, Slot};
use crate::counters::{Counter, Served};
use crate::runtime::sockets::registry;
use crate::signals::PASSED_ON;
use crate::signals::block_signals;
use crate::stop::Stop;

/// How much longer than the drain timeout children may take before they are killed.
pub const GRACE: Duration = Duration::from_secs(2);

pub struct Children {
    scoreboard: Scoreboard,
    /// Readable when a child has ended.
    ended: OwnedFd,
    /// A descriptor reserved for the next child.
    spare: Option<OwnedFd>,
    /// By process ID in ascending order, so that simulated runs with other IDs behave the same.
    alive: BTreeMap<i32, Child>,
    started: u64,
    replaced: u64,
    failed: u64,
}

struct Child {
    end: OwnedFd,
    slot: Slot,
    born: Instant,
}

pub struct Ended {
    /// Its process ID while it lived.
    pub process: Pid,
    /// The permit of the connection it was serving, if it served one at a time and had admitted it itself.
    pub permit: Permit,
    pub age: Duration,
}

impl Children {
    /// No children yet; they will count on `scoreboard`.
    pub fn new(scoreboard: &Scoreboard) -> io::Result<Children> {
        let ended = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (scoreboard, alive) = (scoreboard.clone(), BTreeMap::new());
        Ok(Children { scoreboard, ended, spare: None, alive, started: 0, replaced: 0, failed: 0 })
    }

    /// Forks a child that counts in `slot`, runs `life`, and exits.
    ///
    /// If `life` fails, the child prints why, and its exit status tells the parent.
    ///
    /// `life` must close inherited descriptors that it must not keep open, such as connections of others.
    pub fn start(
        &mut self,
        slot: Slot,
        life: impl FnOnce(Slot, &'static Stop) -> io::Result<()>,
    ) -> io::Result<Pid> {
        if self.spare.is_none() {
            match open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
                Ok(spare) => self.spare = Some(spare),
                Err(error) => {
                    self.scoreboard.retire(slot);
                    return Err(error.into());
                }
            }
        }
        let lifeline = match Lifeline::where_needed() {
            Ok(lifeline) => lifeline,
            Err(error) => {
                self.scoreboard.retire(slot);
                return Err(error);
            }
        };
        // Otherwise a signal could reach the parent's handler in the child.
        let blocked = block_signals();
        let parent = getpid();
        // SAFETY: the child runs `life` on its own copy of memory; about locks, see the top of `mod.rs`.
        let process = match unsafe { libc::fork() } {
            -1 => {
                let error = io::Error::last_os_error();
                self.scoreboard.retire(slot);
                return Err(error);
            }
            0 => {
                // When descriptors are scarce, the child needs one too, for its stop.
                drop(self.spare.take());
                registry::close_admin_of_parent();
                // It stays open until the process ends.
                std::mem::forget(lifeline);
                live(parent, blocked, |stop| life(slot, stop))
            }
            process => Pid::from_raw(process).expect("a child has a number"),
        };
        drop(blocked);
        self.started += 1;
        self.scoreboard.assign(&slot, process);
        // A child whose end would go unnoticed must not be kept.
        drop(self.spare.take());
        let end = match self.watch(process, lifeline) {
            Ok(end) => end,
            Err(error) => {
                let _ = kill_process(process, Signal::KILL);
                let _ = waitpid(Some(process), WaitOptions::empty());
                self.scoreboard.retire(slot);
                return Err(error);
            }
        };
        self.alive.insert(process.as_raw_pid(), Child { end, slot, born: Instant::now() });
        Ok(process)
    }

    pub fn len(&self) -> usize {
        self.alive.len()
    }

    pub fn started(&self) -> u64 {
        self.started
    }

    /// Reaps ended children and keeps their counts.
    pub fn reap(&mut self) -> Vec<Ended> {
        let mut gone = Vec::new();
        let mut events = Vec::with_capacity(64);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        while epoll::wait(&self.ended, rustix::buffer::spare_capacity(&mut events), Some(&now)) != Ok(0) {
            for event in events.drain(..) {
                let process = Pid::from_raw(event.data.u64() as i32).expect("registered under its number");
                gone.extend(self.reap_one(process));
            }
        }
        gone
    }

    /// Counts a child that ended unexpectedly and was replaced.
    pub fn count_replaced(&mut self) {
        self.replaced += 1;
    }

    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Tells all children to stop after their requests.
    pub fn request_stop(&self) {
        let passed_on = Signal::from_named_raw(PASSED_ON).expect("a signal");
        self.signal(passed_on);
    }

    /// Waits until all children have ended, and calls `each_turn` with those that have. Kills those that take longer
    /// than `timeout` plus a grace period.
    pub fn wait_for_all(&mut self, timeout: Duration, mut each_turn: impl FnMut(&mut Children, Vec<Ended>)) {
        let until = Instant::now() + timeout + GRACE;
        let mut is_killed = false;
        while self.len() > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() && !is_killed {
                self.kill();
                is_killed = true;
            }
            let mut waits = [PollFd::new(&self.ended, PollFlags::IN)];
            let timeout = (!is_killed).then(|| Timespec::try_from(left).ok()).flatten();
            match poll(&mut waits, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => std::thread::sleep(GRACE / 10),
            }
            let ended = self.reap();
            each_turn(self, ended);
        }
    }

    /// Publishes the counters of a process that counts nothing else.
    pub fn publish(&self, slot: &Slot) {
        let mut served = Served::default();
        self.report(&mut served);
        slot.publish(&served);
    }

    /// Adds the counters to the table.
    pub fn report(&self, served: &mut Served) {
        served.set(Counter::Children, self.alive.len() as u64);
        served.set(Counter::ChildrenStarted, self.started);
        served.set(Counter::ChildrenReplaced, self.replaced);
        served.set(Counter::ChildrenFailed, self.failed);
    }

    fn watch(&self, process: Pid, lifeline: Option<Lifeline>) -> io::Result<OwnedFd> {
        let end = match lifeline {
            Some(lifeline) => lifeline.end,
            None => pidfd_open(process, PidfdFlags::empty())?,
        };
        let data = epoll::EventData::new_u64(process.as_raw_pid() as u64);
        epoll::add(&self.ended, &end, data, epoll::EventFlags::IN)?;
        Ok(end)
    }

    fn reap_one(&mut self, process: Pid) -> Option<Ended> {
        let status = waitpid(Some(process), WaitOptions::NOHANG).ok().flatten();
        let child = self.alive.remove(&process.as_raw_pid())?;
        // Later children have inherited the descriptor, so closing it would not remove it from epoll.
        let _ = epoll::delete(&self.ended, &child.end);
        if status.is_some_and(|(_, status)| status.exit_status() != Some(0)) {
            self.failed += 1;
        }
        let permit = self.scoreboard.permit(&child.slot);
        self.scoreboard.retire(child.slot);
        Some(Ended { process, permit, age: child.born.elapsed() })
    }

    fn signal(&self, signal: Signal) {
        for process in self.alive.keys().filter_map(|process| Pid::from_raw(*process)) {
            // It may have just ended.
            let _ = kill_process(process, signal);
        }
    }
}

/// A pipe that the child holds open, so that its closing signals the child's end: for kernels before 5.3, and valgrinds
/// without pidfd.
struct Lifeline {
    end: OwnedFd,
    _held: OwnedFd,
}

impl Lifeline {
    fn where_needed() -> io::Result<Option<Lifeline>> {
        static HAS_PIDFD: LazyLock<bool> =
            LazyLock::new(|| pidfd_open(getpid(), PidfdFlags::empty()).err() != Some(Errno::NOSYS));
        if *HAS_PIDFD {
            return Ok(None);
        }
        let (end, held) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Some(Lifeline { end, _held: held }))
    }
}

impl AsFd for Children {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }
}
