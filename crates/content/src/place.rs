//! Where a document is asked for: on which host, under which path.

use hashbrown::Equivalent;
use sojourn_http::SitePath;

/// A host among those that are served together: an index, 0 for the one that answers to any name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostId(pub u16);

/// A host and a path below its root.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place<'a> {
    pub host: HostId,
    pub path: SitePath<'a>,
}

impl Place<'_> {
    /// A copy that borrows nothing.
    pub fn into_owned(self) -> Place<'static> {
        Place { host: self.host, path: self.path.into_owned() }
    }
}

/// A place as the key of a table, found by any place that is equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PlaceKey(Place<'static>);

impl From<&Place<'_>> for PlaceKey {
    fn from(place: &Place<'_>) -> PlaceKey {
        PlaceKey(place.clone().into_owned())
    }
}

impl Equivalent<PlaceKey> for Place<'_> {
    fn equivalent(&self, key: &PlaceKey) -> bool {
        *self == key.0
    }
}
