//! The three caches of Flash, each with a budget in bytes: path to open document, document to response fields,
//! document to body, in chunks.
//!
//! They never load: the caller resolves misses. A path is trusted for a limited time, then reported stale until the
//! file has been checked again. Replacing a document drops its fields and chunks.

use std::sync::Arc;
use std::time::Duration;

use crate::document::Document;
use crate::lru::{Lru, Weight};
use crate::resource::{Resource, ResourceKey};

/// The cost of an open document in the path cache, beside the bytes of its path (held twice): the document, its entry,
/// the kernel's file. Each variant costs the same.
const DOCUMENT_BYTES: usize = 768;

/// The cost of an entry of the other caches, beside its content.
const ENTRY_BYTES: usize = 96;

/// The most chunks that are looked for when a document is forgotten. Nobody finds those behind them either: they go when they
/// are the oldest.
const CHUNKS_FORGOTTEN_MAX: u64 = 1024;

/// The limits of the caches, and how long they trust a path.
#[derive(Clone, Copy, Debug)]
pub struct Budgets {
    pub path_bytes: usize,
    pub head_bytes: usize,
    pub body_bytes: usize,
    /// The most open documents, variants included, even if `path_bytes` allows more: each holds a file descriptor.
    pub documents_max: usize,
    /// A document is checked again when it is requested this long after the last check.
    pub recheck_after: Duration,
}

impl Default for Budgets {
    fn default() -> Self {
        Budgets {
            path_bytes: 16 << 20,
            head_bytes: 8 << 20,
            body_bytes: 128 << 20,
            documents_max: 16 * 1024,
            recheck_after: Duration::from_secs(1),
        }
    }
}

#[derive(Debug)]
pub enum Lookup {
    Fresh(Arc<Document>),
    /// Known, but the file must be checked before it is used.
    Stale(Arc<Document>),
    Miss,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
    pub bytes: u64,
}

/// The three caches: private to an event loop or shared behind a lock, depending on the architecture.
#[derive(Debug)]
pub struct Caches {
    paths: Counted<ResourceKey, Known>,
    heads: Counted<u64, Box<[u8]>>,
    /// By document ID and chunk number.
    chunks: Counted<(u64, u64), Arc<[u8]>>,
    recheck_after: Duration,
}

#[derive(Debug)]
struct Known {
    document: Arc<Document>,
    checked: Duration,
}

#[derive(Debug)]
struct Counted<K, V> {
    lru: Lru<K, V>,
    hits: u64,
    misses: u64,
}

impl Caches {
    pub fn new(budgets: &Budgets) -> Caches {
        Caches {
            paths: Counted::new(budgets.path_bytes, budgets.documents_max),
            heads: Counted::new(budgets.head_bytes, usize::MAX),
            chunks: Counted::new(budgets.body_bytes, usize::MAX),
            recheck_after: budgets.recheck_after,
        }
    }

    /// The cached document of `resource` at time `now`.
    pub fn document(&mut self, resource: &Resource<'_>, now: Duration) -> Lookup {
        match self.paths.lru.get(resource) {
            Some(known) if now.saturating_sub(known.checked) < self.recheck_after => {
                self.paths.hits += 1;
                Lookup::Fresh(Arc::clone(&known.document))
            }
            Some(known) => {
                self.paths.misses += 1;
                Lookup::Stale(Arc::clone(&known.document))
            }
            None => {
                self.paths.misses += 1;
                Lookup::Miss
            }
        }
    }

    /// Caches `document`, which was checked at `now` or later, under `resource`.
    pub fn insert_document(&mut self, resource: &Resource<'_>, document: &Arc<Document>, now: Duration) {
        if let Some(known) = self.paths.lru.get(resource) {
            known.checked = now;
            if known.document.id == document.id {
                return;
            }
            self.forget_document(resource);
        }
        let documents = 1 + document.variants.len();
        let files = document.all().filter(|each| each.file().is_some()).count();
        let bytes =
            documents * (DOCUMENT_BYTES + 2 * resource.path.as_bytes().len()) + document.memory_bytes();
        let known = Known { document: Arc::clone(document), checked: now };
        self.paths.lru.insert(resource.into(), known, Weight { bytes, count: files });
    }

