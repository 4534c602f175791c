//! Runs a command behind a link, in the clients' namespace; the link lasts as long as the command.

use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use sojourn_measure::affinity;

use crate::carrier::Carrier;
use crate::namespace::Namespace;

/// Signals that end a link without a command, and are forwarded to a command.
const ENDING: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];

/// Token of the signal descriptor.
const SIGNALLED: u64 = 0;
const ENDED: u64 = 1;

/// Carries packets until the command, run in the clients' namespace, has ended; returns its exit status. Without a
/// command, carries packets until SIGINT or SIGTERM. The thread is pinned to `core`, the command is not.
///
/// Signals are forwarded to the command, except those from the terminal, which it receives anyway.
pub fn run(
    carrier: &mut impl Carrier,
    words: &[OsString],
    core: Option<usize>,
) -> io::Result<Option<ExitStatus>> {
    let signals = Signals::new()?;
    let mut child = words.split_first().map(|words| spawn(carrier.namespace(), words)).transpose()?;
    if let Some(core) = core {
        affinity::pin_to(core)?;
    }
    let ended = child.as_ref().map(ended).transpose()?;
    carrier.watch(signals.0.as_fd(), SIGNALLED)?;
    if let Some(ended) = &ended {
        carrier.watch(ended.as_fd(), ENDED)?;
    }
    carrier.run(|token| {
        if token != SIGNALLED {
            return Ok(true);
        }
        let (signal, is_terminal) = signals.read()?;
        if let (Some(child), false) = (&child, is_terminal) {
            // It may have just ended; the next event will tell.
            let _ = rustix::process::kill_process(Pid::from_child(child), signal);
        }
        Ok(child.is_none())
    })?;
    child.as_mut().map(Child::wait).transpose()
}

/// The shell's exit code for a status.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

fn spawn(namespace: &Namespace, (program, arguments): (&OsString, &[OsString])) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(arguments);
    namespace.runs(&mut command);
    unblock_in(&mut command);
    // SAFETY: only a system call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            // If the link is killed the command ends too: without packets it would wait forever.
            rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
            Ok(())
        });
    }
    command.spawn()
}

/// Lets a command have the signals that [`Signals`] block, as it would inherit that they are blocked.
pub fn unblock_in(command: &mut Command) {
    // SAFETY: only a system call between fork and exec.
    unsafe {
        command.pre_exec(|| block(libc::SIG_UNBLOCK));
    }
}

/// Becomes readable when the child has ended.
fn ended(child: &Child) -> io::Result<OwnedFd> {
    Ok(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?)
}

/// A descriptor that becomes readable at SIGINT and SIGTERM. The calling thread, and those that it starts, block
/// these from now on.
pub struct Signals(OwnedFd);

impl Signals {
    pub fn new() -> io::Result<Signals> {
        block(libc::SIG_BLOCK)?;
        let set = ending_set();
        // SAFETY: the set is only read, and the new descriptor is owned here.
        unsafe {
            match libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(Signals(OwnedFd::from_raw_fd(fd))),
            }
        }
    }

    /// One that has come already.
    pub fn earlier(&self) -> io::Result<Option<Signal>> {
        let mut waits = [PollFd::new(&self.0, PollFlags::IN)];
        let has_come = poll(&mut waits, Some(&Timespec::default()))? > 0;
        has_come.then(|| self.read().map(|(signal, _)| signal)).transpose()
    }

    /// Waits for a signal: which, and whether it was typed at the terminal.
    pub fn read(&self) -> io::Result<(Signal, bool)> {
        let mut told = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        // SAFETY: the buffer has the size of the request, and any bytes are valid in it.
        let told = unsafe {
            let bytes = size_of_val(&told);
            if libc::read(self.0.as_raw_fd(), told.as_mut_ptr().cast(), bytes) != bytes as isize {
                return Err(io::Error::last_os_error());
            }
            told.assume_init()
        };
        let signal = if told.ssi_signo == libc::SIGINT as u32 { Signal::INT } else { Signal::TERM };
        Ok((signal, told.ssi_code == libc::SI_KERNEL))
    }
}

fn block(how: libc::c_int) -> io::Result<()> {
    let set = ending_set();
    // SAFETY: the set is read only.
    match unsafe { libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

fn ending_set() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises its argument; the signals are valid.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        ENDING.iter().for_each(|&signal| {
            libc::sigaddset(set.as_mut_ptr(), signal);
        });
        set.assume_init()
    }
}
