//! Connection pools of upstreams and origins: which flow gets which connection, and which connections stay idle.

use std::sync::Arc;

use rustls::client::ClientConnection;

use super::connection::UpstreamConnection;
use super::{Machine, UpstreamClient};
use crate::applications::Scripts;
use crate::connection::{Address, Destination, Launch, Launched};
use crate::counters::{Counter, Served};
use crate::handler::destination::Origin;
use crate::handler::reverse_proxy::{FlowId, Protocol, Upstream};
use crate::stderr;

/// The connections to one upstream or origin.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// `None` for an upstream.
    pub origin: Option<Arc<Origin>>,
    /// Tokens of idle connections; the most recently used one is used next.
    pub idle: Vec<u64>,
    pub open: usize,
    pub round: Round,
}

/// A time in which as many responses have come, while connections waited, as there are connections to an upstream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    /// When it began: all responses and first responses until then, and the connections that waited for their first.
    responses: usize,
    first_responses: usize,
    waiting: usize,
    /// Connections that are still to give way.
    giving_way: usize,
}

impl Round {
    /// Returns true if a connection to `upstream` that has answered is to be closed, because another one may be waiting for the
    /// process that it holds.
    ///
    /// Where the number of processes is unknown, that is so for as many as have waited for a whole round: where there are
    /// enough processes, new connections are answered within it.
    fn gives_way(&mut self, upstream: &Upstream) -> bool {
        if !upstream.lacks_processes() {
            *self = Round::default();
            return false;
        }
        if upstream.processes.is_some() {
            return true;
        }
        let state = &upstream.occupancy;
        let (responses, first_responses) = state.responded();
        if responses.wrapping_sub(self.responses) >= state.open() {
            let answered = first_responses.wrapping_sub(self.first_responses);
            let giving_way = self.waiting.saturating_sub(answered);
            *self = Round { responses, first_responses, waiting: state.unanswered(), giving_way };
        }
        let gives_way = self.giving_way > 0;
        self.giving_way = self.giving_way.saturating_sub(1);
        gives_way
    }
}

impl UpstreamClient {
    /// `upstream` has started to respond.
    pub fn succeed_at(&mut self, upstream: usize) {
        if upstream < self.proxy.upstreams.len() {
            self.health.record_success(upstream);
        }
    }

    pub fn fail_at(&mut self, upstream: usize) {
        let upstreams = &self.proxy.upstreams;
        // A script's success says nothing about others.
        if upstreams.get(upstream).is_some_and(|upstream| !matches!(upstream.protocol, Protocol::Cgi(_))) {
            self.health.record_failure(upstream, self.now, &self.limits.upstream);
        }
    }

    /// The current connection is idle; returns true if it is kept.
    pub fn keep(&mut self, upstream: usize) -> bool {
        let configured = self.proxy.upstreams.get(upstream);
        let idle_max =
            configured.and_then(|upstream| upstream.idle_max).unwrap_or(self.limits.upstream.idle_max);
        let pool = &mut self.pools[upstream];
        let gives_way = configured.is_some_and(|upstream| pool.round.gives_way(upstream));
        let is_kept = pool.idle.len() < idle_max && !gives_way;
        if is_kept {
            pool.idle.push(self.token);
            self.connection_freed();
        }
        is_kept
    }

    /// A connection has received its first response, or failed before.
    pub fn answered(&mut self, upstream: usize) {
        if let Some(upstream) = self.proxy.upstreams.get(upstream) {
            upstream.occupancy.answered();
        }
    }

    /// Returns true if the current connection, to `upstream`, is to be closed if it is idle: it holds a process that a request
    /// may be waiting for.
    pub fn is_to_give_way(&self, upstream: usize) -> bool {
        self.proxy.upstreams.get(upstream).is_some_and(Upstream::lacks_processes)
    }

    /// Wakes an idle connection to each upstream where one [is to give way](Self::is_to_give_way), for this loop or another.
    pub fn wake_those_to_give_way(&mut self) {
        for index in 0..self.proxy.upstreams.len() {
            if self.is_to_give_way(index)
                && let Some(token) = self.pools[index].idle.first()
            {
                self.outbox.wake(*token);
            }
        }
    }

