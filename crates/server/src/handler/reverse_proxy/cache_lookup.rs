//! The cache lookup of one request, which may take several attempts if the disk is involved.

use std::sync::Arc;
use std::task::{Poll, Waker, ready};

use sojourn_cache_store::{BusyObject, DiskLookup, Key, Lookup, Object, Store, Variants};
use sojourn_http::request::Request;
use sojourn_http_cache::fields::Section;
use sojourn_http_cache::vary::secondary_key;

/// The result of a lookup.
#[derive(Default)]
pub(super) struct Kept {
    pub object: Option<Arc<Object>>,
    /// The list of variants, if there is one, even if none matches.
    pub variants: Option<Arc<Variants>>,
    /// The object that another request, perhaps of another loop, is fetching.
    pub busy_object: Option<Arc<BusyObject>>,
}

/// Pending disk lookups: at most the list of variants and one of them.
#[derive(Debug, Default)]
pub struct CacheLookup {
    openings: Vec<Arc<DiskLookup>>,
    was_on_disk: bool,
}

impl Kept {
    fn of(found: Lookup) -> Kept {
        match found {
            Lookup::Hit(object) => Kept { object: Some(object), ..Kept::default() },
            Lookup::Busy(busy_object) => Kept { busy_object: Some(busy_object), ..Kept::default() },
            Lookup::Varies(_) | Lookup::OnDisk(_) | Lookup::Miss => Kept::default(),
        }
    }
}

impl CacheLookup {
    /// Looks up `key` for `request`. Pending until the disk answers; then use [`waits`](CacheLookup::waits).
    pub(super) fn find(&mut self, store: &Store, key: &Key<'_>, request: &Request<'_>) -> Poll<Kept> {
        Poll::Ready(match ready!(self.lookup_in(store, key)) {
            Lookup::Varies(variants) => {
                let found = match variant_key(&variants, key, request) {
                    Some(key) => ready!(self.lookup_in(store, &key)),
                    None => Lookup::Miss,
                };
                Kept { variants: Some(variants), ..Kept::of(found) }
            }
            found => Kept::of(found),
        })
    }

    /// Returns true if the disk has not answered yet; `waker` is called when it has.
    pub fn waits(&self, waker: &Waker) -> bool {
        self.openings.last().is_some_and(|opening| opening.object(waker).is_pending())
    }

    /// Returns true if the object found last was not in memory.
    pub fn was_on_disk(&self) -> bool {
        self.was_on_disk
    }

    fn lookup_in(&mut self, store: &Store, key: &Key<'_>) -> Poll<Lookup> {
        self.was_on_disk = false;
        let known = self.openings.iter().find(|opening| opening.key() == key).map(Arc::clone);
        let opening = match known {
            Some(opening) => opening,
            None => match store.lookup(key) {
                Lookup::OnDisk(opening) => {
                    self.openings.push(Arc::clone(&opening));
                    opening
                }
                found => return Poll::Ready(found),
            },
        };
        match opening.outcome() {
            None => Poll::Pending,
            Some(Some(object)) => {
                self.was_on_disk = true;
                Poll::Ready(Lookup::of(object))
            }
            // It may have been stored in memory meanwhile.
            Some(None) => Poll::Ready(store.lookup_in_memory(key)),
        }
    }
}

/// The key of the variant that answers `request`, if there is one.
fn variant_key(variants: &Variants, key: &Key<'_>, request: &Request<'_>) -> Option<Key<'static>> {
    let names = variants.fields.first().and_then(|names| std::str::from_utf8(names).ok());
    variants.key_of(key, &secondary_key(names.unwrap_or_default(), Section(request.fields)))
}
