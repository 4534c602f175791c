//! The UDP sockets for sending: one pair for all sessions, RTP on an even port and RTCP on the next.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};

use crate::datagram_batch::{DatagramBatch, can_cut};

/// How many pairs are tried if any will do.
const TRIES_MAX: usize = 200;

/// The kernel's send buffer: a burst of pictures to many receivers.
const SEND_BUFFER_BYTES: usize = 8 << 20;

/// Data received on the RTP port is not read (players send it to open NATs), so the buffer is minimal.
const RTP_RECEIVE_BUFFER_BYTES: usize = 1;

/// The kernel's receive buffer for receiver reports.
const RTCP_RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// A pair of sockets at one address.
#[derive(Debug)]
pub struct Ports {
    rtp: UdpSocket,
    rtcp: UdpSocket,
    /// Datagrams to send from the RTP port.
    pub datagrams: DatagramBatch,
    /// True while the socket would block.
    pub is_blocked: bool,
}

impl Ports {
    /// Binds the pair starting with port `first`, or any.
    ///
    /// # Errors
    /// If it is in use, or no pair is free.
    pub fn bind(address: IpAddr, first: Option<u16>) -> io::Result<Ports> {
        let mut outcome = Err(io::ErrorKind::AddrInUse.into());
        for _ in 0..if first.is_some() { 1 } else { TRIES_MAX } {
            outcome = Ports::try_pair(address, first);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn try_pair(address: IpAddr, first: Option<u16>) -> io::Result<Ports> {
        let found = UdpSocket::bind((address, first.unwrap_or(0)))?;
        let port = found.local_addr()?.port();
        // RFC 3550, 11: RTP has the even one.
        let (rtp, rtcp) = match port % 2 {
            0 => (found, UdpSocket::bind((address, port + 1))?),
            _ => (UdpSocket::bind((address, port - 1))?, found),
        };
        for socket in [&rtp, &rtcp] {
            socket.set_nonblocking(true)?;
            // The kernel limits this by net.core.wmem_max.
            set_socket_send_buffer_size(socket, SEND_BUFFER_BYTES)?;
        }
        set_socket_recv_buffer_size(&rtp, RTP_RECEIVE_BUFFER_BYTES)?;
        set_socket_recv_buffer_size(&rtcp, RTCP_RECEIVE_BUFFER_BYTES)?;
        let datagrams = DatagramBatch::new(can_cut(rtp.as_fd()));
        Ok(Ports { rtp, rtcp, datagrams, is_blocked: false })
    }

    pub fn numbers(&self) -> (u16, u16) {
        let port = |socket: &UdpSocket| socket.local_addr().map_or(0, |address| address.port());
        (port(&self.rtp), port(&self.rtcp))
    }

    /// The address by which these sockets reach `peer`.
    pub fn reachable(&self, peer: IpAddr) -> IpAddr {
        match peer {
            IpAddr::V4(peer) if self.rtp.local_addr().is_ok_and(|it| it.is_ipv6()) => {
                peer.to_ipv6_mapped().into()
            }
            peer => peer,
        }
    }

    pub fn rtp(&self) -> BorrowedFd<'_> {
        self.rtp.as_fd()
    }

    pub fn rtcp(&self) -> BorrowedFd<'_> {
        self.rtcp.as_fd()
    }

    pub fn flush(&mut self) -> crate::datagram_batch::Sending {
        self.datagrams.send(self.rtp.as_fd())
    }

    /// Sends a report; returns true if the system accepted it.
    pub fn send_report(&self, datagram: &[u8], to: SocketAddr) -> bool {
        self.rtcp.send_to(datagram, to).is_ok()
    }

    /// The next receiver report and its sender.
    pub fn receive_report<'b>(&self, room: &'b mut [u8]) -> Option<(&'b [u8], SocketAddr)> {
        let (length, from) = self.rtcp.recv_from(room).ok()?;
        Some((&room[..length], from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_port_and_the_next() {
        let first = Ports::bind("127.0.0.1".parse().unwrap(), None).unwrap();
        let second = Ports::bind("127.0.0.1".parse().unwrap(), None).unwrap();
        for ports in [&first, &second] {
            let (rtp, rtcp) = ports.numbers();
            assert_eq!((rtp % 2, rtcp), (0, rtp + 1));
        }
        assert!(Ports::bind("127.0.0.1".parse().unwrap(), Some(first.numbers().0)).is_err());
    }
}
