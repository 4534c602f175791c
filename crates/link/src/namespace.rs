//! A network namespace that disappears with the processes that use it, so nothing is left behind however they end.

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
    /// A new namespace that contains only the loopback device, which is up. Needs `CAP_SYS_ADMIN`.
    pub fn create() -> io::Result<Namespace> {
        // The thread cannot be used for anything else afterwards, so it ends.
        let made = thread::spawn(|| {
            // SAFETY: only this thread is moved, and nothing it owns depends on its namespace.
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

    /// Makes `command` run inside the namespace, which must still exist when it starts.
    pub fn runs(&self, command: &mut Command) {
        let namespace = self.raw();
        // SAFETY: only one system call between fork and exec; the namespace's descriptor is still open there.
        unsafe {
            command.pre_exec(move || enter(BorrowedFd::borrow_raw(namespace)));
        }
    }

    /// The namespace's file descriptor.
    pub fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

fn enter(namespace: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))?)
}
