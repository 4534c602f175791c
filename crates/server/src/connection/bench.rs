//! A context for tests that drive a connection by hand, and a handler that takes request bodies.

use std::path::Path;
use std::sync::Arc;

use sojourn_cgi::Ends;
use sojourn_content::{Budgets, Caches, Directory, Rules};
use sojourn_http::Status;
use sojourn_http::http2::HeadCache;
use sojourn_http::request::{Body, Request};

use super::{Context, ExchangeEvent, ExchangeId, Handler, Pool, Progress, Response, SendPath, Shared, Step};
use crate::clock::Clock;
use crate::counters::Served;
use crate::handler::static_files::StaticFiles;
use crate::limits::Limits;

pub struct Bench {
    pub origin: Directory,
    pub handler: Box<dyn Handler>,
    pub pool: Pool,
    pub heads: HeadCache,
    pub served: Served,
    pub clock: Clock,
    pub send_path: SendPath,
    pub limits: Limits,
    pub is_draining: bool,
}

impl Bench {
    /// Serves the directory `root`.
    pub fn new(root: &Path) -> Bench {
        Bench {
            origin: Directory::new(root, Rules::default()).unwrap(),
            handler: Box::new(StaticFiles::new(Caches::new(&Budgets::default()), Arc::default())),
            pool: Pool::default(),
            heads: HeadCache::default(),
            served: Served::default(),
            clock: Clock::new(),
            send_path: SendPath::default(),
            limits: Limits::default(),
            is_draining: false,
        }
    }

    /// The context to pass to a connection.
    pub fn context(&mut self) -> Context<'_> {
        Context {
            handler: &mut *self.handler,
            shared: Shared {
                pool: &mut self.pool,
                heads: &mut self.heads,
                served: &mut self.served,
                clock: &self.clock,
                send_path: &self.send_path,
                log: None,
                limits: &self.limits,
                is_draining: self.is_draining,
                stops_receiving: false,
                token: 0,
                ends: Ends::default(),
            },
        }
    }
}

/// Answers a request with its body, once that is complete.
#[derive(Debug)]
pub struct BodyEcho {
    /// Those of all requests that have one.
    bodies: Vec<Vec<u8>>,
    complete: Vec<ExchangeId>,
    /// It takes no more of a body of which it has so much.
    taken_bytes_max: usize,
}

impl BodyEcho {
    pub fn new(taken_bytes_max: usize) -> BodyEcho {
        BodyEcho { bodies: Vec::new(), complete: Vec::new(), taken_bytes_max }
    }
}

impl Handler for BodyEcho {
    fn begin(&mut self, request: &Request<'_>, response: &mut Response<'_, '_>) -> Step {
        if request.body == Body::Length(0) {
            return response.send(request, Status::Ok, "text/plain", b"");
        }
        self.bodies.push(Vec::new());
        Step::Wait(ExchangeId(self.bodies.len() - 1))
    }

    fn resume(
        &mut self,
        exchange: ExchangeId,
        _event: ExchangeEvent,
        request: &Request<'_>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        response.send(request, Status::Ok, "text/plain", &self.bodies[exchange.0])
    }

    fn takes_bodies(&self) -> bool {
        true
    }

    fn upload(&mut self, exchange: ExchangeId, bytes: &[u8], _shared: &mut Shared<'_>) {
        self.bodies[exchange.0].extend_from_slice(bytes);
    }

    fn end_upload(&mut self, exchange: ExchangeId, _shared: &mut Shared<'_>) {
        self.complete.push(exchange);
    }

    fn takes_upload(&mut self, exchange: ExchangeId, _shared: &mut Shared<'_>) -> bool {
        self.bodies[exchange.0].len() < self.taken_bytes_max
    }

    fn progress(&mut self, exchange: ExchangeId, _shared: &mut Shared<'_>) -> Progress {
        match self.complete.contains(&exchange) {
            true => Progress::Ready,
            false => Progress::Pending { wants_body: true },
        }
    }
}
