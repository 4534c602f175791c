//! A request in progress, and what it waits for.

use std::sync::Arc;

use sojourn_cache_store::BusyObject;
use sojourn_http::request::{Body, Request, Version};
use sojourn_http_cache::Forwarded;

use super::{CacheLookup, FlowId, FlowReaderId};
use crate::access_log::Outcome;
use crate::handler::stream::Stream;

#[derive(Debug, Default)]
pub struct Exchange {
    pub(super) stage: Stage,
    pub(super) lookup: Option<CacheLookup>,
    /// True if a coalesced response did not match this request.
    pub(super) has_followed: bool,
    /// The cache's action, for the access log.
    pub(super) outcome: Outcome,
}

#[derive(Debug, Default)]
pub enum Stage {
    #[default]
    Lookup,
    /// Waits for the head of a response that another loop has requested.
    Following(Following),
    /// Waits for an upstream's response, or sends its body.
    Relaying(Relay),
    /// Sends a body from the cache's memory.
    Sending(Box<Stream>),
}

/// A request of another loop with which this one is coalesced.
#[derive(Debug)]
pub struct Following {
    pub busy_object: Arc<BusyObject>,
    /// Why the cache could not answer it.
    pub why: Option<Forwarded>,
}

/// A request and the flow that answers it.
#[derive(Debug)]
pub struct Relay {
    pub flow: FlowId,
    pub reader: FlowReaderId,
    /// The request's body is chunked and forwarded as such.
    pub(super) is_chunked: bool,
    /// The client understands interim responses (RFC 9110, 15.2).
    pub(super) takes_interim: bool,
    /// Why the cache could not answer it; `None` without a cache.
    pub why: Option<Forwarded>,
}

impl Relay {
    pub(super) fn new(
        (flow, reader): (FlowId, FlowReaderId),
        request: &Request<'_>,
        why: Option<Forwarded>,
    ) -> Relay {
        let is_chunked = request.body == Body::Chunked;
        Relay { flow, reader, is_chunked, takes_interim: request.version != Version::Http10, why }
    }
}
