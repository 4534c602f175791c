//! Runs a program in virtual time, so that it does the same in every run: its clocks advance only when told to, random
//! numbers repeat, its waits do not time out by themselves, and its memory has the same addresses.
//!
//! The kernel stops the program (seccomp and ptrace) at the few system calls that bring in real time and randomness,
//! and they are answered here; all others run at full speed. Clocks that need no system call are not controlled: the
//! kernel maps them into a program (`vdso`), unless it runs under valgrind, which hides them. All threads share one
//! core. If real-time scheduling is allowed, each runs until it waits, so they alternate in the same order. The program
//! and all its descendants end with the tracer.
//!
//! For a program that needs time to pass, such as a streaming server, virtual time can pass in steps ([`VirtualTime::pass`]).

use std::io;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(target_arch = "x86_64")]
mod filter;
#[cfg(target_arch = "x86_64")]
mod ptrace;
#[cfg(target_arch = "x86_64")]
mod syscalls;
#[cfg(target_arch = "x86_64")]
mod time;
#[cfg(target_arch = "x86_64")]
mod tracer;
#[cfg(target_arch = "x86_64")]
mod waits;

use crate::affinity;

/// The second since 1970 at which the clocks stand: 6 November 1994, the example date of RFC 9110.
pub const REAL_SECONDS: i64 = 784_111_777;

/// The second since the machine started.
pub const UPTIME_SECONDS: i64 = 1_000_000;

/// The processes that are held, and how far their time is to go.
#[derive(Clone, Debug)]
pub struct VirtualTime(Arc<State>);

#[derive(Debug)]
struct State {
    /// By the order in which they came.
    pids: Mutex<Vec<libc::pid_t>>,
    steps: Mutex<Steps>,
    changed: Condvar,
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "nothing is held there"))]
    passes: bool,
}

#[derive(Debug, Default)]
struct Steps {
    passed: Duration,
    until: Duration,
    is_over: bool,
}

impl VirtualTime {
    /// Prepares to hold a program; virtual time will pass if `passes`. Create it before other threads start: a thread
    /// started earlier may receive the program's signals instead.
    ///
    /// # Errors
    /// If signals cannot be blocked.
    pub fn new(passes: bool) -> io::Result<VirtualTime> {
        #[cfg(target_arch = "x86_64")]
        ptrace::block_news()?;
        let (pids, steps, changed) = Default::default();
        Ok(VirtualTime(Arc::new(State { pids, steps, changed, passes })))
    }

    /// Ends all processes as `abort` would: valgrind then writes its counts, and their shutdown is not counted. The
    /// oldest process goes first, so that none is left to restart the others.
    pub fn abort(&self) {
        for &pid in lock(&self.0.pids).iter() {
            // SAFETY: a plain system call. The process ids cannot be in use again: only this process reaps
            // them.
            unsafe { libc::kill(pid, libc::SIGABRT) };
        }
    }

    /// Lets so much time pass, once all threads wait; returns how much has passed since the beginning when they wait
    /// again, and nothing is due any more. None if the program has ended.
    pub fn pass(&self, time: Duration) -> Option<Duration> {
        let mut steps = lock(&self.0.steps);
        steps.until += time;
        #[cfg(target_arch = "x86_64")]
        ptrace::wake_up();
        while steps.passed < steps.until && !steps.is_over {
            steps = self.0.changed.wait(steps).unwrap_or_else(PoisonError::into_inner);
        }
        (!steps.is_over).then_some(steps.passed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Its processor's registers are not known here.
    #[error("time can be held still on x86-64 only")]
    Processor,
    /// It could not be started, or the kernel forbids to hold it.
    #[error("{0}")]
    Start(#[source] io::Error),
}

/// Has the calling thread and the programs that it starts from now on take turns on `core`: each runs until it waits.
///
/// # Errors
/// If real-time scheduling is not allowed (CAP_SYS_NICE, RLIMIT_RTPRIO); they share the core nevertheless.
pub fn take_turns(core: usize) -> io::Result<()> {
    affinity::pin_to(core)?;
    let least = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameter lives until the call returns.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const least) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Starts the program and holds it until all its processes have ended; returns the exit code of the first,
/// 128 and the signal's number if a signal ended it. `held` is given their process ids.
///
/// # Errors
/// If it cannot be held or started.
#[cfg(target_arch = "x86_64")]
pub fn run(command: &mut Command, held: &VirtualTime) -> Result<i32, Fault> {
    tracer::run(command, held)
}

/// As above; here nothing can be held.
///
/// # Errors
/// Always.
#[cfg(not(target_arch = "x86_64"))]
pub fn run(_: &mut Command, _: &VirtualTime) -> Result<i32, Fault> {
    Err(Fault::Processor)
}
