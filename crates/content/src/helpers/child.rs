//! The processes of the helper pool: one fork server, which forks the helpers.
//!
//! The fork server is forked from the server when the pool starts and does nothing but fork helpers. If the server
//! itself forked helpers later, when it is large, every page that it changes would be copied while such a helper lives;
//! the fork server stays small. Both close all descriptors that they do not need, so they keep no client's connection
//! open. Both end when the server's end of their socket closes, however the server ended.
//!
//! The server may have threads, and fork copies only one of them. So nothing here allocates or takes a lock: it uses
//! only system calls and the stack. Needs Linux 5.9 (`close_range`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::{Errno, pread};
use rustix::net::{AddressFamily, RecvFlags, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::thread::set_name;

use super::message::{REQUEST_BYTES, Reply, Request, receive, send};
use crate::origin::Directory;

/// How much a helper reads at a time, only to bring it into the page cache.
const SCRATCH_BYTES: usize = 64 * 1024;

/// The server's handle of the fork server. Dropping it ends the fork server but not the helpers.
pub struct ForkServer {
    socket: OwnedFd,
    pid: Pid,
}

impl ForkServer {
    /// Forks the fork server. Its helpers look up files below `directories`.
    pub fn start(directories: &[Directory]) -> io::Result<ForkServer> {
        let (socket, theirs) = pair()?;
        let mut roots: Vec<RawFd> = directories.iter().map(|it| it.root().as_raw_fd()).collect();
        roots.sort_unstable();
        let pid = fork(|| serve_forks(theirs.as_fd(), directories, &roots))?;
        Ok(ForkServer { socket, pid })
    }

    /// Asks the fork server to fork a helper. Returns the server's end of its socket; if the fork fails, the other end is
    /// closed.
    pub fn start_helper(&self) -> Result<OwnedFd, Errno> {
        let (socket, theirs) = pair()?;
        send(self.socket.as_fd(), &[0], Some(theirs.as_fd()))?;
        Ok(socket)
    }

    #[cfg(test)]
    pub fn pid(&self) -> Pid {
        self.pid
    }
}

impl Drop for ForkServer {
    fn drop(&mut self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
        while matches!(waitpid(Some(self.pid), WaitOptions::empty()), Err(Errno::INTR)) {}
    }
}

fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

fn serve_forks(socket: BorrowedFd<'_>, directories: &[Directory], roots: &[RawFd]) {
    let _ = set_name(c"sojourn-forker");
    ignore_signals();
    if close_all_but(socket, roots).is_err() {
        return;
    }
    while let Ok(Some(theirs)) = receive(socket, &mut [0], RecvFlags::empty()) {
        // If the fork fails, the server finds the socket closed and decides what to do.
        let _ = fork(|| {
            let _ = set_name(c"sojourn-helper");
            if close_all_but(theirs.as_fd(), roots).is_ok() {
                help(theirs.as_fd(), directories);
            }
        });
    }
}

/// The main loop of a helper: answers one request at a time.
fn help(socket: BorrowedFd<'_>, directories: &[Directory]) {
    let mut bytes = [0; REQUEST_BYTES];
    let mut scratch = [0; SCRATCH_BYTES];
    while let Ok(file) = receive(socket, &mut bytes, RecvFlags::empty()) {
        let reply = match (Request::decode(&bytes), file) {
            (Some(Request::LookUp { host, path, body_bytes_max }), _) => {
                let Some(directory) = directories.get(usize::from(host)) else { return };
                directory.look_up_all(path, |file, stat| {
                    // If reading the body fails here, the server reads it again and reports the error.
                    let length = u64::try_from(stat.st_size).unwrap_or(0);
                    if length <= body_bytes_max {
                        read(file, 0, length, &mut scratch);
                    }
                });
                Reply { error: None, length: 0 }
            }
            (Some(Request::Read { offset, length }), Some(file)) => read(&file, offset, length, &mut scratch),
            _ => return,
        };
        if send(socket, &reply.encode(), None).is_err() {
            return;
        }
    }
}

/// Reads the bytes into the page cache and discards them.
fn read(file: &OwnedFd, offset: u64, length: u64, scratch: &mut [u8]) -> Reply {
    let mut filled = 0;
    while filled < length {
        let wanted = scratch.len().min((length - filled) as usize);
        match pread(file, &mut scratch[..wanted], offset + filled) {
            Ok(0) => break,
            Ok(count) => filled += count as u64,
            Err(Errno::INTR) => {}
            Err(error) => return Reply { error: Some(error), length: filled },
        }
    }
    Reply { error: None, length: filled }
}

/// Runs `life` in a child process, which then exits.
fn fork(life: impl FnOnce()) -> io::Result<Pid> {
    /// Even if `life` panics, the child must not return into the server's code.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            // SAFETY: ends the process without running any of its cleanup.
            unsafe { libc::_exit(0) }
        }
    }
    // SAFETY: the child calls only functions that are safe after a fork in a threaded process; see the top of this
    // file.
    match unsafe { libc::fork() } {
        0 => {
            let end = End;
            life();
            drop(end);
            unreachable!("the child has ended")
        }
        pid => Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(io::Error::last_os_error),
    }
}

/// Signals that stop the server often reach its children too, but helpers are needed until the last request is
/// answered. Helpers hold nothing to clean up.
fn ignore_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGCHLD] {
        // SAFETY: no handler is installed.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Closes all descriptors except `socket` and the sorted `roots`.
fn close_all_but(socket: BorrowedFd<'_>, roots: &[RawFd]) -> Result<(), Errno> {
    let socket = socket.as_raw_fd();
    let below = roots.partition_point(|root| *root < socket);
    let kept = roots[..below].iter().chain([&socket]).chain(&roots[below..]);
    let mut first = 0;
    for kept in kept.map(|fd| *fd as u32) {
        if first < kept {
            close_range(first, kept - 1)?;
        }
        first = kept + 1;
    }
    close_range(first, u32::MAX)
}

fn close_range(first: u32, last: u32) -> Result<(), Errno> {
    // SAFETY: the owners of these descriptors exist only as copies that this process never uses.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::NOSYS)),
    }
}
