//! The path of a request through the proxy: its own response, the cache, coalescing, or an upstream.

use sojourn_cache_store::Insertion;
use sojourn_content::HostId;
use sojourn_http::Status;
use sojourn_http::request::{Request, Scheme};
use sojourn_http_cache::{CacheStatus, Forwarded};

use super::exchange::{Exchange, Following, Relay, Stage};
use super::{
    CacheMiss, ClientContext, Coalescing, LocalResponse, ReverseProxy, Verdict, build_flow, host,
    local_response, upgrade,
};
use crate::access_log::Outcome;
use crate::connection::{ExchangeId, Response, Step};
use crate::counters::{Counter, Served};

/// The methods that the proxy answers itself.
const ALLOWED: &str = "GET, HEAD, OPTIONS";

impl ReverseProxy {
    /// Lets `request` wait, after earlier responses have been sent.
    pub(super) fn wait(&mut self, exchange: Exchange, response: &Response<'_, '_>) -> Step {
        let exchange = Exchange { outcome: response.outcome(), ..exchange };
        Step::Wait(ExchangeId(self.requests.insert(exchange)))
    }

    /// Sends a body as its flow receives it; the head has been written.
    pub(super) fn relay_body(
        &mut self,
        request: &Request<'_>,
        code: u16,
        relay: Relay,
        response: &mut Response<'_, '_>,
    ) -> Step {
        self.send_body(request, code, Stage::Relaying(relay), response)
    }

    /// Sends a body in this way; the head has been written.
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

