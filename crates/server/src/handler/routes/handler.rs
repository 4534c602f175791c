//! The routes as a [`Handler`] for one event loop: passes a request to the handler of its route, and encodes in the
//! exchange ID which one that was.

use std::sync::Arc;
use std::time::Duration;

use sojourn_content::HostId;
use sojourn_http::request::{Method, Request};
use sojourn_http::{SitePath, Status, head};

use super::table::{Action, Route, Table};
use crate::connection::{
    BodyStep, BodyWriter, Event, ExchangeEvent, ExchangeId, Handler, MachineId, Outbox, Progress, Response,
    Shared, Step, Wait, Want,
};
use crate::counters::Served;
use crate::handler::reverse_proxy::ReverseProxy;
use crate::hosts::Hosts;

/// Exchange IDs of files start here, those of the reverse proxy at 0.
const FIRST_OF_FILES: usize = 1 << (usize::BITS - 1);

/// The methods of redirects and fixed responses.
const ALLOWED: &str = "GET, HEAD, OPTIONS";

#[derive(Debug)]
pub struct RoutesHandler {
    table: Arc<Table>,
    hosts: Arc<Hosts>,
    files: Box<dyn Handler>,
    relay: Option<ReverseProxy>,
}

impl RoutesHandler {
    pub fn new(
        table: Arc<Table>,
        hosts: Arc<Hosts>,
        files: Box<dyn Handler>,
        relay: Option<ReverseProxy>,
    ) -> RoutesHandler {
        RoutesHandler { table, hosts, files, relay }
    }

    fn files(&mut self, request: &Request<'_>, response: &mut Response<'_, '_>) -> Step {
        of_files(self.files.begin(request, response))
    }

    /// The handler of an exchange, and its own ID for it.
    fn handler_of(&mut self, exchange: ExchangeId) -> (&mut dyn Handler, ExchangeId) {
        match exchange.0.checked_sub(FIRST_OF_FILES) {
            Some(id) => (&mut *self.files, ExchangeId(id)),
            None => (self.relay.as_mut().expect("a relay has begun it"), exchange),
        }
    }

    fn relay(&mut self) -> &mut ReverseProxy {
        self.relay.as_mut().expect("a relay has machines")
    }
}

/// Converts the exchange ID in a step of the file handler.
fn of_files(step: Step) -> Step {
    let ours = |exchange: ExchangeId| ExchangeId(FIRST_OF_FILES + exchange.0);
    match step {
        Step::Body(exchange) => Step::Body(ours(exchange)),
        Step::Open(exchange, opening) => Step::Open(ours(exchange), opening),
        Step::Load(exchange, range) => Step::Load(ours(exchange), range),
        Step::Wait(exchange) => Step::Wait(ours(exchange)),
        step @ (Step::Answered | Step::AnsweredWith(_) | Step::Flush | Step::Upgrade(_)) => step,
    }
}

fn answer(
    route: &Route,
    path: &SitePath<'_>,
    request: &Request<'_>,
    response: &mut Response<'_, '_>,
) -> Step {
    match request.method {
        Method::Get | Method::Head => {}
        Method::Options => return response.options(request, ALLOWED),
        _ => {
            response.begin(Status::MethodNotAllowed, request);
            head::field(response.fields(), "Allow", ALLOWED);
            return response.end_page(request, Status::MethodNotAllowed);
        }
    }
    match &route.action {
        Action::Redirect(redirection) => {
            response.begin(redirection.status, request);
            let location = redirection.location(&route.pattern, path, request.target);
            head::field(response.fields(), "Location", &location);
            response.end_page(request, redirection.status)
        }
        Action::Answer { status, media_type, body } => response.send(request, *status, media_type, body),
        Action::Files | Action::Relay(_) => unreachable!("another handler answers"),
    }
}

