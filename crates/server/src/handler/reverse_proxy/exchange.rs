//! Requests to a proxy, from the cache lookup to the upstream and back: the proxy as a [`Handler`].
//!
//! A request whose response is not at hand is an [`Exchange`]; what it waits for is its [`Stage`].

use std::sync::Arc;

use slab::Slab;
use sojourn_cache_store::{BusyObject, Insertion};
use sojourn_content::HostId;
use sojourn_http::Status;
use sojourn_http::request::{Body, Request, Scheme};
use sojourn_http_cache::{CacheStatus, Forwarded};

use super::{
    CacheLookup, CacheMiss, ClientContext, Coalescing, End, Exchanges, FlowId, FollowerId, OwnAnswer,
    Verdict, ask, host, own_answer,
};
use crate::access_log::Outcome;
use crate::connection::{
    BodyStep, BodyWriter, Event, ExchangeId, Handler, MachineId, News, Outbox, Piece, Progress, Response,
    Shared, Step, Wait, Want,
};
use crate::counters::{Counter, Served};
use crate::handler::stream::{Next, Stream};
use crate::hosts::Hosts;

/// The methods that a proxy answers itself.
const ALLOWED: &str = "GET, HEAD, OPTIONS";

/// The end of a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// A proxy, for one event loop.
#[derive(Debug)]
pub struct ReverseProxy {
    pub(super) exchanges: Exchanges,
    hosts: Arc<Hosts>,
    pub(super) requests: Slab<Exchange>,
}

#[derive(Debug, Default)]
pub struct Exchange {
    pub(super) stage: Stage,
    /// The pending or completed disk lookup.
    pub(super) lookup: Option<CacheLookup>,
    /// True if a coalesced response did not match this request.
    pub(super) has_followed: bool,
    /// The cache's action, for the log.
    pub(super) outcome: Outcome,
}

/// The state of a request: waiting, or being answered.
#[derive(Debug, Default)]
pub enum Stage {
    #[default]
    Lookup,
    /// The head of a response that another loop has asked for.
    Following(Following),
    /// An upstream's response; once its head is sent, its body.
    Relaying(Box<Relay>),
    /// A body from the cache's memory is sent.
    Sending(Stream),
}

/// A request for the same in another loop, which is coalesced with this one.
#[derive(Debug)]
pub struct Following {
    pub filling: Arc<BusyObject>,
    /// Why the cache did not answer it.
    pub why: Option<Forwarded>,
}

/// A request, and the flow that answers it.
#[derive(Debug)]
pub struct Relay {
    pub flow: FlowId,
    /// Which of its followers this is.
    pub follower: FollowerId,
    /// The request's body is chunked, and is sent so.
    is_chunked: bool,
    /// Why the cache did not answer it, if there is one.
    pub why: Option<Forwarded>,
}

impl Relay {
    pub(super) fn new(
        (flow, follower): (FlowId, FollowerId),
        request: &Request<'_>,
        why: Option<Forwarded>,
    ) -> Relay {
        Relay { flow, follower, is_chunked: request.body == Body::Chunked, why }
    }
}

impl ReverseProxy {
    /// A proxy for `hosts`, with nothing under way.
    pub fn new(exchanges: Exchanges, hosts: Arc<Hosts>) -> ReverseProxy {
        ReverseProxy { exchanges, hosts, requests: Slab::new() }
    }

    /// Has `request` wait; earlier responses do not wait with it.
    pub(super) fn wait(&mut self, exchange: Exchange, response: &Response<'_, '_>) -> Step {
        let exchange = Exchange { outcome: response.outcome(), ..exchange };
        Step::Wait(ExchangeId(self.requests.insert(exchange)))
    }

    /// Sends a body as its flow brings it, the head being written.
    pub(super) fn relay_body(
        &mut self,
        request: &Request<'_>,
        code: u16,
        relay: Box<Relay>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        self.send_body(request, code, Stage::Relaying(relay), response)
    }

    /// Sends a body in this way, the head being written.
    pub(super) fn send_body(
        &mut self,
        request: &Request<'_>,
        code: u16,
        stage: Stage,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let id = self.requests.insert(Exchange { stage, ..Exchange::default() });
        response.body_follows(request, code, ExchangeId(id))
    }

