//! A request under way, and what it waits for.

use std::sync::Arc;

use sojourn_cache_store::BusyObject;
use sojourn_http::request::{Body, Request, Version};
use sojourn_http_cache::Forwarded;

use super::{CacheLookup, FlowId, FollowerId};
use crate::access_log::Outcome;
use crate::handler::stream::Stream;

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
    pub follower: FollowerId,
    /// The request's body is chunked, and is sent so.
    pub(super) is_chunked: bool,
    /// The client understands interim responses (RFC 9110, 15.2).
    pub(super) takes_interim: bool,
    /// Why the cache did not answer it, if there is one.
    pub why: Option<Forwarded>,
}

impl Relay {
    pub(super) fn new(
        (flow, follower): (FlowId, FollowerId),
        request: &Request<'_>,
        why: Option<Forwarded>,
    ) -> Relay {
        let is_chunked = request.body == Body::Chunked;
        Relay { flow, follower, is_chunked, takes_interim: request.version != Version::Http10, why }
    }
}
