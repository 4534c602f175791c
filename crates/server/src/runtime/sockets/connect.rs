//! Connections that are made from here: begun, not waited for.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use crate::connection::Destination;

use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

/// The socket of a new connection; `of` finds that of another.
pub fn socket<'a>(to: Destination, of: impl FnOnce(u64) -> Option<&'a OwnedFd>) -> Result<OwnedFd, Errno> {
    match to {
        Destination::Address(address) => begin(address),
        Destination::Beside(token) => rustix::io::fcntl_dupfd_cloexec(of(token).ok_or(Errno::BADF)?, 0),
        Destination::Socket(socket) => Ok(socket),
    }
}

/// A socket that connects to `address`. What is sent on it waits until it has; that it cannot shows then, or at once.
fn begin(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    // A request is sent whole, and a part of a body as soon as it has come.
    set_tcp_nodelay(&socket, true)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(error) => Err(error),
    }
}
