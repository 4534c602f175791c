//! Kernel timestamps of received data: SO_TIMESTAMPNS, socket(7).
//!
//! For TCP the kernel reports when the last segment read had arrived, on the wall clock. The time since then is the
//! generator's own delay: it was busy or not yet awake.

use std::{
    io, mem,
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
};

use rustix::{
    io::Errno,
    time::{ClockId, clock_gettime},
};
use sojourn_measure::Nanos;

/// Room for one control message with a timestamp, aligned as required.
const CONTROL_WORDS: usize = 8;

pub fn enable(socket: BorrowedFd<'_>) -> io::Result<()> {
    enable_option(socket, libc::SO_TIMESTAMPNS)
}

/// Enables the kernel's count of dropped datagrams.
pub(crate) fn enable_overflows(socket: BorrowedFd<'_>) -> io::Result<()> {
    enable_option(socket, libc::SO_RXQ_OVFL)
}

fn enable_option(socket: BorrowedFd<'_>, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option's value is an int that lives during the call, and its size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Receives; returns the kernel timestamp of the last byte on the wall clock, if there is one.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<(usize, Option<Nanos>), Errno> {
    let part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    receive_into(socket, part, 0)
}

/// Receives up to `bytes` bytes and discards them: tcp(7), MSG_TRUNC. Nothing is copied.
pub fn discard(socket: BorrowedFd<'_>, bytes: usize) -> Result<(usize, Option<Nanos>), Errno> {
    let nowhere = libc::iovec { iov_base: ptr::null_mut(), iov_len: bytes };
    receive_into(socket, nowhere, libc::MSG_TRUNC)
}

fn receive_into(
    socket: BorrowedFd<'_>,
    mut part: libc::iovec,
    flags: libc::c_int,
) -> Result<(usize, Option<Nanos>), Errno> {
    let mut control = [0_u64; CONTROL_WORDS];
    // SAFETY: all fields of a msghdr may be zero.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the message points to one buffer and to room for control data, both alive and of the given sizes. With
    // MSG_TRUNC there is no buffer, and a TCP socket writes nothing.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    let Ok(received) = usize::try_from(received) else {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
    };
    Ok((received, arrived(&message)))
}

/// The kernel's timestamp of a message, on the wall clock.
pub(crate) fn arrived(message: &libc::msghdr) -> Option<Nanos> {
    // The control message contains a timespec.
    let time: libc::timespec = control_message(message, libc::SCM_TIMESTAMPNS)?;
    Some(Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64))
}

/// The number of datagrams dropped because the socket's buffer was full, if reported.
pub(crate) fn overflowed(message: &libc::msghdr) -> Option<u32> {
    control_message(message, libc::SO_RXQ_OVFL)
}

/// The content of a socket-level control message; `T` must be its type.
fn control_message<T: Copy>(message: &libc::msghdr, wanted: libc::c_int) -> Option<T> {
    // SAFETY: the kernel has filled in the control data and its length; the macros stay within them.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: the header comes from the macros and is within the control data.
        let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
        if level == libc::SOL_SOCKET && kind == wanted {
            // SAFETY: a message of this type contains such a value, possibly unaligned.
            return Some(unsafe { ptr::read_unaligned(libc::CMSG_DATA(header).cast()) });
        }
        // SAFETY: like the first one.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}

/// The offset of the wall clock from the monotonic clock, which reads `now`.
pub fn wall_clock_offset(now: Nanos) -> Nanos {
    let time = clock_gettime(ClockId::Realtime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64) - now
}

#[cfg(test)]
mod tests {
    use sojourn_measure::clock;
    use std::{
        io::Write,
        net::{TcpListener, TcpStream},
        os::fd::AsFd,
        thread,
        time::Duration,
    };

    use super::*;

    #[test]
    fn bytes_that_waited_say_how_long() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        enable(client.as_fd()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"hello").unwrap();
        thread::sleep(Duration::from_millis(30));
        let mut buffer = [0; 16];
        let (received, arrived) = receive(client.as_fd(), &mut buffer).unwrap();
        assert_eq!(&buffer[..received], b"hello");
        let now = clock::now();
        let waited = arrived.map(|arrived| now + wall_clock_offset(now) - arrived);
        // If the kernel lacks timestamps, the report says so instead.
        if let Some(waited) = waited {
            assert!((Nanos(29_000_000)..Nanos(5_000_000_000)).contains(&waited), "{waited:?}");
        }
    }
}
