//! Runs a program in virtual time, so that every run is the same: its clocks advance only on request, random numbers
//! repeat, waits do not time out by themselves, and memory has the same addresses.
//!
//! The kernel stops the program (seccomp and ptrace) at the few system calls that depend on real time and randomness,
//! which are answered here; all others run at full speed. Clocks that need no system call (`vdso`) are not controlled;
//! valgrind hides them. All threads share one core. If real-time scheduling is allowed, each runs until it waits, so
//! they alternate in the same order. The program and all its descendants end with the tracer.
//!
//! For a program that needs time, such as a streaming server, virtual time can advance in steps
//! ([`VirtualTime::pass`]).

use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
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

use crate::{affinity, priority};

/// The wall-clock second at which time stands: 6 November 1994, the example date of RFC 9110.
pub const REAL_SECONDS: i64 = 784_111_777;

/// The monotonic second at which time stands.
pub const UPTIME_SECONDS: i64 = 1_000_000;

/// The traced processes, and how far their time may advance.
#[derive(Clone, Debug)]
pub struct VirtualTime(Arc<State>);

#[derive(Debug)]
struct State {
    /// In order of creation.
    pids: Mutex<Vec<libc::pid_t>>,
    steps: Mutex<Steps>,
    changed: Condvar,
    is_aborting: AtomicBool,
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "nothing is traced there"))]
    passes: bool,
}

#[derive(Debug, Default)]
struct Steps {
    passed: Duration,
    until: Duration,
    is_over: bool,
}

impl VirtualTime {
    /// Prepares to trace a program; its virtual time can advance if `passes`. Call this before other threads start: an
    /// earlier thread might receive the program's signals instead.
    ///
    /// # Errors
    /// If signals cannot be blocked.
    pub fn new(passes: bool) -> io::Result<VirtualTime> {
        #[cfg(target_arch = "x86_64")]
        ptrace::block_child_signal()?;
        let (pids, steps, changed, is_aborting) = Default::default();
        Ok(VirtualTime(Arc::new(State { pids, steps, changed, is_aborting, passes })))
    }

    /// Ends all processes as `abort` would: valgrind then writes its counts without their shutdown. They end together,
    /// so that none is left to notice the end of another.
    pub fn abort(&self) {
        if self.0.is_aborting.swap(true, Ordering::Relaxed) {
            return;
        }
        for &pid in lock(&self.0.pids).iter() {
            // SAFETY: a plain system call. The process IDs cannot have been reused, because only this process reaps
            // them.
            unsafe { libc::kill(pid, libc::SIGABRT) };
        }
    }

    /// Advances time by `time` once all threads wait. Returns the total time passed, when all threads wait again and
    /// nothing is due; `None` if the program has ended.
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
pub enum VirtualTimeError {
    /// The processor's registers are not supported.
    #[error("virtual time is available on x86-64 only")]
    Processor,
    /// The program could not be started, or the kernel forbids tracing it.
    #[error("{0}")]
    Start(#[source] io::Error),
}

/// Makes the calling thread and programs that it starts later take turns on `core`: each runs until it waits.
///
/// # Errors
/// If real-time scheduling is not allowed (CAP_SYS_NICE, RLIMIT_RTPRIO); they share the core nevertheless.
pub fn take_turns(core: usize) -> io::Result<()> {
    affinity::pin_to(core)?;
    priority::take_real_time()
}

/// Starts the program and traces it until all its processes have ended. Returns the first one's exit code, or 128 plus
/// the number of the signal that ended it. `virtual_time` receives their process IDs.
///
/// # Errors
/// If it cannot be traced or started.
#[cfg(target_arch = "x86_64")]
pub fn run(command: &mut Command, virtual_time: &VirtualTime) -> Result<i32, VirtualTimeError> {
    tracer::run(command, virtual_time)
}

/// Tracing is not supported here.
///
/// # Errors
/// Always.
#[cfg(not(target_arch = "x86_64"))]
pub fn run(_: &mut Command, _: &VirtualTime) -> Result<i32, VirtualTimeError> {
    Err(VirtualTimeError::Processor)
}
