//! An open version of a file, or a version of a remote object: everything that a response needs except the bytes.
//!
//! A document may have variants: compressed copies beside it, or another format of a listing. They are opened together
//! and live as long, so choosing one for a request needs no lookup.

use std::fmt::Debug;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{Stat, fstat};
use rustix::io::Errno;
use sojourn_http::{Coding, HttpDate, head, media};

use crate::memory_budget::MemoryShare;
use crate::memory_file::MemoryFile;

/// Identifies one version of a file. It includes the change time, so a change of mode or owner counts as a new version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    device: u64,
    inode: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Identity {
    pub fn of(stat: &Stat) -> Identity {
        Identity {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            modified: (stat.st_mtime, nanoseconds(stat.st_mtime_nsec)),
            changed: (stat.st_ctime, nanoseconds(stat.st_ctime_nsec)),
        }
    }

    /// The version of a remote object that is document number `id`.
    pub(crate) fn of_remote(id: u64, size: u64, modified: HttpDate) -> Identity {
        let seconds = i64::try_from(modified.seconds()).unwrap_or(i64::MAX);
        Identity {
            // No file system has this number.
            device: u64::MAX,
            inode: id,
            size: i64::try_from(size).unwrap_or(i64::MAX),
            modified: (seconds, 0),
            changed: (seconds, 0),
        }
    }

    /// Last modification in seconds since 1970.
    pub fn modified_seconds(&self) -> i64 {
        self.modified.0
    }
}

/// Nanoseconds of a second, whose type depends on the platform.
fn nanoseconds(part: impl TryInto<u64>) -> u64 {
    part.try_into().unwrap_or(0)
}

/// Bodies of files are cached in chunks of this size unless somebody knows better; a small body is one shorter chunk.
pub const CHUNK_BYTES: u64 = 64 * 1024;

/// A version of an object of a remote origin: only this version is ever read.
pub trait RemoteObject: Debug + Send + Sync {
    /// The size of the chunks in which it is read and cached.
    fn chunk_bytes(&self) -> u64;

    /// Returns true once the origin is known to have another version.
    fn is_outdated(&self) -> bool;

    /// Reads the object at `key` from `offset` until `into` is full or the object ends; returns the number of bytes
    /// read, which is 0 if there is another version by now.
    fn read(&self, key: &[u8], offset: u64, into: &mut [u8]) -> io::Result<usize>;
}

/// Where a document's bytes are.
#[derive(Debug)]
pub enum Body {
    /// A regular file. It stays readable even if the path names another version by now.
    File {
        file: OwnedFd,
        /// The size of the chunks in which it is cached.
        chunk_bytes: u64,
    },
    Remote(Box<dyn RemoteObject>),
}

#[derive(Debug)]
pub struct Document {
    /// The key in the caches; unique among all documents of the process.
    pub id: u64,
    pub body: Body,
    /// Its path below the root as opened, including an index file's name.
    pub file_path: Box<[u8]>,
    /// Its size when it was opened; a response announces and sends exactly this many bytes.
    pub size: u64,
    /// Last modification; if that is in the future, the time of opening.
    pub modified: HttpDate,
    /// The strong entity tag, quotes included.
    pub entity_tag: Box<str>,
    /// The value of Content-Type.
    pub media_type: Box<str>,
    /// The coding, if this is a compressed copy of another document.
    pub coding: Option<Coding>,
    /// How a client selects this representation among several.
    pub choice: Choice,
    /// The other representations, if this is the one that the path names.
    pub variants: Box<[Arc<Document>]>,
    /// The site's own field lines, the same for every document.
    pub fields: Arc<str>,
    pub cache_control: Option<Arc<str>>,
    pub source: Source,
    pub share: Option<MemoryShare>,
    pub identity: Identity,
}

/// Which request field selects among variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    None,
    AcceptEncoding,
    Accept,
}

/// Where a document came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file requested by its name.
    File,
    /// An index file, with its position in the list of index names.
    Index(usize),
    /// A listing of a directory, generated in memory.
    Listing,
    /// Generated in memory from a file, and current as long as the file is.
    Extract,
}

/// A document generated from a file and served under a name below it.
#[derive(Debug)]
pub struct Extract<'a> {
    pub content: MemoryFile,
    /// The memory budget used by `content`, held for the document's life.
    pub share: MemoryShare,
    /// Its name, whose extension selects the cache rules.
    pub name: &'a str,
    /// Appended to the file's entity tag; must differ for different bytes from the same file.
    pub tag: &'a str,
    pub media_type: &'a str,
}

