//! The rate at which a client reads a response, measured by acknowledged bytes, so that a full send buffer does not
//! count.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

/// The offset of `tcpi_bytes_acked` in the kernel's `struct tcp_info` (linux/tcp.h), which only ever grows.
const BYTES_ACKED_OFFSET: usize = 120;

const ROOM: usize = BYTES_ACKED_OFFSET + size_of::<u64>();

/// Checks a client's rate per period.
///
/// A check costs a system call, so there is none at the start of the first period: earlier bytes count in it, too.
#[derive(Debug, Default)]
pub struct SendRate {
    /// Bytes acknowledged at the end of the last period.
    acknowledged: u64,
}

impl SendRate {
    /// Ends a period; returns true if the client has read at least `bytes_min` in it.
    pub fn is_kept(&mut self, socket: impl AsFd, bytes_min: u64) -> bool {
        // A socket that is not TCP (under a real inetd) has no known rate.
        let Some(acknowledged) = bytes_acknowledged(socket) else { return true };
        let taken = acknowledged.saturating_sub(std::mem::replace(&mut self.acknowledged, acknowledged));
        taken >= bytes_min
    }
}

/// Bytes that the other side has acknowledged since the connection began.
fn bytes_acknowledged(socket: impl AsFd) -> Option<u64> {
    let mut info = MaybeUninit::<[u8; ROOM]>::zeroed();
    let mut length = ROOM as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, and there is room for them.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    // SAFETY: initialised with zeros where the kernel wrote nothing.
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
