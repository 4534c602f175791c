//! A connection in memory for a peer of another implementation of HTTP/2, which is polled by hand.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The peer's end; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Pipe(Arc<Mutex<Ends>>);

#[derive(Debug, Default)]
struct Ends {
    input: VecDeque<u8>,
    output: Vec<u8>,
}

impl Pipe {
    /// Lets the peer read `bytes`.
    pub fn receive(&self, bytes: &[u8]) {
        self.ends().input.extend(bytes);
    }

    /// What the peer has written.
    pub fn take_output(&self) -> Vec<u8> {
        std::mem::take(&mut self.ends().output)
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let input = &mut self.ends().input;
        let (first, _) = input.as_slices();
        let count = first.len().min(into.remaining());
        if count == 0 {
            return Poll::Pending;
        }
        into.put_slice(&first[..count]);
        input.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.ends().output.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
