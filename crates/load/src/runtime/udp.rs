//! A track's pair of UDP sockets (RTP on an even port, RTCP on the next), and batched receiving.

use std::{
    io, mem,
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt},
};
use sojourn_measure::{Nanos, clock};

use crate::runtime::timestamps;

/// The first port to try, below the system's ephemeral ports.
const PORT_FIRST: u16 = 16_384;
const PORT_LAST: u16 = 65_534;
/// Datagrams per call.
const BATCH: usize = 32;
/// Longer ones are truncated and counted as malformed.
const DATAGRAM_BYTES_MAX: usize = 2048;
/// Room for control messages with a timestamp and a counter, aligned as required.
const CONTROL_WORDS: usize = 8;

/// The sockets of one track.
#[derive(Debug)]
pub struct UdpPair {
    pub media: OwnedFd,
    /// For RTCP.
    pub reports: OwnedFd,
    /// The port of `media`; `reports` has the next one.
    pub port: u16,
    /// Datagrams that the kernel dropped at `media`, as last reported.
    pub overflowed: u32,
}

/// Finds pairs of free ports.
#[derive(Debug)]
pub struct Ports {
    next: u16,
}

impl Ports {
    /// Starts at a random port, because a server may still send to the ports of an earlier run.
    pub fn new() -> Ports {
        let pairs = u64::from((PORT_LAST - PORT_FIRST) / 2);
        Ports { next: PORT_FIRST + 2 * (clock::now().0 % pairs) as u16 }
    }

    /// Opens a pair at a local address.
    pub fn open(
        &mut self,
        local: IpAddr,
        receive_buffer_bytes: Option<usize>,
    ) -> rustix::io::Result<UdpPair> {
        for _ in (PORT_FIRST..PORT_LAST).step_by(2) {
            let port = self.next;
            self.next = if port + 2 >= PORT_LAST { PORT_FIRST } else { port + 2 };
            let pair = udp(local, port, receive_buffer_bytes).and_then(|media| {
                let reports = udp(local, port + 1, None)?;
                Ok(UdpPair { media, reports, port, overflowed: 0 })
            });
            match pair {
                Err(Errno::ADDRINUSE) => {}
                other => return other,
            }
        }
        Err(Errno::ADDRNOTAVAIL)
    }
}

fn udp(local: IpAddr, port: u16, receive_buffer_bytes: Option<usize>) -> rustix::io::Result<OwnedFd> {
    let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    if let Some(bytes) = receive_buffer_bytes {
        sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
    }
    // If the kernel lacks these, the report says so.
    let _ = timestamps::enable(socket.as_fd());
    let _ = timestamps::enable_overflows(socket.as_fd());
    bind(&socket, &SocketAddr::new(local, port))?;
    Ok(socket)
}

#[derive(Clone, Copy, Debug)]
pub struct Datagram<'b> {
    pub bytes: &'b [u8],
    /// True if it was truncated.
    pub is_cut: bool,
    /// The sender's address; `None` if it is not an IP address.
    pub from: Option<SocketAddr>,
    /// The kernel timestamp on the wall clock, if there is one.
    pub arrived: Option<Nanos>,
    /// Datagrams dropped at this socket so far, if reported.
    pub overflowed: Option<u32>,
}

/// Buffers for one receive call, shared by all sockets.
pub struct Batch {
    buffers: Box<[[u8; DATAGRAM_BYTES_MAX]; BATCH]>,
    controls: Box<[[u64; CONTROL_WORDS]; BATCH]>,
    names: Box<[libc::sockaddr_storage; BATCH]>,
    parts: Box<[libc::iovec; BATCH]>,
    headers: Box<[libc::mmsghdr; BATCH]>,
    count: usize,
}

impl Batch {
    pub fn new() -> Batch {
        // SAFETY: these C structures may be all zeros: null pointers and zero lengths.
        let (names, parts, headers) = unsafe { (mem::zeroed(), mem::zeroed(), mem::zeroed()) };
        Batch {
            buffers: vec![[0; DATAGRAM_BYTES_MAX]; BATCH]
                .into_boxed_slice()
                .try_into()
                .expect("so many were made"),
            controls: Box::new([[0; CONTROL_WORDS]; BATCH]),
            names: Box::new(names),
            parts: Box::new(parts),
            headers: Box::new(headers),
            count: 0,
        }
    }

