//! The event loop that readiness architectures share: epoll, clients, deadlines, stopping.
//!
//! It does what connections want as soon as it can be done without waiting. What may wait for a disk goes to
//! the [`Disk`], the one thing in which these architectures differ. Sockets are registered once, edge-triggered
//! for both directions, so a request on a kept connection costs one receive, one send and its share of a wait.

use std::io;
use std::net::TcpListener;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll;
use rustix::io::Errno;
use slab::Slab;
use sojourn_content::{Caches, Done, Job};

use crate::clock::Clock;
use crate::connection::{Buffer, Connection, Context, Event, Pool, Reason, Wait, Want};
use crate::counters::{Counter, Place, Served};
use crate::site::Site;
use crate::stop::Stop;

mod accept;
mod timers;
mod transfer;

use accept::{Accepted, Acceptor};
use timers::Timers;
use transfer::Transfer;

/// Events taken from one wait.
const EVENTS_MAX: usize = 512;

/// Connections accepted before others have their turn.
const ACCEPTS_PER_TURN: usize = 64;

/// Sends of one connection before others have their turn.
const SENDS_PER_TURN: usize = 4;

/// How long a client may take to close after its last response.
const END_PATIENCE: Duration = Duration::from_secs(2);

const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;
const DISK: u64 = u64::MAX - 2;

/// What becomes of work that may block.
pub enum Submitted {
    /// It is done.
    Done(Done),
    /// Its outcome will be collected.
    Queued,
    /// There is too much to do already.
    Refused,
}

/// Who does what may block: the difference between the architectures that share this loop.
pub trait Disk {
    /// Does `job`, or has it done and its outcome collected under `token`.
    fn submit(&mut self, token: u64, job: Job) -> Submitted;

    /// Readable when there are outcomes to collect.
    fn completion_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Appends the outcomes.
    fn collect(&mut self, _into: &mut Vec<(u64, Done)>) {}

    /// Writes its counters to the table.
    fn report(&self, _served: &mut Served) {}
}

/// Serves `site` on `listener` until `stop`.
pub fn run<D: Disk>(site: &Site, listener: TcpListener, stop: &Stop, disk: D) -> io::Result<Served> {
    let mut this = Loop::new(site, listener, stop, disk)?;
    let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS_MAX);
    while !this.is_finished() {
        events.clear();
        match epoll::wait(&this.epoll, rustix::buffer::spare_capacity(&mut events), this.timeout().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        this.turn(&events);
    }
    this.publish();
    Ok(site.counters())
}

struct Loop<'a, D> {
    site: &'a Site,
    stop: &'a Stop,
    disk: D,
    epoll: OwnedFd,
    /// Gone once the server is stopping.
    acceptor: Option<Acceptor>,
    /// Descriptors have run out: the listener is not waited for until the next second.
    accepting_is_paused: bool,
    clients: Slab<Client>,
    /// Distinguishes clients that had the same place one after the other.
    generation: u32,
    /// Clients that had their turn and could go on.
    runnable: Vec<u64>,
    outcomes: Vec<(u64, Done)>,
    caches: Caches,
    pool: Pool,
    clock: Clock,
    second: u32,
    timers: Timers,
    served: Served,
    place: Arc<Place>,
    /// When those still open are closed regardless.
    drain_until: Option<Duration>,
}

/// A connection and its socket.
struct Client {
    socket: OwnedFd,
    connection: Connection,
    /// What it wants and could not have; `None` while it waits for the disk.
    parked: Option<Want>,
    generation: u32,
    is_readable: bool,
    is_writable: bool,
    /// The other side has shut its sending side: an end is to be read although no edge announces it.
    is_ended: bool,
    wait: Wait,
    deadline: u32,
    /// The second of its entry in the timers.
    entered: u32,
}

