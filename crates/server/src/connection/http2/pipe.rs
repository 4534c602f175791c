//! An in-memory connection: received bytes go in, bytes to send come out.
//!
//! `h2` reads and writes it like a socket, and would have to wait when the input is used up or the output is full. No
//! task is woken: it is polled again after every event.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::limits::OUTPUT_BYTES_MAX;
use crate::connection::Buffer;

/// Both ends; clones share them. One thread at a time holds all clones, so the lock is always free.
#[derive(Clone, Debug, Default)]
pub struct Pipe(Arc<Mutex<Ends>>);

#[derive(Debug, Default)]
struct Ends {
    input: Buffer,
    output: Vec<u8>,
}

impl Pipe {
    /// Sets the received bytes, and returns the previous buffer, which has been read.
    pub fn receive(&self, buffer: Buffer) -> Buffer {
        std::mem::replace(&mut self.ends().input, buffer)
    }

    /// Returns true if everything received has been read.
    pub fn is_read(&self) -> bool {
        self.ends().input.unread().is_empty()
    }

    pub fn take_output(&self) -> Vec<u8> {
        std::mem::take(&mut self.ends().output)
    }

    /// Provides memory for the next output.
    pub fn give_output(&self, bytes: Vec<u8>) {
        debug_assert!(bytes.is_empty(), "an output in which something is");
        self.ends().output = bytes;
    }

    /// Returns true if there is something to send.
    pub fn has_output(&self) -> bool {
        !self.ends().output.is_empty()
    }
}

impl Pipe {
    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let input = &mut self.ends().input;
        let count = input.unread().len().min(into.remaining());
        if count == 0 {
            return Poll::Pending;
        }
        into.put_slice(&input.unread()[..count]);
        input.consume(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let output = &mut self.ends().output;
        match bytes.len().min(OUTPUT_BYTES_MAX.saturating_sub(output.len())) {
            0 => Poll::Pending,
            count => {
                output.extend_from_slice(&bytes[..count]);
                Poll::Ready(Ok(count))
            }
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let output = &mut self.ends().output;
        let before = output.len();
        for piece in pieces {
            let count = piece.len().min(OUTPUT_BYTES_MAX.saturating_sub(output.len()));
            output.extend_from_slice(&piece[..count]);
        }
        match output.len() - before {
            0 => Poll::Pending,
            count => Poll::Ready(Ok(count)),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
