//! A program for which time stands still, so that it does the same in every run: its clocks move only when they are
//! told to, what is random is the same, what it waits for does not time out by itself, and its memory lies at the same
//! addresses.
//!
//! The kernel stops it (seccomp and ptrace) at the few system calls by which the world's time and chance come in, and
//! they are answered here; all others go their way at full speed. What needs no system call is not held: the clocks
//! that the kernel maps into a program are (`vdso`), unless it runs under valgrind, which hides them. All its threads
//! share one core, and where real-time scheduling is allowed each runs until it waits, so that they take turns in the
//! same order. The program and all its descendants end when whoever holds them does.
//!
//! For a program that needs time to pass, such as one that streams, time can pass in steps ([`Held::pass`]).

use std::io;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(target_arch = "x86_64")]
mod calls;
#[cfg(target_arch = "x86_64")]
mod filter;
#[cfg(target_arch = "x86_64")]
mod holding;
#[cfg(target_arch = "x86_64")]
mod time;
#[cfg(target_arch = "x86_64")]
mod tracing;
#[cfg(target_arch = "x86_64")]
mod waits;

use crate::affinity;

/// The second since 1970 at which the clocks stand: 6 November 1994, the example date of RFC 9110.
pub const REAL_SECONDS: i64 = 784_111_777;

/// The second since the machine started.
pub const UPTIME_SECONDS: i64 = 1_000_000;

/// The processes that are held, and how far their time is to go.
#[derive(Clone, Debug)]
pub struct Held(Arc<State>);

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

impl Held {
    /// Nobody as yet; `passes` says whether time is going to pass. Threads that were started before this may keep news of
    /// the program to themselves: make it first.
    ///
    /// # Errors
    /// If signals cannot be held back.
    pub fn new(passes: bool) -> io::Result<Held> {
        #[cfg(target_arch = "x86_64")]
        tracing::hold_back_news()?;
        let (pids, steps, changed) = Default::default();
        Ok(Held(Arc::new(State { pids, steps, changed, passes })))
    }

    /// Ends all at once, as `abort` would: valgrind then writes what it counted, and their own ways to end are not
    /// counted. The first came first: nobody is left to replace the others.
    pub fn abort(&self) {
        for &pid in lock(&self.0.pids).iter() {
            // SAFETY: a plain system call. Whoever is gone cannot have been replaced: nobody else waits for them.
            unsafe { libc::kill(pid, libc::SIGABRT) };
        }
    }

    /// Lets so much time pass, once all threads wait; returns how much has passed since the beginning when they wait
    /// again, and nothing is due any more. None if the program has ended.
    pub fn pass(&self, time: Duration) -> Option<Duration> {
        let mut steps = lock(&self.0.steps);
        steps.until += time;
        #[cfg(target_arch = "x86_64")]
        tracing::wake_up();
        while steps.passed < steps.until && !steps.is_over {
            steps = self.0.changed.wait(steps).unwrap_or_else(PoisonError::into_inner);
        }
        (!steps.is_over).then_some(steps.passed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a program cannot be held.
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

/// Starts the program and holds it until all its processes have ended; returns the exit code of the first, 128 and the
/// signal's number if a signal ended it. `held` learns who they are.
///
/// # Errors
/// If it cannot be held or started.
#[cfg(target_arch = "x86_64")]
pub fn run(command: &mut Command, held: &Held) -> Result<i32, Fault> {
    holding::run(command, held)
}

/// As above; here nothing can be held.
///
/// # Errors
/// Always.
#[cfg(not(target_arch = "x86_64"))]
pub fn run(_: &mut Command, _: &Held) -> Result<i32, Fault> {
    Err(Fault::Processor)
}
