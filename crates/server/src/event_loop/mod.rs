//! The event loop that readiness architectures share: epoll, clients, deadlines, stopping.
//!
//! It does what connections want as soon as it can be done without waiting. What may wait for a disk goes to
//! the [`Disk`], the one thing in which these architectures differ. Sockets are registered once, edge-triggered
//! for both directions, so a request on a kept connection costs one receive, one send and its share of a wait.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll;
use rustix::io::Errno;
use sojourn_content::{Caches, Done};

use crate::board::Place;
use crate::clients::{Clients, TOKEN_BITS};
use crate::clock::Clock;
use crate::connection::Pool;
use crate::counters::{Counter, Served};
use crate::disk::Disk;
use crate::log::AccessLog;
use crate::patience::drain::Drain;
use crate::patience::timers::{self, Timers};
use crate::proxy::Exchanges;
use crate::site::Site;
use crate::sockets::accept::Acceptor;
use crate::sockets::listener::Listener;
use crate::sockets::registry;
use crate::stop::Stop;

mod admission;
mod attending;
mod client;
mod drive;
mod errands;

use client::Client;

/// Events taken from one wait.
const EVENTS_MAX: usize = 512;

const STOP: u64 = u64::MAX;
const DISK: u64 = u64::MAX - 1;
const BELL: u64 = u64::MAX - 2;

/// Listeners' tokens begin here, above those of clients.
const LISTENERS: u64 = 1 << TOKEN_BITS;

/// Serves `site` on `listeners` until `stop`.
pub fn run<D: Disk>(site: &Site, listeners: Vec<Listener>, stop: &Stop, disk: D) -> io::Result<Served> {
    Loop::new(site, listeners, stop, disk)?.run()
}

/// A loop that has all it needs to run.
pub struct Loop<'a, D> {
    site: &'a Site,
    stop: &'a Stop,
    log: Option<AccessLog>,
    /// The process has no other loop and no threads: it counts what others count for all.
    is_child: bool,
    disk: D,
    epoll: OwnedFd,
    /// None once the server is stopping.
    acceptors: Vec<Acceptor>,
    /// Descriptors have run out: the listeners are not waited for until the next tick.
    accepting_is_paused: bool,
    clients: Clients<Client>,
    /// Clients that had their turn and could go on.
    runnable: Vec<u64>,
    outcomes: Vec<(u64, Done)>,
    /// For a proxy.
    exchanges: Option<Exchanges>,
    caches: Caches,
    pool: Pool,
    clock: Clock,
    timers: Timers,
    served: Served,
    place: Place,
    /// Once the server is stopping.
    drain: Option<Drain>,
}

impl<'a, D: Disk> Loop<'a, D> {
    /// A loop for `site` on `listeners` that has yet to run.
    pub fn new(site: &'a Site, listeners: Vec<Listener>, stop: &'a Stop, disk: D) -> io::Result<Self> {
        Loop::at(site.board.place(), site, listeners, stop, disk)
    }

    /// The same, counting at `place`.
    fn at(
        place: Place,
        site: &'a Site,
        listeners: Vec<Listener>,
        stop: &'a Stop,
        disk: D,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let acceptors = listeners.into_iter().map(Acceptor::new).collect::<io::Result<Vec<_>>>()?;
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
        let exchanges = site.proxy.as_ref().map(|proxy| Exchanges::new(proxy, &site.limits)).transpose()?;
        if let Some(exchanges) = &exchanges {
            watch(exchanges.bell_fd(), BELL)?;
        }
        let clock = Clock::for_log(site.log.as_ref());
        let timers = Timers::new(clock.now);
        Ok(Loop {
            site,
            stop,
            log: site.log.clone(),
            is_child: false,
            disk,
            epoll,
            acceptors,
            accepting_is_paused: false,
            clients: Clients::default(),
            runnable: Vec::new(),
            outcomes: Vec::new(),
            exchanges,
            caches: Caches::new(&site.budgets),
            pool: Pool::default(),
            clock,
            timers,
            served: Served::default(),
            place,
            drain: None,
        })
    }

    /// Serves until the stop.
    pub fn run(mut self) -> io::Result<Served> {
        registry::complete();
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS_MAX);
        while !self.is_finished() {
            self.wait(&mut events, self.timeout())?;
            self.turn(&events);
        }
        self.publish();
        Ok(self.site.counters())
    }

    /// Waits for `events`, until `timeout`.
    fn wait(&self, events: &mut Vec<epoll::Event>, timeout: Option<Timespec>) -> io::Result<()> {
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn is_finished(&self) -> bool {
        self.drain.is_some() && self.clients.is_empty()
    }

    /// Until the next tick, if anything depends on it.
    fn timeout(&self) -> Option<Timespec> {
        let wait = if !self.runnable.is_empty() || self.exchanges.as_ref().is_some_and(Exchanges::has_errands)
        {
            Duration::ZERO
        } else if self.clients.is_empty() && !self.accepting_is_paused {
            return None;
        } else {
            timers::until_next(self.clock.now)
        };
        Some(Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) })
    }

    fn turn(&mut self, events: &[epoll::Event]) {
        self.clock.look();
        for event in events {
            let (token, flags) = (event.data.u64(), event.flags);
            match token {
                STOP => self.begin_drain(),
                DISK => self.collect(),
                BELL => self.exchanges.iter_mut().for_each(Exchanges::collect_calls),
                LISTENERS.. => {
                    self.accept((token - LISTENERS) as usize);
                }
                token => self.ready(token, flags),
            }
        }
        for token in std::mem::take(&mut self.runnable) {
            self.drive_parked(token);
        }
        self.run_errands();
        if self.timers.is_due(self.clock.now) {
            self.expire();
            self.resume_accepting();
            self.end_drain();
        }
        self.publish();
    }

    fn publish(&mut self) {
        self.served.set_caches(self.caches.counts());
        let made = self.exchanges.as_ref().map_or(0, Exchanges::made);
        self.served.set(Counter::ConnectionsOpen, self.clients.len().saturating_sub(made) as u64);
        if let Some(exchanges) = &self.exchanges {
            exchanges.report(self.clock.now, &mut self.served);
        }
        self.disk.report(&mut self.served);
        if self.is_child {
            self.count_what_is_its_own();
        }
        self.place.publish(&self.served);
    }
}
