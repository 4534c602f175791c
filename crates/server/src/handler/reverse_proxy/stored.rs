//! A request's cache entry when it goes to an upstream, and a stored response that takes the place of the answer.

use std::sync::Arc;

use sojourn_cache_store::{BusyObject, Insertion, Key, Object};
use sojourn_http_cache::{Forwarded, Metadata, RequestDirectives};

use super::Wish;

/// A request whose answer may be kept; to a HEAD, tells of what is.
#[derive(Clone, Debug)]
pub struct Keyed {
    /// The key to store under.
    pub key: Key<'static>,
    /// True if the answer to another request for the same would do.
    pub may_join: bool,
    /// Why the cache does not answer it.
    pub why: Forwarded,
    /// The requested part.
    pub(super) wish: Wish,
    pub(super) directives: RequestDirectives,
    /// The stored object that cannot be used as it is.
    pub(super) known: Option<Arc<Object>>,
    /// The object that another request is fetching.
    pub(super) under_way: Option<Arc<BusyObject>>,
    /// The variants to revalidate.
    pub(super) about: Vec<Arc<Object>>,
}

/// The request that fetches an object for all coalesced ones.
#[derive(Debug)]
pub enum Claim {
    Ours(Insertion),
    /// Another request, perhaps in another loop: follow it.
    Theirs(Arc<BusyObject>),
    Nobodys,
}

/// A stored response that answers in place of what an upstream has said.
#[derive(Clone, Debug)]
pub struct Revalidation {
    /// The response, brought up to date if the upstream calls it current.
    pub object: Arc<Object>,
    pub upstream_status: u16,
    /// True if it answers others too.
    pub is_for_all: bool,
}

impl Keyed {
    /// The metadata of the variants to revalidate.
    pub fn stored(&self) -> Vec<Metadata<'_>> {
        let about = self.about.iter().map(|object| Metadata::read(object.metadata()));
        about.map(|stored| stored.expect("it was read when it was found")).collect()
    }

    /// Returns true if the upstream is asked about something that is stored.
    pub fn is_validation(&self) -> bool {
        !self.about.is_empty()
    }

    /// The upstream is asked about nothing any more, and nothing is put together.
    pub(super) fn forget_stored(&mut self) {
        self.about.clear();
        if let Wish::Rest(rest) = &self.wish {
            self.wish = rest.otherwise();
        }
    }
}

impl Revalidation {
    /// Returns true if the upstream has called it current.
    pub fn is_validated(&self) -> bool {
        self.upstream_status == 304
    }
}
