//! Remote content as an origin: objects of a store become documents, and what is known of them is trusted for a bounded
//! time.
//!
//! The attribute cache works like that of an NFS client (`acregmin`, `acregmax`): what has just changed is checked again
//! soon; the interval doubles with each check that finds nothing new. Absent objects are remembered, too. If the store
//! fails, a known object may be used beyond its time (`--origin-stale`); its chunks may still be in the body cache.
//! Every version of an object has one [`Document`] as long as it is known, so all loops of a process share its number.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sojourn_http::{Coding, HttpDate, head, media};

use super::{Found, OpenError, Origin};
use crate::document::{Body, Choice, Document, Extract, Identity, RemoteObject, Source};
use crate::lru::{Lru, Weight};
use crate::resource::Resource;
use crate::rules::Rules;

pub mod client;
mod http;
pub mod nfs;
mod signer;
mod store;
#[cfg(test)]
mod tests;

pub use http::HttpStore;
pub use signer::{Provider, SharedFiles, Signer, unix_now};
pub use store::{Object, Opened, Store, StoreError, Version};

/// The longest key that is asked for: that of S3.
const KEY_BYTES_MAX: usize = 1024;

/// The memory of a known object beside its key, which is held twice.
const ENTRY_BYTES: usize = 1024;

/// The memory budget of what is known of objects.
const KNOWN_BYTES_MAX: usize = 32 << 20;

/// After a failure, stale objects are used for this long before the store is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How a remote origin reads and remembers.
#[derive(Clone, Copy, Debug)]
pub struct RemoteLimits {
    /// Objects are read and cached in chunks of this size.
    pub chunk_bytes: u64,
    /// How long what is known of an object is trusted, at first and at most.
    pub attributes_min: Duration,
    pub attributes_max: Duration,
    /// How much longer if the store fails.
    pub stale: Duration,
}

impl Default for RemoteLimits {
    fn default() -> Self {
        RemoteLimits {
            chunk_bytes: 1 << 20,
            attributes_min: Duration::from_secs(3),
            attributes_max: Duration::from_secs(60),
            stale: Duration::ZERO,
        }
    }
}

/// How a document's bytes are read: its object in one version, and the store.
#[derive(Debug)]
struct OpenObject {
    chunk_bytes: u64,
    version: Version,
    /// The store has another version by now.
    is_outdated: AtomicBool,
    shared: Arc<Shared>,
}

/// The objects of a store as an origin.
#[derive(Debug)]
pub struct Remote {
    shared: Arc<Shared>,
    /// By key.
    known: Mutex<Lru<Box<[u8]>, Known>>,
    rules: Rules,
    limits: RemoteLimits,
}

#[derive(Debug)]
struct Shared {
    store: Box<dyn Store>,
    counts: Counts,
    complain: fn(&str),
    /// The second of the last complaint: an outage is not reported for every request.
    complained: AtomicU64,
}

#[derive(Clone, Debug)]
struct Known {
    found: Result<Arc<Document>, OpenError>,
    /// That of the document.
    version: Option<Version>,
    /// Until when it is used without asking.
    fresh_until: Instant,
    /// Until when it may be used if the store fails.
    stale_until: Instant,
    lifetime: Duration,
}

/// Counters of a remote origin.
#[derive(Debug, Default)]
struct Counts {
    opens: AtomicU64,
    unchanged: AtomicU64,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    stale: AtomicU64,
    changed: AtomicU64,
    failures: AtomicU64,
    timeouts: AtomicU64,
}

/// See [`Origin::counts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OriginCounts {
    /// Requests for an object and what describes it, revalidations included.
    pub opens: u64,
    /// Revalidations that found the same version.
    pub unchanged: u64,
    /// Requests for further parts of objects.
    pub reads: u64,
    pub read_bytes: u64,
    /// Stale objects used because the store failed.
    pub stale: u64,
    /// Reads that found another version than was opened.
    pub changed: u64,
    pub failures: u64,
    pub timeouts: u64,
}

impl OriginCounts {
    pub(super) fn plus(self, other: OriginCounts) -> OriginCounts {
        OriginCounts {
            opens: self.opens + other.opens,
            unchanged: self.unchanged + other.unchanged,
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes + other.read_bytes,
            stale: self.stale + other.stale,
            changed: self.changed + other.changed,
            failures: self.failures + other.failures,
            timeouts: self.timeouts + other.timeouts,
        }
    }
}

