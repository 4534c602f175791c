//! Socket options that rustix does not have: deferred accepting, the accept queue, unsent bytes, and TLS in the
//! kernel.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Deferred accepting (TCP_DEFER_ACCEPT, tcp(7)): the kernel hands over a connection when its first bytes have arrived,
/// which saves about a twentieth of the cost of a connection with one request. nginx and Apache offer the same. A
/// client that only connects is handed over after the timeout.
///
/// The kernel rounds `timeout` up to its retransmissions, at least a second.
pub fn defer_accept(listener: impl AsFd, timeout: Duration) -> io::Result<()> {
    let seconds = libc::c_int::try_from(timeout.as_secs()).unwrap_or(libc::c_int::MAX).max(1);
    set_tcp_option(listener, libc::TCP_DEFER_ACCEPT, seconds)
}

/// The timeout of deferred accepting on `listener`, if it is set.
pub fn deferral(listener: impl AsFd) -> Option<Duration> {
    let mut seconds: libc::c_int = 0;
    let mut size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value is written during the call, and has the given size.
    let outcome = unsafe {
        libc::getsockopt(
            listener.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw mut seconds).cast(),
            &raw mut size,
        )
    };
    (outcome == 0 && seconds > 0).then(|| Duration::from_secs(seconds as u64))
}

/// The accept queue of a listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLength {
    /// How many connections wait to be accepted.
    pub waiting: u32,
    /// How many may: the backlog.
    pub limit: u32,
}

/// The accept queue of `listener`.
pub fn queue_length(listener: impl AsFd) -> io::Result<QueueLength> {
    // Of a listening socket these fields are its queue (tcp_get_info in the kernel).
    tcp_info(listener).map(|info| QueueLength { waiting: info.tcpi_unacked, limit: info.tcpi_sacked })
}

/// The state of a connection whose other side has closed (include/net/tcp_states.h).
const TCP_CLOSE_WAIT: u8 = 8;

/// How long ago the last data of `connection` arrived, or the connection itself if it has sent none.
pub fn last_data_age(connection: impl AsFd) -> io::Result<Duration> {
    tcp_info(connection).map(|info| Duration::from_millis(info.tcpi_last_data_recv.into()))
}

/// Whether the other side of `connection` will send nothing more.
pub fn is_closed_by_peer(connection: impl AsFd) -> io::Result<bool> {
    tcp_info(connection).map(|info| info.tcpi_state == TCP_CLOSE_WAIT)
}

/// Limits how many bytes the kernel takes for `connection` before it has sent them (TCP_NOTSENT_LOWAT).
pub fn limit_unsent(connection: impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set_tcp_option(connection, libc::TCP_NOTSENT_LOWAT, bytes)
}

fn set_tcp_option(socket: impl AsFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the value is read during the call, and its size is given.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn tcp_info(socket: impl AsFd) -> io::Result<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut size = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the value is written during the call, and has the given size.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it consists of integers, and what the kernel did not write is zero.
    Ok(unsafe { info.assume_init() })
}

/// Tests kernel TLS on a connection of its own; the error says what is missing.
pub fn kernel_tls_available() -> io::Result<()> {
    // The kernel refuses it on unconnected sockets.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    const PROTOCOL: &[u8] = b"tls";
    // SAFETY: the option's value has the given length and outlives the call.
    let outcome = unsafe {
        libc::setsockopt(
            client.as_raw_fd(),
            libc::SOL_TCP,
            libc::TCP_ULP,
            PROTOCOL.as_ptr().cast(),
            PROTOCOL.len() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Write};

    #[test]
    fn only_who_speaks_is_accepted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(deferral(&listener), None);
        defer_accept(&listener, Duration::from_secs(5)).unwrap();
        assert!(deferral(&listener).is_some_and(|time| time >= Duration::from_secs(5)));
        listener.set_nonblocking(true).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        client.write_all(b"G").unwrap();
        listener.set_nonblocking(false).unwrap();
        listener.accept().unwrap();
    }

    #[test]
    fn the_kernel_takes_no_more_than_it_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let queued = |limit: Option<u32>| {
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let _kept = listener.accept().unwrap();
            if let Some(bytes) = limit {
                limit_unsent(&client, bytes).unwrap();
            }
            client.set_nonblocking(true).unwrap();
            std::iter::from_fn(|| client.write(&[0; 16 << 10]).ok()).sum::<usize>()
        };
        let usual = queued(None);
        let limited = queued(Some(16 << 10));
        assert!(limited < usual, "{limited} of {usual}");
    }

    #[test]
    fn the_kernel_says_yes_or_that_it_has_no_such_module() {
        if let Err(error) = kernel_tls_available() {
            assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{error}");
        }
    }
}
