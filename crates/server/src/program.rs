//! A program that is executed for each connection, as inetd does it: the connection is its standard input, as
//! `--stdio` or `--stdio-tls` says.

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Signal, getpid, kill_process};

use crate::connection::Transport;
use crate::runtime::processes::Visit;
use crate::signals::hold_back;
use crate::site::Site;
use crate::tls::Tls;

/// The program, which counts where `--counters FD:PLACE` says.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file to execute.
    pub path: CString,
    /// Its arguments, the name it is run under first.
    pub arguments: Vec<CString>,
    /// A descriptor that it inherits under the same number.
    pub inherited: Option<Arc<OwnedFd>>,
}

impl Program {
    /// Becomes the program, in the child that `visit` is for. Returns only if that fails.
    ///
    /// # Errors
    /// What kept it from being executed.
    pub fn execute(&self, visit: &Visit, site: &Site) -> io::Result<()> {
        rustix::stdio::dup2_stdin(&visit.arrival.socket)?;
        let board = site.board.fd();
        inherit(board)?;
        if let Some(inherited) = &self.inherited {
            inherit(inherited.as_fd())?;
        }
        let counters = format!("--counters={}:{}", board.as_raw_fd(), visit.place.index());
        let mut arguments = vec![counters];
        match visit.arrival.transport {
            Transport::Plain => arguments.push("--stdio".to_owned()),
            Transport::Tls => {
                arguments.push("--stdio-tls".to_owned());
                arguments.extend(site.tls.as_ref().map(|tls| leave(tls)).transpose()?);
            }
        }
        let arguments: Vec<_> =
            arguments.into_iter().map(|text| CString::new(text).expect("no NUL in it")).collect();
        let arguments = self.arguments.iter().chain(&arguments).map(CString::as_c_str);
        let pointers: Vec<*const c_char> = arguments.map(CStr::as_ptr).chain([ptr::null()]).collect();
        // Until the program can handle them; a stop that was requested already is requested of it too.
        let held_back = hold_back();
        if visit.stop.is_requested() {
            let _ = kill_process(getpid(), Signal::QUIT);
        }
        // SAFETY: path and arguments are NUL-terminated and the list of arguments ends with a null.
        unsafe { libc::execv(self.path.as_ptr(), pointers.as_ptr()) };
        let error = io::Error::last_os_error();
        drop(held_back);
        Err(error)
    }
}

/// Leaves the program the keys of tickets, so that a session can be resumed by the next one.
fn leave(tls: &Tls) -> io::Result<String> {
    let tickets = memfd_create("tickets", MemfdFlags::empty())?;
    rustix::io::pwrite(&tickets, &tls.tickets().state(), 0)?;
    Ok(format!("--tickets={}", tickets.into_raw_fd()))
}

fn inherit(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    Ok(fcntl_setfd(descriptor, FdFlags::empty())?)
}