/// A document, and its first chunk if it was read.
type Fetched = (Arc<Document>, Option<Arc<[u8]>>);

impl Remote {
    /// The objects of `store` under these rules. `complain` gets a line for each failure, without its end.
    pub fn new(store: Box<dyn Store>, rules: Rules, limits: RemoteLimits, complain: fn(&str)) -> Remote {
        let known = Mutex::new(Lru::new(Weight { bytes: KNOWN_BYTES_MAX, count: usize::MAX }));
        let shared = Shared { store, counts: Counts::default(), complain, complained: AtomicU64::default() };
        Remote { shared: Arc::new(shared), known, rules, limits }
    }

    /// The object at `key`, if what is known of it may be used without asking.
    fn fresh(&self, key: &[u8]) -> Option<Result<Arc<Document>, OpenError>> {
        let mut known = self.known();
        let entry = known.get(key)?;
        let is_outdated = entry.found.as_ref().is_ok_and(|document| is_outdated(document));
        (Instant::now() < entry.fresh_until && !is_outdated).then(|| entry.found.clone())
    }

    fn fetch(&self, key: &[u8]) -> Result<Fetched, OpenError> {
        if key.len() > KEY_BYTES_MAX {
            return Err(OpenError::NotFound);
        }
        if let Some(found) = self.fresh(key) {
            return found.map(|document| (document, None));
        }
        let is_usable = |known: &&mut Known| match &known.found {
            Ok(document) => !is_outdated(document),
            Err(_) => false,
        };
        let before = self.known().get(key).filter(is_usable).cloned();
        let document = before.as_ref().and_then(|known| known.found.as_ref().ok());
        let version = before.as_ref().and_then(|known| known.version.clone());
        Counts::add(&self.shared.counts.opens, 1);
        match self.shared.store.open(key, version.as_ref(), self.limits.chunk_bytes) {
            Ok(Opened::Unchanged) => {
                Counts::add(&self.shared.counts.unchanged, 1);
                let known = before.expect("only a known version can be unchanged");
                let lifetime = (2 * known.lifetime).min(self.limits.attributes_max);
                self.remember(key, known.found.clone(), known.version, lifetime);
                known.found.map(|document| (document, None))
            }
            Ok(Opened::Object(object)) => {
                Counts::add(&self.shared.counts.read_bytes, object.start.len() as u64);
                let start: Arc<[u8]> = object.start.as_slice().into();
                // A store without conditions sends the same version again.
                if let Some(document) = document
                    .filter(|_| !object.version.is_anonymous() && version.as_ref() == Some(&object.version))
                {
                    let known = before.as_ref().expect("its document is known");
                    let lifetime = (2 * known.lifetime).min(self.limits.attributes_max);
                    self.remember(key, Ok(Arc::clone(document)), version, lifetime);
                    return Ok((Arc::clone(document), Some(start)));
                }
                let version = Some(object.version.clone());
                let document = Arc::new(self.document(key, object));
                self.remember(key, Ok(Arc::clone(&document)), version, self.limits.attributes_min);
                Ok((document, Some(start)))
            }
            Err(StoreError::NotFound) => {
                self.remember(key, Err(OpenError::NotFound), None, self.limits.attributes_min);
                Err(OpenError::NotFound)
            }
            Err(error) => self.fall_back(key, before, &error).map(|document| (document, None)),
        }
    }

    /// The known version although the store has failed, if that is allowed.
    fn fall_back(
        &self,
        key: &[u8],
        before: Option<Known>,
        error: &StoreError,
    ) -> Result<Arc<Document>, OpenError> {
        let refusal = self.shared.refusal(key, error);
        if refusal == OpenError::Forbidden {
            self.remember(key, Err(refusal), None, self.limits.attributes_min);
            return Err(refusal);
        }
        let now = Instant::now();
        let Some(mut known) = before.filter(|known| now < known.stale_until) else {
            return Err(refusal);
        };
        Counts::add(&self.shared.counts.stale, 1);
        known.fresh_until = now + ASK_AGAIN_AFTER;
        let found = known.found.clone();
        self.insert(key, known);
        found
    }

    fn remember(
        &self,
        key: &[u8],
        found: Result<Arc<Document>, OpenError>,
        version: Option<Version>,
        lifetime: Duration,
    ) {
        let fresh_until = Instant::now() + lifetime;
        let stale_until = fresh_until + self.limits.stale;
        self.insert(key, Known { found, version, fresh_until, stale_until, lifetime });
    }

