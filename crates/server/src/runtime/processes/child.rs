//! The child's side of a fork: how its life begins, and what its end tells.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::signals::HeldBack;
use crate::signals::PASSED_ON;
use crate::stop::Stop;

/// The exit status of a child that failed.
const FAILED: i32 = 1;

/// The exit status of a child that panicked, as Rust has it.
const PANICKED: i32 = 101;

/// Lives `life` in the child that was just forked from `parent`, and ends it.
pub fn live(parent: Pid, held_back: HeldBack, life: impl FnOnce(&'static Stop) -> io::Result<()>) -> ! {
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let stop = begin(parent)?;
        drop(held_back);
        life(stop)
    }));
    let status = match lived {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => fail(&error),
        Err(_) => PANICKED,
    };
    // SAFETY: ends the process; nothing of the parent's is flushed or dropped twice.
    unsafe { libc::_exit(status) }
}

/// Says why a child ends before its time; its exit status.
fn fail(error: &io::Error) -> i32 {
    say(&format!("error: a child process failed: {error}\n"));
    FAILED
}

/// Says something on standard error, though not by `eprintln`, whose lock another thread may have held when this process
/// was forked.
pub fn say(text: &str) {
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}

/// The beginning of a child's life.
fn begin(parent: Pid) -> io::Result<&'static Stop> {
    // Ctrl-C reaches every process of the terminal; the parent passes it on.
    // SAFETY: ignoring a signal needs no handler.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    let stop = Stop::on_signals(&[libc::SIGTERM, PASSED_ON])?;
    set_parent_process_death_signal(Some(Signal::TERM))?;
    if getppid() != Some(parent) {
        // It died before that.
        stop.request();
    }
    Ok(stop)
}
