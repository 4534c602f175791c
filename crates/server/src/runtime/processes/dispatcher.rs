//! The dispatcher: one process accepts connections, others serve them.
//!
//! A connection goes to an idle helper (a process that serves one connection after the other), to a newly forked child,
//! or into a FIFO queue. The number of helpers and whether children are forked define the architecture: with helpers
//! only, connections wait in the queue; with children only, it is `fork`. The dispatcher never reads from or writes to
//! a connection, except to refuse it.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::Pid;

use super::accept::{LimitedAcceptor, refuse_overload};
use super::children::{Children, GRACE};
use super::log_writer::{LogWriter, with_log_writer};
use super::pool::Pool;
use crate::counters::scoreboard::{Permit, Slot};
use crate::counters::{Counter, Served};
use crate::runtime::sockets::accept::Arrival;
use crate::runtime::sockets::accept::Listener;
use crate::runtime::sockets::registry;
use crate::site::Site;
use crate::stop::Stop;

/// Connections accepted per loop iteration.
const ACCEPTS_PER_ITERATION: usize = 64;

const LISTENERS: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;
const ENDED: u64 = u64::MAX - 2;
const HELPERS: u64 = u64::MAX - 3;
const LOG_WRITER: u64 = u64::MAX - 4;

pub struct Plan<'a> {
    /// The number of helpers.
    pub helpers: usize,
    /// Runs in a child that is forked for one connection when no helper is idle; `None` to queue instead.
    pub child: Option<&'a ServeOne<'a>>,
}

/// The life of a child that serves one connection.
pub type ServeOne<'a> = dyn Fn(Dispatched<'_>) -> io::Result<()> + 'a;

/// One connection, and what its child needs to serve it.
pub struct Dispatched<'a> {
    pub arrival: Arrival,
    pub slot: Slot,
    pub stop: &'static Stop,
    /// Takes the child's log lines, if there is a log.
    pub log_writer: Option<&'a LogWriter>,
}

struct Waiting {
    arrival: Arrival,
    since: Instant,
}

/// Serves `site` on `listeners` until `stop`, according to the plan.
pub fn dispatch(site: &Site, listeners: Vec<Listener>, stop: &Stop, plan: &Plan<'_>) -> io::Result<()> {
    with_log_writer(site, listeners, |listeners, log_writer| {
        accept_and_dispatch(site, listeners, stop, plan, log_writer)
    })
}

fn accept_and_dispatch(
    site: &Site,
    listeners: Vec<Listener>,
    stop: &Stop,
    plan: &Plan<'_>,
    log_writer: Option<&LogWriter>,
) -> io::Result<()> {
    let mut this = Dispatcher::new(site, listeners, stop, plan, log_writer)?;
    registry::complete();
    let mut events = Vec::with_capacity(256);
    while !this.is_finished() {
        let timeout = this.timeout().and_then(|timeout| Timespec::try_from(timeout).ok());
        events.clear();
        match epoll::wait(&this.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        this.handle_events(&events)?;
    }
    Ok(())
}

struct Dispatcher<'a> {
    site: &'a Site,
    stop: &'a Stop,
    plan: &'a Plan<'a>,
    log_writer: Option<&'a LogWriter>,
    epoll: OwnedFd,
    /// `None` once the server is stopping.
    acceptor: Option<LimitedAcceptor<'a>>,
    children: Children,
    helpers: Pool,
    /// Children that serve one connection each.
    dispatched: HashMap<Pid, Permit>,
    queue: VecDeque<Waiting>,
    served: Served,
    slot: Slot,
    /// When the remaining connections are cut off.
    drain_until: Option<Instant>,
}