impl Document {
    /// The document of `file`, of which `stat` was just read: with no known type and no variants.
    pub fn new(file: OwnedFd, file_path: &[u8], stat: &Stat) -> Document {
        let identity = Identity::of(stat);
        let (seconds, nanoseconds) = identity.modified;
        Document {
            id: Document::next_id(),
            body: Body::File { file, chunk_bytes: CHUNK_BYTES },
            file_path: file_path.into(),
            size: u64::try_from(identity.size).unwrap_or(0),
            modified: HttpDate::from_seconds(seconds.min(now_seconds())),
            entity_tag: format!("\"{seconds:x}.{nanoseconds:x}-{:x}\"", identity.size).into(),
            media_type: media::UNKNOWN.into(),
            coding: None,
            choice: Choice::None,
            variants: Box::default(),
            fields: "".into(),
            cache_control: None,
            source: Source::File,
            share: None,
            identity,
        }
    }

    /// A number that no other document of the process has.
    pub(crate) fn next_id() -> u64 {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        NEXT_ID.fetch_add(1, Ordering::Relaxed)
    }

    /// The open file; `None` if it is an object of a remote origin.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        match &self.body {
            Body::File { file, .. } => Some(file.as_fd()),
            Body::Remote(_) => None,
        }
    }

    /// The size of the chunks in which it is cached. A remote object is also read in these.
    pub fn chunk_bytes(&self) -> u64 {
        match &self.body {
            Body::File { chunk_bytes, .. } => *chunk_bytes,
            Body::Remote(object) => object.chunk_bytes(),
        }
    }

    /// Turns it into the copy of `original` compressed by `coding`.
    pub fn into_copy(self, original: &Document, coding: Coding) -> Document {
        // RFC 9110, 8.8.3.3: each representation needs an entity tag of its own.
        let tag = self.entity_tag.trim_matches('"');
        Document {
            entity_tag: format!("\"{tag}-{}\"", coding.token()).into(),
            media_type: original.media_type.clone(),
            coding: Some(coding),
            choice: Choice::AcceptEncoding,
            fields: Arc::clone(&original.fields),
            cache_control: original.cache_control.clone(),
            ..self
        }
    }

    /// The generated document, before the site's rules are applied.
    pub(crate) fn extract(&self, extract: Extract<'_>) -> Result<Document, Errno> {
        let stat = fstat(&extract.content)?;
        let tag = self.entity_tag.trim_matches('"');
        Ok(Document {
            modified: self.modified,
            entity_tag: format!("\"{tag}-{}\"", extract.tag).into(),
            media_type: extract.media_type.into(),
            source: Source::Extract,
            share: Some(extract.share),
            // The document is current as long as the file it was made from.
            identity: self.identity,
            ..Document::new(extract.content.into(), &self.file_path, &stat)
        })
    }

    pub fn all(&self) -> impl Iterator<Item = &Document> {
        std::iter::once(self).chain(self.variants.iter().map(|variant| &**variant))
    }

    /// Memory of generated documents, whose files are in memory.
    pub fn memory_bytes(&self) -> usize {
        let made = self.all().filter(|document| matches!(document.source, Source::Listing | Source::Extract));
        made.map(|document| document.size as usize).sum()
    }

    /// Appends Content-Type and Content-Encoding.
    pub fn append_description(&self, head: &mut Vec<u8>) {
        head::field(head, "Content-Type", &self.media_type);
        if let Some(coding) = self.coding {
            head::field(head, "Content-Encoding", coding.token());
        }
    }

    /// Appends the fields that caches need in a 200, 206 or 304 (RFC 9110, 15.4.5), and the site's own.
    pub fn append_terms(&self, head: &mut Vec<u8>) {
        if let Some(value) = &self.cache_control {
            head::field(head, "Cache-Control", value);
        }
        self.append_site_fields(head);
    }

    /// Appends the site's own fields, and Vary.
    pub fn append_site_fields(&self, head: &mut Vec<u8>) {
        match self.choice {
            Choice::None => {}
            Choice::AcceptEncoding => head::field(head, "Vary", "Accept-Encoding"),
            Choice::Accept => head::field(head, "Vary", "Accept"),
        }
        head.extend_from_slice(self.fields.as_bytes());
    }

    /// Appends the document's fields of a 200.
    pub fn append_fields(&self, head: &mut Vec<u8>) {
        head::content_length(head, self.size);
        self.append_description(head);
        head::validator_fields(head, &self.entity_tag, self.modified);
        head::field(head, "Accept-Ranges", "bytes");
        self.append_terms(head);
    }
}

/// RFC 9110, 8.8.2.1: Last-Modified must not be later than Date, whatever the file system says.
fn now_seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_file_from_the_future_is_not_newer_than_now() {
        let file = tempfile::tempfile().unwrap();
        for (offset, is_changed) in [(3600, true), (-3600, false)] {
            let mtime = now_seconds() + offset;
            file.set_modified(UNIX_EPOCH + Duration::from_secs(mtime as u64)).unwrap();
            let copy = file.try_clone().unwrap();
            let document = Document::new(copy.into(), b"f", &fstat(&file).unwrap());
            let modified = document.modified.seconds() as i64;
            assert!(modified <= now_seconds() && (modified != mtime) == is_changed, "{offset}");
            assert_eq!(document.identity.modified_seconds(), mtime);
        }
    }
}
