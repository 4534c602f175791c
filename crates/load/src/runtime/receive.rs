//! Reads a TCP socket without blocking: into memory, or discarding in the kernel.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    ptr,
};

use rustix::{
    io::Errno,
    net::{RecvFlags, recv},
};
use sojourn_measure::Nanos;

use crate::runtime::timestamps;

/// Longer remaining bodies are discarded in the kernel.
pub const DISCARD_BYTES_MIN: u64 = 4096;
/// The most that is discarded per call.
pub const DISCARD_BYTES_MAX: u64 = 1 << 30;

/// The number of bytes received, and the kernel's timestamp of the last, if enabled.
pub type Received = (usize, Option<Nanos>);

/// Receives; with `stamps`, returns the kernel timestamp too.
pub fn receive(socket: &OwnedFd, room: &mut [u8], stamps: bool) -> Result<Received, Errno> {
    match stamps {
        true => timestamps::receive(socket.as_fd(), room),
        false => recv(socket, room, RecvFlags::empty()).map(|(received, _)| (received, None)),
    }
}

/// Receives up to `bytes` bytes and discards them: tcp(7), MSG_TRUNC. Nothing is copied.
pub fn discard(socket: &OwnedFd, bytes: usize, stamps: bool) -> Result<Received, Errno> {
    if stamps {
        return timestamps::discard(socket.as_fd(), bytes);
    }
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing to the buffer, so none is needed.
    let received = unsafe { libc::recv(socket.as_raw_fd(), ptr::null_mut(), bytes, libc::MSG_TRUNC) };
    usize::try_from(received)
        .map(|received| (received, None))
        .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}
