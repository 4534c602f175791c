//! Handles the heads of upstream responses.

use std::sync::Arc;

use sojourn_cache_store::Insertion;
use sojourn_http::upstream::Head;
use sojourn_http_cache::Moments;
use sojourn_http_cache::fields::Section;
use sojourn_http_cache::forward::{Via, append_interim, append_response};
use sojourn_http_cache::upgrade::{accepted, append_required, append_switch};

use super::UpstreamClient;
use crate::clock::Clock;
use crate::counters::Served;
use crate::handler::reverse_proxy::{End, Flow, FlowId, Received, RequestHead, ResponseAction};

const UPGRADE_REQUIRED: u16 = 426;
/// About the size of Date and Via.
const ADDED_BYTES: usize = 128;

impl UpstreamClient {
    /// Decides what to do with a response; invalidates what its request may have changed.
    pub fn classify(&mut self, id: FlowId, head: &Head<'_>, now: i64) -> ResponseAction {
        // If it is not stored, coalesced requests are told when this is dropped.
        let mut claim = self.flows[id.0].claim.take();
        let action = self.classify_for(&self.flows[id.0], head, now, &mut claim);
        if matches!(action, ResponseAction::Again) {
            self.flows[id.0].claim = claim;
        }
        action
    }

    fn classify_for(
        &self,
        flow: &Flow,
        head: &Head<'_>,
        now: i64,
        claim: &mut Option<Insertion>,
    ) -> ResponseAction {
        let Some(cache) = &self.proxy.cache else { return ResponseAction::Answer(None) };
        if let Some(changes) = &flow.changes {
            cache.invalidate(&changes.method, &changes.target(), head.status, head.fields);
        }
        let waited = self.now.saturating_sub(flow.began).as_secs() as i64;
        let moments = Moments { request: now - waited, response: now };
        let via = Via { received: head.version, pseudonym: &self.proxy.pseudonym };
        let received = Received { asked: flow.asked, sent: flow.request.text(), head, moments, via };
        match (&flow.miss, &flow.changes) {
            (Some(miss), _) => cache.classify(miss, &received, claim),
            (None, Some(changes)) => ResponseAction::Answer(cache.begin_posted(changes, &received)),
            (None, None) => ResponseAction::Answer(None),
        }
    }

    /// Forwards a response, and stores it if there is an insertion.
    pub fn begin_response(&mut self, id: FlowId, head: &Head<'_>, clock: &Clock, fill: Option<Insertion>) {
        let mut answer = self.take_answer();
        let via = Via { received: head.version, pseudonym: &self.proxy.pseudonym };
        let own = Arc::get_mut(&mut answer).expect("nobody else has it");
        own.begin(head);
        own.fields.clear();
        own.fields.reserve(head.head_len + ADDED_BYTES);
        append_response(&mut own.fields, Section(head.fields), via, || clock.date, |_| true);
        if head.status == UPGRADE_REQUIRED {
            append_required(&mut own.fields, Section(head.fields));
        }
        self.set_shared(id, fill.is_some());
        let flow = &mut self.flows[id.0];
        flow.store(fill);
        flow.answer = Some(answer);
    }

    /// Forwards a 101; false if it does not switch to what the flow asks for.
    pub fn begin_switch(&mut self, id: FlowId, head: &Head<'_>) -> bool {
        let flow = &self.flows[id.0];
        let fields = Section(head.fields);
        let Some(protocols) = flow.upgrade.as_ref().and_then(|offered| accepted(offered, fields)) else {
            return false;
        };
        let mut answer = self.take_answer();
        let via = Via { received: head.version, pseudonym: &self.proxy.pseudonym };
        let own = Arc::get_mut(&mut answer).expect("nobody else has it");
        own.begin(head);
        own.fields.clear();
        append_switch(&mut own.fields, fields, via, &protocols);
        self.flows[id.0].answer = Some(answer);
        true
    }

    /// Forwards an interim response.
    pub fn pass_interim(&mut self, id: FlowId, head: &Head<'_>) {
        let via = Via { received: head.version, pseudonym: &self.proxy.pseudonym };
        append_interim(&mut self.flows[id.0].interim, head.status, head.reason, Section(head.fields), via);
    }

    /// Repeats the flow's request without conditions.
    pub fn begin_again(&mut self, id: FlowId, served: &mut Served) {
        self.release_share(id);
        let flow = &mut self.flows[id.0];
        (flow.fetch, flow.has_fetch, flow.attempts) = (None, false, 0);
        if flow.end.is_some() {
            return self.finish(id, End::Abandoned);
        }
        let unconditional = flow.unconditional.take();
        flow.request =
            RequestHead::Http(unconditional.expect("only what was sent with conditions is sent again"));
        if let (Some(miss), Some(cache)) = (&mut flow.miss, &self.proxy.cache) {
            miss.forget_stored();
            // The response that it is repeated for may itself have purged the key.
            miss.generation = cache.generation(&miss.key);
        }
        self.dispatch(id, served);
    }
}
