//! Static files: documents of an origin, through the three Flash caches.
//!
//! While a document is opened or read, an exchange keeps only what is being read and the status to send it with. With the
//! outcome, the request is answered as if it were new.

use std::sync::Arc;

use slab::Slab;
use sojourn_content::{
    CHUNK_BYTES, Caches, Done, FileRange, LoadError, OpenError, Opened, Opening, Resource,
};
use sojourn_http::request::{Method, Request};
use sojourn_http::{SitePath, Status, head};

use super::stream::{Loaded, Next, Stream};
use super::{Content, Kind, Setup};
use crate::connection::{
    BodyStep, BodyWriter, ExchangeEvent, ExchangeId, Handler, Piece, Response, Shared, Step,
};
use crate::counters::Served;
use crate::hosts::Hosts;

mod document;
pub mod hls;
mod resolve;

use document::in_memory_bytes_max;
use resolve::{Resolved, resolve};

pub const KIND: Kind = Kind {
    name: "static-files",
    summary: "files in directories, with ranges and precompressed variants",
    content: Some(|| Arc::new(StaticSite)),
};

const ALLOWED: &str = "GET, HEAD, OPTIONS";

/// A site of files, which the architecture opens and reads.
#[derive(Clone, Copy, Debug)]
pub struct StaticSite;

impl Content for StaticSite {
    fn kind(&self) -> Kind {
        KIND
    }

    fn start(&self, setup: &Setup<'_>) -> std::io::Result<Box<dyn Handler>> {
        Ok(Box::new(StaticFiles::new(Caches::new(setup.budgets), Arc::clone(setup.hosts))))
    }
}

/// Answers with documents, for one event loop or worker.
#[derive(Debug)]
pub struct StaticFiles {
    caches: Caches,
    hosts: Arc<Hosts>,
    exchanges: Slab<Exchange>,
}

#[derive(Debug)]
enum Exchange {
    Waiting {
        /// What is being read of a document's body.
        range: Option<FileRange>,
        attempt: Attempt,
    },
    /// A body is being sent.
    Sending(Stream),
}

/// An attempt to answer with a document.
#[derive(Clone, Copy, Debug, Default)]
struct Attempt {
    /// The status with which it is sent in place of the requested one.
    instead: Option<Status>,
    /// When it was read for the first time, it was not what had been opened.
    is_second: bool,
}

#[derive(Debug)]
enum Arrived {
    Opened(Result<Opened, OpenError>),
    Body(FileRange, Result<Arc<[u8]>, LoadError>),
    /// The document is no longer what was opened.
    Outdated,
    Refused,
}

impl StaticFiles {
    pub fn new(caches: Caches, hosts: Arc<Hosts>) -> StaticFiles {
        StaticFiles { caches, hosts, exchanges: Slab::new() }
    }

    fn answer(
        &mut self,
        request: &Request<'_>,
        arrived: Option<Arrived>,
        attempt: Attempt,
        response: &mut Response<'_, '_>,
    ) -> Step {
        if response.is_misdirected(request) {
            return response.page(request, Status::MisdirectedRequest);
        }
        let path = match (request.method, SitePath::decode(request.target)) {
            (Method::Options, Ok(_)) => return response.options(request, ALLOWED),
            (Method::Options, _) if request.target == b"*" => return response.options(request, ALLOWED),
            (Method::NotAllowed | Method::Connect, _) => {
                return self.page(request, Status::MethodNotAllowed, response);
            }
            (Method::Unknown, _) => return response.page(request, Status::NotImplemented),
            (_, Err(_)) => return response.page(request, Status::BadRequest),
            (_, Ok(path)) => path,
        };
        let Some(host) = self.hosts.find(request.host) else {
            return response.page(request, Status::MisdirectedRequest);
        };
        if let Some(status) = attempt.instead {
            return self.answer_instead(request, host, status, arrived, attempt.is_second, response);
        }
        let resource = Resource { host, path };
        let body_bytes_max = in_memory_bytes_max(request, response).min(CHUNK_BYTES);
        match resolve(&resource, arrived, body_bytes_max, &mut self.caches, response.shared) {
            Resolved::Document(document, body) => self.document(request, attempt, &document, body, response),
            Resolved::Directory => redirect(request, &resource.path, response),
            Resolved::Failed(status) => self.fail(request, host, status, response),
            Resolved::Unknown(opening) => self.open(opening, attempt, response),
        }
    }

    fn open(&mut self, opening: Opening, attempt: Attempt, response: &Response<'_, '_>) -> Step {
        if response.has_earlier_output() {
            return Step::Flush;
        }
        let id = self.exchanges.insert(Exchange::Waiting { range: None, attempt });
        Step::Open(ExchangeId(id), opening)
    }

