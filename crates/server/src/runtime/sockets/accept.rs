//! Accepting, in bounded batches, without spinning when descriptors run out.
//!
//! One descriptor is kept in reserve. When there is no other left, it is given up for as long as it takes to
//! accept one connection, tell it 503 and close it; so the backlog drains and clients are told.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::sockopt::Timeout;
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, SocketFlags, acceptfrom_with, recv, send};

use super::registry;
use crate::connection::Transport;
use crate::counters::scoreboard::Permit;

/// Listening sockets that one server may have.
pub const LISTENERS_MAX: usize = 64;

/// A listening socket, and what is spoken on its connections.
#[derive(Debug)]
pub struct Listener {
    pub socket: TcpListener,
    pub transport: Transport,
}

impl Listener {
    /// The same socket once more.
    pub fn try_clone(&self) -> std::io::Result<Listener> {
        Ok(Listener { socket: self.socket.try_clone()?, transport: self.transport })
    }
}

/// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
pub const BACKLOG: i32 = 4096;

/// The response to a connection above the connection limit.
const SHED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nServer: Sojourn\r\nRetry-After: 1\r\n\
    Content-Length: 0\r\nConnection: close\r\n\r\n";

/// The same where TLS is spoken: a fatal alert, `internal_error` (RFC 8446, 6).
const SHED_TLS: &[u8] = &[21, 3, 3, 0, 2, 2, 80];

/// The listening socket and the reserve.
#[derive(Debug)]
pub struct Acceptor {
    listener: Listener,
    /// The response to a connection for which there is no descriptor.
    told: &'static [u8],
    reserve: Mutex<Option<OwnedFd>>,
}

#[derive(Debug)]
pub struct Arrival {
    /// Its socket, non-blocking.
    pub socket: OwnedFd,
    /// The client's address.
    pub peer: IpAddr,
    /// The transport between the two.
    pub transport: Transport,
    /// Its permit, once it is admitted.
    pub permit: Permit,
}

/// The outcome of one attempt.
#[derive(Debug)]
pub enum Accepted {
    Connection(Arrival),
    /// A connection for which there was no descriptor; it is gone.
    Shed,
    Nobody,
    /// This attempt failed; the next may not (the client is gone already).
    Failed,
    /// Out of descriptors or memory, and nothing to be done about it now.
    Exhausted,
}

impl Acceptor {
    /// Accepts from `listener`, which becomes non-blocking.
    pub fn new(listener: Listener) -> std::io::Result<Acceptor> {
        listener.socket.set_nonblocking(true)?;
        // Accepted sockets inherit it, which saves a call for each.
        rustix::net::sockopt::set_tcp_nodelay(&listener.socket, true)?;
        registry::enter(listener.socket.as_fd());
        let told = shedding(listener.transport);
        Ok(Acceptor { listener, told, reserve: Mutex::new(reserve()) })
    }

    /// The same for another protocol than HTTP: it says no by `told`.
    pub fn telling(mut self, told: &'static [u8]) -> Acceptor {
        self.told = told;
        self
    }

    /// Accepts from `listener`, waiting up to `timeout` each time. Of several waiting threads the kernel
    /// wakes the one that has waited longest; if they polled, all would wake.
    pub fn waiting(listener: Listener, timeout: Duration) -> std::io::Result<Acceptor> {
        let acceptor = Acceptor::new(listener)?;
        acceptor.listener.socket.set_nonblocking(false)?;
        rustix::net::sockopt::set_socket_timeout(&acceptor.listener.socket, Timeout::Recv, Some(timeout))?;
        Ok(acceptor)
    }

    /// The socket to wait on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.listener.socket.as_fd()
    }

    pub fn transport(&self) -> Transport {
        self.listener.transport
    }

    /// Accepts one connection; waits for it only if made by [`Acceptor::waiting`].
    pub fn accept(&self) -> Accepted {
        match self.accept_raw() {
            Ok(arrival) => Accepted::Connection(arrival),
            Err(Errno::AGAIN | Errno::INTR) => Accepted::Nobody,
            Err(Errno::MFILE | Errno::NFILE) => self.accept_with_reserve(),
            Err(Errno::NOBUFS | Errno::NOMEM) => Accepted::Exhausted,
            Err(_) => Accepted::Failed,
        }
    }

    fn accept_raw(&self) -> Result<Arrival, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, peer) = acceptfrom_with(&self.listener.socket, flags)?;
        let peer = peer.map_or(Ipv4Addr::UNSPECIFIED.into(), address);
        Ok(Arrival { socket, peer, transport: self.listener.transport, permit: Permit::default() })
    }

    fn accept_with_reserve(&self) -> Accepted {
        let mut held = self.reserve.lock().unwrap_or_else(PoisonError::into_inner);
        if held.take().is_none() {
            *held = reserve();
            return Accepted::Exhausted;
        }
        let outcome = match self.accept_raw() {
            Ok(arrival) => {
                shed_with(&arrival, self.told);
                Accepted::Shed
            }
            Err(Errno::AGAIN | Errno::INTR) => Accepted::Nobody,
            Err(_) => Accepted::Exhausted,
        };
        *held = reserve();
        outcome
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        registry::leave(self.fd());
    }
}

/// Tells a connection that there is no room for it.
pub fn shed(arrival: &Arrival) {
    shed_with(arrival, shedding(arrival.transport));
}

fn shedding(transport: Transport) -> &'static [u8] {
    match transport {
        Transport::Plain => SHED,
        Transport::Tls => SHED_TLS,
    }
}

/// Tells a connection `told`, because there is no room for it. Whatever its client sent already is read: closing on
/// unread bytes would reset the connection and lose the answer.
pub fn shed_with(arrival: &Arrival, told: &[u8]) {
    let _ = recv(&arrival.socket, &mut [0u8; 2048], RecvFlags::DONTWAIT);
    let _ = send(&arrival.socket, told, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

fn reserve() -> Option<OwnedFd> {
    open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// The address without the port.
pub fn address(peer: SocketAddrAny) -> IpAddr {
    std::net::SocketAddr::try_from(peer).map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.ip().to_canonical())
}
