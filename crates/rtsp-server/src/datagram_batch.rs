//! A batch of datagrams: gathered from many sessions, sent with few system calls.
//!
//! Packets are consecutive in memory. Neighbours with the same receiver and size (the fragments of a picture) become
//! one message that the kernel splits again (UDP_SEGMENT); messages are sent with `sendmmsg`.

use std::collections::HashSet;
use std::mem::{self, MaybeUninit};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Messages per system call.
const MESSAGES_MAX: usize = 256;

/// Packets per message, and their bytes: what every kernel with segmentation allows.
const SEGMENTS_MAX: u16 = 64;
const MESSAGE_BYTES_MAX: usize = 60_000;

/// Receivers known to be behind a smaller MTU; one more, and they are found out again.
const UNCUT_MAX: usize = 1024;

/// Room for one control message with two bytes.
const CONTROL_BYTES: usize = 24;

/// Packets waiting for their socket.
#[derive(Debug)]
pub struct DatagramBatch {
    bytes: Vec<u8>,
    messages: Vec<Message>,
    sent: usize,
    /// True if the kernel splits messages.
    cuts: bool,
    /// Receivers for which it does not, because their packets are larger than the MTU on the way.
    uncut: HashSet<IpAddr>,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    to: SocketAddr,
    start: usize,
    length: usize,
    /// The size of each packet; the last one may be shorter.
    segment: usize,
    packets: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sending {
    pub calls: u64,
    /// Packets that the system refused.
    pub refused: u64,
    /// The socket would block.
    pub is_blocked: bool,
}

impl DatagramBatch {
    /// An empty batch; `cuts` says whether the kernel can segment messages.
    pub fn new(cuts: bool) -> DatagramBatch {
        DatagramBatch { bytes: Vec::new(), messages: Vec::new(), sent: 0, cuts, uncut: HashSet::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds the packet consisting of `parts`.
    pub fn push(&mut self, to: SocketAddr, parts: &[&[u8]]) {
        let start = self.bytes.len();
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        let length = self.bytes.len() - start;
        if self.cuts
            && let Some(last) = self.messages.last_mut()
            && last.fits(to, length)
            && !self.uncut.contains(&to.ip())
        {
            last.length += length;
            last.packets += 1;
            return;
        }
        self.messages.push(Message { to, start, length, segment: length, packets: 1 });
    }

    /// Sends as much as `socket` accepts.
    pub fn send(&mut self, socket: BorrowedFd<'_>) -> Sending {
        let mut sending = Sending::default();
        while self.sent < self.messages.len() {
            sending.calls += 1;
            match self.send_some(socket) {
                Ok(count) => self.sent += count,
                Err(libc::EINTR) => {}
                Err(libc::EAGAIN | libc::ENOBUFS) => {
                    sending.is_blocked = true;
                    return sending;
                }
                // A device without segmentation.
                Err(libc::EIO | libc::EOPNOTSUPP) if self.messages[self.sent].packets > 1 => {
                    self.cuts = false;
                    self.cut_rest(|_| true);
                }
                // A way to this receiver with a smaller MTU.
                Err(libc::EINVAL | libc::EMSGSIZE) if self.messages[self.sent].packets > 1 => {
                    let receiver = self.messages[self.sent].to.ip();
                    self.note_uncut(receiver);
                    self.cut_rest(|message| message.to.ip() == receiver);
                }
                Err(_) => {
                    sending.refused += u64::from(self.messages[self.sent].packets);
                    self.sent += 1;
                }
            }
        }
        self.bytes.clear();
        self.messages.clear();
        self.sent = 0;
        sending
    }

    /// Remembers that the kernel splits nothing for this receiver.
    fn note_uncut(&mut self, receiver: IpAddr) {
        if self.uncut.len() == UNCUT_MAX {
            self.uncut.clear();
        }
        self.uncut.insert(receiver);
    }

    /// Splits those of the remaining messages that are `meant` into one per packet.
    fn cut_rest(&mut self, meant: impl Fn(&Message) -> bool) {
        let rest = self.messages.split_off(self.sent);
        for message in rest {
            if !meant(&message) {
                self.messages.push(message);
                continue;
            }
            let end = message.start + message.length;
            for start in (message.start..end).step_by(message.segment.max(1)) {
                let length = message.segment.min(end - start);
                self.messages.push(Message { start, length, segment: length, packets: 1, ..message });
            }
        }
    }

    /// Sends the next messages with one call; returns how many were accepted.
    fn send_some(&self, socket: BorrowedFd<'_>) -> Result<usize, i32> {
        let messages = &self.messages[self.sent..];
        let messages = &messages[..messages.len().min(MESSAGES_MAX)];
        let mut addresses: Vec<_> = messages.iter().map(|message| Address::of(message.to)).collect();
        let mut controls: Vec<_> =
            messages.iter().map(|message| Control::of(message.segment as u16)).collect();
        let mut slices: Vec<_> = messages
            .iter()
            .map(|message| libc::iovec {
                iov_base: self.bytes[message.start..].as_ptr().cast_mut().cast(),
                iov_len: message.length,
            })
            .collect();
        let mut heads: Vec<libc::mmsghdr> = Vec::with_capacity(messages.len());
        for (place, message) in messages.iter().enumerate() {
            // SAFETY: an all-zero header is valid and empty.
            let mut head: libc::mmsghdr = unsafe { mem::zeroed() };
            head.msg_hdr.msg_name = ptr::from_mut(&mut addresses[place].bytes).cast();
            head.msg_hdr.msg_namelen = addresses[place].length;
            head.msg_hdr.msg_iov = &raw mut slices[place];
            head.msg_hdr.msg_iovlen = 1;
            if message.packets > 1 {
                head.msg_hdr.msg_control = ptr::from_mut(&mut controls[place]).cast();
                head.msg_hdr.msg_controllen = Control::length() as _;
            }
            heads.push(head);
        }
        // SAFETY: all pointers in `heads` are to memory that lives until the call returns.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                heads.as_mut_ptr(),
                heads.len() as u32,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        if sent < 0 {
            return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO));
        }
        Ok(sent as usize)
    }
}

impl Message {
    /// Returns true if a packet of `length` bytes can follow in the same message.
    fn fits(&self, to: SocketAddr, length: usize) -> bool {
        let is_full = self.length == self.segment * usize::from(self.packets);
        self.to == to
            && is_full
            && length <= self.segment
            && self.packets < SEGMENTS_MAX
            && self.length + length <= MESSAGE_BYTES_MAX
    }
}

/// Returns true if the kernel splits messages sent on `socket`.
pub fn can_cut(socket: BorrowedFd<'_>) -> bool {
    let none: libc::c_int = 0;
    // SAFETY: the option's value is a number, and its size is given.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const none).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    outcome == 0
}

/// A control message with the segment size, in the kernel's layout.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

impl Control {
    fn of(segment: u16) -> Control {
        let mut bytes = [0; CONTROL_BYTES];
        // SAFETY: an all-zero header is valid.
        let mut head: libc::cmsghdr = unsafe { mem::zeroed() };
        // SAFETY: only computes a length.
        head.cmsg_len = unsafe { libc::CMSG_LEN(size_of::<u16>() as u32) } as _;
        head.cmsg_level = libc::SOL_UDP;
        head.cmsg_type = libc::UDP_SEGMENT;
        // SAFETY: there is room for a header, and it is aligned as one.
        unsafe { ptr::write(bytes.as_mut_ptr().cast::<libc::cmsghdr>(), head) };
        let data = size_of::<libc::cmsghdr>();
        bytes[data..data + 2].copy_from_slice(&segment.to_ne_bytes());
        Control(bytes)
    }