    /// Receives a batch; returns true if there may be more.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> rustix::io::Result<bool> {
        self.count = 0;
        for index in 0..BATCH {
            self.parts[index] = libc::iovec {
                iov_base: self.buffers[index].as_mut_ptr().cast(),
                iov_len: DATAGRAM_BYTES_MAX,
            };
            let header = &mut self.headers[index].msg_hdr;
            header.msg_name = (&raw mut self.names[index]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &raw mut self.parts[index];
            header.msg_iovlen = 1;
            header.msg_control = self.controls[index].as_mut_ptr().cast();
            header.msg_controllen = size_of::<[u64; CONTROL_WORDS]>();
            header.msg_flags = 0;
        }
        // SAFETY: every header points to a name, a buffer and control room of the given sizes, alive and not moved.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        self.count = usize::try_from(count)
            .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))?;
        Ok(self.count == BATCH)
    }

    /// The datagrams of the last receive call.
    pub fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        (0..self.count).map(|index| self.datagram(index))
    }

    fn datagram(&self, index: usize) -> Datagram<'_> {
        let header = &self.headers[index];
        let length = (header.msg_len as usize).min(DATAGRAM_BYTES_MAX);
        Datagram {
            bytes: &self.buffers[index][..length],
            is_cut: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            from: address(&self.names[index]),
            arrived: timestamps::arrived(&header.msg_hdr),
            overflowed: timestamps::overflowed(&header.msg_hdr),
        }
    }
}

fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let pointer = std::ptr::from_ref(name);
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: storage of this family contains such an address, and has at least its size and alignment.
            let name = unsafe { &*pointer.cast::<libc::sockaddr_in>() };
            let address = IpAddr::from(name.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(address, u16::from_be(name.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let name = unsafe { &*pointer.cast::<libc::sockaddr_in6>() };
            Some(SocketAddr::new(IpAddr::from(name.sin6_addr.s6_addr), u16::from_be(name.sin6_port)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn pairs_have_an_even_port_and_the_next() {
        let mut ports = Ports::new();
        let first = ports.open(LOOPBACK, Some(65_536)).unwrap();
        let second = Ports::new().open(LOOPBACK, None).unwrap();
        assert_eq!((first.port % 2, second.port % 2), (0, 0));
        assert_ne!(first.port, second.port);
    }

    #[test]
    fn what_was_sent_is_received_with_its_sender_and_its_time() {
        let pair = Ports::new().open(LOOPBACK, None).unwrap();
        let sender = UdpSocket::bind((LOOPBACK, 0)).unwrap();
        for length in [1, 1400, 3000] {
            sender.send_to(&vec![7; length], (LOOPBACK, pair.port)).unwrap();
        }
        let mut batch = Batch::new();
        let mut found = Vec::new();
        // Over the loopback a datagram has arrived when sending returns.
        let more = batch.receive(pair.media.as_fd()).unwrap();
        for datagram in batch.datagrams() {
            assert_eq!(datagram.from, Some(sender.local_addr().unwrap()));
            assert!(datagram.arrived.is_some() && datagram.overflowed.is_none());
            found.push((datagram.bytes.len(), datagram.is_cut));
        }
        assert_eq!((found, more), (vec![(1, false), (1400, false), (DATAGRAM_BYTES_MAX, true)], false));
        assert!(batch.receive(pair.media.as_fd()).is_err_and(|error| error == Errno::AGAIN));
    }

    #[test]
    fn what_the_kernel_throws_away_is_told() {
        let pair = Ports::new().open(LOOPBACK, Some(1)).unwrap();
        let sender = UdpSocket::bind((LOOPBACK, 0)).unwrap();
        let send = || sender.send_to(&[7; 1400], (LOOPBACK, pair.port)).unwrap();
        (0..200).for_each(|_| {
            send();
        });
        let mut batch = Batch::new();
        batch.receive(pair.media.as_fd()).unwrap();
        let kept = batch.datagrams().count();
        send();
        batch.receive(pair.media.as_fd()).unwrap();
        assert_eq!(batch.datagrams().next().unwrap().overflowed, Some(200 - kept as u32));
    }
}
