//! What a proxy knows of the request at the start of the input. A connection to a static site has none of it.

use super::follow::Following;
use super::relay::Relay;
use crate::handler::reverse_proxy::{CacheLookup, Outcome};

/// How far a request has come with the cache and the upstreams.
#[derive(Debug, Default)]
pub(super) struct Dealings {
    /// An upstream has begun to answer.
    pub relayed: Option<Box<Relay>>,
    /// What the cache's disk has told, or is to tell.
    pub search: Option<CacheLookup>,
    /// What another loop has asked for, on behalf of this request, too.
    pub following: Option<Following>,
    /// What came of that does not answer it.
    pub has_followed: bool,
    /// What the cache did.
    pub outcome: Outcome,
    /// Which upstream answers.
    pub upstream: Option<usize>,
}
