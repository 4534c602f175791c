//! The upstream side of one loop: flows, connections in use, connection pools, and the outbox for its event loop.
//!
//! Connections are identified by their event loop's tokens.
//!
//! A reverse proxy has fixed upstreams, among which [`Balancer`] chooses. For a forward proxy each request names its
//! destination, and there are tunnels: see `origins` and `tunnel`.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use hashbrown::HashMap;
use slab::Slab;
use sojourn_http::Status;

use super::balancer::Balancer;
use super::flow::GatheredBytes;
use super::partial::keep_as_part;
use super::{Answer, Cache, CacheMiss, End, Flow, FlowId, FlowReaderId, Proxy, Stored, Upload};
use crate::connection::{Event, MachineId, Outbox, Shared, Wait, Want};
use crate::counters::{Counter, Served};
use crate::limits::{Limits, UpstreamLimits};

mod connection;
mod fair_queue;
mod lookup;
mod origins;
mod pools;
mod response_heads;
mod tunnel;
mod tunnel_ends;
mod tunnel_side;
mod tunnels;

pub(super) use connection::FastCgi;
use fair_queue::Shares;
use origins::OriginConnections;
use pools::Pool;
pub use tunnel::Stage as TunnelStage;
pub use tunnel_ends::TunnelClient;

/// How often a request is tried at most.
const ATTEMPTS_MAX: u32 = 3;

/// How many ended flows and answers are kept at most, and the most bytes of an answer's fields.
const SPARE_MAX: usize = 256;
const SPARE_FIELDS_BYTES_MAX: usize = 4 * 1024;

/// The state machine of a connection that the client makes, such as one to an upstream; it does no I/O.
pub trait Machine: Debug + Send {
    /// Handles an event and returns the next want.
    fn handle(&mut self, event: Event, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>)
    -> Want;

    fn waits_for(&self) -> Wait;

    /// The counter of bytes sent on it.
    fn sent(&self) -> Counter {
        Counter::UpstreamSentBytes
    }

    /// Returns false if a client made the connection, which this machine then took over.
    fn is_launched(&self) -> bool {
        true
    }

    /// Called when the connection ends. Returns the bytes that a tunnel has sent to its client.
    fn finish(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> u64;
}

#[derive(Debug)]
pub struct UpstreamClient {
    proxy: Arc<Proxy>,
    limits: Limits,
    flows: Slab<Box<Flow>>,
    /// What has ended, for the next ones.
    #[expect(clippy::vec_box, reason = "they are moved, in their boxes")]
    spare_flows: Vec<Box<Flow>>,
    spare_answers: Vec<Arc<Answer>>,
    health: Balancer,
    /// The pools of the upstreams, in their order; then those of origins, while they have connections.
    pools: Slab<Pool>,
    origins: OriginConnections,
    shares: Shares,
    /// Flows that other requests may join, by the hash of the cache key.
    shared: HashMap<u128, FlowId>,
    /// Idle connections that were given a flow and have not been told yet.
    assigned: HashMap<u64, FlowId>,
    pub(super) outbox: Outbox,
    /// Bytes of request bodies that are buffered.
    gathered: Arc<AtomicUsize>,
    /// The state machines of launched connections; an entry is empty while its machine handles an event.
    machines: Slab<Option<Box<dyn Machine>>>,
    /// The connection that is handling an event.
    token: u64,
    now: Duration,
}

impl UpstreamClient {
    pub fn new(proxy: &Arc<Proxy>, limits: &Limits) -> io::Result<UpstreamClient> {
        Ok(UpstreamClient {
            health: Balancer::new(&proxy.upstreams),
            pools: (0..proxy.upstreams.len()).map(|index| (index, Pool::default())).collect(),
            origins: OriginConnections::default(),
            shares: Shares::default(),
            proxy: Arc::clone(proxy),
            limits: *limits,
            flows: Slab::new(),
            spare_flows: Vec::new(),
            spare_answers: Vec::new(),
            shared: HashMap::new(),
            assigned: HashMap::new(),
            outbox: Outbox::new()?,
            gathered: Arc::default(),
            machines: Slab::new(),
            token: 0,
            now: Duration::ZERO,
        })
    }

    /// Sets the connection that is about to handle an event at `now`.
    pub fn set_current(&mut self, token: u64, now: Duration) -> &mut UpstreamClient {
        self.token = token;
        self.now = now;
        self
    }

