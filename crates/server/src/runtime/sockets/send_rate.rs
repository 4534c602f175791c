//! The rate at which a client takes a response, measured by the bytes that it has acknowledged: a full send
//! buffer does not hide it.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

/// Where `tcpi_bytes_acked` stands in the kernel's `struct tcp_info` (linux/tcp.h), which only ever grows.
const BYTES_ACKED_OFFSET: usize = 120;

const ROOM: usize = BYTES_ACKED_OFFSET + size_of::<u64>();

/// Watches a client from period to period.
///
/// Looking costs a system call, so the first period is not looked at when it begins: what was taken before
/// counts in it too. A period that it earned then is over; the next is measured.
#[derive(Debug, Default)]
pub struct SendRate {
    /// Bytes acknowledged when the last period ended.
    acknowledged: u64,
}

impl SendRate {
    /// A period is over; returns whether the client has taken as much as `bytes_min` in it.
    pub fn is_kept(&mut self, socket: impl AsFd, bytes_min: u64) -> bool {
        // A socket that is no TCP connection (under another inetd) has no known send rate.
        let Some(acknowledged) = bytes_acknowledged(socket) else { return true };
        let taken = acknowledged.saturating_sub(std::mem::replace(&mut self.acknowledged, acknowledged));
        taken >= bytes_min
    }
}

/// Bytes sent on a connection since it began that the other side has acknowledged.
fn bytes_acknowledged(socket: impl AsFd) -> Option<u64> {
    let mut info = MaybeUninit::<[u8; ROOM]>::zeroed();
    let mut length = ROOM as libc::socklen_t;
    // SAFETY: the kernel writes no more than `length` bytes, and there is room for them.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    // SAFETY: zeros where the kernel wrote nothing.
    let info = unsafe { info.assume_init() };
    let bytes = info[BYTES_ACKED_OFFSET..].try_into().expect("eight bytes");
    (outcome == 0 && length as usize == ROOM).then(|| u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn what_is_acknowledged_counts_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut send_rate = SendRate::default();
        assert!(!send_rate.is_kept(&server, 1));
        server.write_all(&[0; 5000]).unwrap();
        client.read_exact(&mut [0; 5000]).unwrap();
        assert!(send_rate.is_kept(&server, 5000) && !send_rate.is_kept(&server, 1));
    }

    #[test]
    fn what_is_no_connection_is_let_be() {
        let (_reading, writing) = std::io::pipe().unwrap();
        assert!(SendRate::default().is_kept(&writing, 1));
    }
}