    fn insert(&self, key: &[u8], known: Known) {
        let weight = Weight { bytes: ENTRY_BYTES + 2 * key.len(), count: 1 };
        self.known().insert(key.into(), known, weight);
    }

    /// Ignores poisoning: a cache is usable after a panic.
    fn known(&self) -> MutexGuard<'_, Lru<Box<[u8]>, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn document(&self, key: &[u8], object: Object) -> Document {
        let Object { version, media_type, content_encoding, cache_control, .. } = object;
        let id = Document::next_id();
        let modified = version.modified.unwrap_or(HttpDate::from_seconds(0));
        // Uploads without a type get one of these, from the store or from the program.
        let is_told = |media_type: &str| {
            !media_type.starts_with("binary/octet-stream") && !media_type.starts_with(media::UNKNOWN)
        };
        let media_type =
            media_type.filter(|own| is_told(own)).unwrap_or_else(|| self.rules.media_types.of(key));
        let encoding =
            content_encoding.filter(|own| !own.eq_ignore_ascii_case("identity") && &**own != "aws-chunked");
        let coding = encoding.as_ref().and_then(|own| {
            Coding::ALL.iter().copied().find(|coding| own.eq_ignore_ascii_case(coding.token()))
        });
        let mut fields = Arc::clone(&self.rules.fields);
        if let Some(encoding) = encoding.filter(|_| coding.is_none()) {
            let mut lines = fields.as_bytes().to_vec();
            head::field(&mut lines, "Content-Encoding", &encoding);
            fields = String::from_utf8_lossy(&lines).into();
        }
        let cache_control = self.rules.cache_control.of(key).or_else(|| cache_control.map(Arc::from));
        Document {
            id,
            file_path: key.into(),
            size: version.size,
            modified: modified.min(unix_now()),
            entity_tag: own_tag(&version, id),
            media_type,
            coding,
            choice: Choice::None,
            variants: Box::default(),
            fields,
            cache_control,
            source: Source::File,
            share: None,
            identity: Identity::of_remote(id, version.size, modified),
            body: Body::Remote(Box::new(OpenObject {
                chunk_bytes: self.limits.chunk_bytes,
                version,
                is_outdated: AtomicBool::new(false),
                shared: Arc::clone(&self.shared),
            })),
        }
    }

    /// The keys that `path` may stand for: itself, or index objects.
    fn keys(&self, path: &[u8]) -> Vec<Vec<u8>> {
        if !path.is_empty() && !path.ends_with(b"/") {
            return vec![path.to_vec()];
        }
        self.rules.indexes.iter().map(|index| [path, index].concat()).collect()
    }

    fn shows(&self, resource: &Resource<'_>) -> bool {
        self.rules.shows_hidden || !resource.path.is_hidden()
    }
}

