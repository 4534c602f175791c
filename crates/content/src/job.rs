//! Work that may wait for a disk, as a value: a thread that may block performs it.

use std::io;
use std::sync::Arc;

use crate::document::Document;
use crate::origin::{Found, OpenError, Origin};
use crate::resource::Resource;

/// How soon a job is needed; due jobs overtake all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// A connection cannot continue without it.
    #[default]
    Due,
    /// Needed by a request that has not started yet.
    Asked,
    Ahead,
}

impl Urgency {
    pub const COUNT: usize = 3;
}

/// A task that may block.
#[derive(Clone, Debug)]
pub enum Job {
    /// Find a document, and read it if it is small.
    Open(Opening),
    Load(FileRange),
}

#[derive(Clone, Debug)]
pub struct Opening {
    pub resource: Resource<'static>,
    /// The cached document; if it is still current, nothing is opened.
    pub known: Option<Arc<Document>>,
    /// A body up to this size is read immediately, unless there are variants to choose from.
    pub body_bytes_max: u64,
}

/// A range of a document: all of a small one, a chunk, or the piece of a large one that is sent at once.
#[derive(Clone, Debug)]
pub struct FileRange {
    pub document: Arc<Document>,
    pub offset: u64,
    pub length: usize,
    /// True to return the bytes; otherwise they only need to be in the page cache.
    pub into_memory: bool,
}

#[derive(Clone, Debug)]
pub enum Done {
    Opened(Result<Opened, OpenError>),
    /// The outcome of [`Job::Load`]: the bytes, or `None` if the range is now in the page cache.
    Loaded(Result<Option<Arc<[u8]>>, LoadError>),
}

/// The outcome of opening a path: a document, with its body if that is small and newly read, or with the first chunk of a
/// remote object.
#[derive(Clone, Debug)]
pub enum Opened {
    Document(Arc<Document>, Option<Arc<[u8]>>),
    /// A directory whose trailing slash is missing.
    Directory,
}

impl From<Found> for Opened {
    fn from(found: Found) -> Opened {
        match found {
            Found::Document(document) => Opened::Document(document, None),
            Found::Loaded(document, start) => Opened::Document(document, Some(start)),
            Found::Directory => Opened::Directory,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The file is shorter than when it was opened.
    #[error("the file was truncated")]
    Truncated,
    #[error("reading the file failed")]
    Failed,
    /// A remote origin failed.
    #[error("the origin failed")]
    Unavailable,
    /// A remote origin took longer than its limits allow.
    #[error("the origin took too long")]
    TimedOut,
}

impl LoadError {
    fn of(error: &io::Error, document: &Document) -> LoadError {
        match error.kind() {
            _ if document.file().is_some() => LoadError::Failed,
            io::ErrorKind::TimedOut => LoadError::TimedOut,
            _ => LoadError::Unavailable,
        }
    }
}

impl FileRange {
    /// The chunk of `document` that has the byte at `offset`, into memory.
    pub fn chunk(document: &Arc<Document>, offset: u64) -> FileRange {
        let start = offset - offset % document.chunk_bytes();
        let length = document.chunk_bytes().min(document.size.saturating_sub(start)) as usize;
        FileRange { document: Arc::clone(document), offset: start, length, into_memory: true }
    }

    /// All of a small document, into memory.
    pub fn whole(document: &Arc<Document>) -> FileRange {
        let length = document.size as usize;
        FileRange { document: Arc::clone(document), offset: 0, length, into_memory: true }
    }
}

impl Job {
    /// Performs the job, blocking as long as needed. `scratch` is a buffer for bytes that are discarded.
    pub fn perform(&self, origin: &dyn Origin, scratch: &mut Vec<u8>) -> Done {
        match self {
            Job::Open(opening) => Done::Opened(open(origin, opening)),
            Job::Load(range) if range.into_memory => Done::Loaded(read(origin, range).map(Some)),
            Job::Load(range) => Done::Loaded(touch(origin, range, scratch).map(|()| None)),
        }
    }
}

fn open(origin: &dyn Origin, opening: &Opening) -> Result<Opened, OpenError> {
    if let Some(known) = &opening.known
        && origin.is_current(&opening.resource, known)
    {
        return Ok(Opened::Document(Arc::clone(known), None));
    }
    match origin.open(&opening.resource)? {
        Found::Directory => Ok(Opened::Directory),
        Found::Loaded(document, start) => Ok(Opened::Document(document, Some(start))),
        Found::Document(document) => {
            // If reading the body fails here, it is read again when it is needed, and the error is reported then. A remote
            // object that comes without a body is known from before: its body may be in a cache.
            let is_read = document.file().is_some()
                && document.size <= opening.body_bytes_max
                && document.variants.is_empty();
            let body = is_read.then(|| read(origin, &FileRange::whole(&document)).ok()).flatten();
            Ok(Opened::Document(document, body))
        }
    }
}

fn read(origin: &dyn Origin, range: &FileRange) -> Result<Arc<[u8]>, LoadError> {
    let mut bytes = blank(range.length);
    let into = Arc::get_mut(&mut bytes).expect("nobody else has it yet");
    match origin.read(&range.document, range.offset, into) {
        Ok(length) if length == range.length => Ok(bytes),
        Ok(_) => Err(LoadError::Truncated),
        Err(error) => Err(LoadError::of(&error, &range.document)),
    }
}

/// Memory to read into, which is then shared without a copy.
pub(crate) fn blank(length: usize) -> Arc<[u8]> {
    std::iter::repeat_n(0, length).collect()
}

/// Reads the bytes into the page cache and discards them.
fn touch(origin: &dyn Origin, range: &FileRange, scratch: &mut Vec<u8>) -> Result<(), LoadError> {
    scratch.resize(range.length, 0);
    match origin.read(&range.document, range.offset, scratch) {
        Ok(length) if length == range.length => Ok(()),
        Ok(_) => Err(LoadError::Truncated),
        Err(_) => Err(LoadError::Failed),
    }
}
