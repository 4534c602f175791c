//! The part of an event loop that does not depend on how the kernel reports progress.
//!
//! [`LoopState`] holds clients, timers, counters and the handler; [`EventLoop`] opens and wakes the connections that a
//! handler requests. `epoll` adds readiness, `uring` completions.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_nodelay, set_tcp_quickack};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use sojourn_cgi::Ends;
use sojourn_http::http2::HeadCache;

use crate::access_log::AccessLog;
use crate::clients::Clients;
use crate::clock::Clock;
use crate::connection::{
    Address, Connection, Context, Destination, Event, Handler, Launch, Pool, Reason, Shared, Wait, Want,
};
use crate::counters::scoreboard::{Permit, Slot};
use crate::counters::{Counter, Served};
use crate::memory;
use crate::runtime::disk::Disk;
use crate::runtime::sockets::accept::{Arrival, ends, shed};
use crate::runtime::timers::Deadline;
use crate::runtime::timers::drain::Drain;
use crate::runtime::timers::wheel::Timers;
use crate::site::Site;
use crate::watermark::Watermark;

/// A connection and its socket; `P` is the driver's state of it.
pub struct Client<P> {
    pub socket: OwnedFd,
    pub connection: Connection,
    pub deadline: Deadline,
    /// An upstream connection has no permit.
    pub permit: Permit,
    /// Unknown unless the site's content uses them.
    pub ends: Ends,
    /// Others wait for the worker that it holds: its next response is its last.
    pub is_contended: bool,
    /// Too many connections are open: it ends as soon as no request is in progress.
    pub is_surplus: bool,
    pub progress: P,
}

impl<P> Client<P> {
    /// A new client that has not started to wait.
    pub fn new(socket: OwnedFd, connection: Connection, permit: Permit, progress: P) -> Client<P> {
        Client {
            socket,
            connection,
            deadline: Deadline::new(),
            permit,
            ends: Ends::default(),
            is_contended: false,
            is_surplus: false,
            progress,
        }
    }
}

/// The state of a loop whose clients have the driver state `P`.
pub struct LoopState<'a, P> {
    pub site: &'a Site,
    pub log: Option<AccessLog>,
    pub clients: Clients<Client<P>>,
    /// Runnable clients in the order of their turns.
    pub runnable: Vec<u64>,
    /// The handler of this loop's requests.
    pub handler: Box<dyn Handler>,
    pub pool: Pool,
    heads: HeadCache,
    pub clock: Clock,
    pub timers: Timers,
    pub served: Served,
    pub slot: Slot,
    /// Open connections of the whole server.
    connections: Watermark,
    /// Set once the server is stopping.
    pub drain: Option<Drain>,
}

impl<'a, P> LoopState<'a, P> {
    /// The state of a loop for `site` without clients, which counts in `slot` and logs to `log`.
    pub fn new(site: &'a Site, slot: Slot, log: Option<AccessLog>) -> io::Result<Self> {
        let clock = AccessLog::clock(log.as_ref());
        Ok(LoopState {
            site,
            log,
            clients: Clients::default(),
            runnable: Vec::new(),
            handler: site.handler()?,
            pool: Pool::default(),
            heads: HeadCache::default(),
            timers: Timers::new(clock.now),
            clock,
            served: Served::default(),
            slot,
            connections: site.limits.connections_watermark(),
            drain: None,
        })
    }

    /// All clients, and the context for the connection with `token`.
    pub fn context(&mut self, token: u64) -> (&mut Clients<Client<P>>, Context<'_>) {
        let shared = Shared {
            pool: &mut self.pool,
            heads: &mut self.heads,
            served: &mut self.served,
            clock: &self.clock,
            send_path: &self.site.send_path,
            log: self.log.as_ref(),
            limits: &self.site.limits,
            is_draining: self.drain.is_some() || memory::is_short(),
            stops_receiving: false,
            token,
            ends: Ends::default(),
        };
        (&mut self.clients, Context { handler: &mut *self.handler, shared })
    }

    /// Passes an event to the connection with `token`; returns its next want.
    pub fn handle(&mut self, token: u64, event: Event) -> Want {
        let are_many = self.connections.is_high();
        let (clients, mut context) = self.context(token);
        let client = clients.at(token);
        context.shared.ends = client.ends;
        // With TLS, it is the layer of TLS that receives.
        context.shared.stops_receiving = client.connection.stops_receiving();
        // Connections to upstreams are kept nevertheless.
        context.shared.is_draining |= client.is_contended || are_many && client.permit.is_taken();
        client.connection.handle(event, &mut context)
    }