    pub fn forget_document(&mut self, resource: &Resource<'_>) {
        let Some(known) = self.paths.lru.remove(resource) else { return };
        for document in known.document.all() {
            self.heads.lru.remove(&document.id);
            let chunks = document.size.div_ceil(document.chunk_bytes());
            for chunk in 0..chunks.min(CHUNKS_FORGOTTEN_MAX) {
                self.chunks.lru.remove(&(document.id, chunk));
            }
        }
    }

    /// Appends the document's own fields of a 200, which are cached on first use.
    pub fn append_fields(&mut self, document: &Document, head: &mut Vec<u8>) {
        match self.heads.get(document.id) {
            Some(fields) => head.extend_from_slice(fields),
            None => {
                let start = head.len();
                document.append_fields(head);
                let fields: Box<[u8]> = head[start..].into();
                let bytes = ENTRY_BYTES + fields.len();
                self.heads.lru.insert(document.id, fields, Weight { bytes, count: 1 });
            }
        }
    }

    /// The chunk of the body that begins at `offset`, if it is cached.
    pub fn chunk(&mut self, document: &Document, offset: u64) -> Option<&Arc<[u8]>> {
        self.chunks.get((document.id, offset / document.chunk_bytes())).map(|chunk| &*chunk)
    }

    /// Caches the chunk that begins at `offset`.
    pub fn insert_chunk(&mut self, document: &Document, offset: u64, chunk: &Arc<[u8]>) {
        debug_assert!(
            offset.is_multiple_of(document.chunk_bytes()),
            "a chunk begins at a multiple of its size"
        );
        let key = (document.id, offset / document.chunk_bytes());
        let weight = Weight { bytes: ENTRY_BYTES + chunk.len(), count: 1 };
        self.chunks.lru.insert(key, Arc::clone(chunk), weight);
    }

    pub fn counts(&self) -> [CacheCounts; 3] {
        [self.paths.counts(), self.heads.counts(), self.chunks.counts()]
    }
}

impl<K: Eq + std::hash::Hash, V> Counted<K, V> {
    fn new(bytes_max: usize, count_max: usize) -> Self {
        Counted { lru: Lru::new(Weight { bytes: bytes_max, count: count_max }), hits: 0, misses: 0 }
    }

    fn get(&mut self, key: K) -> Option<&mut V> {
        let found = self.lru.get(&key);
        match found {
            Some(_) => self.hits += 1,
            None => self.misses += 1,
        }
        found
    }

