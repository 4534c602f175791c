//! What is stored for a request that goes to an upstream all the same, and a stored response that stands for the answer.

use std::sync::Arc;

use sojourn_cache_store::{BusyObject, Insertion, Key, Object};
use sojourn_http_cache::{Forwarded, Metadata, RequestDirectives};

use super::Wish;

/// A request whose answer may be kept; to a HEAD, tells of what is.
#[derive(Clone, Debug)]
pub struct Keyed {
    /// What it would be found by.
    pub key: Key<'static>,
    /// Whether the answer to another request for the same would do.
    pub may_join: bool,
    /// Why the cache does not answer it.
    pub why: Forwarded,
    /// What of it is asked for.
    pub(super) wish: Wish,
    pub(super) directives: RequestDirectives,
    /// What is there and cannot be used as it is.
    pub(super) known: Option<Arc<Object>>,
    /// What is on its way for another request.
    pub(super) under_way: Option<Arc<BusyObject>>,
    /// What the upstream is asked about: is one of them current?
    pub(super) about: Vec<Arc<Object>>,
}

/// Who asks an upstream for what several requests want.
#[derive(Debug)]
pub enum Claim {
    /// Whoever asked.
    Ours(Insertion),
    /// Another request, perhaps of another loop: follow what comes of it.
    Theirs(Arc<BusyObject>),
    /// It has come meanwhile.
    Nobodys,
}

/// A stored response that answers in place of what an upstream has said.
#[derive(Clone, Debug)]
pub struct Revalidation {
    /// The response, brought up to date if the upstream calls it current.
    pub object: Arc<Object>,
    /// What the upstream has said.
    pub upstream_status: u16,
    /// Whether it answers others too.
    pub is_for_all: bool,
}

impl Keyed {
    /// What the upstream is asked about.
    pub fn stored(&self) -> Vec<Metadata<'_>> {
        let about = self.about.iter().map(|object| Metadata::read(object.metadata()));
        about.map(|stored| stored.expect("it was read when it was found")).collect()
    }

    /// Whether the upstream is asked about something that is stored.
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
    /// Whether the upstream has called it current.
    pub fn is_validated(&self) -> bool {
        self.upstream_status == 304
    }
}
