//! Accepting, in bounded batches, without spinning when descriptors run out.
//!
//! One descriptor is kept in reserve. When descriptors run out, it is released for as long as it takes to accept one
//! connection, answer 503 and close it. So the backlog drains and clients get an answer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::sockopt::Timeout;
use rustix::net::{
    RecvFlags, SendFlags, SocketAddrAny, SocketFlags, acceptfrom_with, getpeername, getsockname, recv, send,
};
use sojourn_cgi::Ends;

use super::accept_queue::AcceptQueue;
use super::options::{is_closed_by_peer, queue_length};
use super::registry;
use crate::connection::Transport;
use crate::counters::scoreboard::Permit;

/// The most listening sockets of a server.
pub const LISTENERS_MAX: usize = 64;

/// A listening socket and its transport.
#[derive(Debug)]
pub struct Listener {
    pub socket: TcpListener,
    pub transport: Transport,
}

impl Listener {
    pub fn try_clone(&self) -> std::io::Result<Listener> {
        Ok(Listener { socket: self.socket.try_clone()?, transport: self.transport })
    }
}

/// The backlog of connections to accept; the kernel caps it at `net.core.somaxconn`.
pub const BACKLOG: i32 = 4096;

/// The response to a connection above the limit.
const SHED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nServer: Sojourn\r\nRetry-After: 1\r\n\
    Content-Length: 0\r\nConnection: close\r\n\r\n";

/// The same for TLS: a fatal alert, `internal_error` (RFC 8446, 6).
const SHED_TLS: &[u8] = &[21, 3, 3, 0, 2, 2, 80];

/// A listening socket and the reserved descriptor.
#[derive(Debug)]
pub struct Acceptor {
    listener: Listener,
    /// The bytes sent to a connection that is shed.
    shed_response: &'static [u8],
    reserve: Mutex<Option<OwnedFd>>,
    queue: AcceptQueue,
}

#[derive(Debug)]
pub struct Arrival {
    /// Non-blocking.
    pub socket: OwnedFd,
    pub peer: IpAddr,
    pub transport: Transport,
    /// The permit, once it is admitted.
    pub permit: Permit,
}

/// The outcome of one attempt to accept.
#[derive(Debug)]
pub enum Accepted {
    Connection(Arrival),
    /// A connection for which there was no descriptor; it was answered and closed.
    Shed,
    Nobody,
    /// This attempt failed, the next may succeed (the client has already left).
    Failed,
    /// Out of descriptors or memory, even with the reserve.
    Exhausted,
}

impl Acceptor {
    /// Accepts from `listener`, which becomes non-blocking. Its queue is shortened while connections wait longer than
    /// `wait_max`, unless that is zero.
    pub fn new(listener: Listener, wait_max: Duration) -> std::io::Result<Acceptor> {
        listener.socket.set_nonblocking(true)?;
        // Accepted sockets inherit it, which saves a call for each.
        rustix::net::sockopt::set_tcp_nodelay(&listener.socket, true)?;
        // Where the kernel does not tell the backlog, it is left alone.
        let backlog = queue_length(&listener.socket).ok().map(|queue| queue.limit).filter(|&limit| limit > 0);
        registry::enter(listener.socket.as_fd(), backlog);
        let shed_response = shedding(listener.transport);
        let queue = backlog.map_or_else(AcceptQueue::unknown, |backlog| AcceptQueue::new(backlog, wait_max));
        Ok(Acceptor { listener, shed_response, reserve: Mutex::new(reserve()), queue })
    }

    /// The same for a protocol other than HTTP, which sheds connections with `shed_response`.
    pub fn with_shed_response(mut self, shed_response: &'static [u8]) -> Acceptor {
        self.shed_response = shed_response;
        self
    }

    /// Accepts from `listener`, waiting up to `timeout` each time. The kernel wakes only the thread that has waited
    /// longest; if they polled, all would wake.
    pub fn waiting(listener: Listener, timeout: Duration) -> std::io::Result<Acceptor> {
        let acceptor = Acceptor::new(listener, Duration::ZERO)?;
        acceptor.listener.socket.set_nonblocking(false)?;
        rustix::net::sockopt::set_socket_timeout(&acceptor.listener.socket, Timeout::Recv, Some(timeout))?;
        Ok(acceptor)
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.listener.socket.as_fd()
    }

    pub fn transport(&self) -> Transport {
        self.listener.transport
    }

    /// Accepts one connection; waits only if made by [`Acceptor::waiting`].
    pub fn accept(&self) -> Accepted {
        match self.accept_raw() {
            Ok(arrival) => {
                self.accepted(&arrival.socket);
                // A client that gave up while it waited gets no work done that others wait for.
                let has_left =
                    self.has_short_queue() && is_closed_by_peer(&arrival.socket).unwrap_or_default();
                if has_left { Accepted::Failed } else { Accepted::Connection(arrival) }
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                self.queue.look_empty(self.fd());
                Accepted::Nobody
            }
            Err(Errno::MFILE | Errno::NFILE) => self.accept_with_reserve(),
            Err(Errno::NOBUFS | Errno::NOMEM) => Accepted::Exhausted,
            Err(_) => Accepted::Failed,
        }
    }

    /// Looks after the queue when `socket` has just been accepted by other means.
    pub fn accepted(&self, socket: &OwnedFd) {
        self.queue.look(self.fd(), socket);
    }

    /// Returns true while fewer connections may wait than usual.
    pub fn has_short_queue(&self) -> bool {
        self.queue.is_short()
    }

    /// How many connections wait to be accepted now; the most that can, if the kernel does not tell.
    pub fn queued(&self) -> usize {
        queue_length(self.fd()).map_or(BACKLOG as usize, |queue| queue.waiting as usize)
    }

    /// How often the queue has been shortened since the last call.
    pub fn take_shortened(&self) -> u64 {
        self.queue.take_shortened()
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
                shed_with(&arrival, self.shed_response);
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
        registry::deregister(self.fd());
    }
}

/// Sheds a connection: answers that the server is full.
pub fn shed(arrival: &Arrival) {
    shed_with(arrival, shedding(arrival.transport));
}

fn shedding(transport: Transport) -> &'static [u8] {
    match transport {
        Transport::Plain => SHED,
        Transport::Tls => SHED_TLS,
    }
}

/// Sheds a connection with the bytes `shed_response`. Reads what the client has already sent, because closing with unread bytes
/// would reset the connection and lose the answer.
pub fn shed_with(arrival: &Arrival, shed_response: &[u8]) {
    let _ = recv(&arrival.socket, &mut [0u8; 2048], RecvFlags::DONTWAIT);
    let _ = send(&arrival.socket, shed_response, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

fn reserve() -> Option<OwnedFd> {
    open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// The ends of an accepted connection.
pub fn ends(socket: &OwnedFd) -> Ends {
    let internet = |address: SocketAddrAny| SocketAddr::try_from(address).ok();
    let client = getpeername(socket).ok().flatten().and_then(internet);
    let server = getsockname(socket).ok().and_then(internet);
    Ends {
        client_port: client.map(|client| client.port()),
        server: server.map(|server| server.ip().to_canonical()),
    }
}

pub fn address(peer: SocketAddrAny) -> IpAddr {
    SocketAddr::try_from(peer).map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.ip().to_canonical())
}