    /// Answers a request that may come here: itself, from the cache, or from an upstream.
    pub(in crate::handler) fn accept(
        &mut self,
        request: &Request<'_>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        match own_answer(request, &self.exchanges.proxy().pseudonym) {
            None => self.relay(request, Exchange::default(), response),
            Some(OwnAnswer::Status(status)) => response.page(request, status),
            Some(OwnAnswer::Options) => response.options(request, ALLOWED),
        }
    }

    /// Answers `request` from the cache, or has an upstream asked.
    pub(super) fn relay(
        &mut self,
        request: &Request<'_>,
        mut exchange: Exchange,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let asking = self.asking(request, response);
        let cache = self.exchanges.proxy().cache.as_ref();
        let is_by_lot = cache.is_some_and(|cache| cache.is_by_lot(request));
        if is_by_lot && response.is_behind_others() {
            // One draw for each request: it is read again before its own.
            return Step::Flush;
        }
        let verdict = self.look_up(request, asking, &mut exchange, response);
        if matches!(verdict, Verdict::Wait) {
            return if response.is_behind_others() { Step::Flush } else { self.wait(exchange, response) };
        }
        if is_by_lot {
            let is_hit = matches!(verdict, Verdict::Hit(..));
            let counter = if is_hit { Counter::CacheForcedHits } else { Counter::CacheForcedMisses };
            response.shared.served.count(counter);
        }
        let (miss, why) = match verdict {
            Verdict::Hit(object, refresh) => {
                if let Some(miss) = refresh {
                    self.refresh_stored(request, asking, miss, response.shared.served);
                }
                return self.answer_from_cache(request, &object, CacheStatus::default(), response);
            }
            Verdict::GatewayTimeout => return response.page(request, Status::GatewayTimeout),
            Verdict::Wait => unreachable!("it has told"),
            Verdict::Pass(why) => (None, why),
            Verdict::Fill(miss) => {
                let why = miss.why;
                (Some(miss), Some(why))
            }
        };
        if response.is_behind_others() {
            return Step::Flush;
        }
        let mut claim = None;
        if let Some(miss) = &miss {
            if let Some(joined) = self.exchanges.join(miss) {
                response.shared.served.count(Counter::CacheCollapsed);
                response.note_outcome(Outcome::CollapsedMiss);
                let stage = Stage::Relaying(Box::new(Relay::new(joined, request, why)));
                return self.wait(Exchange { stage, ..exchange }, response);
            }
            let may_follow = miss.may_join && !exchange.has_followed;
            let cache = self.exchanges.proxy().cache.as_ref();
            match cache.filter(|_| may_follow).map(|cache| cache.claim(miss)) {
                Some(Coalescing::Follow(filling)) => {
                    return self.follow(request, Following { filling, why }, exchange, response);
                }
                Some(Coalescing::Lead(fill)) => claim = Some(fill),
                Some(Coalescing::Alone) | None => {}
            }
            let is_validation = miss.is_validation();
            let counter = if is_validation { Counter::CacheRevalidations } else { Counter::CacheMisses };
            response.shared.served.count(counter);
        }
        self.begin_flow(request, miss, claim, why, response)
    }

    /// Asks an upstream for `request`: to store the response if it is `keyed`, by the holder of the `claim`, else for
    /// this client alone.
    pub(super) fn begin_flow(
        &mut self,
        request: &Request<'_>,
        miss: Option<CacheMiss>,
        claim: Option<Insertion>,
        why: Option<Forwarded>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let asking = self.asking(request, response);
        let mut flow = ask(request, asking, self.exchanges.proxy(), miss);
        flow.claim = claim;
        let begun = self.exchanges.begin(flow, response.shared.served);
        let stage = Stage::Relaying(Box::new(Relay::new(begun, request, why)));
        self.wait(Exchange { stage, ..Exchange::default() }, response)
    }

    /// How the request came. Targets of a forward proxy have their own scheme.
    fn asking(&self, request: &Request<'_>, response: &Response<'_, '_>) -> ClientContext {
        let is_forward = self.exchanges.proxy().forward.is_some();
        let is_secure = if is_forward { request.scheme == Some(Scheme::Https) } else { response.is_secure() };
        let host = self.hosts.find(request.host).unwrap_or(HostId(0));
        ClientContext { peer: response.peer(), is_secure, host }
    }

    /// The cache's verdict on `request`.
    fn look_up(
        &mut self,
        request: &Request<'_>,
        ask: ClientContext,
        exchange: &mut Exchange,
        response: &mut Response<'_, '_>,
    ) -> Verdict {
        let now = response.shared.clock.second.seconds() as i64;
        response.note_outcome(Outcome::Miss);
        let mut lookup = exchange.lookup.take().unwrap_or_default();
        loop {
            let proxy = self.exchanges.proxy();
            let Some(cache) = &proxy.cache else { return Verdict::Pass(None) };
            let verdict = cache.look_up(request, ask.scheme(), host(request, ask, proxy), now, &mut lookup);
            response.note_outcome(verdict.outcome(lookup.was_on_disk()));
            match verdict {
                // Otherwise it has told meanwhile.
                Verdict::Wait if lookup.waits(&self.exchanges.waker()) => {
                    exchange.lookup = Some(lookup);
                    return verdict;
                }
                Verdict::Wait => {}
                Verdict::Hit(..) if lookup.was_on_disk() => {
                    response.shared.served.count(Counter::CacheDiskHits);
                    return verdict;
                }
                _ => return verdict,
            }
        }
    }

    /// Revalidates the stored response in the background (stale-while-revalidate).
    fn refresh_stored(
        &mut self,
        request: &Request<'_>,
        asking: ClientContext,
        miss: CacheMiss,
        served: &mut Served,
    ) {
        if !self.exchanges.is_under_way(&miss) {
            let is_validation = miss.is_validation();
            let counter = if is_validation { Counter::CacheRevalidations } else { Counter::CacheMisses };
            served.count(counter);
            let flow = ask(request, asking, self.exchanges.proxy(), Some(miss));
            self.exchanges.refresh(flow, served);
        }
    }

    pub(in crate::handler) fn exchanges(&mut self) -> &mut Exchanges {
        &mut self.exchanges
    }

    pub(in crate::handler) fn attend(&mut self, shared: &Shared<'_>) {
        self.exchanges.attend(shared.token, shared.clock.now);
    }

    /// Writes the bytes that have arrived on a flow.
    fn flow_body(&mut self, id: usize, body: &mut BodyWriter<'_>, copied_bytes_max: usize) -> BodyStep {
        let Stage::Relaying(relay) = &self.requests[id].stage else { unreachable!("a response is relayed") };
        let exchanges = &mut self.exchanges;
        while body.has_room() {
            exchanges.pull(relay.flow);
            let flow = exchanges.flow(relay.flow);
            let was_full = flow.is_full();
            let Some(part) = flow.take(relay.follower) else { break };
            let has_room_again = was_full && !flow.is_full();
            if has_room_again {
                exchanges.wake_fetch(relay.flow);
            }
            if part.len() > copied_bytes_max {
                return BodyStep::Send { piece: Some(Piece::Memory(part)), is_last: false, remaining: None };
            }
            body.append(&part);
        }
        let flow = exchanges.flow(relay.flow);
        match flow.end {
            // There is more than is sent at once.
            _ if flow.has_part(relay.follower) => BodyStep::Wait,
            Some(End::Complete) => BodyStep::End,
            Some(_) => BodyStep::Broken,
            None => BodyStep::Wait,
        }
    }
}