impl<'a> Dispatcher<'a> {
    fn new(
        site: &'a Site,
        listeners: Vec<Listener>,
        stop: &'a Stop,
        plan: &'a Plan<'a>,
        log_writer: Option<&'a LogWriter>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let acceptor = LimitedAcceptor::new(site, listeners)?;
        let children = Children::new(&site.scoreboard)?;
        let data = epoll::EventData::new_u64;
        for listener in acceptor.fds() {
            epoll::add(&epoll, listener, data(LISTENERS), epoll::EventFlags::IN)?;
        }
        epoll::add(&epoll, stop, data(STOP), epoll::EventFlags::IN)?;
        epoll::add(&epoll, &children, data(ENDED), epoll::EventFlags::IN)?;
        let helpers = Pool::new(plan.helpers)?;
        epoll::add(&epoll, &helpers, data(HELPERS), epoll::EventFlags::IN)?;
        if let Some(log_writer) = log_writer {
            epoll::add(&epoll, log_writer.end(), data(LOG_WRITER), epoll::EventFlags::IN)?;
        }
        let mut this = Dispatcher {
            site,
            stop,
            plan,
            log_writer,
            epoll,
            acceptor: Some(acceptor),
            children,
            helpers,
            dispatched: HashMap::new(),
            queue: VecDeque::new(),
            served: Served::default(),
            slot: site.scoreboard.connection_slot(),
            drain_until: None,
        };
        this.complete_helpers()?;
        this.publish();
        Ok(this)
    }

    fn is_finished(&self) -> bool {
        self.drain_until.is_some() && self.children.len() == 0
    }

    fn timeout(&self) -> Option<Duration> {
        let drain = self.drain_until.map(|until| until.saturating_duration_since(Instant::now()));
        let pause = self.acceptor.as_ref().and_then(LimitedAcceptor::pause);
        let backoff = self.helpers.pause().filter(|_| self.drain_until.is_none());
        let log_writer = self.log_writer.and_then(LogWriter::pause);
        [drain, pause, backoff, log_writer].into_iter().flatten().min()
    }

    fn handle_events(&mut self, events: &[epoll::Event]) -> io::Result<()> {
        for event in events {
            match event.data.u64() {
                STOP => self.begin_drain(),
                ENDED => self.reap(),
                HELPERS => self.receive_messages(),
                _ => {}
            }
        }
        self.look_after_log_writer();
        // Also after a pause, which no event ends.
        self.accept_up_to(ACCEPTS_PER_ITERATION);
        match self.drain_until {
            None => {
                self.helpers.stop_idle(false);
                self.complete_helpers()?;
                self.dispatch();
            }
            Some(until) => {
                self.dispatch();
                self.drain(until);
            }
        }
        self.publish();
        Ok(())
    }

    /// Accepts at most `count` waiting connections.
    fn accept_up_to(&mut self, count: usize) {
        for _ in 0..count {
            let Some(acceptor) = &mut self.acceptor else { return };
            let Some(arrival) = acceptor.next(&mut self.served) else { return };
            self.receive(Waiting { arrival, since: Instant::now() });
        }
    }

    /// Queues a connection; a helper may take it at once.
    fn receive(&mut self, client: Waiting) {
        let is_next = self.queue.is_empty() && (self.helpers.has_idle() || self.may_fork());
        let room = if self.plan.helpers > 0 { self.site.limits.helper_queue_max } else { 0 };
        if is_next || self.queue.len() < room {
            self.queue.push_back(client);
            return self.dispatch();
        }
        let limit = if self.plan.helpers > 0 { Counter::HelperRefused } else { Counter::LimitChildren };
        self.served.count(limit);
        refuse_overload(&client.arrival, &mut self.served);
        self.site.scoreboard.release(client.arrival.permit);
    }

    /// Passes queued connections to idle helpers or new children.
    fn dispatch(&mut self) {
        while let Some(client) = self.queue.pop_front() {
            match self.helpers.pass(&client.arrival) {
                Some(Ok(())) => {
                    let waited = client.since.elapsed().as_nanos() as u64;
                    self.served.add(Counter::HelperQueueWait, waited);
                }
                // A helper that has just ended is noticed separately; the connection goes to another.
                Some(Err(_)) => self.queue.push_front(client),
                None if self.may_fork() => self.fork(client),
                None => return self.queue.push_front(client),
            }
        }
    }

