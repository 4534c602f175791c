//! What a request asks for: a host and a path.

use hashbrown::Equivalent;
use sojourn_http::SitePath;

/// The index of a virtual host; 0 is the default host, which answers to any name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostId(pub u16);

/// A host, and a path below its root.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource<'a> {
    pub host: HostId,
    pub path: SitePath<'a>,
}

impl Resource<'_> {
    pub fn into_owned(self) -> Resource<'static> {
        Resource { host: self.host, path: self.path.into_owned() }
    }
}

/// An owned `Resource` as a key; lookups may use a borrowed one.
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