impl Handler for ReverseProxy {
    fn begin(&mut self, request: &Request<'_>, response: &mut Response<'_, '_>) -> Step {
        self.attend(response.shared);
        if response.is_misdirected(request) || self.hosts.find(request.host).is_none() {
            return response.page(request, Status::MisdirectedRequest);
        }
        self.accept(request, response)
    }

    fn resume(
        &mut self,
        exchange: ExchangeId,
        _news: News,
        request: &Request<'_>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        self.attend(response.shared);
        let mut exchange = self.requests.remove(exchange.0);
        response.note_outcome(exchange.outcome);
        match std::mem::take(&mut exchange.stage) {
            Stage::Lookup => self.relay(request, exchange, response),
            Stage::Following(following) => self.follow(request, following, exchange, response),
            Stage::Relaying(relay) => self.begin_relayed(request, relay, response),
            Stage::Sending(_) => unreachable!("what is being sent is not resumed"),
        }
    }

    fn takes_bodies(&self) -> bool {
        true
    }

    fn upload(&mut self, exchange: ExchangeId, part: &[u8], shared: &mut Shared<'_>) {
        self.attend(shared);
        let Stage::Relaying(relay) = &self.requests[exchange.0].stage else { return };
        let Some(upload) = &mut self.exchanges.flow(relay.flow).upload else { return };
        if relay.is_chunked {
            upload.bytes.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        }
        upload.bytes.extend_from_slice(part);
        if relay.is_chunked {
            upload.bytes.extend_from_slice(b"\r\n");
        }
        self.exchanges.wake_fetch(relay.flow);
    }

