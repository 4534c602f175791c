//! The child's side of a fork: how it starts and exits.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::signals::BlockedSignals;
use crate::signals::PASSED_ON;
use crate::stderr;
use crate::stop::Stop;

/// The exit status of a child that failed.
const FAILED: i32 = 1;

/// The exit status of a child that panicked, the same as Rust's.
const PANICKED: i32 = 101;

/// Runs `life` in the child that was just forked from `parent`, and exits.
pub fn live(parent: Pid, blocked: BlockedSignals, life: impl FnOnce(&'static Stop) -> io::Result<()>) -> ! {
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let stop = begin(parent)?;
        drop(blocked);
        life(stop)
    }));
    let status = match lived {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => fail(&error),
        Err(_) => PANICKED,
    };
    // SAFETY: exits the process without flushing or dropping anything of the parent's.
    unsafe { libc::_exit(status) }
}

/// Reports why a child ends early; returns its exit status.
fn fail(error: &io::Error) -> i32 {
    stderr::write(&format!("error: a child process failed: {error}\n"));
    FAILED
}

/// Prepares a new child.
fn begin(parent: Pid) -> io::Result<&'static Stop> {
    // Ctrl-C reaches every process of the terminal; the parent forwards it. SAFETY: ignoring a signal needs no handler.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    let stop = Stop::on_signals(&[libc::SIGTERM, PASSED_ON])?;
    set_parent_process_death_signal(Some(Signal::TERM))?;
    if getppid() != Some(parent) {
        // The parent died before that.
        stop.request();
    }
    Ok(stop)
}
