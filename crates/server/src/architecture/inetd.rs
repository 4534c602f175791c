//! inetd: for each connection, forks and executes a program, which reads its configuration anew.
//!
//! This is a minimal inetd, without a table of services or a limit per minute. The program is the engine itself (`serve
//! --stdio`), which also runs under a real inetd; the cost of starting it is what the study measures.

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd};
use std::ptr;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Signal, getpid, kill_process};

use super::{Architecture, CacheScope, Defaults, HEAD_TIMEOUT_OF_WORKERS};
use crate::connection::Transport;
use crate::counters::Served;
use crate::runtime::processes::{Dispatched, Plan, dispatch};
use crate::runtime::sockets::accept::Listener;
use crate::signals::block_signals;
use crate::site::{Program, Site};
use crate::stop::Stop;
use crate::tls::Tls;

/// The architecture of the Internet super-server.
pub struct Inetd;

impl Architecture for Inetd {
    fn name(&self) -> &'static str {
        "inetd"
    }

    fn summary(&self) -> &'static str {
        "fork and exec per connection, reading the configuration again each time"
    }

    fn defaults(&self) -> Defaults {
        Defaults { head: HEAD_TIMEOUT_OF_WORKERS, ..Defaults::default() }
    }

    fn cache_scope(&self) -> Option<CacheScope> {
        None
    }

    fn serve(&self, site: &Site, listeners: Vec<Listener>, stop: &Stop) -> io::Result<Served> {
        let program = site.program.as_ref().ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "there is no program to execute for each connection")
        })?;
        let child = |dispatched: Dispatched<'_>| execute(program, &dispatched, site);
        dispatch(site, listeners, stop, &Plan { helpers: 0, child: Some(&child) })?;
        Ok(site.counters())
    }
}

/// Executes the program in the child for `dispatched`; returns only if that fails.
///
/// # Errors
/// Why it could not be executed.
fn execute(program: &Program, dispatched: &Dispatched<'_>, site: &Site) -> io::Result<()> {
    rustix::stdio::dup2_stdin(&dispatched.arrival.socket)?;
    let scoreboard = site.scoreboard.fd();
    inherit(scoreboard)?;
    if let Some(inherited) = &program.inherited {
        inherit(inherited.as_fd())?;
    }
    let counters = format!("--counters={}:{}", scoreboard.as_raw_fd(), dispatched.slot.index());
    let mut arguments = vec![counters];
    if let Some(writer) = dispatched.log_writer {
        inherit(writer.as_fd())?;
        arguments.push(format!("--log-pipe={}", writer.as_fd().as_raw_fd()));
    }
    match dispatched.arrival.transport {
        Transport::Plain => arguments.push("--stdio".to_owned()),
        Transport::Tls => {
            arguments.push("--stdio-tls".to_owned());
            arguments.extend(site.tls.as_ref().map(|tls| pass_tickets(tls)).transpose()?);
        }
    }
    let arguments: Vec<_> =
        arguments.into_iter().map(|text| CString::new(text).expect("no NUL in it")).collect();
    let arguments = program.arguments.iter().chain(&arguments).map(CString::as_c_str);
    let pointers: Vec<*const c_char> = arguments.map(CStr::as_ptr).chain([ptr::null()]).collect();
    // Until the program can handle them. If a stop was requested already, the program gets the request, too.
    let blocked = block_signals();
    if dispatched.stop.is_requested() {
        let _ = kill_process(getpid(), Signal::QUIT);
    }
    // SAFETY: path and arguments are NUL-terminated, and the list of arguments ends with a null pointer.
    unsafe { libc::execv(program.path.as_ptr(), pointers.as_ptr()) };
    let error = io::Error::last_os_error();
    drop(blocked);
    Err(error)
}

/// Passes the ticket keys to the program, so that the next one can resume a session.
fn pass_tickets(tls: &Tls) -> io::Result<String> {
    let tickets = memfd_create("tickets", MemfdFlags::empty())?;
    rustix::io::pwrite(&tickets, &tls.tickets().state(), 0)?;
    Ok(format!("--tickets={}", tickets.into_raw_fd()))
}

fn inherit(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    Ok(fcntl_setfd(descriptor, FdFlags::empty())?)
}
