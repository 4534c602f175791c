//! An origin finds documents and reads them; opening and reading may block.
//!
//! One file per kind of origin. Callers that must not block give those calls to a helper.

use std::io;
use std::sync::Arc;

use sojourn_http::SitePath;

use crate::document::Document;

mod local;

pub use local::Directory;

/// Where documents come from.
pub trait Origin: Send + Sync {
    /// The document at `path` as it is now.
    fn open(&self, path: &SitePath<'_>) -> Result<Found, OpenError>;

    /// The same if that needs no waiting; `None` if it may, or if this origin cannot tell.
    fn open_now(&self, _path: &SitePath<'_>) -> Option<Result<Found, OpenError>> {
        None
    }

    /// The local directory that this origin is, if it is one: then other processes can open its files.
    fn directory(&self) -> Option<&Directory> {
        None
    }

    /// Whether `document` is still what its path names. Answered from memory: an event loop asks it.
    fn is_current(&self, document: &Document) -> bool;

    /// Reads at `offset` until `into` is full or the document ends; returns the bytes read.
    fn read(&self, document: &Document, offset: u64, into: &mut [u8]) -> io::Result<usize>;
}

/// What a path names.
#[derive(Clone, Debug)]
pub enum Found {
    /// A file.
    Document(Arc<Document>),
    /// A directory named without its trailing slash: the client should ask with it.
    Directory,
}

/// Why a path could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Nothing there, or nothing that is shown.
    #[error("no such document")]
    NotFound,
    /// There, but not readable, or no regular file.
    #[error("the document may not be read")]
    Forbidden,
    /// Out of file descriptors or memory: later it may work.
    #[error("too many open files")]
    Busy,
    /// Anything else, with its error number.
    #[error("opening failed: {}", io::Error::from_raw_os_error(*.0))]
    Failed(i32),
}