    pub fn token(&self) -> u64 {
        self.token
    }

    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Wakes the current connection from any thread.
    pub fn waker(&mut self) -> Waker {
        self.outbox.waker(self.token)
    }

    /// Returns true if any flow is in progress, for clients or for the cache.
    pub fn is_busy(&self) -> bool {
        !self.flows.is_empty() || self.has_tunnels()
    }

    /// Adds the machine of a connection.
    pub fn add(&mut self, machine: Box<dyn Machine>) -> MachineId {
        MachineId(self.machines.insert(Some(machine)))
    }

    pub fn drive(&mut self, id: MachineId, event: Event, shared: &mut Shared<'_>) -> (Want, Wait) {
        let mut machine = self.machines[id.0].take().expect("it handles one event at a time");
        let want = machine.handle(event, self, shared);
        let wait = machine.waits_for();
        self.machines[id.0] = Some(machine);
        (want, wait)
    }

    /// A machine's connection is about to be dropped; returns the bytes sent to a tunnel's client.
    pub fn end(&mut self, id: MachineId, shared: &mut Shared<'_>) -> u64 {
        let Some(mut machine) = self.machines.remove(id.0) else { return 0 };
        if machine.is_launched() {
            self.outbox.forget();
        }
        machine.finish(self, shared)
    }

    /// A new flow.
    pub fn take_flow(&mut self) -> Box<Flow> {
        self.spare_flows.pop().unwrap_or_default()
    }

    /// An answer that nobody else has.
    fn take_answer(&mut self) -> Arc<Answer> {
        self.spare_answers.pop().unwrap_or_else(|| Arc::new(Answer::empty()))
    }

    /// Takes the memory of an answer that was sent, if nobody else has it.
    pub fn recycle(&mut self, mut answer: Arc<Answer>) {
        if self.spare_answers.len() < SPARE_MAX
            && Arc::get_mut(&mut answer)
                .is_some_and(|answer| answer.fields.capacity() <= SPARE_FIELDS_BYTES_MAX)
        {
            self.spare_answers.push(answer);
        }
    }

    /// Starts `flow`; the current connection follows it.
    pub fn begin(&mut self, mut flow: Box<Flow>, served: &mut Served) -> (FlowId, FlowReaderId) {
        let reader = flow.add_reader(self.token).expect("it has just begun");
        flow.charge = self.proxy.cache.as_ref().map(Cache::charge);
        let shared = flow.miss.as_ref().filter(|miss| miss.may_join).map(|miss| miss.key.hash());
        flow.is_shared = shared.is_some();
        let id = FlowId(self.flows.insert(flow));
        if let Some(hash) = shared {
            self.shared.insert(hash, id);
        }
        if !self.flows[id.0].upload.as_ref().is_some_and(|upload| upload.is_gathered) {
            self.dispatch(id, served);
        }
        (id, reader)
    }

    /// Returns true if request bodies are buffered completely before they take a connection.
    pub fn buffers_requests(&self) -> bool {
        self.limits.upstream.buffers_requests
    }

    /// Returns true if a request body of this length may be buffered.
    pub fn fits_buffer(&self, length: u64) -> bool {
        length <= self.limits.upstream.gathered_bytes_max as u64
    }

    /// Adds to a request body that is being buffered.
    pub fn gather(&mut self, id: FlowId, part: &[u8], served: &mut Served) {
        let UpstreamLimits { gathered_bytes_max, gathered_total_max, .. } = self.limits.upstream;
        let flow = &mut self.flows[id.0];
        let Some(upload) = flow.upload.as_mut().filter(|_| flow.end.is_none()) else { return };
        let counted = upload.gathered.get_or_insert_with(|| GatheredBytes::new(&self.gathered));
        let (limit, status) = if upload.bytes.len() + part.len() > gathered_bytes_max {
            (Counter::LimitGathered, Status::ContentTooLarge)
        } else if !counted.add(part.len(), gathered_total_max) {
            (Counter::LimitGatheredTotal, Status::ServiceUnavailable)
        } else {
            return upload.bytes.extend_from_slice(part);
        };
        *upload = Upload { is_gathered: true, ..Upload::default() };
        served.count(limit);
        self.finish(id, End::Failed(status));
    }