    fn counts(&self) -> CacheCounts {
        let (hits, misses, evictions) = (self.hits, self.misses, self.lru.evictions());
        CacheCounts { hits, misses, evictions, bytes: self.lru.weight().bytes as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::{Directory, Found, Origin};
    use crate::resource::HostId;
    use crate::rules::Rules;
    use sojourn_http::SitePath;

    fn resource(name: &str) -> Resource<'static> {
        let path = SitePath::decode(format!("/{name}").as_bytes()).unwrap().into_owned();
        Resource { host: HostId::default(), path }
    }

    fn documents(names: &[&str]) -> (tempfile::TempDir, Vec<Arc<Document>>) {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::new(root.path(), Rules::default()).unwrap();
        let open = |name: &&str| {
            std::fs::write(root.path().join(name), name).unwrap();
            match directory.open(&resource(name)) {
                Ok(Found::Document(document)) => document,
                other => panic!("{other:?}"),
            }
        };
        let documents = names.iter().map(open).collect();
        (root, documents)
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn trust_is_bounded() {
        let (_root, documents) = documents(&["a"]);
        let mut caches = Caches::new(&Budgets::default());
        assert!(matches!(caches.document(&resource("a"), SECOND), Lookup::Miss));
        caches.insert_document(&resource("a"), &documents[0], SECOND);
        assert!(matches!(
            caches.document(&resource("a"), SECOND * 2 - Duration::from_nanos(1)),
            Lookup::Fresh(_)
        ));
        assert!(matches!(caches.document(&resource("a"), SECOND * 2), Lookup::Stale(_)));
        caches.insert_document(&resource("a"), &documents[0], SECOND * 2);
        assert!(matches!(caches.document(&resource("a"), SECOND * 2), Lookup::Fresh(_)));
        let [paths, ..] = caches.counts();
        assert_eq!((paths.hits, paths.misses), (2, 2));
    }

    #[test]
    fn a_new_version_drops_what_hung_on_the_old() {
        let (_root, documents) = documents(&["a", "b"]);
        let mut caches = Caches::new(&Budgets::default());
        caches.insert_document(&resource("a"), &documents[0], SECOND);
        caches.insert_chunk(&documents[0], 0, &Arc::from(*b"old"));
        caches.append_fields(&documents[0], &mut Vec::new());
        caches.insert_document(&resource("a"), &documents[1], SECOND);
        assert!(caches.chunk(&documents[0], 0).is_none());
        let [paths, heads, bodies] = caches.counts();
        assert_eq!((heads.bytes, bodies.bytes), (0, 0));
        assert!(paths.bytes > 0);
    }

    #[test]
    fn a_large_document_is_forgotten_as_fast() {
        let (_root, mut documents) = documents(&["a"]);
        let mut caches = Caches::new(&Budgets::default());
        let mut large = Arc::into_inner(documents.pop().unwrap()).unwrap();
        large.size = 1 << 60;
        let large = Arc::new(large);
        caches.insert_document(&resource("a"), &large, SECOND);
        caches.insert_chunk(&large, 0, &Arc::from(*b"first"));
        caches.forget_document(&resource("a"));
        assert!(caches.chunk(&large, 0).is_none());
        assert!(matches!(caches.document(&resource("a"), SECOND), Lookup::Miss));
    }

    #[test]
    fn fields_are_made_once() {
        let (_root, documents) = documents(&["a.html"]);
        let mut caches = Caches::new(&Budgets::default());
        let (mut first, mut second) = (Vec::new(), Vec::new());
        caches.append_fields(&documents[0], &mut first);
        caches.append_fields(&documents[0], &mut second);
        assert_eq!(first, second);
        assert!(first.starts_with(b"Content-Length: 6\r\nContent-Type: text/html\r\n"));
        let [_, heads, _] = caches.counts();
        assert_eq!((heads.hits, heads.misses), (1, 1));
    }
    #[test]
    fn what_names_a_document_is_host_and_path() {
        let (_root, documents) = documents(&["a", "b"]);
        let mut caches = Caches::new(&Budgets::default());
        let there = Resource { host: HostId(7), ..resource("a") };
        caches.insert_document(&resource("a"), &documents[0], SECOND);
        assert!(matches!(caches.document(&there, SECOND), Lookup::Miss));
        caches.insert_document(&there, &documents[1], SECOND);
        assert!(
            matches!(caches.document(&resource("a"), SECOND), Lookup::Fresh(it) if it.id == documents[0].id)
        );
        assert!(matches!(caches.document(&there, SECOND), Lookup::Fresh(it) if it.id == documents[1].id));
    }

    #[test]
    fn variants_count_and_go_with_their_document() {
        let (_root, mut documents) = documents(&["a", "a.gz"]);
        let mut caches = Caches::new(&Budgets { documents_max: 2, ..Budgets::default() });
        let copy = documents.pop().unwrap();
        let mut original = Arc::into_inner(documents.pop().unwrap()).unwrap();
        original.variants = [Arc::clone(&copy)].into();
        let original = Arc::new(original);
        caches.insert_document(&resource("a"), &original, SECOND);
        caches.insert_chunk(&copy, 0, &Arc::from(*b"copy"));
        caches.append_fields(&copy, &mut Vec::new());
        caches.insert_document(&resource("b"), &copy, SECOND);
        assert!(matches!(caches.document(&resource("a"), SECOND), Lookup::Miss), "three files are open");
        caches.insert_document(&resource("a"), &original, SECOND);
        caches.forget_document(&resource("a"));
        assert!(caches.chunk(&copy, 0).is_none());
    }
}
