//! The queue through which other threads wake a loop's connections: they push the connection's token and signal an
//! eventfd.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use rustix::event::{EventfdFlags, eventfd};

#[derive(Debug)]
pub struct WakerQueue {
    tokens: Mutex<Vec<u64>>,
    event: OwnedFd,
}

struct Call {
    queue: Arc<WakerQueue>,
    token: u64,
}

impl WakerQueue {
    pub fn new() -> io::Result<Arc<WakerQueue>> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Arc::new(WakerQueue { tokens: Mutex::default(), event }))
    }

    /// A waker for the connection with this token, usable from any thread. The connection may have ended by then.
    pub fn waker(self: &Arc<Self>, token: u64) -> Waker {
        Waker::from(Arc::new(Call { queue: Arc::clone(self), token }))
    }

    /// Readable while the queue is not empty.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Returns the tokens of the connections to wake.
    pub fn take(&self) -> Vec<u64> {
        // Clear first: a wake-up in between makes it readable again.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
        let mut tokens = std::mem::take(&mut *self.lock());
        tokens.sort_unstable();
        tokens.dedup();
        tokens
    }

    fn push(&self, token: u64) {
        let mut tokens = self.lock();
        let is_first = tokens.is_empty();
        tokens.push(token);
        drop(tokens);
        if is_first {
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        self.queue.push(self.token);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.queue.push(self.token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_rings_is_collected_once() {
        let queue = WakerQueue::new().unwrap();
        let (first, second) = (queue.waker(7), queue.waker(3));
        std::thread::scope(|scope| {
            scope.spawn(|| first.wake_by_ref());
            scope.spawn(|| second.wake_by_ref());
            scope.spawn(|| first.wake_by_ref());
        });
        assert_eq!(queue.take(), [3, 7]);
        assert_eq!(queue.take(), [0_u64; 0]);
        first.wake();
        assert_eq!(queue.take(), [7]);
    }
}