    fn end_upload(&mut self, exchange: ExchangeId, shared: &mut Shared<'_>) {
        self.attend(shared);
        let Stage::Relaying(relay) = &self.requests[exchange.0].stage else { return };
        let Some(upload) = &mut self.exchanges.flow(relay.flow).upload else { return };
        if relay.is_chunked {
            upload.bytes.extend_from_slice(LAST_CHUNK);
        }
        upload.is_complete = true;
        self.exchanges.wake_fetch(relay.flow);
    }

    fn progress(&mut self, exchange: ExchangeId, shared: &mut Shared<'_>) -> Progress {
        self.attend(shared);
        let Exchange { stage, lookup, .. } = &self.requests[exchange.0];
        let mut pending = Progress::Pending { takes_body: false, wants_body: false };
        let is_ready = match stage {
            Stage::Lookup => {
                let waker = self.exchanges.waker();
                !lookup.as_ref().is_some_and(|lookup| lookup.waits(&waker))
            }
            Stage::Following(following) => {
                let stage = following.filling.stage(&self.exchanges.waker());
                !matches!(stage, sojourn_cache_store::Stage::Waiting)
            }
            Stage::Relaying(relay) => {
                let flow = self.exchanges.flow(relay.flow);
                if let Some(upload) = &flow.upload {
                    let (takes_body, wants_body) = (!upload.is_full(), upload.is_asked_for);
                    pending = Progress::Pending { takes_body, wants_body };
                }
                flow.has_news()
            }
            Stage::Sending(_) => unreachable!("what is being sent does not wait"),
        };
        if is_ready { Progress::Ready } else { pending }
    }

    fn body(
        &mut self,
        exchange: ExchangeId,
        _news: News,
        body: &mut BodyWriter<'_>,
        shared: &mut Shared<'_>,
    ) -> BodyStep {
        self.attend(shared);
        let Stage::Sending(stream) = &mut self.requests[exchange.0].stage else {
            return self.flow_body(exchange.0, body, shared.send_path.copied_bytes_max as usize);
        };
        match stream.next(body) {
            Next::Stored(extent) => stream.send(Piece::Stored(extent)),
            Next::File(_) | Next::End => BodyStep::Send { piece: None, is_last: true, remaining: None },
        }
    }

    fn finish(&mut self, exchange: ExchangeId, shared: &mut Shared<'_>) {
        self.attend(shared);
        match self.requests.remove(exchange.0).stage {
            Stage::Relaying(relay) => self.exchanges.leave(relay.flow, relay.follower),
            Stage::Lookup | Stage::Following(_) | Stage::Sending(_) => {}
        }
    }

    fn drive(&mut self, machine: MachineId, event: Event, shared: &mut Shared<'_>) -> (Want, Wait) {
        self.attend(shared);
        self.exchanges.drive(machine, event, shared)
    }

    fn end(&mut self, machine: MachineId, shared: &mut Shared<'_>) -> u64 {
        self.attend(shared);
        self.exchanges.end(machine, shared)
    }

    fn outbox(&mut self) -> Option<&mut Outbox> {
        Some(&mut self.exchanges.outbox)
    }

    fn is_busy(&self) -> bool {
        self.exchanges.is_busy()
    }

    fn report(&self, now: std::time::Duration, served: &mut Served) {
        self.exchanges.report(now, served);
    }
}
