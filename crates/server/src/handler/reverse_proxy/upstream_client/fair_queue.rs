//! Fair shares of upstream connections per client address, and the queue of requests that wait for one.
//!
//! A client may use as many connections to a service as are still free: a single one gets half of all, two get a third
//! each, and there is always something left for the next. Upstreams that are down count only if all are. Further
//! requests wait in the client's own queue. The queues are served in turn, and a request waits for a limited time. Once
//! many wait, new ones may wait only a part of it: they would get their answers long after most clients have given up,
//! and so would all who come after them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use sojourn_http::Status;

use super::UpstreamClient;
use crate::counters::scoreboard::network;
use crate::counters::{Counter, Served};
use crate::handler::reverse_proxy::flow::Network;
use crate::handler::reverse_proxy::{End, FlowId, Protocol};
use crate::watermark::Watermark;

/// The most requests that wait for a connection, per loop; more are answered 503.
pub const UPSTREAM_QUEUE_MAX: usize = 1024;

/// From the high one until the low one, requests may wait [for less time](SHORT_WAIT_PART).
const QUEUE_HIGH_WATERMARK: usize = UPSTREAM_QUEUE_MAX / 4;
const QUEUE_LOW_WATERMARK: usize = UPSTREAM_QUEUE_MAX / 16;

/// The part of the queue timeout that they may then wait.
const SHORT_WAIT_PART: u32 = 10;

/// The connections to each upstream that each client uses, and the queues.
#[derive(Debug)]
pub(super) struct Shares {
    used: HashMap<(usize, Network), usize>,
    /// The connections to each upstream that are in use.
    total: HashMap<usize, usize>,
    /// The waiting clients in the order of their turns.
    turns: VecDeque<Network>,
    /// The requests of each, with their deadlines; never empty.
    queues: HashMap<Network, VecDeque<(FlowId, Duration)>>,
    queued: usize,
    watermark: Watermark,
    /// A connection may have become free since the queues were last served.
    has_changed: bool,
}

impl Default for Shares {
    fn default() -> Shares {
        Shares {
            used: HashMap::new(),
            total: HashMap::new(),
            turns: VecDeque::new(),
            queues: HashMap::new(),
            queued: 0,
            watermark: Watermark::new(QUEUE_LOW_WATERMARK, QUEUE_HIGH_WATERMARK),
            has_changed: false,
        }
    }
}

impl Shares {
    /// Returns true if a connection to these upstreams, each of which may have `max`, is left for this client.
    fn has_room(&self, client: Network, upstreams: impl Iterator<Item = usize>, max: usize) -> bool {
        let (mut capacity, mut used, mut total) = (0_usize, 0, 0);
        for upstream in upstreams {
            capacity = capacity.saturating_add(max);
            used += self.used.get(&(upstream, client)).copied().unwrap_or(0);
            total += self.total.get(&upstream).copied().unwrap_or(0);
        }
        used < capacity.saturating_sub(total)
    }

    fn take(&mut self, upstream: usize, client: Network) {
        *self.used.entry((upstream, client)).or_default() += 1;
        *self.total.entry(upstream).or_default() += 1;
    }

    fn release(&mut self, upstream: usize, client: Network) {
        self.has_changed = true;
        *self.total.get_mut(&upstream).expect("somebody has taken one") -= 1;
        let used = self.used.get_mut(&(upstream, client)).expect("it has taken one");
        *used -= 1;
        if *used == 0 {
            self.used.remove(&(upstream, client));
        }
    }

    /// Queues a request for `timeout` from `now` on, or less; false if too many wait already.
    fn wait(&mut self, client: Network, id: FlowId, now: Duration, timeout: Duration) -> bool {
        if self.queued >= UPSTREAM_QUEUE_MAX {
            return false;
        }
        let is_high = self.watermark.update(self.queued + 1);
        let until = now.saturating_add(if is_high { timeout / SHORT_WAIT_PART } else { timeout });
        self.queue_of(client).push_back((id, until));
        true
    }

