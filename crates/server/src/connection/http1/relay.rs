//! A request that an upstream answers: its body on the way there, and the answer on the way back.
//!
//! While the answer is awaited the request's head stays in the input buffer, as it does while a disk is; once the
//! answer has begun the request is read once more. Body bytes behind it go into the flow as they arrive.

use sojourn_cache_store::Insertion;
use sojourn_content::HostId;
use sojourn_http::Status;
use sojourn_http::request::{Body, BodyReader, Method, Request, Scheme};
use sojourn_http_cache::{CacheStatus, Forwarded};

use super::answer::Step;
use super::body::{CONTINUE, Content};
use super::follow::Following;
use super::framing::Framing;
use super::pipeline::OUTPUT_BYTES_MAX;
use super::{Http1, State};
use crate::access_log::{OpenLine, Upstream};
use crate::connection::{Buffer, Context, Piece, Reason, Want};
use crate::counters::Counter;
use crate::handler::reverse_proxy::{
    Ask, Claim, End, Exchanges, FlowId, FollowerId, Keyed, Outcome, OwnAnswer, Verdict, ask, refusal,
};

/// A request, and the flow that answers it.
#[derive(Debug)]
pub(super) struct Relay {
    pub flow: FlowId,
    /// Which of its followers this is.
    pub follower: FollowerId,
    /// The request's body while it arrives; its coding is undone, and done again.
    pub body: Option<Box<BodyReader>>,
    pub is_chunked: bool,
    pub head_len: usize,
    /// Why the cache did not answer it, if there is one.
    pub why: Option<Forwarded>,
    pub framing: Framing,
    pub line: Option<OpenLine>,
    pub body_bytes_sent: u64,
    /// Bytes of the answer's body in the output that is being sent.
    body_bytes_sending: u64,
    /// The head of the answer is written.
    pub is_answering: bool,
    /// The driver receives more of the request's body.
    pub is_receiving: bool,
    /// Nothing follows the output.
    pub is_over: bool,
}

impl Http1 {
    /// Has an upstream answer `request`, or answers with what one has begun to say.
    pub(super) fn relay(&mut self, request: &Request<'_>, context: &mut Context<'_>) -> Step {
        if let Some(relay) = self.dealings().relayed.take() {
            return self.begin_relayed(request, relay, context);
        }
        if let Some(Following { filling, why }) = self.dealings().following.take() {
            return self.follow(request, filling, why, context);
        }
        let forward = exchanges(context).proxy().forward.clone();
        match &forward {
            Some(forward) if request.method == Method::Connect => {
                return self.connect(request, forward, context);
            }
            Some(_) => {}
            None if request.scheme == Some(Scheme::Https) && !self.is_secure => {
                return self.refuse_relay(request, OwnAnswer::Status(Status::MisdirectedRequest), context);
            }
            None if context.hosts.find(request.host).is_none() => {
                return self.refuse_relay(request, OwnAnswer::Status(Status::MisdirectedRequest), context);
            }
            None => {}
        }
        if let Some(refusal) = refusal(request, self.peer, exchanges(context).proxy()) {
            return self.refuse_relay(request, refusal, context);
        }
        let asking = self.asking(request, context);
        let is_by_lot = is_by_lot(request, context);
        if is_by_lot && !self.output.is_empty() {
            // One draw for each request: it is read again before its own.
            return Step::Flush;
        }
        let verdict = self.look_up(request, asking, context);
        if matches!(verdict, Verdict::Wait) {
            // Earlier answers do not wait for the disk.
            return if self.output.is_empty() { Step::Search } else { Step::Flush };
        }
        if is_by_lot {
            let is_hit = matches!(verdict, Verdict::Hit(..));
            context.served.count(if is_hit { Counter::CacheForcedHits } else { Counter::CacheForcedMisses });
        }
        let (keyed, why) = match verdict {
            Verdict::Hit(object, refresh) => {
                if let Some(keyed) = refresh {
                    refresh_stored(request, asking, keyed, context);
                }
                return self.answer_from_cache(request, &object, CacheStatus::default(), context);
            }
            Verdict::GatewayTimeout => return self.page(request, Status::GatewayTimeout, context),
            Verdict::Wait => unreachable!("it has told"),
            Verdict::Pass(why) => (None, why),
            Verdict::Fill(keyed) => {
                let why = keyed.why;
                (Some(keyed), Some(why))
            }
        };
        if !self.output.is_empty() {
            // Earlier answers do not wait for the upstream; then the request is read again.
            return Step::Flush;
        }
        let mut claim = None;
        if let Some(keyed) = &keyed {
            if let Some(joined) = exchanges(context).join(keyed) {
                context.served.count(Counter::CacheCollapsed);
                self.dealings().outcome = Outcome::CollapsedMiss;
                return Step::Relay(Relay::new(joined, None, request, why));
            }
            let may_follow = keyed.may_join && !self.dealings().has_followed;
            let cache = exchanges(context).proxy().cache.as_ref();
            match cache.filter(|_| may_follow).map(|cache| cache.claim(keyed)) {
                Some(Claim::Theirs(filling)) => return self.follow(request, filling, why, context),
                Some(Claim::Ours(fill)) => claim = Some(fill),
                Some(Claim::Nobodys) | None => {}
            }
            let is_validation = keyed.is_validation();
            let counter = if is_validation { Counter::CacheRevalidations } else { Counter::CacheMisses };
            context.served.count(counter);
        }
        self.begin_flow(request, keyed, claim, why, context)
    }

