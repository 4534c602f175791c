//! A network namespace that lasts as long as a process holds it: nothing is left behind, however this one ends.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::netlink::{self, Netlink};

#[derive(Debug)]
pub struct Namespace(OwnedFd);

impl Namespace {
    /// A new one, with nothing but its loopback device, which is up. Needs `CAP_SYS_ADMIN`.
    pub fn create() -> io::Result<Namespace> {
        // A thread that lives in another namespace is no good for anything else, so it ends.
        let made = thread::spawn(|| {
            // SAFETY: only this thread is moved, and it owns nothing that depends on where it is.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } < 0 {
                return Err(io::Error::last_os_error());
            }
            Netlink::new()?.bring_up(netlink::index_of("lo")?, 1000)?;
            Ok(Namespace(File::open("/proc/thread-self/ns/net")?.into()))
        });
        made.join().expect("making a namespace does not panic")
    }

    /// Runs `work` on a thread inside the namespace.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let done = scope.spawn(|| {
                enter(self.0.as_fd())?;
                work()
            });
            done.join().expect("work in a namespace does not panic")
        })
    }

    /// Has a command run inside; it is to be started while we are there.
    pub fn runs(&self, command: &mut Command) {
        let namespace = self.raw();
        // SAFETY: between fork and exec one system call is made; the namespace's descriptor is open there too.
        unsafe {
            command.pre_exec(move || enter(BorrowedFd::borrow_raw(namespace)));
        }
    }

    /// Its number among this process's descriptors.
    pub fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Moves the calling thread into a network namespace.
fn enter(namespace: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))?)
}
