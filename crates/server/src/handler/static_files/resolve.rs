//! Finds the document of a resource in the caches or in the disk's outcome, or the error page or fallback if there is
//! none.
//!
//! Error pages and the fallback are looked up like any document. While one is being opened, the exchange remembers its
//! status. If it is missing, a small built-in page is sent, so that one error does not lead to another.

use std::sync::Arc;

use sojourn_content::{
    CHUNK_BYTES, Caches, Document, HostId, LoadError, Lookup, OpenError, Opened, Opening, Resource,
};
use sojourn_http::Status;
use sojourn_http::request::Request;

use super::document::in_memory_bytes_max;
use super::{Arrived, Attempt, Loaded, StaticFiles};
use crate::connection::{Response, Shared, Step};

pub(super) enum Resolved {
    /// A document, with its body or a chunk of it if that has just been read.
    Document(Arc<Document>, Option<Loaded>),
    /// A directory whose trailing slash is missing.
    Directory,
    /// There is nothing to send.
    Failed(Status),
    /// Unknown: it must be opened first.
    Unknown(Opening),
}

/// Resolves `resource`; `arrived` is the disk's outcome for it. A document that has to be opened is read at once if it is
/// no longer than `body_bytes_max`.
pub(super) fn resolve(
    resource: &Resource<'_>,
    arrived: Option<Arrived>,
    body_bytes_max: u64,
    caches: &mut Caches,
    shared: &Shared<'_>,
) -> Resolved {
    let now = shared.clock.now;
    match arrived {
        None => {}
        Some(Arrived::Opened(Ok(Opened::Document(document, body)))) => {
            caches.insert_document(resource, &document, now);
            if let Some(body) = &body {
                caches.insert_chunk(&document, 0, body);
            }
            return Resolved::Document(document, body.map(|bytes| Loaded { offset: 0, bytes }));
        }
        Some(Arrived::Opened(Ok(Opened::Directory))) => {
            caches.forget_document(resource);
            return Resolved::Directory;
        }
        Some(Arrived::Opened(Err(error))) => {
            caches.forget_document(resource);
            return Resolved::Failed(status_of(error));
        }
        Some(Arrived::Body(range, Ok(bytes))) => {
            caches.insert_chunk(&range.document, range.offset, &bytes);
            return Resolved::Document(range.document, Some(Loaded { offset: range.offset, bytes }));
        }
        Some(Arrived::Outdated) => caches.forget_document(resource),
        Some(Arrived::Body(range, Err(error))) => {
            return Resolved::Failed(status_of_load(error, &range.document));
        }
        Some(Arrived::Refused) => return Resolved::Failed(Status::ServiceUnavailable),
    }
    let known = match caches.document(resource, now) {
        Lookup::Fresh(document) => return Resolved::Document(document, None),
        Lookup::Stale(known) => Some(known),
        Lookup::Miss => None,
    };
    Resolved::Unknown(Opening { resource: resource.clone().into_owned(), known, body_bytes_max })
}

impl StaticFiles {
    /// There is no document for `request`; answers with `status`.
    pub(super) fn fail(
        &mut self,
        request: &Request<'_>,
        host: HostId,
        status: Status,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let has_fallback = status == Status::NotFound && self.hosts.fallback(host).is_some();
        let status = if has_fallback { Status::Ok } else { status };
        self.answer_instead(request, host, status, None, false, response)
    }

    /// Answers with the document of `host` for `status`, or the built-in page; `arrived` is the disk's outcome for that
    /// document, at the second attempt if it `is_second`.
    pub(super) fn answer_instead(
        &mut self,
        request: &Request<'_>,
        host: HostId,
        status: Status,
        arrived: Option<Arrived>,
        is_second: bool,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let attempt = Attempt { instead: Some(status), is_second };
        let path = match status {
            Status::Ok => self.hosts.fallback(host),
            status => self.hosts.error_page(host, status),
        };
        let Some(path) = path else { return self.page(request, status, response) };
        let resource = Resource { host, path: path.clone() };
        let body_bytes_max = in_memory_bytes_max(request, response).min(CHUNK_BYTES);
        match resolve(&resource, arrived, body_bytes_max, &mut self.caches, response.shared) {
            Resolved::Document(document, body) => self.document(request, attempt, &document, body, response),
            // A server that is overloaded does not open files for error pages.
            Resolved::Unknown(_) if status == Status::ServiceUnavailable => {
                self.page(request, status, response)
            }
            Resolved::Unknown(opening) => self.open(opening, attempt, response),
            _ if status == Status::Ok => {
                self.answer_instead(request, host, Status::NotFound, None, false, response)
            }
            _ => self.page(request, status, response),
        }
    }
}

fn status_of(error: OpenError) -> Status {
    match error {
        OpenError::NotFound => Status::NotFound,
        OpenError::Forbidden => Status::Forbidden,
        OpenError::Busy => Status::ServiceUnavailable,
        OpenError::Unavailable => Status::BadGateway,
        OpenError::TimedOut => Status::GatewayTimeout,
        OpenError::Failed(_) => Status::InternalServerError,
    }
}

fn status_of_load(error: LoadError, document: &Document) -> Status {
    match error {
        LoadError::Truncated if document.file().is_none() => Status::BadGateway,
        LoadError::Unavailable => Status::BadGateway,
        LoadError::TimedOut => Status::GatewayTimeout,
        LoadError::Truncated | LoadError::Failed => Status::InternalServerError,
    }
}
