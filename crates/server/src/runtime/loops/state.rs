//! What a loop keeps from turn to turn: its clients, and what they use.

use std::io;

use super::Client;
use crate::access_log::AccessLog;
use crate::clients::Clients;
use crate::clock::Clock;
use crate::connection::{Context, Event, Handler, Pool, Reason, Shared, Wait, Want};
use crate::counters::scoreboard::{Permit, Place};
use crate::counters::{Counter, Served};
use crate::runtime::disk::Disk;
use crate::runtime::sockets::accept::{Arrival, shed};
use crate::runtime::timers::drain::Drain;
use crate::runtime::timers::wheel::Timers;
use crate::site::Site;

/// The state of a loop whose clients have progress `P`.
pub struct LoopState<'a, P> {
    pub site: &'a Site,
    pub log: Option<AccessLog>,
    pub clients: Clients<Client<P>>,
    /// Clients that had their turn and could go on.
    pub runnable: Vec<u64>,
    /// Answers the requests of this loop.
    pub handler: Box<dyn Handler>,
    pub pool: Pool,
    pub clock: Clock,
    pub timers: Timers,
    pub served: Served,
    pub place: Place,
    /// Once the server is stopping.
    pub drain: Option<Drain>,
}

impl<'a, P> LoopState<'a, P> {
    /// Of a loop for `site` without clients, which counts at `place` and has its lines in `log`.
    pub fn new(site: &'a Site, place: Place, log: Option<AccessLog>) -> io::Result<Self> {
        let clock = AccessLog::clock(log.as_ref());
        Ok(LoopState {
            site,
            log,
            clients: Clients::default(),
            runnable: Vec::new(),
            handler: site.handler()?,
            pool: Pool::default(),
            timers: Timers::new(clock.now),
            clock,
            served: Served::default(),
            place,
            drain: None,
        })
    }

    /// What the connection behind `token` may use, and all of them.
    pub fn context(&mut self, token: u64) -> (&mut Clients<Client<P>>, Context<'_>) {
        let shared = Shared {
            pool: &mut self.pool,
            served: &mut self.served,
            clock: &self.clock,
            send_path: &self.site.send_path,
            log: self.log.as_ref(),
            limits: &self.site.limits,
            is_draining: self.drain.is_some(),
            token,
        };
        (&mut self.clients, Context { handler: &mut *self.handler, shared })
    }

    /// Tells the connection behind `token`, which says what it wants.
    pub fn handle(&mut self, token: u64, event: Event) -> Want {
        let (clients, mut context) = self.context(token);
        clients.at(token).connection.handle(event, &mut context)
    }

    /// A seat for who has come; if there is none, that is said and counted.
    pub fn seat(&mut self, arrival: &Arrival) -> Option<Permit> {
        match self.site.board.enter(arrival.peer, &self.site.limits) {
            Ok(seat) => Some(seat),
            Err(limit) => {
                shed(arrival);
                self.served.count(Counter::ConnectionsShed);
                self.served.count(limit);
                None
            }
        }
    }

    /// Returns true if who waits so goes: the server is stopping and nothing is in progress.
    pub fn ends(&self, wait: Wait) -> bool {
        wait.is_idle() && self.drain.is_some_and(|drain| drain.is_over_for_idle(self.clock.now))
    }

    /// The client behind `token` waits so from now on, and is waited for.
    pub fn begin_wait(&mut self, token: u64, wait: Wait) {
        let patience = &mut self.clients.at(token).patience;
        patience.begin(wait, token, self.clock.now, &self.site.limits, &mut self.timers);
    }

    /// Whom patience with is over; the others' entries in the timers move to where their deadlines are now.
    pub fn overdue(&mut self) -> Vec<u64> {
        let due = self.timers.advance(self.clock.now).into_iter();
        let is_overdue = |(token, tick): &(u64, u32)| {
            let Some(Client { patience, socket, .. }) = self.clients.find(*token) else { return false };
            let (now, limits, timers) = (self.clock.now, &self.site.limits, &mut self.timers);
            patience.is_over(*token, *tick, timers)
                && !patience.is_earned(socket, *token, now, limits, timers)
        };
        due.filter(is_overdue).map(|(token, _)| token).collect()
    }

    /// Returns true if something can be done without waiting.
    pub fn can_go_on(&mut self) -> bool {
        !self.runnable.is_empty() || self.handler.outbox().is_some_and(|outbox| outbox.has_work())
    }

    /// Forgets the client behind `token`, whose connection ends for this `reason`.
    pub fn forget(&mut self, token: u64, reason: Reason) -> Client<P> {
        if let Some(counter) = reason.counter() {
            self.served.count(counter);
        }
        let (clients, mut context) = self.context(token);
        let mut client = clients.remove(token);
        client.connection.finish(&mut context);
        self.site.board.leave(client.seat);
        client
    }

    /// Writes to the table of counters what is counted elsewhere.
    pub fn report(&mut self, disk: &impl Disk) {
        self.handler.report(self.clock.now, &mut self.served);
        let made = self.launched();
        self.served.set(Counter::ConnectionsOpen, self.clients.len().saturating_sub(made) as u64);
        disk.report(&mut self.served);
    }

    /// Connections that the handler has made.
    pub fn launched(&mut self) -> usize {
        self.handler.outbox().map_or(0, |outbox| outbox.open())
    }

    /// Shows the table to others.
    pub fn publish(&self) {
        self.place.publish(&self.served);
    }
}
