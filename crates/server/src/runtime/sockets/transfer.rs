//! Transfers bytes between sockets and buffers without waiting.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_cork;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, send, sendmsg, shutdown};

use super::options::limit_unsent;
use crate::connection::{Buffer, Output, Piece};

/// Pieces of memory per call: a head, and half a megabyte or more of a stored body.
const PIECES_MAX: usize = 17;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Received this many bytes, or sent everything.
    Complete(usize),
    /// The socket would block.
    Blocked,
    /// The other side has shut down its sending side.
    Ended,
    /// The socket failed, or the file was truncated.
    Failed,
}

/// Receives available bytes, as far as `buffer` has room.
pub fn receive(socket: &OwnedFd, buffer: &mut Buffer) -> Transfer {
    loop {
        match recv(socket, rustix::buffer::spare_capacity(buffer.space()), RecvFlags::empty()) {
            Ok((0, _)) => return Transfer::Ended,
            Ok((count, _)) => return Transfer::Complete(count),
            Err(Errno::AGAIN) => return Transfer::Blocked,
            Err(Errno::INTR) => {}
            Err(_) => return Transfer::Failed,
        }
    }
}

/// Sets what `output` needs of the socket before it is sent.
pub fn prepare(socket: &OwnedFd, output: &mut Output) {
    // It only affects speed and the kernel's memory, so failures are ignored.
    if std::mem::take(&mut output.corks) {
        let _ = set_tcp_cork(socket, true);
    }
    let unsent_max = std::mem::take(&mut output.kernel_unsent_bytes_max);
    if unsent_max > 0 {
        let _ = limit_unsent(socket, unsent_max);
    }
}

/// Sends as much of `output` as the socket accepts, and records how much that was.
pub fn transmit(socket: &OwnedFd, output: &mut Output) -> Transfer {
    let total = output.total_bytes();
    if output.awaits_connection {
        // An empty send waits for the connection like any other.
        match send(socket, &[], SendFlags::NOSIGNAL) {
            Ok(_) => output.awaits_connection = false,
            Err(Errno::AGAIN | Errno::INTR) => return Transfer::Blocked,
            Err(_) => return Transfer::Failed,
        }
    }
    prepare(socket, output);
    while output.sent < total {
        match send_some(socket, output) {
            // The file was truncated, so the rest cannot be sent.
            Ok(0) => return Transfer::Failed,
            Ok(count) => output.sent += count,
            Err(Errno::AGAIN) => return Transfer::Blocked,
            Err(Errno::INTR) => {}
            Err(_) => return Transfer::Failed,
        }
    }
    if output.uncorks {
        let _ = set_tcp_cork(socket, false);
    }
    if output.is_last && shutdown(socket, Shutdown::Write).is_err() {
        return Transfer::Failed;
    }
    Transfer::Complete(total)
}

fn send_some(socket: &OwnedFd, output: &Output) -> Result<usize, Errno> {
    let mut flags = SendFlags::NOSIGNAL;
    if output.closes || output.is_last {
        // If the connection closes afterwards, the last bytes share a segment with the FIN.
        flags |= SendFlags::MORE;
    }
    let head = output.bytes.get(output.sent..).unwrap_or_default();
    let body_sent = output.sent.saturating_sub(output.bytes.len());
    if let Some((file, mut offset, length)) = output.body.as_ref().and_then(|body| body.in_file(body_sent)) {
        return if head.is_empty() {
            sendfile(socket, file, Some(&mut offset), length)
        } else {
            // MORE: the head shares a segment with the start of the file.
            send(socket, head, flags | SendFlags::MORE)
        };
    }
    match &output.body {
        None => send(socket, head, flags),
        Some(Piece::Memory(body)) if head.is_empty() => send(socket, &body[body_sent..], flags),
        Some(Piece::Memory(body)) => {
            let pieces = [IoSlice::new(head), IoSlice::new(body)];
            sendmsg(socket, &pieces, &mut SendAncillaryBuffer::default(), flags)
        }
        Some(body) => {
            let mut pieces = [IoSlice::new(head); PIECES_MAX];
            let first = usize::from(!head.is_empty());
            let mut count = first;
            for (slot, piece) in pieces[first..].iter_mut().zip(body.in_memory(body_sent)) {
                *slot = IoSlice::new(piece);
                count += 1;
            }
            sendmsg(socket, &pieces[..count], &mut SendAncillaryBuffer::default(), flags)
        }
    }
}
