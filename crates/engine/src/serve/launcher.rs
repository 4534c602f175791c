//! The launcher: a process outside the sandbox that only starts this program again.
//!
//! A process cannot leave a sandbox, nor can programs that it executes, but a successor of this server may need a
//! different sandbox. So the server forks the launcher before entering its own, with the command line of that moment.
//! The server sends requests over a channel: the launcher receives the channel for the successor, and answers with the
//! new process, and with its status when it ends.

use std::ffi::{CStr, CString, OsStr, OsString, c_char};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr;

use anyhow::{Context, anyhow};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg, socketpair,
};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid};
use rustix::thread::set_name;

/// Its process name.
const NAME: &CStr = c"launcher";

/// The environment variable with the descriptor of the channel to the predecessor.
pub const VARIABLE: &str = "SOJOURN_PREDECESSOR";

/// The first descriptor after standard error.
const FIRST: RawFd = 3;

/// A server that has just started has only descriptors below this.
const DESCRIPTORS_LOOKED_AT: RawFd = 1024;

/// The exit status of a program that could not be executed, as in shells.
pub const CANNOT_EXECUTE: i32 = 127;

/// Signals for the server alone, which the launcher ignores.
const OF_THE_SERVER: [libc::c_int; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// Requests the end of the program started last.
const KILL: u8 = b'k';
/// Requests the start of the program.
const START: u8 = b's';

/// The server's end of the channel.
#[derive(Debug)]
pub struct Launcher {
    channel: OwnedFd,
}

/// A program started by the launcher.
#[derive(Debug)]
pub struct Launched<'a> {
    launcher: &'a Launcher,
    pub process: i32,
    status: Option<ExitStatus>,
}

impl Launcher {
    /// Forks the launcher, which will execute this program's file with `words`. This process must not have other
    /// threads yet, nor be in a sandbox.
    pub fn start(words: &[OsString]) -> anyhow::Result<Launcher> {
        // Looked up now, because the file may be replaced later.
        let program = std::env::current_exe().context("cannot find this program's file")?;
        let program = CString::new(program.into_os_string().into_vec())?;
        let text = |text: &OsStr| CString::new(text.as_bytes());
        let words = words.iter().map(|word| text(word)).collect::<Result<Vec<_>, _>>()?;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let own_name = rustix::thread::name()?;
        // The child inherits the name.
        set_name(NAME)?;
        // SAFETY: there are no other threads, so the child may do as it likes. It does not return.
        let forked = unsafe { libc::fork() };
        if forked != 0 {
            set_name(&own_name)?;
        }
        match forked {
            -1 => Err(io::Error::last_os_error()).context("cannot start a process"),
            0 => {
                let outcome =
                    Waiting { channel: theirs, program: &program, words: &words, started: None }.run();
                // SAFETY: it ends the process; nothing of the server's is flushed or dropped twice.
                unsafe { libc::_exit(outcome.is_err().into()) }
            }
            _ => Ok(Launcher { channel: ours }),
        }
    }

    /// Starts the program with `channel`.
    pub fn launch(&self, channel: BorrowedFd<'_>) -> anyhow::Result<Launched<'_>> {
        let descriptors = [channel];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let gone = || "the launcher process has ended";
        sendmsg(&self.channel, &[IoSlice::new(&[START])], &mut control, SendFlags::NOSIGNAL)
            .with_context(gone)?;
        match self.answer().with_context(gone)? {
            process @ 1.. => Ok(Launched { launcher: self, process, status: None }),
            error => Err(anyhow!("cannot start a process: {}", io::Error::from_raw_os_error(-error))),
        }
    }

    fn answer(&self) -> io::Result<i32> {
        let mut bytes = [0; 4];
        loop {
            return match recv(&self.channel, &mut bytes, RecvFlags::empty()) {
                Ok((count, _)) if count == bytes.len() => Ok(i32::from_ne_bytes(bytes)),
                Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
                // Interrupted by one of the server's signals.
                Err(Errno::INTR) => continue,
                Err(error) => Err(error.into()),
            };
        }
    }
}

impl Launched<'_> {
    /// Readable once it has ended, until its [status](Launched::status) has been read.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.launcher.channel.as_fd()
    }

    /// Waits until it has ended; returns its exit status.
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        let status = ExitStatus::from_raw(self.launcher.answer()?);
        Ok(*self.status.insert(status))
    }

    /// Kills it unless it has ended.
    pub fn kill(&mut self) {
        if self.status.is_none() && send(&self.launcher.channel, &[KILL], SendFlags::NOSIGNAL).is_ok() {
            let _ = self.status();
        }
    }
}