impl Origin for Remote {
    fn open(&self, resource: &Resource<'_>) -> Result<Found, OpenError> {
        if !self.shows(resource) {
            return Err(OpenError::NotFound);
        }
        let path = resource.path.as_bytes();
        for key in self.keys(path) {
            match self.fetch(&key) {
                Ok((document, None)) => return Ok(Found::Document(document)),
                Ok((document, Some(start))) => return Ok(Found::Loaded(document, start)),
                Err(OpenError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        // A directory is what has an index object below it.
        if !resource.path.is_directory() {
            for key in self.keys(&[path, b"/"].concat()) {
                match self.fetch(&key) {
                    Ok(_) => return Ok(Found::Directory),
                    Err(OpenError::NotFound) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Err(OpenError::NotFound)
    }

    fn open_now(&self, resource: &Resource<'_>) -> Option<Result<Found, OpenError>> {
        if !self.shows(resource) {
            return Some(Err(OpenError::NotFound));
        }
        let path = resource.path.as_bytes();
        for key in self.keys(path) {
            match self.fresh(&key)? {
                Err(OpenError::NotFound) => {}
                found => return Some(found.map(Found::Document)),
            }
        }
        if !resource.path.is_directory() {
            for key in self.keys(&[path, b"/"].concat()) {
                match self.fresh(&key)? {
                    Err(OpenError::NotFound) => {}
                    found => return Some(found.map(|_| Found::Directory)),
                }
            }
        }
        Some(Err(OpenError::NotFound))
    }

    fn is_current(&self, _resource: &Resource<'_>, document: &Document) -> bool {
        let found = self.fresh(&document.file_path);
        matches!(found, Some(Ok(known)) if known.identity == document.identity)
    }

    fn read(&self, document: &Document, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        read(document, offset, into)
    }

    fn extract(
        &self,
        _resource: &Resource<'_>,
        file: &Document,
        extract: Extract<'_>,
    ) -> Result<Arc<Document>, OpenError> {
        let cache_control = self.rules.cache_control.of(extract.name.as_bytes());
        let document = file.extract(extract).map_err(|error| OpenError::Failed(error.raw_os_error()))?;
        Ok(Arc::new(Document { cache_control, fields: Arc::clone(&self.rules.fields), ..document }))
    }

    fn counts(&self) -> Option<OriginCounts> {
        let counts = &self.shared.counts;
        let value = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Some(OriginCounts {
            opens: value(&counts.opens),
            unchanged: value(&counts.unchanged),
            reads: value(&counts.reads),
            read_bytes: value(&counts.read_bytes),
            stale: value(&counts.stale),
            changed: value(&counts.changed),
            failures: value(&counts.failures),
            timeouts: value(&counts.timeouts),
        })
    }
}

/// Reads a document, wherever its bytes are: see [`Origin::read`].
pub fn read(document: &Document, offset: u64, into: &mut [u8]) -> io::Result<usize> {
    match &document.body {
        // What is generated from a remote object is in memory.
        Body::File { file, .. } => super::local::read(file.as_fd(), offset, into),
        Body::Remote(object) => object.read(&document.file_path, offset, into),
    }
}

fn is_outdated(document: &Document) -> bool {
    matches!(&document.body, Body::Remote(object) if object.is_outdated())
}

impl RemoteObject for OpenObject {
    fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    fn is_outdated(&self) -> bool {
        self.is_outdated.load(Ordering::Relaxed)
    }

    fn read(&self, key: &[u8], offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let OpenObject { version, shared, is_outdated, .. } = self;
        let rest = version.size.saturating_sub(offset);
        let length = into.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        Counts::add(&shared.counts.reads, 1);
        match shared.store.read(key, version, offset, &mut into[..length]) {
            Ok(()) => {
                Counts::add(&shared.counts.read_bytes, length as u64);
                Ok(length)
            }
            // Like a file that has been replaced: it is opened again.
            Err(StoreError::Changed | StoreError::NotFound) => {
                Counts::add(&shared.counts.changed, 1);
                is_outdated.store(true, Ordering::Relaxed);
                Ok(0)
            }
            Err(error) => {
                shared.refusal(key, &error);
                Err(error.into())
            }
        }
    }
}

/// The store's tag if it is strong; otherwise one that is, as ranges need it.
fn own_tag(version: &Version, id: u64) -> Box<str> {
    match (&version.entity_tag, version.modified) {
        (Some(tag), _) if is_strong(tag) => tag.clone(),
        (_, Some(date)) => format!("\"{:x}-{:x}\"", date.seconds(), version.size).into(),
        // Nothing tells versions apart: no two of them are taken for the same.
        _ => format!("\"{:x}-{id:x}-{:x}\"", std::process::id(), unix_now().seconds()).into(),
    }
}

fn is_strong(tag: &str) -> bool {
    let inner = tag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.is_some_and(|inner| inner.bytes().all(|byte| byte == b'!' || (b'#'..=b'~').contains(&byte)))
}

impl Shared {
    /// Counts and reports a failure; returns what clients are told.
    fn refusal(&self, key: &[u8], error: &StoreError) -> OpenError {
        let refusal = match error {
            StoreError::NotFound => return OpenError::NotFound,
            StoreError::Forbidden(_) => OpenError::Forbidden,
            StoreError::Timeout(_) => OpenError::TimedOut,
            StoreError::Changed | StoreError::Failed(_) => OpenError::Unavailable,
        };
        let count =
            if refusal == OpenError::TimedOut { &self.counts.timeouts } else { &self.counts.failures };
        Counts::add(count, 1);
        let second = unix_now().seconds();
        if self.complained.swap(second, Ordering::Relaxed) != second {
            (self.complain)(&format!("origin: {}: {error}", key.escape_ascii()));
        }
        refusal
    }
}

impl Counts {
    fn add(count: &AtomicU64, more: u64) {
        count.fetch_add(more, Ordering::Relaxed);
    }
}