    fn may_fork(&self) -> bool {
        self.plan.child.is_some() && self.dispatched.len() < self.site.limits.children_max
    }

    fn fork(&mut self, client: Waiting) {
        let Some(life) = self.plan.child else { return };
        let Dispatcher { children, acceptor, helpers, queue, site, log_writer, .. } = self;
        let permit = client.arrival.permit;
        let mut arrival = Some(client.arrival);
        let started = children.start(site.scoreboard.connection_slot(), |slot, stop| {
            // The child must not keep other connections open.
            *acceptor = None;
            queue.clear();
            helpers.close_channels();
            let arrival = arrival.take().expect("taken in the child only");
            life(Dispatched { arrival, slot, stop, log_writer: *log_writer })
        });
        match (started, arrival) {
            (Ok(process), _) => {
                self.dispatched.insert(process, permit);
                if self.drain_until.is_some() {
                    // It was forked after the others were told to stop.
                    self.children.request_stop();
                }
            }
            // No more processes or descriptors now.
            (Err(_), Some(arrival)) => {
                refuse_overload(&arrival, &mut self.served);
                self.site.scoreboard.release(permit);
            }
            (Err(_), None) => unreachable!("taken in the child only"),
        }
    }

    /// Reads which connections helpers have finished.
    fn receive_messages(&mut self) {
        for (busy, permit) in self.helpers.receive_messages() {
            self.served.count(Counter::HelperJobs);
            self.served.add(Counter::HelperBusy, busy.as_nanos() as u64);
            self.site.scoreboard.release(permit);
        }
    }

    fn reap(&mut self) {
        for ended in self.children.reap() {
            let dispatched = self.dispatched.remove(&ended.process);
            if let Some(permit) = dispatched.or_else(|| self.helpers.reap(&ended)) {
                self.site.scoreboard.release(permit);
            }
        }
    }

    fn look_after_log_writer(&mut self) {
        let Dispatcher { helpers, acceptor, queue, log_writer: Some(log_writer), .. } = self else { return };
        log_writer.replace_if_ended(|| {
            *acceptor = None;
            queue.clear();
            helpers.close_channels();
        });
    }

    fn complete_helpers(&mut self) -> io::Result<()> {
        let Dispatcher { helpers, children, site, acceptor, queue, log_writer, .. } = self;
        helpers.complete(children, site, *log_writer, || {
            *acceptor = None;
            queue.clear();
        })
    }

    fn begin_drain(&mut self) {
        debug_assert!(self.stop.is_requested(), "woken without a stop");
        let _ = epoll::delete(&self.epoll, self.stop.fd());
        // Connections already in the backlog are served, and a few that come meanwhile. Under overload these come without end.
        let waiting = self.acceptor.as_ref().map_or(0, LimitedAcceptor::waiting);
        self.accept_up_to(waiting + ACCEPTS_PER_ITERATION);
        self.acceptor = None;
        self.drain_until = Some(Instant::now() + self.site.drain_timeout() + GRACE);
        self.children.request_stop();
    }

    /// Starts draining: helpers end when the queue is empty.
    fn drain(&mut self, until: Instant) {
        if self.helpers.is_empty() || Instant::now() >= until {
            for client in std::mem::take(&mut self.queue) {
                refuse_overload(&client.arrival, &mut self.served);
                self.site.scoreboard.release(client.arrival.permit);
            }
        }
        if self.queue.is_empty() {
            self.helpers.stop_idle(true);
        }
        if Instant::now() >= until {
            self.children.kill();
            // They now end, and each end wakes the dispatcher.
            self.drain_until = Some(Instant::now() + GRACE);
        }
    }

    fn publish(&mut self) {
        self.served.set(Counter::ConnectionsOpen, self.queue.len() as u64);
        self.served.set(Counter::HelperQueueLength, self.queue.len() as u64);
        self.children.report(&mut self.served);
        self.slot.publish(&self.served);
    }
}