    fn load(&mut self, range: FileRange, attempt: Attempt, response: &Response<'_, '_>) -> Step {
        if response.has_earlier_output() {
            return Step::Flush;
        }
        let waiting = Exchange::Waiting { range: Some(range.clone()), attempt };
        Step::Load(ExchangeId(self.exchanges.insert(waiting)), range)
    }

    fn page(&self, request: &Request<'_>, status: Status, response: &mut Response<'_, '_>) -> Step {
        response.begin(status, request);
        append_status_fields(response.fields(), status);
        response.end_page(request, status)
    }
}

impl Handler for StaticFiles {
    fn begin(&mut self, request: &Request<'_>, response: &mut Response<'_, '_>) -> Step {
        self.answer(request, None, Attempt::default(), response)
    }

    fn resume(
        &mut self,
        exchange: ExchangeId,
        event: ExchangeEvent,
        request: &Request<'_>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let Exchange::Waiting { range, mut attempt } = self.exchanges.remove(exchange.0) else {
            unreachable!("what is being sent is not resumed")
        };
        let arrived = match (event, range) {
            (ExchangeEvent::Done(Done::Opened(opened)), _) => Some(Arrived::Opened(opened)),
            // It is opened again once only: it may never be as long as its origin says.
            (ExchangeEvent::Done(Done::Loaded(Err(LoadError::Truncated))), Some(_)) if !attempt.is_second => {
                attempt.is_second = true;
                Some(Arrived::Outdated)
            }
            (ExchangeEvent::Done(Done::Loaded(loaded)), Some(range)) => {
                let body = loaded.map(|body| body.expect("it is read into memory"));
                Some(Arrived::Body(range, body))
            }
            (ExchangeEvent::Refused, _) => Some(Arrived::Refused),
            (ExchangeEvent::Done(Done::Loaded(_)) | ExchangeEvent::Woken, _) => None,
        };
        self.answer(request, arrived, attempt, response)
    }

    fn body(
        &mut self,
        exchange: ExchangeId,
        event: ExchangeEvent,
        body: &mut BodyWriter<'_>,
        _shared: &mut Shared<'_>,
    ) -> BodyStep {
        let Exchange::Sending(stream) = &mut self.exchanges[exchange.0] else {
            unreachable!("a body is sent")
        };
        let next = if matches!(event, ExchangeEvent::Woken) { stream.next(body) } else { stream.piece() };
        let Next::File(range) = next else {
            return BodyStep::Send { piece: None, is_last: true, remaining: None };
        };
        match event {
            ExchangeEvent::Woken => {}
            ExchangeEvent::Done(Done::Loaded(Ok(Some(chunk)))) => {
                self.caches.insert_chunk(&range.document, range.offset, &chunk);
                return stream.send_chunk(chunk);
            }
            // There is no file to send it from.
            ExchangeEvent::Done(_) | ExchangeEvent::Refused if range.document.file().is_none() => {
                return BodyStep::Broken;
            }
            // If the queue of disk jobs is full: the head may already have been sent, so the body follows even if
            // sending blocks.
            ExchangeEvent::Done(_) | ExchangeEvent::Refused => return stream.send(Piece::File(range)),
        }
        let chunk = if range.into_memory { self.caches.chunk(&range.document, range.offset) } else { None };
        match chunk {
            Some(chunk) => stream.send_chunk(Arc::clone(chunk)),
            None => match stream.take_loaded(range.offset) {
                Some(chunk) => stream.send_chunk(chunk),
                None => BodyStep::Load(range),
            },
        }
    }

    fn finish(&mut self, exchange: ExchangeId, _shared: &mut Shared<'_>) {
        self.exchanges.remove(exchange.0);
    }

    fn report(&self, _now: std::time::Duration, served: &mut Served) {
        served.set_caches(self.caches.counts());
    }
}

fn append_status_fields(head: &mut Vec<u8>, status: Status) {
    match status {
        Status::MethodNotAllowed => head::field(head, "Allow", ALLOWED),
        Status::NotAcceptable => head::field(head, "Vary", "Accept-Encoding"),
        _ => {}
    }
}

fn redirect(request: &Request<'_>, path: &SitePath<'_>, response: &mut Response<'_, '_>) -> Step {
    let mut location = path.directory_location();
    if let Some(query) = request.target.iter().position(|byte| *byte == b'?') {
        // A request target is visible ASCII, so it is valid in a field.
        location.push_str(std::str::from_utf8(&request.target[query..]).unwrap_or_default());
    }
    response.begin(Status::MovedPermanently, request);
    head::field(response.fields(), "Location", &location);
    response.end_page(request, Status::MovedPermanently)
}
