//! The completion-driven event loop: one ring with its clients and their deadlines.
//!
//! Where the readiness loop asks which sockets are ready and then receives and sends, this one submits the wants to the
//! ring and handles completions. Receiving, sending, closing, accepting and disk reads take one system call per
//! iteration, and none of the loop's system calls waits for a disk. Helpers find documents, as in `amped`, because the
//! kernel does not know an origin's rules for paths.
//!
//! Admission, limits, deadlines, counters and draining are those of the readiness loop and shared where possible.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Barrier;
use std::time::Duration;

use hashbrown::HashMap;
use io_uring::{opcode, types};
use sojourn_content::Done;

use crate::connection::{Buffer, Connection, Event, Outbox};
use crate::counters::Counter;
use crate::counters::scoreboard::Permit;
use crate::memory;
use crate::runtime::disk::Disk;
use crate::runtime::disk::HelperDisk;
use crate::runtime::event_loop::{EventLoop, LoopState};
use crate::runtime::sockets::accept::Listener;
use crate::runtime::sockets::registry;
use crate::runtime::timers::wheel;
use crate::site::Site;
use crate::stop::Stop;

mod admission;
mod batching;
mod buffers;
mod client;
mod drive;
mod queue;
mod read;
mod receive;
mod sanitizer;
mod send;
#[cfg(test)]
mod tests;

use admission::{Accepting, RingListener};
use batching::Batching;
use buffers::Buffers;
use client::{Client, Pending};
pub use queue::Unavailable;
use queue::{Completion, Purpose, Queue};
use read::Scratch;

/// Checks that this system supports io_uring.
pub fn available() -> Result<(), Unavailable> {
    Queue::new().and_then(|queue| Buffers::new(&queue)).map(drop).map_err(Unavailable::new)
}

/// Serves `site` on `listeners` with one ring until `stop`; `disk` finds its documents. No connection is served until
/// all rings sharing the barrier `built` exist.
pub fn run(
    site: &Site,
    listeners: Vec<Listener>,
    stop: &Stop,
    disk: HelperDisk,
    built: &Barrier,
) -> io::Result<()> {
    let ring = Ring::new(site, listeners, disk);
    built.wait();
    registry::complete();
    // After a failure, or a panic, something may still be under way, and the kernel would write into memory that is free.
    let mut ring = ManuallyDrop::new(ring?);
    ring.serve(stop)?;
    drop(ManuallyDrop::into_inner(ring));
    Ok(())
}

struct Ring<'a> {
    state: LoopState<'a, Pending>,
    queue: Queue,
    buffers: Buffers,
    /// Receives in progress into memory of connections.
    lent: usize,
    /// What receives still in progress write to, by the tokens of clients that have left.
    left: HashMap<u64, Buffer>,
    scratch: Scratch,
    disk: HelperDisk,
    listeners: Vec<RingListener>,
    outcomes: Vec<(u64, Done)>,
    batching: Batching,
    /// How many completions there are in this iteration.
    completions: usize,
}

impl<'a> Ring<'a> {
    fn new(site: &'a Site, listeners: Vec<Listener>, disk: HelperDisk) -> io::Result<Self> {
        let queue = Queue::new()?;
        let buffers = Buffers::new(&queue)?;
        let state = LoopState::new(site, site.scoreboard.slot(), site.log.clone())?;
        Ok(Ring {
            batching: Batching::new(state.clock.now),
            state,
            queue,
            buffers,
            lent: 0,
            left: HashMap::new(),
            scratch: Scratch::new(),
            disk,
            listeners: listeners
                .into_iter()
                .map(|listener| RingListener::new(listener, &site.limits))
                .collect::<io::Result<_>>()?,
            outcomes: Vec::new(),
            completions: 0,
        })
    }

    fn serve(&mut self, stop: &Stop) -> io::Result<()> {
        for listener in 0..self.listeners.len() {
            self.accept(listener, Accepting::Multishot);
        }
        self.watch(stop.fd(), Purpose::Stop);
        self.watch_outcomes();
        self.watch_waker();
        let mut completions = Vec::new();
        while !self.is_finished() {
            let timeout = self.timeout();
            self.queue.wait(timeout, self.batching.is_worthwhile(), &mut completions)?;
            self.handle_completions(&completions);
            completions.clear();
        }
        self.publish();
        // The last sockets are closed by operations, too.
        self.queue.flush()
    }