    /// The body has been buffered completely: sends the request.
    pub fn send_gathered(&mut self, id: FlowId, served: &mut Served) {
        let flow = &mut self.flows[id.0];
        let Some(upload) = flow.upload.as_mut().filter(|_| flow.end.is_none()) else { return };
        (upload.is_gathered, upload.is_complete) = (false, true);
        flow.request.end_with_length(upload.bytes.len() as u64);
        self.dispatch(id, served);
    }

    pub fn begin_stored(&mut self, pieces: impl IntoIterator<Item = Stored>) -> (FlowId, FlowReaderId) {
        let mut flow = self.take_flow();
        flow.source = Some(pieces.into_iter().collect());
        let reader = flow.add_reader(self.token).expect("it has just begun");
        (FlowId(self.flows.insert(flow)), reader)
    }

    /// Reads more of a flow from the store; the current connection is woken when there is more.
    pub fn pull(&mut self, id: FlowId) {
        if self.flows[id.0].source.is_some() {
            let waker = if self.flows[id.0].may_wait() { self.waker() } else { Waker::noop().clone() };
            self.flows[id.0].pull(&waker);
        }
    }

    /// Backpressure: returns true if the connection that fills the flow must pause; it is woken when it may continue.
    pub fn is_full(&mut self, id: FlowId) -> bool {
        let flow = &self.flows[id.0];
        let token = self.token;
        let waits = flow.fill.as_ref().is_some_and(|fill| !fill.has_room(|| self.outbox.waker(token)));
        waits || flow.is_full()
    }

    /// Joins a flow that another client's request for the same object has started, if there is one.
    pub fn join(&mut self, miss: &CacheMiss) -> Option<(FlowId, FlowReaderId)> {
        let id = self.shared_flow(miss).filter(|_| miss.may_join)?;
        let flow = &mut self.flows[id.0];
        let may_follow = flow.is_shared && flow.end.is_none();
        Some((id, may_follow.then(|| flow.add_reader(self.token))??))
    }

    /// The flow for the same object that others may join, unless the object was purged since it has begun.
    fn shared_flow(&self, miss: &CacheMiss) -> Option<FlowId> {
        let id = *self.shared.get(&miss.key.hash())?;
        let other = self.flows[id.0].miss.as_ref()?;
        (other.key == miss.key && other.generation.key == miss.generation.key).then_some(id)
    }

    /// Starts `flow` for the cache only, unless a request for the same object is in progress.
    pub fn refresh(&mut self, mut flow: Box<Flow>, served: &mut Served) {
        let Some(miss) = flow.miss.as_ref().filter(|miss| !self.is_fetching(miss)) else { return };
        let hash = miss.key.hash();
        flow.is_shared = true;
        flow.begin_without_client();
        let id = FlowId(self.flows.insert(flow));
        self.shared.insert(hash, id);
        self.dispatch(id, served);
    }

    /// Returns true if a request for the same object, which others may join, is in progress.
    pub fn is_fetching(&self, miss: &CacheMiss) -> bool {
        self.shared_flow(miss).is_some()
    }

    /// Stops keeping a whole body for sharing, because it is too long or memory is short. Only its readers and the disk
    /// hold it then.
    pub fn limit_shared(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.0];
        if flow.fill.as_ref().is_some_and(|fill| !fill.is_whole()) {
            flow.is_for_disk = true;
            self.set_shared(id, false);
        }
    }

    /// Records whether other requests may use the flow's response.
    pub fn set_shared(&mut self, id: FlowId, is_shared: bool) {
        if !is_shared {
            self.unshare(id);
        }
        let flow = &mut self.flows[id.0];
        if !flow.is_wanted() && flow.end.is_none() {
            flow.end = Some(End::Abandoned);
        }
    }