    /// Takes the next request of the client whose turn it is.
    fn next(&mut self) -> Option<(Network, FlowId, Duration)> {
        let client = self.turns.pop_front()?;
        let queue = self.queues.get_mut(&client).expect("who has a turn waits");
        let (id, until) = queue.pop_front().expect("who has nothing does not wait");
        if queue.is_empty() {
            self.queues.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        self.queued -= 1;
        self.watermark.update(self.queued);
        Some((client, id, until))
    }

    /// Takes the requests that have waited for too long.
    fn take_overdue(&mut self, now: Duration) -> Vec<FlowId> {
        let mut overdue = Vec::new();
        self.queues.retain(|_, queue| {
            queue.retain(|(id, until)| {
                let is_overdue = now >= *until;
                overdue.extend(is_overdue.then_some(*id));
                !is_overdue
            });
            !queue.is_empty()
        });
        let queues = &self.queues;
        self.turns.retain(|client| queues.contains_key(client));
        self.queued -= overdue.len();
        self.watermark.update(self.queued);
        overdue
    }

    /// Returns a request that could not be served to the front of its client's queue.
    fn requeue(&mut self, client: Network, id: FlowId, until: Duration) {
        self.queue_of(client).push_front((id, until));
    }

    /// The queue of a client, to which one request will be added. A client without any gets its turn after all others.
    fn queue_of(&mut self, client: Network) -> &mut VecDeque<(FlowId, Duration)> {
        self.queued += 1;
        let queue = self.queues.entry(client).or_default();
        if queue.is_empty() {
            self.turns.push_back(client);
        }
        queue
    }
}

impl UpstreamClient {
    /// Gives the flow a connection if its client has a share left; otherwise queues it.
    pub(super) fn assign_connection(&mut self, id: FlowId, served: &mut Served) {
        let client = self.owner_of(id);
        if self.place(id, client, served) {
            return;
        }
        if !self.shares.wait(client, id, self.now, self.limits.upstream.queue) {
            self.refuse_saturated(id, served);
        }
    }

    /// The client of a flow; a fetch for the cache counts for the one that caused it.
    pub(super) fn owner_of(&self, id: FlowId) -> Network {
        self.flows[id.0].client.map_or((false, 0), |client| network(client.address))
    }

    /// Answers 503 to requests that have waited for too long.
    pub fn expire_queue(&mut self, served: &mut Served) {
        for id in self.shares.take_overdue(self.now) {
            if self.flows[id.0].end.is_some() {
                self.finish(id, End::Abandoned);
            } else {
                self.refuse_saturated(id, served);
            }
        }
    }

    /// The number of requests that wait for a connection, and whether that is above the high watermark.
    pub fn queue_length(&self) -> (usize, bool) {
        (self.shares.queued, self.shares.watermark.is_high())
    }

    /// The flow no longer uses its connection.
    pub(super) fn release_share(&mut self, id: FlowId) {
        if let Some((upstream, client)) = self.flows[id.0].share.take() {
            self.shares.release(upstream, client);
        }
    }

    /// Serves waiting requests as far as there are connections. One past its deadline is answered 503 even then: others
    /// have waited for less.
    pub fn serve_queue(&mut self, served: &mut Served) {
        // Each client gets one turn after another until none gets a connection.
        let mut refused = 0;
        self.shares.has_changed = false;
        while refused < self.shares.turns.len()
            && let Some((client, id, until)) = self.shares.next()
        {
            if self.flows[id.0].end.is_some() {
                self.finish(id, End::Abandoned);
            } else if self.now >= until {
                self.refuse_saturated(id, served);
            } else if self.place(id, client, served) {
                refused = 0;
            } else {
                self.shares.requeue(client, id, until);
                refused += 1;
            }
        }
    }

    /// Returns true if requests wait for a connection.
    pub fn has_queue(&self) -> bool {
        self.shares.queued > 0
    }

    /// Returns true if requests wait for a connection, and one may have become free. A full pass over the queues for
    /// every event would cost more than all else once a thousand clients wait.
    pub fn can_serve_queue(&self) -> bool {
        self.has_queue() && self.shares.has_changed
    }

    /// A connection is idle or closed.
    pub(super) fn connection_freed(&mut self) {
        self.shares.has_changed = true;
    }

    /// Gives the flow a connection to an upstream, preferably an idle one; false if none is available.
    fn place(&mut self, id: FlowId, client: Network, served: &mut Served) -> bool {
        // After a failure on an idle connection a new one is used, because more idle ones may be dead.
        let may_reuse = self.flows[id.0].attempts <= 1;
        let (pools, max) = (&self.pools, self.limits.upstream.connections_max);
        let upstreams = self.proxy.upstreams_of(self.flows[id.0].host);
        // Connections to other services are no use to it, nor are those to an upstream that is down.
        if !self.shares.has_room(client, self.health.in_use(self.now, upstreams.clone()), max) {
            return false;
        }
        let has_room = |index: usize| (may_reuse && !pools[index].idle.is_empty()) || pools[index].open < max;
        let Some(upstream) = self.health.choose(self.now, upstreams, has_room) else { return false };
        self.shares.take(upstream, client);
        let flow = &mut self.flows[id.0];
        (flow.share, flow.began) = (Some((upstream, client)), self.now);
        if may_reuse && self.reuse(id, upstream, served) {
            return true;
        }
        if let Protocol::Cgi(scripts) = &self.proxy.upstreams[upstream].protocol {
            let scripts = Arc::clone(scripts);
            self.start_script(id, upstream, &scripts, served);
        } else {
            let addresses = self.proxy.upstreams[upstream].presence.addresses();
            let address = addresses[self.health.address(upstream, addresses.len())].clone();
            self.connect(id, upstream, address, served);
        }
        true
    }

