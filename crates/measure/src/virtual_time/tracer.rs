//! The tracer's loop: waits for stopped threads, answers their calls, resumes them.

use std::collections::{HashMap, HashSet};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::ptrace::{self, Stop, Tracee, WaitStatus};
use super::syscalls::{self, Chance};
use super::time::Time;
use super::{VirtualTime, VirtualTimeError, filter, lock};

/// How soon threads that were not at rest are checked again; most report earlier themselves.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// How long the first aborted process waits for the others to stop; a busy one may take its signal without a stop.
const ABORT_TOGETHER_MAX: Duration = Duration::from_secs(1);

/// See [`super::run`].
pub fn run(command: &mut Command, virtual_time: &VirtualTime) -> Result<i32, VirtualTimeError> {
    let filter = filter::stopping_at(syscalls::INTERCEPTED);
    // SAFETY: only system calls between fork and exec.
    unsafe { command.pre_exec(move || ptrace::prepare(&filter)) };
    // The kernel reports stops to the thread that starts the program.
    let root = command.spawn().map_err(VirtualTimeError::Start)?.id().cast_signed();
    virtual_time.add(root);
    let mut tracer = Tracer {
        virtual_time,
        root,
        known: HashSet::new(),
        chance: Chance::default(),
        time: Time::new(virtual_time.0.passes),
        code: None,
        aborted: HashMap::new(),
    };
    loop {
        match ptrace::next_stop() {
            WaitStatus::Stopped(tracee, stop) => tracer.follow(tracee, stop),
            WaitStatus::NoneStopped => tracer.wait(),
            WaitStatus::NoTracees => break,
        }
    }
    virtual_time.end();
    Ok(tracer.code.unwrap_or_default())
}

struct Tracer<'a> {
    virtual_time: &'a VirtualTime,
    root: libc::pid_t,
    known: HashSet<Tracee>,
    chance: Chance,
    time: Time,
    code: Option<i32>,
    /// The thread of each process that stopped at the signal of an abort, and when; it gets the signal later.
    aborted: HashMap<libc::pid_t, (Tracee, Instant)>,
}

impl Tracer<'_> {
    fn follow(&mut self, tracee: Tracee, stop: Stop) {
        let is_new = self.known.insert(tracee);
        if is_new {
            tracee.follow();
            self.virtual_time.add(tracee.process());
        }
        match stop {
            Stop::Ended(ended) => {
                self.known.remove(&tracee);
                self.time.forget(tracee);
                self.virtual_time.remove(tracee.0);
                if tracee.0 == self.root {
                    self.code = Some(ended);
                }
            }
            Stop::Call => {
                syscalls::answer(tracee, &mut self.chance, &mut self.time);
                tracee.resume(0);
            }
            // The kernel's stop signal for a new thread is not delivered to it.
            Stop::Signal(_) if is_new => tracee.resume(0),
            Stop::Signal(libc::SIGSTOP) if self.time.end(tracee) => tracee.resume(0),
            Stop::Event => tracee.resume(0),
            Stop::Signal(libc::SIGABRT) if self.virtual_time.is_aborting() => {
                self.aborted.insert(tracee.process(), (tracee, Instant::now()));
            }
            Stop::Signal(signal) => tracee.resume(signal),
        }
        self.abort_together();
    }

    /// Resumes the aborted processes with their signal, once all have stopped.
    fn abort_together(&mut self) {
        let Some(since) = self.aborted.values().map(|&(_, since)| since).min() else { return };
        let all_stopped = lock(&self.virtual_time.0.pids).iter().all(|pid| self.aborted.contains_key(pid));
        if all_stopped || since.elapsed() >= ABORT_TOGETHER_MAX {
            self.aborted.drain().for_each(|(_, (tracee, _))| tracee.resume(libc::SIGABRT));
        }
    }

    /// Called when no thread is stopped: advances virtual time if every thread waits; otherwise waits for the next
    /// stop.
    fn wait(&mut self) {
        if !self.aborted.is_empty() {
            ptrace::wait_for_event(Some(ABORT_TOGETHER_MAX));
            return self.abort_together();
        }
        let Some(until) = self.virtual_time.until() else { return ptrace::wait_for_event(None) };
        // Processes on the same core run until they wait.
        thread::yield_now();
        if !self.time.is_at_rest(&self.known) {
            ptrace::wait_for_event(Some(LOOK_AGAIN));
        } else if self.time.step(until) {
            self.virtual_time.arrive(self.time.passed());
        }
    }
}

impl VirtualTime {
    fn add(&self, pid: libc::pid_t) {
        let mut pids = lock(&self.0.pids);
        if !pids.contains(&pid) {
            pids.push(pid);
        }
    }

    fn remove(&self, pid: libc::pid_t) {
        lock(&self.0.pids).retain(|&other| other != pid);
    }

    /// The time to advance to, if it has not been reached.
    fn until(&self) -> Option<Duration> {
        let steps = lock(&self.0.steps);
        (steps.passed < steps.until).then_some(steps.until)
    }

    fn arrive(&self, passed: Duration) {
        lock(&self.0.steps).passed = passed;
        self.0.changed.notify_all();
    }

    fn is_aborting(&self) -> bool {
        self.0.is_aborting.load(Ordering::Relaxed)
    }

    fn end(&self) {
        lock(&self.0.steps).is_over = true;
        self.0.changed.notify_all();
    }
}
