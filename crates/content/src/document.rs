//! One version of one file, opened: everything a response needs but the bytes.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::Stat;
use sojourn_http::HttpDate;
use sojourn_http::media::media_type;

/// What tells two versions of a file apart. The change time is part of it, so a new mode or owner counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

/// An open regular file. It stays readable although the path may meanwhile name another version.
#[derive(Debug)]
pub struct Document {
    /// Unique among all documents of this process: the key of the caches.
    pub id: u64,
    /// The open file.
    pub file: OwnedFd,
    /// Its path below the root, as opened (with `index.html` where that was added).
    pub file_path: Box<[u8]>,
    /// Bytes when it was opened; a response announces and sends exactly these.
    pub size: u64,
    /// Last modification.
    pub modified: HttpDate,
    /// The strong entity tag.
    pub entity_tag: Box<str>,
    /// The media type, by extension.
    pub media_type: &'static str,
    /// The version.
    pub identity: Identity,
}

impl Document {
    /// The document behind `file`, of which `stat` was just taken.
    pub fn new(file: OwnedFd, file_path: &[u8], stat: &Stat) -> Document {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let identity = Identity::of(stat);
        let (seconds, nanoseconds) = identity.modified;
        Document {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            file,
            file_path: file_path.into(),
            size: u64::try_from(identity.size).unwrap_or(0),
            modified: HttpDate::from_seconds(seconds),
            entity_tag: format!("\"{seconds:x}.{nanoseconds:x}-{:x}\"", identity.size).into(),
            media_type: media_type(file_path),
            identity,
        }
    }
}
