//! Signal handlers, requests made by signals (reopen log files, reload certificates), and blocking signals around fork
//! and exec.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_int, sigset_t};
use rustix::event::{EventfdFlags, eventfd};

use crate::counters::scoreboard::Scoreboard;

/// The signal with which a server stops its children.
pub const PASSED_ON: c_int = libc::SIGQUIT;

/// The signal that makes every process reopen its log file.
pub const REOPEN: c_int = libc::SIGUSR1;

/// The scoreboard on which the signal handler records the request.
static BOARD: AtomicPtr<Scoreboard> = AtomicPtr::new(ptr::null_mut());

/// From now on [`REOPEN`] makes every process that counts on `scoreboard` reopen its log file. Children inherit the
/// handler; the signal may go to any of them.
pub fn reopen_on_signal(scoreboard: &Scoreboard) -> io::Result<()> {
    BOARD.store(Box::into_raw(Box::new(scoreboard.clone())), Ordering::Release);
    handle(REOPEN, on_reopen)?;
    unblock_signals(&[REOPEN]);
    Ok(())
}

extern "C" fn on_reopen(_: c_int) {
    // SAFETY: null, or leaked and so valid forever.
    if let Some(scoreboard) = unsafe { BOARD.load(Ordering::Acquire).as_ref() } {
        scoreboard.request_reopening();
    }
}

/// Requests made by a signal, for a thread that handles them at its own pace.
#[derive(Debug)]
pub struct Requests(OwnedFd);

/// The receiver of each signal, for the signal handler.
static REQUESTS: [AtomicPtr<Requests>; SIGNALS] = [const { AtomicPtr::new(ptr::null_mut()) }; SIGNALS];

const SIGNALS: usize = 65;

impl Requests {
    /// Receives all requests that `signals` make from now on, here and in children.
    pub fn on_signals(signals: &[c_int]) -> io::Result<&'static Requests> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let requests: &'static Requests = Box::leak(Box::new(Requests(event)));
        for signal in signals {
            REQUESTS[*signal as usize].store(ptr::from_ref(requests).cast_mut(), Ordering::Release);
            handle(*signal, on_request)?;
        }
        unblock_signals(signals);
        Ok(requests)
    }

    /// Returns true if there were any requests since the last call.
    pub fn take(&self) -> bool {
        rustix::io::read(&self.0, &mut [0u8; 8]).is_ok()
    }
}

impl AsFd for Requests {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A raw system call that preserves `errno`: allowed in a signal handler.
extern "C" fn on_request(signal: c_int) {
    // SAFETY: null, or leaked and so valid forever.
    if let Some(Requests(event)) = unsafe { REQUESTS[signal as usize].load(Ordering::Acquire).as_ref() } {
        let _ = rustix::io::write(event, &1u64.to_ne_bytes());
    }
}

/// Ignores `signal`, which is meant for the server of which this program is a part.
pub fn ignore(signal: c_int) {
    // SAFETY: ignoring a signal needs no handler.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
    unblock_signals(&[signal]);
}

/// Installs `handler` for `signal`. Waiting system calls are interrupted.
pub fn handle(signal: c_int, handler: extern "C" fn(c_int)) -> io::Result<()> {
    // SAFETY: an all-zero sigaction is valid: no flags, no signals masked.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    // SAFETY: `action` is initialised, and the handlers only do what is allowed in one.
    match unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Blocks signals in this thread until it is dropped.
pub struct BlockedSignals {
    before: sigset_t,
}

/// Blocks the signals that this program handles.
pub fn block_signals() -> BlockedSignals {
    BlockedSignals {
        before: change_mask(
            libc::SIG_BLOCK,
            &set_of(&[libc::SIGTERM, libc::SIGINT, PASSED_ON, REOPEN, libc::SIGHUP, libc::SIGUSR2]),
        ),
    }
}

/// Blocks all signals that can be blocked, except that for the end of a child: nobody handles it, and blocked here it would wake
/// another thread, which has to discard it.
pub fn block_all_signals() -> BlockedSignals {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigfillset` initialises the set; neither call fails with valid arguments.
    let set = unsafe {
        libc::sigfillset(set.as_mut_ptr());
        libc::sigdelset(set.as_mut_ptr(), libc::SIGCHLD);
        set.assume_init()
    };
    BlockedSignals { before: change_mask(libc::SIG_BLOCK, &set) }
}

impl BlockedSignals {
    /// The signals that were blocked before.
    pub fn before(&self) -> &sigset_t {
        &self.before
    }
}

/// Unblocks `signals`, which may have been blocked before this program was executed.
pub fn unblock_signals(signals: &[c_int]) {
    change_mask(libc::SIG_UNBLOCK, &set_of(signals));
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        change_mask(libc::SIG_SETMASK, &self.before);
    }
}

fn set_of(signals: &[c_int]) -> sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set; neither call fails with valid arguments.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

fn change_mask(how: c_int, set: &sigset_t) -> sigset_t {
    let mut before = MaybeUninit::uninit();
    // SAFETY: with valid arguments it does not fail, so it initialises `before`.
    unsafe {
        libc::pthread_sigmask(how, ptr::from_ref(set), before.as_mut_ptr());
        before.assume_init()
    }
}