    /// Asks an upstream for `request`: to keep the answer if it is `keyed`, by who has the `claim` for it, else for this
    /// client alone.
    pub(super) fn begin_flow(
        &mut self,
        request: &Request<'_>,
        keyed: Option<Keyed>,
        claim: Option<Insertion>,
        why: Option<Forwarded>,
        context: &mut Context<'_>,
    ) -> Step {
        let asking = self.asking(request, context);
        let exchanges = context.exchanges.as_mut().expect("a proxy has exchanges");
        let mut flow = ask(request, asking, exchanges.proxy(), keyed);
        flow.claim = claim;
        let body = flow.upload.is_some().then(|| Box::new(BodyReader::new(request.body)));
        Step::Relay(Relay::new(exchanges.begin(flow, context.served), body, request, why))
    }

    /// Who asks. What a forward proxy is asked for its targets say, whatever lies between it and the client.
    fn asking(&self, request: &Request<'_>, context: &mut Context<'_>) -> Ask {
        let is_forward = exchanges(context).proxy().forward.is_some();
        let is_secure = if is_forward { request.scheme == Some(Scheme::Https) } else { self.is_secure };
        let host = context.hosts.find(request.host).unwrap_or(HostId(0));
        Ask { peer: self.peer, is_secure, host }
    }

    fn refuse_relay(&mut self, request: &Request<'_>, refusal: OwnAnswer, context: &mut Context<'_>) -> Step {
        if request.body != Body::Length(0) {
            self.content = Content::Left;
        }
        match refusal {
            OwnAnswer::Status(status) => self.page(request, status, context),
            OwnAnswer::Options => self.options(request, context),
            OwnAnswer::Refusal(obstacle) => self.obstructed(request, obstacle, context),
        }
    }

    /// Goes on with a relayed request, the driver doing nothing for it.
    pub(super) fn relay_on(&mut self, context: &mut Context<'_>) -> Want {
        let State::Relaying(relay) = &mut self.state else { unreachable!("a request is relayed") };
        relay.is_receiving = false;
        if relay.is_answering {
            return self.relay_body(context);
        }
        if relay.upload(&mut self.input, context).is_err() {
            self.leave_relay(context);
            self.refuse(self.is_head, Status::BadRequest, context);
            return self.send(None);
        }
        let flow = exchanges(context).flow(relay.flow);
        if flow.has_news() {
            let State::Relaying(relay) = std::mem::replace(&mut self.state, State::Requests) else {
                unreachable!("a request is relayed")
            };
            self.dealings().relayed = Some(relay);
            return self.proceed(context);
        }
        let (Some(upload), true) = (&mut flow.upload, relay.body.is_some()) else { return Want::Wait };
        if std::mem::take(&mut upload.is_asked_for) {
            self.output.extend_from_slice(CONTINUE);
            return self.send(None);
        }
        if upload.is_full() {
            return Want::Wait;
        }
        relay.is_receiving = true;
        // The request stays where it is, whether this is recalled or not.
        Want::Receive(Buffer::default())
    }

    /// The flow has something for the request, or had.
    pub(super) fn woken(&mut self, context: &mut Context<'_>) -> Want {
        if matches!(self.state, State::Searching) {
            self.state = State::Requests;
            return self.proceed(context);
        }
        let State::Relaying(relay) = &self.state else { return Want::Wait };
        if self.is_sending {
            return Want::Wait;
        }
        if !relay.is_receiving {
            return self.relay_on(context);
        }
        let flow = exchanges(context).flow(relay.flow);
        let is_asked_for = flow.upload.as_ref().is_some_and(|upload| upload.is_asked_for);
        if flow.has_news() || is_asked_for { Want::Recall } else { Want::Wait }
    }

    /// Who answers the request at hand, for the log.
    pub(super) fn upstream_asked<'c>(&self, context: &'c Context<'_>) -> Upstream<'c> {
        let proxy = context.exchanges.as_ref().map(|exchanges| exchanges.proxy());
        let index = self.dealings.as_ref().and_then(|dealings| dealings.upstream);
        match proxy.zip(index) {
            Some((proxy, index)) => {
                let upstream = proxy.upstreams.get(index);
                upstream.map_or(Upstream::Host, |upstream| Upstream::Named(&upstream.authority))
            }
            None => Upstream::None,
        }
    }