    /// Adds a client that was accepted, whose token was vacant.
    pub fn add_client(&mut self, mut client: Client<P>) {
        if self.site.content.speaks_cgi() {
            client.ends = ends(&client.socket);
        }
        self.served.count(Counter::ConnectionsAccepted);
        self.clients.insert(client);
    }

    /// The permit for a new connection; without one, the connection is refused and counted.
    pub fn permit(&mut self, arrival: &Arrival) -> Option<Permit> {
        memory::look_at_arrival(self.site.limits.memory_limit);
        match self.site.scoreboard.acquire(arrival.peer, &self.site.limits) {
            Ok(permit) => {
                self.look_at_connections();
                Some(permit)
            }
            Err(limit) => {
                shed(arrival);
                self.served.count(Counter::ConnectionsShed);
                self.served.count(limit);
                None
            }
        }
    }

    fn look_at_connections(&mut self) -> usize {
        let open = usize::try_from(self.site.scoreboard.open()).unwrap_or(usize::MAX);
        self.connections.update(open);
        open
    }

    /// Above the high watermark of connections: marks those that have been idle longest, as many as are above the low one.
    /// They end once the driver sees that no request has come.
    pub fn choose_surplus(&mut self) -> Vec<u64> {
        let open = self.look_at_connections();
        let surplus = self.connections.surplus(open);
        if surplus == 0 {
            return Vec::new();
        }
        let mut idle: Vec<(u32, u64)> = Vec::new();
        for token in self.clients.tokens() {
            let Client { deadline, connection, permit, .. } = self.clients.at(token);
            if permit.is_taken() && connection.waits_for() == Wait::Request {
                idle.extend(deadline.idle_since(self.clock.now).map(|tick| (tick, token)));
            }
        }
        idle.sort_unstable();
        idle.truncate(surplus);
        self.served.add(Counter::OverloadConnectionsClosed, idle.len() as u64);
        let chosen: Vec<u64> = idle.into_iter().map(|(_, token)| token).collect();
        chosen.iter().for_each(|token| self.clients.at(*token).is_surplus = true);
        chosen
    }

    /// Returns true if a connection that waits so is to close: nothing is in progress, and the server is stopping, short of
    /// memory, or has too many connections.
    pub fn ends(&mut self, token: u64, wait: Wait) -> bool {
        wait.is_idle()
            && (memory::is_short()
                || self.drain.is_some_and(|drain| drain.is_over_for_idle(self.clock.now))
                || self.clients.at(token).is_surplus)
    }

    /// The clients that keep the server waiting, which are counted: memory is running out.
    pub fn stalled(&mut self) -> Vec<u64> {
        let mut tokens = self.clients.tokens();
        tokens.retain(|token| self.clients.at(*token).connection.waits_for().is_for_client());
        self.served.add(Counter::LimitMemory, tokens.len() as u64);
        tokens
    }

    /// Starts a wait of the client with `token`, with its deadline.
    pub fn begin_wait(&mut self, token: u64, wait: Wait) {
        let Client { deadline, socket, .. } = self.clients.at(token);
        if wait.is_for_rest_of_response(deadline.wait()) {
            // An upstream that sends its response in parts, without TCP_NODELAY (php-fpm), sends a part when the one before is
            // acknowledged, and the kernel delays that by 40 ms. It fails for other sockets than those of TCP.
            let _ = set_tcp_quickack(socket, true);
        }
        deadline.begin(wait, token, self.clock.now, &self.site.limits, &mut self.timers);
    }

    /// Clients whose deadline has passed; the timer entries of others move to their current deadlines.
    pub fn overdue(&mut self) -> Vec<u64> {
        let due = self.timers.advance(self.clock.now).into_iter();
        let is_overdue = |(token, tick): &(u64, u32)| {
            let Some(Client { deadline, socket, connection, .. }) = self.clients.find(*token) else {
                return false;
            };
            let (now, limits, timers) = (self.clock.now, &self.site.limits, &mut self.timers);
            deadline.is_over(*token, *tick, timers)
                && !deadline.try_extend(socket, connection, *token, now, limits, timers)
        };
        due.filter(is_overdue).map(|(token, _)| token).collect()
    }

