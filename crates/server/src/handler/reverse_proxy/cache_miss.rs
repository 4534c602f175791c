//! Cache misses on their way to an upstream, request coalescing, and stored responses that replace the upstream's.

use std::sync::Arc;

use sojourn_cache_store::{BusyObject, Insertion, Key, Object, PartInsertion, Variants};
use sojourn_http_cache::{Forwarded, Metadata, RequestDirectives, Spelling, Target};

use super::FetchRange;

/// The purges that preceded a request. What was purged since then must not be stored when the response arrives.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Generation {
    /// The [generation](sojourn_cache_store::Store::generation) of the request's key.
    pub key: u64,
    /// The number of tags purged.
    pub tags: u64,
}

/// A cache miss whose response may be stored, or may update a stored one (HEAD).
#[derive(Clone, Debug)]
pub struct CacheMiss {
    pub key: Key<'static>,
    pub(super) generation: Generation,
    /// True if it may be coalesced with another request.
    pub may_join: bool,
    pub why: Forwarded,
    pub(super) fetch_range: FetchRange,
    pub(super) directives: RequestDirectives,
    /// The stored object that cannot be used as it is.
    pub(super) known: Option<Arc<Object>>,
    /// The object that another request is fetching.
    pub(super) busy_object: Option<Arc<BusyObject>>,
    /// The list of variants, if there is one.
    pub(super) variants: Option<Arc<Variants>>,
    /// The variants to revalidate.
    pub(super) about: Vec<Arc<Object>>,
}

/// A request's role in coalescing.
#[derive(Debug)]
pub enum Coalescing {
    Lead(Insertion),
    /// Another request, perhaps of another loop, is fetching the object.
    Follow(Arc<BusyObject>),
    Alone,
}

/// A stored response that answers instead of the upstream's.
#[derive(Clone, Debug)]
pub struct Revalidation {
    /// The stored response, updated if the upstream confirmed it.
    pub object: Arc<Object>,
    pub upstream_status: u16,
    /// True if it may answer other requests, too.
    pub is_for_all: bool,
}

/// A response that combines stored and received parts.
#[derive(Debug)]
pub struct Combination {
    pub status: u16,
    /// Its field lines, without framing.
    pub fields: Vec<u8>,
    pub length: u64,
    /// Stored bytes before the received ones.
    pub before: Vec<Arc<[u8]>>,
    pub behind: Vec<Arc<[u8]>>,
    pub fill: Option<Insertion>,
    /// The insertion and metadata of a part, if the whole object is not stored.
    pub part: Option<(PartInsertion, Box<[u8]>)>,
}

/// The target of an unsafe request, to be invalidated.
#[derive(Debug)]
pub struct Changes {
    pub method: Box<[u8]>,
    /// `http` or `https`, as used by the client.
    pub scheme: &'static str,
    pub host: Box<[u8]>,
    pub path: Box<[u8]>,
    pub spelling: Spelling,
    /// The generation of the target.
    pub(super) generation: Generation,
}

impl Changes {
    pub fn target(&self) -> Target<'_> {
        Target { scheme: self.scheme, host: &self.host, target: &self.path, spelling: self.spelling }
    }
}

impl CacheMiss {
    /// The metadata of the variants to revalidate.
    pub fn stored(&self) -> Vec<Metadata<'_>> {
        let about = self.about.iter().map(|object| Metadata::read(object.metadata()));
        about.map(|stored| stored.expect("it was read when it was found")).collect()
    }

    pub fn is_validation(&self) -> bool {
        !self.about.is_empty()
    }

    /// Drops the revalidation and the combination with stored parts.
    pub(super) fn forget_stored(&mut self) {
        self.about.clear();
        if let FetchRange::Rest(rest) = &self.fetch_range {
            self.fetch_range = rest.fallback_range();
        }
    }
}

impl Revalidation {
    /// Returns true if the upstream confirmed it.
    pub fn is_validated(&self) -> bool {
        self.upstream_status == 304
    }
}