    fn length() -> usize {
        // SAFETY: only computes a length.
        unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) as usize }
    }
}

/// An address in the kernel's layout.
struct Address {
    bytes: MaybeUninit<libc::sockaddr_storage>,
    length: libc::socklen_t,
}

impl Address {
    fn of(address: SocketAddr) -> Address {
        let mut bytes = MaybeUninit::<libc::sockaddr_storage>::zeroed();
        let length = match address {
            SocketAddr::V4(address) => {
                let inner = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                    sin_zero: [0; 8],
                };
                // SAFETY: a storage has room for any address and is aligned for it.
                unsafe { ptr::write(bytes.as_mut_ptr().cast(), inner) };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(address) => {
                let inner = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                };
                // SAFETY: a storage has room for any address and is aligned for it.
                unsafe { ptr::write(bytes.as_mut_ptr().cast(), inner) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        Address { bytes, length: length as libc::socklen_t }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::Duration;

    fn check(listen: &str, cuts: bool) {
        let (sender, receiver) = (UdpSocket::bind(listen).unwrap(), UdpSocket::bind(listen).unwrap());
        receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let to = receiver.local_addr().unwrap();
        let mut datagrams = DatagramBatch::new(cuts && can_cut(sender.as_fd()));
        let sizes = [100, 700, 700, 700, 300, 700, 1400, 1, 1];
        for (number, size) in sizes.iter().enumerate() {
            datagrams.push(to, &[&[number as u8], &vec![7; size - 1]]);
        }
        let sending = datagrams.send(sender.as_fd());
        assert_eq!(sending, Sending { calls: 1, refused: 0, is_blocked: false });
        assert!(datagrams.is_empty());
        let mut received = [0; 2000];
        for (number, size) in sizes.iter().enumerate() {
            let count = receiver.recv(&mut received).unwrap();
            assert_eq!((count, received[0]), (*size, number as u8));
        }
    }

    #[test]
    fn packets_arrive_as_they_were() {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            check(listen, false);
            check(listen, true);
        }
    }

    #[test]
    fn neighbours_of_one_size_go_together() {
        let (here, there) = ("127.0.0.1:5".parse().unwrap(), "127.0.0.1:6".parse().unwrap());
        let mut datagrams = DatagramBatch::new(true);
        for (to, size) in [(here, 10), (here, 10), (here, 4), (here, 4), (there, 4), (there, 5), (here, 5)] {
            datagrams.push(to, &[&[0; 16][..size]]);
        }
        let packets: Vec<_> = datagrams.messages.iter().map(|message| message.packets).collect();
        assert_eq!(packets, [3, 1, 1, 1, 1]);
        datagrams.cut_rest(|_| true);
        assert_eq!(datagrams.messages.len(), 7);
        assert!(datagrams.messages.iter().all(|message| message.length == message.segment));
    }

    /// More packets than the kernel allows are refused as packets beyond the MTU are.
    #[test]
    fn what_the_kernel_does_not_split_for_one_receiver_it_splits_for_others() {
        let [sender, here, there] =
            ["127.0.0.1:0", "127.0.0.1:0", "127.0.0.2:0"].map(|address| UdpSocket::bind(address).unwrap());
        if !can_cut(sender.as_fd()) {
            return;
        }
        let [here, there] = [&here, &there].map(|socket| socket.local_addr().unwrap());
        let mut datagrams = DatagramBatch::new(true);
        datagrams.push(here, &[&[7; 200]]);
        datagrams.messages[0] = Message { segment: 1, packets: 200, ..datagrams.messages[0] };
        datagrams.push(there, &[&[7; 5]]);
        assert_eq!(datagrams.send(sender.as_fd()).refused, 0);
        for to in [here, here, there, there] {
            datagrams.push(to, &[&[7; 5]]);
        }
        let packets: Vec<_> = datagrams.messages.iter().map(|message| message.packets).collect();
        assert_eq!(packets, [1, 1, 2]);
    }
}
