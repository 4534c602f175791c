//! Configures interfaces: adds an address, brings one up, deletes one.
//!
//! Uses rtnetlink(7), whose messages are a header, a structure and attributes in native byte order.

use std::ffi::CString;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{FromRawFd, OwnedFd};

const HEADER_BYTES: usize = 16;
const ANSWER_BYTES_MAX: usize = 4096;

/// A netlink socket for the network namespace of the thread that opened it.
pub struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    pub fn new() -> io::Result<Netlink> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: no memory is passed.
        let socket = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just opened and is owned here.
        Ok(Netlink { socket: unsafe { OwnedFd::from_raw_fd(socket) } })
    }

    /// Adds an address with a network of `prefix` bits to `interface`; the kernel adds the route.
    pub fn add_address(&self, interface: u32, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        // struct ifaddrmsg: family, prefix length, flags, scope, index.
        let mut body = vec![libc::AF_INET as u8, prefix, 0, 0];
        body.extend_from_slice(&interface.to_ne_bytes());
        for kind in [libc::IFA_LOCAL, libc::IFA_ADDRESS] {
            body.extend_from_slice(&8_u16.to_ne_bytes());
            body.extend_from_slice(&kind.to_ne_bytes());
            body.extend_from_slice(&address.octets());
        }
        self.request(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &body)
    }

    /// Brings `interface` up with a transmit queue of `queue_packets`.
    pub fn bring_up(&self, interface: u32, queue_packets: u32) -> io::Result<()> {
        let up = libc::IFF_UP as u32;
        // struct ifinfomsg: family, padding, type, index, flags, which flags change.
        let mut body = vec![0_u8; 4];
        body.extend_from_slice(&interface.to_ne_bytes());
        body.extend_from_slice(&up.to_ne_bytes());
        body.extend_from_slice(&up.to_ne_bytes());
        body.extend_from_slice(&8_u16.to_ne_bytes());
        body.extend_from_slice(&libc::IFLA_TXQLEN.to_ne_bytes());
        body.extend_from_slice(&queue_packets.to_ne_bytes());
        self.request(libc::RTM_NEWLINK, 0, &body)
    }

    /// Deletes `interface`; of a veth pair, both ends.
    pub fn remove(&self, interface: u32) -> io::Result<()> {
        // struct ifinfomsg: family, padding, type, index, flags, which flags change.
        let mut body = vec![0_u8; 4];
        body.extend_from_slice(&interface.to_ne_bytes());
        body.extend_from_slice(&[0; 8]);
        self.request(libc::RTM_DELLINK, 0, &body)
    }

    fn request(&self, kind: u16, flags: libc::c_int, body: &[u8]) -> io::Result<()> {
        let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
        message.extend_from_slice(&((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        let flags = flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK;
        message.extend_from_slice(&(flags as u16).to_ne_bytes());
        message.extend_from_slice(&[0; 8]); // sequence and sender: one question at a time
        message.extend_from_slice(body);
        rustix::io::write(&self.socket, &message)?;
        let mut answer = [0; ANSWER_BYTES_MAX];
        let count = rustix::io::read(&self.socket, &mut answer)?;
        // The answer is a header followed by an nlmsgerr: a negative error number, or zero.
        let code = answer[..count].get(HEADER_BYTES..HEADER_BYTES + 4).ok_or(io::ErrorKind::InvalidData)?;
        match i32::from_ne_bytes([code[0], code[1], code[2], code[3]]) {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(-code)),
        }
    }
}

/// The index of an interface in the calling thread's namespace.
pub fn index_of(interface: &str) -> io::Result<u32> {
    let name = CString::new(interface)?;
    // SAFETY: the name ends with a zero byte and is only read.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}