/// The launcher's end of the channel.
struct Waiting<'a> {
    channel: OwnedFd,
    program: &'a CStr,
    words: &'a [CString],
    /// The program started last, until it has ended.
    started: Option<(Pid, OwnedFd)>,
}

impl Waiting<'_> {
    /// Answers requests until the other end of the channel is closed.
    fn run(mut self) -> io::Result<()> {
        for signal in OF_THE_SERVER {
            // SAFETY: ignoring a signal needs no handler.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        // Otherwise sockets and files that the server closes would stay open here.
        close_others(self.channel.as_raw_fd());
        loop {
            let mut waits = vec![PollFd::new(&self.channel, PollFlags::IN)];
            waits.extend(self.started.iter().map(|(_, ended)| PollFd::new(ended, PollFlags::IN)));
            match poll(&mut waits, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let is_set = |wait: Option<&PollFd<'_>>| wait.is_some_and(|wait| !wait.revents().is_empty());
            let (is_asked, has_ended) = (is_set(waits.first()), is_set(waits.get(1)));
            drop(waits);
            if has_ended {
                self.reap()?;
            }
            if is_asked && !self.answer()? {
                return Ok(());
            }
        }
    }

    /// Answers one request; returns false if the channel is closed.
    fn answer(&mut self) -> io::Result<bool> {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let message = recvmsg(&self.channel, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
        let passed = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        match (message.bytes, byte, passed) {
            (0, ..) => return Ok(false),
            (_, [START], Some(channel)) => {
                let answer =
                    self.launch(&channel).unwrap_or_else(|error| -error.raw_os_error().unwrap_or(libc::EIO));
                self.send(answer)?;
            }
            (_, [KILL], _) => {
                if let Some((process, _)) = &self.started {
                    let _ = kill_process(*process, Signal::KILL);
                }
            }
            _ => {}
        }
        Ok(true)
    }

    /// Forks and executes the program; returns its process ID.
    fn launch(&mut self, channel: &OwnedFd) -> io::Result<i32> {
        let variable = |(name, value): (OsString, OsString)| [name, value].join(OsStr::new("="));
        let variables = std::env::vars_os().map(variable);
        let variables = variables.chain([format!("{VARIABLE}={}", channel.as_raw_fd()).into()]);
        let variables: Vec<_> =
            variables.map(|text| CString::new(text.into_vec())).collect::<Result<_, _>>()?;
        let (words, variables) = (pointers(self.words), pointers(&variables));
        // SAFETY: there is no other thread, and the child executes the program or ends. All texts end with a NUL, both
        // lists with a null.
        let process = match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error()),
            // SAFETY: as above.
            0 => unsafe {
                for signal in OF_THE_SERVER {
                    libc::signal(signal, libc::SIG_DFL);
                }
                libc::fcntl(channel.as_raw_fd(), libc::F_SETFD, 0);
                libc::execve(self.program.as_ptr(), words.as_ptr(), variables.as_ptr());
                libc::_exit(CANNOT_EXECUTE)
            },
            process => Pid::from_raw(process).expect("a child has a number"),
        };
        self.started = Some((process, pidfd_open(process, PidfdFlags::empty())?));
        Ok(process.as_raw_pid())
    }

    /// Reports how the program ended.
    fn reap(&mut self) -> io::Result<()> {
        let Some((process, _)) = self.started.take() else { return Ok(()) };
        let status = waitpid(Some(process), WaitOptions::empty())?.map_or(0, |(_, status)| status.as_raw());
        self.send(status)
    }

    fn send(&self, answer: i32) -> io::Result<()> {
        send(&self.channel, &answer.to_ne_bytes(), SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// Closes all descriptors except standard streams and `kept`.
fn close_others(kept: RawFd) {
    let close = |first: RawFd, last: u32| {
        // SAFETY: nothing in this process uses them.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) }
    };
    let before = u32::try_from(kept - 1).unwrap_or(0);
    if kept > FIRST {
        close(FIRST, before);
    }
    if close(kept + 1, u32::MAX) == -1 {
        // For kernels before Linux 5.9.
        (FIRST..DESCRIPTORS_LOOKED_AT).filter(|fd| *fd != kept).for_each(|fd| {
            // SAFETY: as above.
            unsafe { libc::close(fd) };
        });
    }
}