    /// The current connection has ended.
    pub fn close(&mut self, upstream: usize) {
        self.connection_freed();
        let (pool, token) = (&mut self.pools[upstream], self.token);
        pool.idle.retain(|idle| *idle != token);
        pool.open -= 1;
        if let Some(upstream) = self.proxy.upstreams.get(upstream) {
            upstream.occupancy.closed();
        }
        if pool.open == 0
            && let Some(origin) = pool.origin.take()
        {
            self.origins.pools.remove(&origin);
            self.pools.remove(upstream);
        }
    }

    /// Logs what an application has written to standard error, line by line.
    pub fn log_errors(&self, upstream: usize, errors: &[u8]) {
        let Some(upstream) = self.proxy.upstreams.get(upstream).filter(|_| !errors.is_empty()) else {
            return;
        };
        for line in errors.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
            stderr::write(&format!("{}: {}\n", upstream.name, line.trim_ascii_end().escape_ascii()));
        }
    }

    pub fn open(&self) -> usize {
        self.pools.iter().map(|(_, pool)| pool.open).sum()
    }

    /// Gives the flow a connection, now or when one becomes free.
    pub(in crate::handler) fn dispatch(&mut self, id: FlowId, served: &mut Served) {
        let (now, flow) = (self.now, &mut self.flows[id.0]);
        flow.attempts += 1;
        flow.began = now;
        flow.has_fetch = true;
        match flow.origin.clone() {
            Some(origin) => {
                let may_reuse = flow.attempts == 1;
                self.dispatch_to(&origin, id, may_reuse, served);
            }
            None => self.assign_connection(id, served),
        }
    }

    /// Gives the flow an idle connection to `upstream`, if there is one.
    pub(in crate::handler) fn reuse(&mut self, id: FlowId, upstream: usize, served: &mut Served) -> bool {
        let Some(token) = self.pools[upstream].idle.pop() else { return false };
        served.count(Counter::UpstreamRequests);
        served.count(Counter::UpstreamConnectionsReused);
        let flow = &mut self.flows[id.0];
        (flow.upstream, flow.fetch) = (upstream, Some(token));
        self.assigned.insert(token, id);
        self.outbox.wake(token);
        true
    }

    /// Gives the flow a new connection.
    pub(in crate::handler) fn connect(
        &mut self,
        id: FlowId,
        upstream: usize,
        address: Address,
        served: &mut Served,
    ) {
        served.count(Counter::UpstreamRequests);
        self.flows[id.0].upstream = upstream;
        self.opened(upstream);
        let tls = match &self.flows[id.0].origin {
            Some(origin) => self.proxy.forward.as_ref().and_then(|rules| rules.tls_with(origin)),
            None => self.proxy.upstreams[upstream].tls.clone(),
        };
        let protocol = match &self.flows[id.0].origin {
            Some(_) => Protocol::Http,
            None => self.proxy.upstreams[upstream].protocol.clone(),
        };
        let machine = UpstreamConnection::new(upstream, id, protocol);
        self.launch(Destination::Address(address), Box::new(machine), tls.map(|tls| Box::new(tls.connect())));
    }

    fn opened(&mut self, upstream: usize) {
        self.pools[upstream].open += 1;
        if let Some(upstream) = self.proxy.upstreams.get(upstream) {
            upstream.occupancy.connected();
        }
    }

    /// Gives the flow a CGI script of its own.
    pub(super) fn start_script(
        &mut self,
        id: FlowId,
        upstream: usize,
        scripts: &Arc<Scripts>,
        served: &mut Served,
    ) {
        let flow = &mut self.flows[id.0];
        flow.upstream = upstream;
        let client = flow.client.expect("a client has asked");
        let Ok((socket, run)) = scripts.ask(flow.request.text(), client, flow.upload.is_some()) else {
            return self.refuse_saturated(id, served);
        };
        served.count(Counter::UpstreamRequests);
        self.opened(upstream);
        let machine = UpstreamConnection::of_script(upstream, id, run);
        self.launch(Destination::Socket(socket), Box::new(machine), None);
    }

    pub(in crate::handler) fn launch(
        &mut self,
        to: Destination,
        machine: Box<dyn Machine>,
        tls: Option<Box<ClientConnection>>,
    ) {
        let (wait, sent) = (machine.waits_for(), machine.sent());
        let machine = Launched::new(self.add(machine), wait, sent);
        self.outbox.launch(Launch { to, machine, tls });
    }
}
