//! The listening socket: opened here, or passed by a service manager.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use anyhow::{anyhow, bail};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt::{set_tcp_congestion, socket_acceptconn, socket_type};
use rustix::net::{SocketType, listen as set_backlog};

use sojourn_server::{BACKLOG, defer_accept};

use super::options::Options;

/// The first descriptor that a service manager passes (sd_listen_fds(3)).
const PASSED_FD: RawFd = 3;

impl Options {
    /// The socket that is passed, or one of our own.
    pub fn listener(&self) -> anyhow::Result<TcpListener> {
        let listener = match passed()? {
            Some(listener) => listener,
            None => listen(&self.listening.listen)?,
        };
        if let Some(name) = &self.listening.congestion_control {
            // Accepted connections inherit it.
            set_tcp_congestion(&listener, name).map_err(|error| {
                anyhow!("cannot use congestion control {name}: {error}\nhint: try cubic or reno, which every kernel has")
            })?;
        }
        if let Some(patience) = self.listening.defer_accept {
            defer_accept(&listener, patience).map_err(|error| {
                anyhow!("cannot defer accepting: {error}\nhint: leave --defer-accept out on this system")
            })?;
        }
        Ok(listener)
    }
}

/// Listens on `address`.
pub fn listen(address: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AddrInUse => "another program listens there: stop it, or take a free port with port 0",
            ErrorKind::PermissionDenied => "ports below 1024 need a privilege: take a higher one",
            ErrorKind::AddrNotAvailable => {
                "no interface of this machine has that address; 127.0.0.1 always works"
            }
            _ => "an address looks like 127.0.0.1:8080 or [::1]:8080",
        };
        anyhow!("cannot listen on {address}: {error}\nhint: {hint}")
    })?;
    set_backlog(&listener, BACKLOG)?;
    Ok(listener)
}

/// The listening socket that a service manager passes, if one does.
fn passed() -> anyhow::Result<Option<TcpListener>> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    // Meant for this process, not for one that it was started by.
    if number("LISTEN_PID") != Some(std::process::id()) {
        return Ok(None);
    }
    match number("LISTEN_FDS") {
        None | Some(0) => return Ok(None),
        Some(1) => {}
        Some(count) => bail!(
            "{count} sockets are passed by LISTEN_FDS, only one can be served\nhint: leave one ListenStream= in the socket unit"
        ),
    }
    // SAFETY: by sd_listen_fds(3) the descriptor is open and nobody else's in this process.
    let socket = unsafe { OwnedFd::from_raw_fd(PASSED_FD) };
    if !listens(socket.as_fd()) {
        bail!(
            "the socket that is passed does not listen for TCP connections\nhint: use ListenStream= in the socket unit; with Accept=yes, or under inetd, serve --stdio"
        );
    }
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    Ok(Some(socket.into()))
}

fn listens(socket: BorrowedFd<'_>) -> bool {
    socket_type(socket) == Ok(SocketType::STREAM) && socket_acceptconn(socket) == Ok(true)
}
