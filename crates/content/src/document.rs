//! One version of one file, opened: everything a response needs but the bytes.
//!
//! A document may have variants: compressed copies beside it, or another format of a listing. They are opened with
//! it and live as long, so that which of them is sent is decided when a request is answered, without a lookup.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{Stat, fstat};
use rustix::io::Errno;
use sojourn_http::{Coding, HttpDate, head, media};

use crate::memory_budget::MemoryShare;
use crate::memory_file::MemoryFile;

/// Identifies one version of a file. It includes the change time, so a new mode or owner counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    device: u64,
    inode: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Identity {
    /// The identity that `stat` shows.
    pub fn of(stat: &Stat) -> Identity {
        Identity {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Last modification, in seconds since 1970.
    pub fn modified_seconds(&self) -> i64 {
        self.modified.0
    }
}

/// An open regular file. It stays readable although the path may meanwhile name another version.
#[derive(Debug)]
pub struct Document {
    /// Unique among all documents of this process: the key of the caches.
    pub id: u64,
    pub file: OwnedFd,
    /// Its path below the root, as opened (with the index file where that was added).
    pub file_path: Box<[u8]>,
    /// Bytes when it was opened; a response announces and sends exactly these.
    pub size: u64,
    /// Last modification, or when it was opened if that is to come yet.
    pub modified: HttpDate,
    /// The strong entity tag, quotes included.
    pub entity_tag: Box<str>,
    /// The media type, as a field value.
    pub media_type: Box<str>,
    /// How it is compressed, if it is a copy of another document.
    pub coding: Option<Coding>,
    /// How the representation was chosen among several.
    pub choice: Choice,
    /// The others, if it is the one that its path names.
    pub variants: Box<[Arc<Document>]>,
    /// Whole field lines that the site has for every document.
    pub fields: Arc<str>,
    pub cache_control: Option<Arc<str>>,
    pub source: Source,
    pub share: Option<MemoryShare>,
    pub identity: Identity,
}

/// By what a client chooses among variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    None,
    AcceptEncoding,
    Accept,
}

/// Where a document came from, as far as that is more than its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file that was asked for by its name.
    File,
    /// A file that stands for its directory, by its place among those that may.
    Index(usize),
    /// Made from what a directory holds, and in memory.
    Listing,
    /// Generated from a file, and in memory: it is current as long as the file is.
    Extract,
}

/// A document generated from a file and served below its name.
#[derive(Debug)]
pub struct Extract<'a> {
    pub content: MemoryFile,
    /// What `content` takes of the memory budget, as long as this lives.
    pub share: MemoryShare,
    /// Its name; the extension selects the cache rules.
    pub name: &'a str,
    /// Added to the file's entity tag; differs for different bytes from the same file.
    pub tag: &'a str,
    pub media_type: &'a str,
}

impl Document {
    /// The document behind `file`, of which `stat` was just taken: bytes of an unknown type, without variants.
    pub fn new(file: OwnedFd, file_path: &[u8], stat: &Stat) -> Document {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let identity = Identity::of(stat);
        let (seconds, nanoseconds) = identity.modified;
        Document {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            file,
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

    /// The same as the copy of `original` in `coding`.
    pub fn into_copy(self, original: &Document, coding: Coding) -> Document {
        // An entity tag belongs to one representation alone (RFC 9110, 8.8.3.3).
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

    /// The generated document, before the rules are applied.
    pub(crate) fn extract(&self, extract: Extract<'_>) -> Result<Document, Errno> {
        let stat = fstat(&extract.content)?;
        let tag = self.entity_tag.trim_matches('"');
        Ok(Document {
            modified: self.modified,
            entity_tag: format!("\"{tag}-{}\"", extract.tag).into(),
            media_type: extract.media_type.into(),
            source: Source::Extract,
            share: Some(extract.share),
            // What it stands and falls with.
            identity: self.identity,
            ..Document::new(extract.content.into(), &self.file_path, &stat)
        })
    }

    pub fn all(&self) -> impl Iterator<Item = &Document> {
        std::iter::once(self).chain(self.variants.iter().map(|variant| &**variant))
    }

    /// Memory of generated documents: their files are in memory.
    pub fn memory_bytes(&self) -> usize {
        let made = self.all().filter(|document| matches!(document.source, Source::Listing | Source::Extract));
        made.map(|document| document.size as usize).sum()
    }

    /// Appends what its bytes are: Content-Type and Content-Encoding.
    pub fn append_description(&self, head: &mut Vec<u8>) {
        head::field(head, "Content-Type", &self.media_type);
        if let Some(coding) = self.coding {
            head::field(head, "Content-Encoding", coding.token());
        }
    }

    /// Appends what caches must know, in a 200 as in a 206 or a 304 (RFC 9110, 15.4.5), and the site's own fields.
    pub fn append_terms(&self, head: &mut Vec<u8>) {
        if let Some(value) = &self.cache_control {
            head::field(head, "Cache-Control", value);
        }
        self.append_site_fields(head);
    }

    /// Appends the site's own fields, and by what it was chosen.
    pub fn append_site_fields(&self, head: &mut Vec<u8>) {
        match self.choice {
            Choice::None => {}
            Choice::AcceptEncoding => head::field(head, "Vary", "Accept-Encoding"),
            Choice::Accept => head::field(head, "Vary", "Accept"),
        }
        head.extend_from_slice(self.fields.as_bytes());
    }

    /// Appends the fields that are its own in a 200.
    pub fn append_fields(&self, head: &mut Vec<u8>) {
        head::content_length(head, self.size);
        self.append_description(head);
        head::validator_fields(head, &self.entity_tag, self.modified);
        head::field(head, "Accept-Ranges", "bytes");
        self.append_terms(head);
    }
}

/// A Last-Modified must not be later than the response's Date, whatever the file system says (RFC 9110, 8.8.2.1).
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