impl<'a, D: Disk> Loop<'a, D> {
    fn new(site: &'a Site, listener: TcpListener, stop: &'a Stop, disk: D) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let acceptor = Acceptor::new(listener)?;
        let watch = |fd: BorrowedFd<'_>, token| {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
        };
        watch(acceptor.fd(), LISTENER)?;
        watch(stop.fd(), STOP)?;
        if let Some(fd) = disk.completion_fd() {
            watch(fd, DISK)?;
        }
        let clock = Clock::new();
        let second = clock.now.as_secs() as u32;
        Ok(Loop {
            site,
            stop,
            disk,
            epoll,
            acceptor: Some(acceptor),
            accepting_is_paused: false,
            clients: Slab::new(),
            generation: 0,
            runnable: Vec::new(),
            outcomes: Vec::new(),
            caches: Caches::new(&site.budgets),
            pool: Pool::default(),
            clock,
            second,
            timers: Timers::new(second),
            served: Served::default(),
            place: site.board.place(),
            drain_until: None,
        })
    }

    fn is_finished(&self) -> bool {
        self.drain_until.is_some() && self.clients.is_empty()
    }

    /// Until the next second, if anything depends on it.
    fn timeout(&self) -> Option<Timespec> {
        let wait = if !self.runnable.is_empty() {
            Duration::ZERO
        } else if self.clients.is_empty() && !self.accepting_is_paused {
            return None;
        } else {
            Duration::from_nanos(1_000_000_000 - u64::from(self.clock.now.subsec_nanos()))
        };
        Some(Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) })
    }

    fn turn(&mut self, events: &[epoll::Event]) {
        self.clock.look();
        for event in events {
            let (token, flags) = (event.data.u64(), event.flags);
            match token {
                LISTENER => {
                    self.accept();
                }
                STOP => self.begin_drain(),
                DISK => self.collect(),
                token => self.ready(token, flags),
            }
        }
        for token in std::mem::take(&mut self.runnable) {
            self.drive_parked(token);
        }
        let second = self.clock.now.as_secs() as u32;
        if second != self.second {
            self.second = second;
            self.tick();
        }
        self.publish();
    }

    /// The client behind `token`, unless it is gone.
    fn client(&mut self, token: u64) -> Option<&mut Client> {
        let client = self.clients.get_mut(token as u32 as usize)?;
        (client.generation == (token >> 32) as u32).then_some(client)
    }

    fn ready(&mut self, token: u64, flags: epoll::EventFlags) {
        use epoll::EventFlags as F;
        let Some(client) = self.client(token) else { return };
        client.is_ended |= flags.intersects(F::RDHUP | F::HUP | F::ERR);
        client.is_readable |= flags.intersects(F::IN | F::RDHUP | F::HUP | F::ERR);
        let was_blocked = !client.is_writable;
        client.is_writable |= flags.intersects(F::OUT | F::HUP | F::ERR);
        match client.parked {
            Some(Want::Receive(_)) if client.is_readable => self.drive_parked(token),
            // If it was not blocked it is runnable, and has its turn already.
            Some(Want::Send(_)) if was_blocked && client.is_writable => self.drive_parked(token),
            _ => {}
        }
    }

    fn drive_parked(&mut self, token: u64) {
        if let Some(want) = self.client(token).and_then(|client| client.parked.take()) {
            self.drive(token, want);
        }
    }

    /// Does what the client wants, again and again, until that would mean waiting.
    fn drive(&mut self, token: u64, mut want: Want) {
        let mut sends = 0;
        loop {
            let client = &mut self.clients[token as u32 as usize];
            let event = match want {
                Want::Receive(buffer) => match client.receive(buffer, &mut self.pool, &mut self.served) {
                    Ok(event) => event,
                    Err(want) => return self.park(token, Some(want)),
                },
                Want::Send(_) if sends == SENDS_PER_TURN => {
                    self.runnable.push(token);
                    return self.park(token, Some(want));
                }
                Want::Send(mut output) => {
                    sends += 1;
                    let before = output.sent;
                    let outcome = transfer::transmit(&client.socket, &mut output);
                    self.served.add(Counter::SentBytes, (output.sent - before) as u64);
                    match outcome {
                        Transfer::Complete(_) => Event::Sent(output),
                        Transfer::Blocked => {
                            client.is_writable = false;
                            return self.park(token, Some(Want::Send(output)));
                        }
                        Transfer::Ended | Transfer::Failed => Event::Failed,
                    }
                }
                Want::Open(opening) => match self.disk.submit(token, Job::Open(opening)) {
                    Submitted::Done(done) => Event::Done(done),
                    Submitted::Refused => Event::Refused,
                    Submitted::Queued => return self.park(token, None),
                },
                Want::Load(range) => match self.disk.submit(token, Job::Load(range)) {
                    Submitted::Done(done) => Event::Done(done),
                    Submitted::Refused => Event::Refused,
                    Submitted::Queued => return self.park(token, None),
                },
                Want::Close(reason) => return self.close(token, reason),
            };
            want = self.handle(token, event);
        }
    }

    fn handle(&mut self, token: u64, event: Event) -> Want {
        let connection = &mut self.clients[token as u32 as usize].connection;
        connection.handle(
            event,
            &mut Context {
                caches: &mut self.caches,
                pool: &mut self.pool,
                served: &mut self.served,
                clock: &self.clock,
                log: self.site.log.as_ref(),
                is_draining: self.drain_until.is_some(),
            },
        )
    }

    /// Leaves the client waiting, with a deadline for what it waits for.
    fn park(&mut self, token: u64, want: Option<Want>) {
        let limits = &self.site.limits;
        let second = self.clock.now.as_secs() as u32;
        let client = &mut self.clients[token as u32 as usize];
        client.parked = want;
        let wait = client.connection.waits_for();
        if wait == Wait::Request && self.drain_until.is_some() {
            return self.close(token, Reason::Finished);
        }
        let patience = match wait {
            Wait::Request => limits.idle,
            Wait::Client => limits.send,
            // Trickling bytes do not move these deadlines.
            Wait::Head(_) | Wait::End if client.wait == wait => return,
            Wait::Head(_) => limits.head,
            Wait::End => END_PATIENCE,
            Wait::Disk => Duration::from_secs(u64::from(u32::MAX)),
        };
        client.wait = wait;
        // One more: the current second has partly gone.
        client.deadline = second.saturating_add(patience.as_secs() as u32).saturating_add(1);
        if client.deadline < client.entered {
            client.entered = self.timers.enter(token, client.deadline);
        }
    }

    fn close(&mut self, token: u64, reason: Reason) {
        match reason {
            Reason::Finished => {}
            Reason::TimedOut => self.served.count(Counter::Timeouts),
            Reason::Failed => self.served.count(Counter::ConnectionErrors),
        }
        let mut client = self.clients.remove(token as u32 as usize);
        if let Some(Want::Receive(buffer)) = client.parked {
            self.pool.put_buffer(buffer);
        }
        client.connection.finish(&mut Context {
            caches: &mut self.caches,
            pool: &mut self.pool,
            served: &mut self.served,
            clock: &self.clock,
            log: self.site.log.as_ref(),
            is_draining: self.drain_until.is_some(),
        });
    }

    /// Accepts who waits, up to a turn's worth; returns whether there may be more.
    fn accept(&mut self) -> bool {
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(acceptor) = &mut self.acceptor else { return false };
            match acceptor.accept() {
                Accepted::Connection(socket, _) if self.clients.len() >= self.site.limits.connections_max => {
                    accept::shed(&socket);
                    self.served.count(Counter::ConnectionsShed);
                }
                Accepted::Connection(socket, peer) => self.admit(socket, Connection::new(peer)),
                Accepted::Shed => self.served.count(Counter::ConnectionsShed),
                Accepted::Failed => self.served.count(Counter::AcceptErrors),
                Accepted::Nobody => return false,
                Accepted::Exhausted => {
                    self.served.count(Counter::AcceptErrors);
                    // Waiting for the listener would return at once, again and again.
                    self.accepting_is_paused = epoll::delete(&self.epoll, acceptor.fd()).is_ok();
                    return false;
                }
            }
        }
        true
    }

    fn admit(&mut self, socket: OwnedFd, connection: Connection) {
        use epoll::EventFlags as F;
        self.generation = self.generation.wrapping_add(1) & (u32::MAX >> 1);
        let place = self.clients.vacant_entry();
        let token = place.key() as u64 | u64::from(self.generation) << 32;
        let flags = F::IN | F::OUT | F::RDHUP | F::ET;
        if epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(token), flags).is_err() {
            accept::shed(&socket);
            self.served.count(Counter::ConnectionsShed);
            return;
        }
        self.served.count(Counter::ConnectionsAccepted);
        let parked = Some(connection.start());
        // By the clock: while there was nobody the loop slept, and `second` is when it fell asleep.
        let second = self.clock.now.as_secs() as u32;
        let deadline = second.saturating_add(self.site.limits.idle.as_secs() as u32).saturating_add(1);
        place.insert(Client {
            socket,
            connection,
            parked,
            generation: self.generation,
            is_readable: false,
            is_writable: true,
            is_ended: false,
            wait: Wait::Request,
            deadline,
            entered: self.timers.enter(token, deadline),
        });
    }

    fn collect(&mut self) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        self.disk.collect(&mut outcomes);
        for (token, done) in outcomes.drain(..) {
            if self.client(token).is_some() {
                let want = self.handle(token, Event::Done(done));
                self.drive(token, want);
            }
        }
        self.outcomes = outcomes;
    }

    /// What happens once a second.
    fn tick(&mut self) {
        for (token, second) in self.timers.advance(self.second) {
            let now = self.second;
            let Some(client) = self.client(token) else { continue };
            if client.entered != second {
                // An earlier deadline has its own entry.
                continue;
            }
            if client.deadline > now {
                let deadline = client.deadline;
                let entered = self.timers.enter(token, deadline);
                self.clients[token as u32 as usize].entered = entered;
            } else {
                client.parked = None;
                client.entered = u32::MAX;
                let want = self.handle(token, Event::Expired);
                self.drive(token, want);
            }
        }
        if self.accepting_is_paused
            && let Some(acceptor) = &self.acceptor
        {
            let data = epoll::EventData::new_u64(LISTENER);
            self.accepting_is_paused =
                epoll::add(&self.epoll, acceptor.fd(), data, epoll::EventFlags::IN).is_err();
        }
        if self.drain_until.is_some_and(|until| self.clock.now >= until) {
            for token in self.tokens() {
                self.close(token, Reason::TimedOut);
            }
        }
    }

    /// Stops listening. Connections without a request in progress close now, the others after it.
    fn begin_drain(&mut self) {
        debug_assert!(self.stop.is_requested(), "woken without a stop");
        let _ = epoll::delete(&self.epoll, self.stop.fd());
        // Those who have connected already are served.
        while self.accept() {}
        self.acceptor = None;
        self.accepting_is_paused = false;
        self.drain_until = Some(self.clock.now + self.site.limits.drain);
        for token in self.tokens() {
            if let Some(client) = self.client(token)
                && matches!(client.parked, Some(Want::Receive(_)))
            {
                // A request may have arrived of which no event has told yet. If not, it parks and so closes.
                client.is_readable = true;
                self.drive_parked(token);
            }
        }
    }

    fn tokens(&self) -> Vec<u64> {
        let token = |(index, client): (usize, &Client)| index as u64 | u64::from(client.generation) << 32;
        self.clients.iter().map(token).collect()
    }

    fn publish(&mut self) {
        use Counter as C;
        let [paths, heads, bodies] = self.caches.counts();
        let table = [
            (paths, [C::PathCacheHits, C::PathCacheMisses, C::PathCacheEvictions, C::PathCacheBytes]),
            (heads, [C::HeadCacheHits, C::HeadCacheMisses, C::HeadCacheEvictions, C::HeadCacheBytes]),
            (bodies, [C::BodyCacheHits, C::BodyCacheMisses, C::BodyCacheEvictions, C::BodyCacheBytes]),
        ];
        for (counts, keys) in table {
            for (key, value) in
                keys.into_iter().zip([counts.hits, counts.misses, counts.evictions, counts.bytes])
            {
                self.served.set(key, value);
            }
        }
        self.served.set(C::ConnectionsOpen, self.clients.len() as u64);
        self.disk.report(&mut self.served);
        self.place.publish(&self.served);
    }
}

impl Client {
    /// An event if there is something to receive, otherwise the want to be parked.
    fn receive(&mut self, buffer: Buffer, pool: &mut Pool, served: &mut Served) -> Result<Event, Want> {
        if !self.is_readable {
            return Err(Want::Receive(buffer));
        }
        let mut buffer = if buffer.is_allocated() { buffer } else { pool.take_buffer() };
        let room = buffer.space().capacity() - buffer.space().len();
        match transfer::receive(&self.socket, &mut buffer) {
            Transfer::Complete(count) => {
                // A short read emptied the socket; what comes next is a new edge.
                self.is_readable = count == room || self.is_ended;
                served.add(Counter::ReceivedBytes, count as u64);
                Ok(Event::Received(buffer))
            }
            Transfer::Blocked => {
                self.is_readable = false;
                if buffer.unread().is_empty() {
                    pool.put_buffer(buffer);
                    return Err(Want::Receive(Buffer::default()));
                }
                Err(Want::Receive(buffer))
            }
            Transfer::Ended => Ok(Event::Ended),
            Transfer::Failed => Ok(Event::Failed),
        }
    }
}
