//! From a place to its document, as far as the caches and what has arrived from the disk allow; and what is sent
//! instead where there is none.
//!
//! A page for an error, and the fallback, are looked up like any document. While one is opened the connection
//! remembers with which status it is to be sent; if there is none, the small page that needs no file is sent, so
//! that no error leads to another.

use std::sync::Arc;

use sojourn_content::{CHUNK_BYTES, Document, HostId, LoadError, Lookup, OpenError, Opened, Opening, Place};
use sojourn_http::Status;
use sojourn_http::request::Request;

use super::answer::Step;
use super::{Arrived, Http1};
use crate::connection::Context;

/// What is known of a place.
pub(super) enum Resolved {
    /// Its document, and the body if that has just been read.
    Document(Arc<Document>, Option<Arc<[u8]>>),
    /// It is a directory, named without its slash.
    Directory,
    /// There is nothing to send.
    Failed(Status),
    /// Not enough: it must be opened.
    Unknown(Opening),
}

/// What is known of `place`; `arrived` is what the disk has given for it.
pub(super) fn resolve(place: &Place<'_>, arrived: Option<Arrived>, context: &mut Context<'_>) -> Resolved {
    let (caches, now) = (&mut *context.caches, context.clock.now);
    match arrived {
        None => {}
        Some(Arrived::Opened(Ok(Opened::Document(document, body)))) => {
            caches.insert_document(place, &document, now);
            if let Some(body) = &body {
                caches.insert_chunk(&document, 0, body);
            }
            return Resolved::Document(document, body);
        }
        Some(Arrived::Opened(Ok(Opened::Directory))) => {
            caches.forget_document(place);
            return Resolved::Directory;
        }
        Some(Arrived::Opened(Err(error))) => {
            caches.forget_document(place);
            return Resolved::Failed(status_of(error));
        }
        Some(Arrived::Body(document, Ok(body))) => {
            caches.insert_chunk(&document, 0, &body);
            return Resolved::Document(document, Some(body));
        }
        // Truncated or failing: open it again, which tells what is there now.
        Some(Arrived::Body(_, Err(LoadError::Truncated))) => caches.forget_document(place),
        Some(Arrived::Body(_, Err(LoadError::Failed))) => {
            return Resolved::Failed(Status::InternalServerError);
        }
        Some(Arrived::Refused) => return Resolved::Failed(Status::ServiceUnavailable),
    }
    let known = match caches.document(place, now) {
        Lookup::Fresh(document) => return Resolved::Document(document, None),
        Lookup::Stale(known) => Some(known),
        Lookup::Miss => None,
    };
    let body_bytes_max = context.send_path.in_memory_bytes_max().min(CHUNK_BYTES);
    Resolved::Unknown(Opening { place: place.clone().into_owned(), known, body_bytes_max })
}

impl Http1 {
    /// There is no document to answer `request` with, only `status`.
    pub(super) fn fail(
        &mut self,
        request: &Request<'_>,
        host: HostId,
        status: Status,
        context: &mut Context<'_>,
    ) -> Step {
        if status == Status::NotFound && context.hosts.fallback(host).is_some() {
            return self.answer_instead(request, host, Status::Ok, None, context);
        }
        self.answer_instead(request, host, status, None, context)
    }

    /// Answers with the document that `host` has for `status`, or the small page; `arrived` is about that document.
    pub(super) fn answer_instead(
        &mut self,
        request: &Request<'_>,
        host: HostId,
        status: Status,
        arrived: Option<Arrived>,
        context: &mut Context<'_>,
    ) -> Step {
        let path = match status {
            Status::Ok => context.hosts.fallback(host),
            status => context.hosts.error_page(host, status),
        };
        let Some(path) = path else { return self.page(request, status, context) };
        let step = match resolve(&Place { host, path: path.clone() }, arrived, context) {
            Resolved::Document(document, body) => self.document(request, status, &document, body, context),
            // A server that cannot do more shall not do this either.
            Resolved::Unknown(_) if status == Status::ServiceUnavailable => {
                self.page(request, status, context)
            }
            Resolved::Unknown(opening) => Step::Open(opening),
            _ if status == Status::Ok => self.answer_instead(request, host, Status::NotFound, None, context),
            _ => self.page(request, status, context),
        };
        if matches!(step, Step::Open(_) | Step::Load(_)) && self.instead.is_none() {
            self.instead = Some(status);
        }
        step
    }
}

fn status_of(error: OpenError) -> Status {
    match error {
        OpenError::NotFound => Status::NotFound,
        OpenError::Forbidden => Status::Forbidden,
        OpenError::Busy => Status::ServiceUnavailable,
        OpenError::Failed(_) => Status::InternalServerError,
    }
}