    fn is_finished(&self) -> bool {
        self.listeners.iter().all(RingListener::is_closed)
            && self.state.clients.is_empty()
            && self.left.is_empty()
    }

    /// The time until the next tick, if anything depends on it.
    fn timeout(&mut self) -> Option<Duration> {
        if self.state.has_runnable() {
            Some(Duration::ZERO)
        } else if self.state.clients.is_empty()
            && !self.listeners.iter().any(RingListener::is_paused)
            && !memory::is_short()
        {
            None
        } else {
            Some(wheel::until_next(self.state.clock.now))
        }
    }

    fn handle_completions(&mut self, completions: &[Completion]) {
        self.state.clock.update();
        let is_arrival =
            |completion: &&Completion| matches!(completion.purpose, Purpose::Accept | Purpose::Receive);
        self.batching.record(completions.iter().filter(is_arrival).count(), self.state.clock.now);
        self.completions = completions.len();
        let mut accepted =
            completions.iter().filter(|completion| completion.purpose == Purpose::Accept).count();
        for completion in completions {
            // What is left has to do for this one.
            if memory::is_critical() {
                self.save_memory();
            }
            match completion.purpose {
                Purpose::Nothing => {}
                Purpose::Accept => {
                    accepted -= 1;
                    self.accepted(completion, accepted);
                }
                Purpose::ListenerReady => self.listener_ready(completion),
                Purpose::Stop => self.begin_drain(),
                Purpose::Outcomes => {
                    self.collect();
                    self.watch_outcomes();
                }
                Purpose::Waker => {
                    self.state.handler.outbox().into_iter().for_each(Outbox::collect);
                    self.watch_waker();
                }
                _ => self.complete(completion),
            }
        }
        self.run();
        self.empty_outbox();
        if self.state.timers.is_due(self.state.clock.now) {
            self.expire();
            self.resume_accepting();
            self.end_drain();
            self.state.tick();
            self.save_memory();
            self.close_surplus();
        }
        self.publish();
    }

    fn watch_outcomes(&mut self) {
        if let Some(fd) = self.disk.completion_fd() {
            let fd = fd.as_raw_fd();
            // SAFETY: the helpers' descriptor lives as long as they do, and they as long as the ring.
            self.watch(unsafe { BorrowedFd::borrow_raw(fd) }, Purpose::Outcomes);
        }
    }

    fn watch_waker(&mut self) {
        if let Some(outbox) = self.state.handler.outbox() {
            let fd = outbox.waker_fd().as_raw_fd();
            // SAFETY: the queue lives as long as the handler, and the handler as long as the ring.
            self.watch(unsafe { BorrowedFd::borrow_raw(fd) }, Purpose::Waker);
        }
    }

    /// Completes once when `fd` is readable.
    fn watch(&mut self, fd: BorrowedFd<'_>, purpose: Purpose) {
        let poll = opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), libc::POLLIN as u32).build();
        // SAFETY: it points to no memory.
        unsafe { self.queue.push(poll, purpose, 0) };
    }

    fn publish(&mut self) {
        self.state.report(&self.disk);
        let is_short = self.listeners.iter().any(RingListener::has_short_queue);
        self.state.served.set(Counter::OverloadAcceptQueue, is_short.into());
        self.state.publish();
    }
}

impl<'a> EventLoop<'a> for Ring<'a> {
    type Progress = Pending;

    fn state(&mut self) -> &mut LoopState<'a, Pending> {
        &mut self.state
    }

    fn insert(&mut self, socket: OwnedFd, connection: Connection) {
        let client = Client::new(socket, connection, Permit::default(), Pending::default());
        self.state.clients.insert(client);
    }

    fn dispatch(&mut self, token: u64, event: Event) {
        let want = self.state.handle(token, event);
        self.drive(token, want);
    }
}
