//! Where a document is asked for: on which host, under which path.

use hashbrown::Equivalent;
use sojourn_http::SitePath;

/// A host among those that are served together: an index, 0 for the one that answers to any name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostId(pub u16);

/// A host and a path below its root.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource<'a> {
    pub host: HostId,
    pub path: SitePath<'a>,
}

impl Resource<'_> {
    /// A copy that borrows nothing.
    pub fn into_owned(self) -> Resource<'static> {
        Resource { host: self.host, path: self.path.into_owned() }
    }
}

/// A place as the key of a table, found by any place that is equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ResourceKey(Resource<'static>);

impl From<&Resource<'_>> for ResourceKey {
    fn from(resource: &Resource<'_>) -> ResourceKey {
        ResourceKey(resource.clone().into_owned())
    }
}

impl Equivalent<ResourceKey> for Resource<'_> {
    fn equivalent(&self, key: &ResourceKey) -> bool {
        *self == key.0
    }
}