    /// Handles a tick of the timers.
    pub fn tick(&mut self) {
        memory::look(self.clock.now, self.site.limits.memory_limit);
        let (_, context) = self.context(0);
        let Context { handler, mut shared } = context;
        handler.tick(&mut shared);
    }

    /// Returns true if something can be done without waiting.
    pub fn has_runnable(&mut self) -> bool {
        !self.runnable.is_empty() || self.handler.outbox().is_some_and(|outbox| outbox.has_work())
    }

    /// Removes the client with `token`, whose connection ends for `reason`.
    pub fn remove(&mut self, token: u64, reason: Reason) -> Client<P> {
        if let Some(counter) = reason.counter() {
            self.served.count(counter);
        }
        let (clients, mut context) = self.context(token);
        let mut client = clients.remove(token);
        client.connection.finish(&mut context);
        self.site.scoreboard.release(client.permit);
        client
    }

    /// Copies the counters of the handler and the disk to the table.
    pub fn report(&mut self, disk: &impl Disk) {
        self.handler.report(self.clock.now, &mut self.served);
        let made = self.launched();
        self.served.set(Counter::OverloadMemory, memory::is_short().into());
        self.served.set(Counter::OverloadConnections, self.connections.is_high().into());
        self.served.set(Counter::ConnectionsOpen, self.clients.len().saturating_sub(made) as u64);
        disk.report(&mut self.served);
    }

    /// The number of connections that the handler has made.
    pub fn launched(&mut self) -> usize {
        self.handler.outbox().map_or(0, |outbox| outbox.open())
    }

    /// Publishes the table.
    pub fn publish(&mut self) {
        self.slot.publish_changes(&mut self.served);
    }
}

/// A loop that can make and wake connections.
pub trait EventLoop<'a> {
    /// The driver's state of a client.
    type Progress;

    fn state(&mut self) -> &mut LoopState<'a, Self::Progress>;

    /// Adds a client, which gets the vacant token.
    fn insert(&mut self, socket: OwnedFd, connection: Connection);

    /// Passes an event to the connection with `token`, and performs its want.
    fn dispatch(&mut self, token: u64, event: Event);

    /// Makes and wakes the connections in the handler's outbox.
    fn empty_outbox(&mut self) {
        let Some(outbox) = self.state().handler.outbox().filter(|outbox| outbox.has_work()) else { return };
        let (launches, wakes) = outbox.take();
        for launch in launches {
            self.launch(launch);
        }
        for token in &wakes {
            if self.state().clients.find(*token).is_some() {
                self.dispatch(*token, Event::Woken);
            }
        }
        if let Some(outbox) = self.state().handler.outbox() {
            outbox.give_back(wakes);
        }
    }

    /// Makes a connection and wakes it.
    fn launch(&mut self, Launch { to, machine, tls }: Launch) {
        let mut connection = Connection::launched(machine, tls);
        let state = self.state();
        let token = state.clients.vacant();
        let connects = matches!(to, Destination::Address(_));
        match socket_for(to) {
            Ok(socket) => {
                if connects {
                    state.served.count(Counter::UpstreamConnections);
                }
                self.insert(socket, connection);
                self.dispatch(token, Event::Woken);
            }
            Err(_) => {
                let (_, mut context) = state.context(token);
                connection.handle(Event::Failed, &mut context);
                connection.finish(&mut context);
            }
        }
    }
}

/// The socket of a new connection.
fn socket_for(to: Destination) -> Result<OwnedFd, Errno> {
    match to {
        Destination::Address(address) => begin(&address),
        Destination::Socket(socket) => Ok(socket),
    }
}

/// A socket that connects to `address`. Sending on it waits for the connection and reports its failure.
fn begin(address: &Address) -> Result<OwnedFd, Errno> {
    let open =
        |family| socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None);
    let (socket, connected) = match address {
        Address::Internet(address) => {
            let socket = open(if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 })?;
            // Requests are sent in one piece, and parts of bodies as soon as they arrive.
            set_tcp_nodelay(&socket, true)?;
            let connected = connect(&socket, address);
            (socket, connected)
        }
        // A Unix socket connects at once or fails with EAGAIN if the server's queue is full.
        Address::Unix(path) => {
            let socket = open(AddressFamily::UNIX)?;
            let connected = connect(&socket, &SocketAddrUnix::new(&**path)?);
            (socket, connected)
        }
    };
    match connected {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(error) => Err(error),
    }
}