    /// Answers a permitted request to a service: by the proxy itself, from the cache, or from an upstream.
    pub(in crate::handler) fn accept(
        &mut self,
        service: HostId,
        request: &Request<'_>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        match local_response(request, self.upstream_client.proxy()) {
            None => {
                let client_context = self.client_context_of(service, request, response);
                self.relay(request, client_context, Exchange::default(), response)
            }
            Some(LocalResponse::Status(status)) => response.page(request, status),
            Some(LocalResponse::Options) => response.options(request, ALLOWED),
        }
    }

    /// Answers `request` from the cache, or asks an upstream.
    pub(super) fn relay(
        &mut self,
        request: &Request<'_>,
        client_context: ClientContext,
        exchange: Exchange,
        response: &mut Response<'_, '_>,
    ) -> Step {
        if upgrade(request, client_context.host, self.upstream_client.proxy()).is_some() {
            return self.begin_upgrade(request, client_context, response);
        }
        if self.upstream_client.proxy().cache.is_some() {
            return self.relay_by_cache(request, client_context, exchange, response);
        }
        response.note_outcome(Outcome::Miss);
        if response.has_earlier_output() {
            return Step::Flush;
        }
        self.begin_flow(request, client_context, (None, None), None, response)
    }

    fn relay_by_cache(
        &mut self,
        request: &Request<'_>,
        client_context: ClientContext,
        mut exchange: Exchange,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let cache = self.upstream_client.proxy().cache.as_ref();
        let is_forced_hit = cache.is_some_and(|cache| cache.is_forced_hit(request));
        if is_forced_hit && response.has_earlier_output() {
            // One random draw per request: wait until it is this request's turn.
            return Step::Flush;
        }
        let verdict = self.look_up(request, client_context, &mut exchange, response);
        if matches!(verdict, Verdict::Wait) {
            return if response.has_earlier_output() { Step::Flush } else { self.wait(exchange, response) };
        }
        if is_forced_hit {
            let is_hit = matches!(verdict, Verdict::Hit(..));
            let counter = if is_hit { Counter::CacheForcedHits } else { Counter::CacheForcedMisses };
            response.shared.served.count(counter);
        }
        let (miss, why) = match verdict {
            Verdict::Hit(object, refresh) => {
                if let Some(miss) = refresh {
                    self.refresh_stored(request, client_context, miss, response.shared.served);
                }
                return self.answer_from_cache(request, &object, CacheStatus::default(), response);
            }
            Verdict::GatewayTimeout => return response.page(request, Status::GatewayTimeout),
            Verdict::Wait => unreachable!("it has told"),
            Verdict::Pass(why) => (None, why),
            Verdict::Fill(miss) => {
                let why = miss.why;
                (Some(Box::new(miss)), Some(why))
            }
        };
        if response.has_earlier_output() {
            return Step::Flush;
        }
        let mut claim = None;
        if let Some(miss) = &miss {
            if let Some(joined) = self.upstream_client.join(miss) {
                response.shared.served.count(Counter::CacheCoalesced);
                response.note_outcome(Outcome::CoalescedMiss);
                let stage = Stage::Relaying(Relay::new(joined, request, why));
                return self.wait(Exchange { stage, ..exchange }, response);
            }
            let may_follow = miss.may_join && !exchange.has_followed;
            let cache = self.upstream_client.proxy().cache.as_ref();
            match cache.filter(|_| may_follow).map(|cache| cache.claim(miss)) {
                Some(Coalescing::Follow(busy_object)) => {
                    return self.follow(request, Following { busy_object, why }, exchange, response);
                }
                Some(Coalescing::Lead(fill)) => claim = Some(fill),
                Some(Coalescing::Alone) | None => {}
            }
            let is_validation = miss.is_validation();
            let counter = if is_validation { Counter::CacheRevalidations } else { Counter::CacheMisses };
            response.shared.served.count(counter);
        }
        self.begin_flow(request, client_context, (miss, claim), why, response)
    }

    /// Sends `request` to an upstream: with a cache entry and `claim` to store the response, otherwise for this client
    /// only.
    pub(super) fn begin_flow(
        &mut self,
        request: &Request<'_>,
        client_context: ClientContext,
        (miss, claim): (Option<Box<CacheMiss>>, Option<Insertion>),
        why: Option<Forwarded>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let buffers = self.upstream_client.buffers_requests();
        if buffers && !self.upstream_client.fits_buffer(request.body.length().unwrap_or(0)) {
            response.shared.served.count(Counter::LimitGathered);
            return response.page(request, Status::ContentTooLarge);
        }
        let flow = self.upstream_client.take_flow();
        let proxy = self.upstream_client.proxy();
        let mut flow = build_flow(request, client_context, proxy, miss, buffers, flow);
        flow.claim = claim;
        let begun = self.upstream_client.begin(flow, response.shared.served);
        let stage = Stage::Relaying(Relay::new(begun, request, why));
        self.wait(Exchange { stage, ..Exchange::default() }, response)
    }

    /// How the request arrived, and its service.
    pub(super) fn client_context(&self, request: &Request<'_>, response: &Response<'_, '_>) -> ClientContext {
        let service = self.services.service_of(request).unwrap_or(HostId(0));
        self.client_context_of(service, request, response)
    }

    /// The same, for a service that is known. A forward proxy's targets have a scheme of their own.
    fn client_context_of(
        &self,
        host: HostId,
        request: &Request<'_>,
        response: &Response<'_, '_>,
    ) -> ClientContext {
        let is_forward = self.upstream_client.proxy().forward.is_some();
        let is_secure = if is_forward { request.scheme == Some(Scheme::Https) } else { response.is_secure() };
        ClientContext { peer: response.peer(), ends: response.shared.ends, is_secure, host }
    }

    /// The cache's decision about `request`.
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
            let proxy = self.upstream_client.proxy();
            let Some(cache) = &proxy.cache else { return Verdict::Pass(None) };
            let verdict = cache.look_up(request, ask.scheme(), host(request, ask, proxy), now, &mut lookup);
            response.note_outcome(verdict.outcome(lookup.was_on_disk()));
            match verdict {
                // Otherwise the disk has answered meanwhile.
                Verdict::Wait if lookup.waits(&self.upstream_client.waker()) => {
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
        client_context: ClientContext,
        miss: CacheMiss,
        served: &mut Served,
    ) {
        if !self.upstream_client.is_fetching(&miss) {
            let is_validation = miss.is_validation();
            let counter = if is_validation { Counter::CacheRevalidations } else { Counter::CacheMisses };
            served.count(counter);
            let flow = self.upstream_client.take_flow();
            let proxy = self.upstream_client.proxy();
            let flow = build_flow(request, client_context, proxy, Some(Box::new(miss)), false, flow);
            self.upstream_client.refresh(flow, served);
        }
    }
}