    /// Every upstream has all the connections allowed, and has had them for too long.
    pub(in crate::handler) fn refuse_saturated(&mut self, id: FlowId, served: &mut Served) {
        served.count(Counter::LimitUpstreamConnections);
        self.finish(id, End::Failed(Status::ServiceUnavailable));
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    #[test]
    fn there_is_something_left_for_the_next() {
        let (mut shares, max) = (Shares::default(), 500);
        let mut take_all = |client| take_all(&mut shares, client, 0..2, max);
        assert_eq!([0, 1, 2].map(&mut take_all), [500, 250, 125]);
        for _ in 0..150 {
            shares.release(0, (false, 0));
            shares.release(1, (false, 0));
        }
        assert!(shares.has_room((false, 2), 0..2, max) && shares.has_room((false, 3), 0..2, max));
        // There is always one for somebody.
        let mut small = Shares::default();
        assert!(small.has_room((false, 7), 0..1, 1));
        small.take(0, (false, 7));
        assert!(!small.has_room((false, 8), 0..1, 1));
    }

    /// Who uses one service has as much of another as anybody, and leaves as much of it.
    #[test]
    fn services_have_shares_of_their_own() {
        let (mut shares, max) = (Shares::default(), 100);
        assert_eq!(take_all(&mut shares, 0, 0..1, max), 50);
        assert_eq!(take_all(&mut shares, 0, 1..3, max), 100);
        assert_eq!(take_all(&mut shares, 1, 0..1, max), 25);
        // Of the second service's upstreams one goes down: what it has in use is nothing that others can have.
        assert_eq!(take_all(&mut shares, 1, 1..2, max), 25);
    }

    /// Takes connections to these upstreams in turn for as long as there are some for the client.
    fn take_all(shares: &mut Shares, client: u64, upstreams: Range<usize>, max: usize) -> usize {
        let mut taken = 0;
        while shares.has_room((false, client), upstreams.clone(), max) {
            shares.take(upstreams.start + taken % upstreams.len(), (false, client));
            taken += 1;
        }
        taken
    }

    #[test]
    fn clients_take_turns() {
        let mut shares = Shares::default();
        let (now, timeout) = (Duration::ZERO, Duration::from_secs(5));
        for (client, flow) in [(1, 10), (1, 11), (1, 12), (2, 20)] {
            assert!(shares.wait((false, client), FlowId(flow), now, timeout));
        }
        let (client, id, until) = shares.next().unwrap();
        assert_eq!((client, id), ((false, 1), FlowId(10)));
        shares.requeue(client, id, until);
        let order: Vec<usize> = std::iter::from_fn(|| shares.next()).map(|(_, id, _)| id.0).collect();
        assert_eq!(order, [20, 10, 11, 12]);
        assert_eq!(shares.queued, 0);
        for flow in 0..UPSTREAM_QUEUE_MAX {
            assert!(shares.wait((false, 1), FlowId(flow), now, timeout));
        }
        assert!(!shares.wait((false, 2), FlowId(0), now, timeout));
    }

    #[test]
    fn where_many_wait_nobody_waits_long() {
        let mut shares = Shares::default();
        let (now, timeout) = (Duration::from_secs(100), Duration::from_secs(5));
        for flow in 0..QUEUE_HIGH_WATERMARK {
            assert!(!shares.watermark.is_high());
            assert!(shares.wait((false, flow as u64 % 3), FlowId(flow), now, timeout));
        }
        assert!(shares.watermark.is_high());
        assert_eq!(shares.take_overdue(now + timeout / SHORT_WAIT_PART), [FlowId(QUEUE_HIGH_WATERMARK - 1)]);
        assert_eq!(shares.take_overdue(now + timeout / 2), []);
        assert_eq!(shares.queued, QUEUE_HIGH_WATERMARK - 1);
        assert_eq!(shares.take_overdue(now + timeout).len(), QUEUE_HIGH_WATERMARK - 1);
        assert!(!shares.watermark.is_high() && shares.queues.is_empty() && shares.turns.is_empty());
    }
}
