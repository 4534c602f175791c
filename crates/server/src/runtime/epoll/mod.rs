//! The event loop that readiness architectures share: epoll, clients, deadlines, stopping.
//!
//! It performs wants as soon as that is possible without waiting. Whatever may wait for a disk goes to the [`Disk`], in
//! which these architectures differ. Sockets are registered once, edge-triggered in both directions, so a request on a
//! kept connection costs one receive, one send and its share of a wait.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll;
use rustix::io::Errno;
use sojourn_content::Done;

use crate::clients::TOKEN_BITS;
use crate::connection::{Connection, Event, Outbox};
use crate::counters::scoreboard::Permit;
use crate::counters::{Counter, Served};
use crate::memory;
use crate::runtime::disk::Disk;
use crate::runtime::event_loop::{EventLoop, LoopState};
use crate::runtime::sockets::accept::Acceptor;
use crate::runtime::sockets::accept::Listener;
use crate::runtime::sockets::registry;
use crate::runtime::sockets::rounds::Rounds;
use crate::runtime::timers::wheel;
use crate::site::Site;
use crate::stop::Stop;

mod admission;
mod client;
mod drive;
mod gathered;
mod single_connection;

use client::{Client, Readiness};
use gathered::Gathered;

/// Events per wait.
const EVENTS_MAX: usize = 512;

const STOP: u64 = u64::MAX;
const DISK: u64 = u64::MAX - 1;
const WAKER: u64 = u64::MAX - 2;

/// Tokens of listeners start here, above those of clients.
const LISTENERS: u64 = 1 << TOKEN_BITS;

pub fn run<D: Disk>(site: &Site, listeners: Vec<Listener>, stop: &Stop, disk: D) -> io::Result<Served> {
    Loop::new(site, listeners, stop, disk)?.run()
}

/// A loop that is ready to run.
pub struct Loop<'a, D> {
    state: LoopState<'a, Readiness>,
    stop: &'a Stop,
    /// True in a process without other loops and threads: it also reports counters that are otherwise kept for all
    /// loops.
    is_child: bool,
    disk: D,
    epoll: OwnedFd,
    /// Empty once the server is stopping.
    acceptors: Vec<Acceptor>,
    /// By listener, for overload.
    rounds: Vec<Rounds>,
    /// How many there are in this iteration.
    events: usize,
    /// Descriptors have run out: do not wait for the listeners until the next tick.
    accepting_is_paused: bool,
    outcomes: Vec<(u64, Done)>,
    sends: Gathered,
}

impl<'a, D: Disk> Loop<'a, D> {
    pub fn new(site: &'a Site, listeners: Vec<Listener>, stop: &'a Stop, disk: D) -> io::Result<Self> {
        Loop::with(LoopState::new(site, site.scoreboard.slot(), site.log.clone())?, listeners, stop, disk)
    }

    /// A loop with this state.
    fn with(
        mut state: LoopState<'a, Readiness>,
        listeners: Vec<Listener>,
        stop: &'a Stop,
        disk: D,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let acceptors = listeners.into_iter();
        let wait_max = state.site.limits.accept_wait;
        let acceptors =
            acceptors.map(|listener| Acceptor::new(listener, wait_max)).collect::<io::Result<Vec<_>>>()?;
        let watch = |fd: BorrowedFd<'_>, token| {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
        };
        for (acceptor, token) in acceptors.iter().zip(LISTENERS..) {
            watch(acceptor.fd(), token)?;
        }
        watch(stop.fd(), STOP)?;
        if let Some(fd) = disk.completion_fd() {
            watch(fd, DISK)?;
        }
        let mut sends = Gathered::default();
        if let Some(outbox) = state.handler.outbox() {
            watch(outbox.waker_fd(), WAKER)?;
            sends = Gathered::of_gateway();
        }
        Ok(Loop {
            state,
            stop,
            is_child: false,
            disk,
            epoll,
            rounds: acceptors.iter().map(|_| Rounds::default()).collect(),
            events: 0,
            acceptors,
            accepting_is_paused: false,
            outcomes: Vec::new(),
            sends,
        })
    }

    /// Serves until a stop is requested and all connections are closed.
    pub fn run(mut self) -> io::Result<Served> {
        registry::complete();
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS_MAX);
        while !self.is_finished() {
            let timeout = self.timeout();
            self.wait(&mut events, timeout)?;
            self.handle_events(&events);
        }
        self.publish();
        Ok(self.state.site.counters())
    }

    /// Waits for events until `timeout`.
    fn wait(&self, events: &mut Vec<epoll::Event>, timeout: Option<Duration>) -> io::Result<()> {
        events.clear();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn is_finished(&self) -> bool {
        self.state.drain.is_some() && self.state.clients.is_empty()
    }

    /// The time until the next tick, if anything depends on it.
    fn timeout(&mut self) -> Option<Duration> {
        if self.state.has_runnable() {
            Some(Duration::ZERO)
        } else if self.state.clients.is_empty() && !self.accepting_is_paused && !memory::is_short() {
            None
        } else {
            Some(wheel::until_next(self.state.clock.now))
        }
    }

    fn handle_events(&mut self, events: &[epoll::Event]) {
        self.state.clock.update();
        self.sends.begin();
        self.events = events.len();
        for event in events {
            // What is left has to do for this event.
            if memory::is_critical() {
                self.save_memory();
            }
            let (token, flags) = (event.data.u64(), event.flags);
            match token {
                STOP => self.begin_drain(),
                DISK => self.collect(),
                WAKER => self.state.handler.outbox().into_iter().for_each(Outbox::collect),
                LISTENERS.. => self.accept((token - LISTENERS) as usize),
                token => self.ready(token, flags),
            }
        }
        for token in std::mem::take(&mut self.state.runnable) {
            self.drive_parked(token);
        }
        self.empty_outbox();
        self.send_gathered();
        self.sends.end();
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

    fn publish(&mut self) {
        self.state.report(&self.disk);
        let is_short = self.acceptors.iter().any(Acceptor::has_short_queue);
        self.state.served.set(Counter::OverloadAcceptQueue, is_short.into());
        if self.is_child {
            self.count_process();
        }
        self.state.publish();
    }
}

impl<'a, D: Disk> EventLoop<'a> for Loop<'a, D> {
    type Progress = Readiness;

    fn state(&mut self) -> &mut LoopState<'a, Readiness> {
        &mut self.state
    }

    fn insert(&mut self, socket: OwnedFd, connection: Connection) {
        let progress = Readiness::of(&connection);
        self.state.clients.insert(Client::new(socket, connection, Permit::default(), progress));
    }

    fn dispatch(&mut self, token: u64, event: Event) {
        let want = self.state.handle(token, event);
        self.drive(token, want);
    }
}