impl Handler for RoutesHandler {
    fn begin(&mut self, request: &Request<'_>, response: &mut Response<'_, '_>) -> Step {
        let path = SitePath::decode(request.target).ok();
        let route = path.as_ref().and_then(|path| Some((self.table.find(path)?, path)));
        let Some((route, path)) = route.filter(|(route, _)| route.action != Action::Files) else {
            return self.files(request, response);
        };
        // A host that is not served here is refused, whatever the route.
        if response.is_misdirected(request) || self.hosts.find(request.host).is_none() {
            return response.page(request, Status::MisdirectedRequest);
        }
        match (&route.action, &mut self.relay) {
            (Action::Relay(service), Some(relay)) => {
                relay.set_current(response.shared);
                relay.accept(HostId(*service), request, response)
            }
            _ => answer(route, path, request, response),
        }
    }

    fn resume(
        &mut self,
        exchange: ExchangeId,
        event: ExchangeEvent,
        request: &Request<'_>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        match exchange.0.checked_sub(FIRST_OF_FILES) {
            Some(id) => of_files(self.files.resume(ExchangeId(id), event, request, response)),
            None => self.relay().resume(exchange, event, request, response),
        }
    }

    fn takes_bodies(&self) -> bool {
        self.relay.is_some()
    }

    fn upload(&mut self, exchange: ExchangeId, bytes: &[u8], shared: &mut Shared<'_>) {
        let (handler, exchange) = self.handler_of(exchange);
        handler.upload(exchange, bytes, shared);
    }

    fn end_upload(&mut self, exchange: ExchangeId, shared: &mut Shared<'_>) {
        let (handler, exchange) = self.handler_of(exchange);
        handler.end_upload(exchange, shared);
    }

    fn takes_upload(&mut self, exchange: ExchangeId, shared: &mut Shared<'_>) -> bool {
        let (handler, exchange) = self.handler_of(exchange);
        handler.takes_upload(exchange, shared)
    }

    fn progress(&mut self, exchange: ExchangeId, shared: &mut Shared<'_>) -> Progress {
        let (handler, exchange) = self.handler_of(exchange);
        handler.progress(exchange, shared)
    }

    fn interim(&mut self, exchange: ExchangeId, heads: &mut Vec<u8>, shared: &mut Shared<'_>) {
        let (handler, exchange) = self.handler_of(exchange);
        handler.interim(exchange, heads, shared);
    }

    fn body(
        &mut self,
        exchange: ExchangeId,
        event: ExchangeEvent,
        body: &mut BodyWriter<'_>,
        shared: &mut Shared<'_>,
    ) -> BodyStep {
        let (handler, exchange) = self.handler_of(exchange);
        handler.body(exchange, event, body, shared)
    }

    fn has_body(&mut self, exchange: ExchangeId, shared: &mut Shared<'_>) -> bool {
        let (handler, exchange) = self.handler_of(exchange);
        handler.has_body(exchange, shared)
    }

    fn finish(&mut self, exchange: ExchangeId, shared: &mut Shared<'_>) {
        let (handler, exchange) = self.handler_of(exchange);
        handler.finish(exchange, shared);
    }

    fn drive(&mut self, machine: MachineId, event: Event, shared: &mut Shared<'_>) -> (Want, Wait) {
        self.relay().drive(machine, event, shared)
    }

    fn end(&mut self, machine: MachineId, shared: &mut Shared<'_>) -> u64 {
        self.relay().end(machine, shared)
    }

    fn tick(&mut self, shared: &mut Shared<'_>) {
        self.files.tick(shared);
        if let Some(relay) = &mut self.relay {
            relay.tick(shared);
        }
    }

    fn outbox(&mut self) -> Option<&mut Outbox> {
        self.relay.as_mut()?.outbox()
    }

    fn is_busy(&self) -> bool {
        self.relay.as_ref().is_some_and(Handler::is_busy)
    }

    fn report(&self, now: Duration, served: &mut Served) {
        self.files.report(now, served);
        if let Some(relay) = &self.relay {
            relay.report(now, served);
        }
    }
}