    /// Stops coalescing requests with this flow.
    fn unshare(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.0];
        if let Some(miss) = &flow.miss
            && self.shared.get(&miss.key.hash()) == Some(&id)
        {
            self.shared.remove(&miss.key.hash());
        }
        flow.is_shared = false;
    }

    /// The flow with this ID, which must exist.
    pub fn flow(&mut self, id: FlowId) -> &mut Flow {
        &mut self.flows[id.0]
    }

    /// The current connection no longer follows the flow.
    pub fn leave(&mut self, id: FlowId, reader: FlowReaderId) {
        let flow = &mut self.flows[id.0];
        flow.readers.retain(|other| other.id != reader);
        flow.drop_read();
        if let Some(tunnel) = flow.tunnel.take() {
            // Its client has left before it joined.
            self.break_tunnel(tunnel);
            self.release_tunnel(tunnel);
        }
        let flow = &mut self.flows[id.0];
        // A response that is being stored needs no reader.
        if !flow.is_wanted() && flow.end.is_none() {
            flow.end = Some(End::Abandoned);
            self.outbox.wake_all(flow.fetch);
        }
        self.forget_if_alone(id);
    }

    pub fn wake_readers(&mut self, id: FlowId) {
        self.outbox.wake_all(self.flows[id.0].readers.iter().map(|reader| reader.token));
    }

    /// Wakes the connection that fills the flow.
    pub fn wake_fetch(&mut self, id: FlowId) {
        self.outbox.wake_all(self.flows[id.0].fetch);
    }

    /// The flow assigned to the current connection.
    pub fn take_assignment(&mut self) -> Option<FlowId> {
        self.assigned.remove(&self.token)
    }

    /// Returns true if a flow was assigned to the current connection.
    pub fn has_assignment(&self) -> bool {
        self.assigned.contains_key(&self.token)
    }

    /// The current connection fills this flow.
    pub fn fill(&mut self, id: FlowId) {
        self.flows[id.0].fetch = Some(self.token);
    }

    /// The current connection has stopped filling it; `end` is how the flow ended, unless it has ended before.
    pub fn finish(&mut self, id: FlowId, end: End) {
        self.release_share(id);
        let flow = &mut self.flows[id.0];
        (flow.fetch, flow.has_fetch) = (None, false);
        let end = *flow.end.get_or_insert(end);
        flow.claim = None;
        if end == End::Complete {
            flow.append_held();
        }
        if let Some(part) = flow.part.take() {
            part.end();
        }
        if let Some(fill) = flow.fill.take() {
            if end == End::Complete {
                // Readers have their own parts; the store has the object.
                let _ = fill.complete();
            } else {
                keep_as_part(fill);
            }
        }
        self.unshare(id);
        self.wake_readers(id);
        self.forget_if_alone(id);
    }

    /// The connection that fills the flow has failed. Retries the request on another connection if that is useful and
    /// safe; otherwise ends it, with `status` for the clients.
    pub fn fail(&mut self, id: FlowId, status: Status, is_worth_repeating: bool, served: &mut Served) {
        self.release_share(id);
        let flow = &mut self.flows[id.0];
        (flow.fetch, flow.has_fetch) = (None, false);
        let has_answer = flow.answer.is_some();
        let is_repeated = is_worth_repeating
            && !has_answer
            && flow.end.is_none()
            && flow.is_repeatable
            && flow.attempts < ATTEMPTS_MAX;
        if is_repeated {
            served.count(Counter::UpstreamRetries);
            return self.dispatch(id, served);
        }
        if flow.end != Some(End::Abandoned) {
            served.count(Counter::UpstreamFailures);
        }
        self.finish(id, if has_answer { End::Truncated } else { End::Failed(status) });
    }

    /// The idle connection that was to fill the flow has ended. Nothing was sent, so any request moves to another one; that is
    /// new, so this happens once.
    pub fn reassign(&mut self, id: FlowId, served: &mut Served) {
        self.release_share(id);
        let flow = &mut self.flows[id.0];
        (flow.fetch, flow.has_fetch) = (None, false);
        if flow.end.is_some() {
            return self.finish(id, End::Abandoned);
        }
        served.count(Counter::UpstreamRetries);
        self.dispatch(id, served);
    }

    /// Adds the counters of connections and flows to the table.
    pub fn report(&self, now: Duration, served: &mut Served) {
        served.set(Counter::UpstreamConnectionsOpen, self.open() as u64);
        served.set(Counter::UpstreamsDown, self.health.down(now));
        let (length, is_high) = self.queue_length();
        served.set(Counter::UpstreamQueueLength, length as u64);
        served.set(Counter::UpstreamGatheredBytes, self.gathered.load(Ordering::Relaxed) as u64);
        served.set(Counter::OverloadUpstreamQueue, is_high.into());
        served.set(Counter::TunnelsOpen, self.tunnels_open() as u64);
    }

    fn forget_if_alone(&mut self, id: FlowId) {
        let flow = &self.flows[id.0];
        if flow.readers.is_empty() && !flow.has_fetch {
            let mut ended = self.flows.remove(id.0);
            if self.spare_flows.len() < SPARE_MAX {
                ended.reset();
                self.spare_flows.push(ended);
            }
        }
    }
}
