//! A program for which time stands still, so that it does the same in every run: its clocks never move, what is
//! random is the same, nothing it waits for ever times out, and its memory lies at the same addresses.
//!
//! The kernel stops it (seccomp and ptrace) at the few system calls by which the world's time and chance come in, and
//! they are answered here; all others go their way at full speed. What needs no system call is not held: the clocks
//! that the kernel maps into a program are (`vdso`), unless it runs under valgrind, which hides them. All its threads
//! share one core, and where real-time scheduling is allowed each runs until it waits, so that they take turns in the
//! same order. The program and all its descendants end when whoever holds them does.

use std::collections::HashSet;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

mod calls;
mod filter;
mod tracing;

use crate::affinity;
use calls::Chance;
use tracing::Stop;

/// The second since 1970 at which the clocks stand: 6 November 1994, the example date of RFC 9110.
pub const REAL_SECONDS: i64 = 784_111_777;

/// The second since the machine started.
pub const UPTIME_SECONDS: i64 = 1_000_000;

/// The processes that are held, by the order in which they came.
#[derive(Clone, Debug, Default)]
pub struct Held(Arc<Mutex<Vec<libc::pid_t>>>);

impl Held {
    /// Ends all at once, as `abort` would: valgrind then writes what it counted, and their own ways to end are not
    /// counted. The first came first: nobody is left to replace the others.
    pub fn abort(&self) {
        for &pid in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // SAFETY: a plain system call. Whoever is gone cannot have been replaced: nobody else waits for them.
            unsafe { libc::kill(pid, libc::SIGABRT) };
        }
    }

    fn add(&self, pid: libc::pid_t) {
        let mut pids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !pids.contains(&pid) {
            pids.push(pid);
        }
    }

    fn remove(&self, pid: libc::pid_t) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|&other| other != pid);
    }
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
pub fn run(command: &mut Command, held: &Held) -> Result<i32, Fault> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Fault::Processor);
    }
    let filter = filter::stopping_at(calls::HELD);
    // SAFETY: nothing but system calls, as is allowed between fork and exec.
    unsafe { command.pre_exec(move || tracing::prepare(&filter)) };
    // The thread that starts it is the one that the kernel stops it for.
    let root = command.spawn().map_err(Fault::Start)?.id().cast_signed();
    held.add(root);
    let (mut known, mut chance, mut code) = (HashSet::new(), Chance::default(), None);
    while let Some((tracee, stop)) = tracing::next_stop() {
        let is_new = known.insert(tracee);
        if is_new {
            tracee.follow();
            held.add(tracee.process());
        }
        match stop {
            Stop::Ended(ended) => {
                known.remove(&tracee);
                held.remove(tracee.0);
                if tracee.0 == root {
                    code = Some(ended);
                }
            }
            Stop::Call => {
                calls::answer(tracee, &mut chance);
                tracee.go_on(0);
            }
            // The signal by which the kernel hands over a new one is not for it.
            Stop::Signal(_) if is_new => tracee.go_on(0),
            Stop::Event => tracee.go_on(0),
            Stop::Signal(signal) => tracee.go_on(signal),
        }
    }
    Ok(code.unwrap_or_default())
}