    /// Sends what has come of the answer's body.
    fn relay_body(&mut self, context: &mut Context<'_>) -> Want {
        let State::Relaying(relay) = &mut self.state else { unreachable!("a request is relayed") };
        let copied_bytes_max = context.send_path.copied_bytes_max as usize;
        let exchanges = context.exchanges.as_mut().expect("a proxy has exchanges");
        while self.output.len() < OUTPUT_BYTES_MAX {
            exchanges.pull(relay.flow);
            let flow = exchanges.flow(relay.flow);
            let was_full = flow.is_full();
            let Some(part) = flow.take(relay.follower) else { break };
            let has_room_again = was_full && !flow.is_full();
            if has_room_again {
                exchanges.wake_fetch(relay.flow);
            }
            relay.body_bytes_sending += part.len() as u64;
            relay.framing.begin_part(part.len(), &mut self.output);
            if part.len() > copied_bytes_max {
                return self.send(Some(Piece::Memory(part)));
            }
            self.output.extend_from_slice(&part);
        }
        let flow = exchanges.flow(relay.flow);
        match flow.end {
            _ if flow.has_part(relay.follower) => {}
            Some(End::Complete) => {
                relay.framing.end(&mut self.output);
                relay.is_over = true;
                // Something may be left to say or to shut, and `sent` ends it either way.
                return self.send(None);
            }
            // What is there is sent; closing then says that it is not all.
            Some(_) if self.output.is_empty() => return Want::Close(Reason::Failed),
            _ => {}
        }
        if self.output.is_empty() { Want::Wait } else { self.send(None) }
    }

    /// An output of a relayed request is sent; answers what is to be done, unless that was all of it.
    pub(super) fn relayed_sent(&mut self, context: &mut Context<'_>) -> Option<Want> {
        let State::Relaying(relay) = &mut self.state else { return None };
        relay.body_bytes_sent += std::mem::take(&mut relay.body_bytes_sending);
        if !relay.is_over {
            return Some(self.relay_on(context));
        }
        self.leave_relay(context);
        None
    }

    /// The request is answered, or nobody waits for the answer any more.
    pub(super) fn leave_relay(&mut self, context: &mut Context<'_>) {
        if let State::Relaying(relay) = std::mem::replace(&mut self.state, State::Requests) {
            if let (Some(log), Some(line)) = (context.log, &relay.line) {
                log.finish(line, relay.body_bytes_sent);
            }
            exchanges(context).leave(relay.flow, relay.follower);
        }
    }
}

impl Relay {
    /// Of `request`, which follows a flow and has yet to give it the rest of `body`.
    pub(super) fn new(
        (flow, follower): (FlowId, FollowerId),
        body: Option<Box<BodyReader>>,
        request: &Request<'_>,
        why: Option<Forwarded>,
    ) -> Box<Relay> {
        Box::new(Relay {
            flow,
            follower,
            body,
            is_chunked: request.body == Body::Chunked,
            head_len: request.head_len,
            why,
            framing: Framing::Plain,
            line: None,
            body_bytes_sent: 0,
            body_bytes_sending: 0,
            is_answering: false,
            is_receiving: false,
            is_over: false,
        })
    }

    /// Its answer's body is framed so.
    pub(super) fn framed(mut self: Box<Relay>, framing: Framing) -> Box<Relay> {
        self.framing = framing;
        self
    }

    /// The head of the answer is written; `line` is logged when its body ends.
    pub(super) fn answering(mut self: Box<Relay>, line: Option<OpenLine>) -> Box<Relay> {
        self.is_answering = true;
        self.line = line;
        self
    }
}

fn is_by_lot(request: &Request<'_>, context: &Context<'_>) -> bool {
    let cache = context.exchanges.as_ref().and_then(|exchanges| exchanges.proxy().cache.as_ref());
    cache.is_some_and(|cache| cache.is_by_lot(request))
}

/// Has what is stored validated, for whoever comes next.
fn refresh_stored(request: &Request<'_>, asking: Ask, keyed: Keyed, context: &mut Context<'_>) {
    let exchanges = context.exchanges.as_mut().expect("a proxy has exchanges");
    if !exchanges.is_under_way(&keyed) {
        let is_validation = keyed.is_validation();
        let counter = if is_validation { Counter::CacheRevalidations } else { Counter::CacheMisses };
        context.served.count(counter);
        let flow = ask(request, asking, exchanges.proxy(), Some(keyed));
        exchanges.refresh(flow, context.served);
    }
}

pub(super) fn exchanges<'c>(context: &'c mut Context<'_>) -> &'c mut Exchanges {
    context.exchanges.as_mut().expect("a proxy has exchanges")
}
