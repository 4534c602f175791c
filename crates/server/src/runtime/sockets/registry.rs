//! The sockets on which this process listens, in any of its parts, to be passed to a successor (binary upgrade).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::fstat;
use rustix::net::listen;
use rustix::net::sockopt::socket_acceptconn;

/// How long a server may take to open all its listening sockets.
const START_TIMEOUT: Duration = Duration::from_secs(10);

static LISTENING: Mutex<Listening> = Mutex::new(Listening { sockets: Vec::new(), are_all: false });

static COMPLETED: Condvar = Condvar::new();

/// The admin listener, or -1.
static ADMIN: AtomicI32 = AtomicI32::new(-1);

struct Listening {
    /// With their backlogs, where they are known; they may be shorter for the moment.
    sockets: Vec<(RawFd, Option<u32>)>,
    /// All sockets have been registered.
    are_all: bool,
}

/// Registers a listening socket with this backlog.
pub fn enter(socket: BorrowedFd<'_>, backlog: Option<u32>) {
    LISTENING.lock().unwrap_or_else(PoisonError::into_inner).sockets.push((socket.as_raw_fd(), backlog));
}

/// Called when all sockets have been registered, before serving.
pub fn complete() {
    LISTENING.lock().unwrap_or_else(PoisonError::into_inner).are_all = true;
    COMPLETED.notify_all();
}

/// Removes a socket that is about to be closed.
pub fn deregister(socket: BorrowedFd<'_>) {
    // In a forked child the lock may be held forever, but children do not call this.
    if let Ok(mut listening) = LISTENING.try_lock()
        && let Some(position) = listening.sockets.iter().position(|(fd, _)| *fd == socket.as_raw_fd())
    {
        listening.sockets.swap_remove(position);
    }
}

/// Registers the admin listener, before there are children.
pub fn enter_admin(socket: BorrowedFd<'_>) {
    ADMIN.store(socket.as_raw_fd(), Ordering::Relaxed);
}

/// Closes the admin listener in a child that was just forked: a child that outlives the server would keep its port taken.
pub fn close_admin_of_parent() {
    let admin = ADMIN.swap(-1, Ordering::Relaxed);
    if admin >= 0 {
        // SAFETY: its owner belongs to code of the parent, which the child does not return to.
        unsafe { libc::close(admin) };
    }
}

/// Copies of all listening sockets, each once, with their full backlogs. Waits until all have been registered.
pub fn listening_sockets() -> io::Result<Vec<OwnedFd>> {
    let listening = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
    let (listening, _) = COMPLETED
        .wait_timeout_while(listening, START_TIMEOUT, |listening| !listening.are_all)
        .unwrap_or_else(PoisonError::into_inner);
    if !listening.are_all {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "the server has not begun to serve yet"));
    }
    let (mut sockets, mut seen) = (Vec::new(), Vec::new());
    for (fd, backlog) in &listening.sockets {
        // SAFETY: sockets leave the locked list before they are closed, and its kind is checked before use.
        let socket = unsafe { BorrowedFd::borrow_raw(*fd) };
        let inode = fstat(socket)?.st_ino;
        if !seen.contains(&inode) && socket_acceptconn(socket) == Ok(true) {
            seen.push(inode);
            // A successor takes the backlog that it finds for the longest.
            if let Some(backlog) = *backlog {
                listen(socket, backlog as i32)?;
            }
            sockets.push(socket.try_clone_to_owned()?);
        }
    }
    Ok(sockets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    #[test]
    fn each_socket_is_given_once() {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let (again, second) = (first.try_clone().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let all = [&first, &again, &second];
        all.iter().for_each(|socket| enter(socket.as_fd(), Some(128)));
        complete();
        let ours = || {
            let addresses =
                listening_sockets().unwrap().into_iter().map(|s| TcpListener::from(s).local_addr().unwrap());
            let ours = [first.local_addr().unwrap(), second.local_addr().unwrap()];
            // Other tests listen too.
            addresses.filter(|address| ours.contains(address)).count()
        };
        assert_eq!(ours(), 2);
        deregister(first.as_fd());
        assert_eq!(ours(), 2);
        deregister(again.as_fd());
        assert_eq!(ours(), 1);
        deregister(second.as_fd());
        assert_eq!(ours(), 0);
    }
}
