//! An origin finds documents and reads them; opening and reading may block.
//!
//! One file per kind of origin. Callers that must not block give those calls to a helper.

use std::io;
use std::sync::Arc;

use crate::document::Document;
use crate::resource::Resource;

mod hosts;
mod local;

pub use hosts::Directories;
pub use local::Directory;
pub(crate) use local::PATH_BYTES_MAX;

pub trait Origin: Send + Sync {
    /// The document at `place` as it is now.
    fn open(&self, resource: &Resource<'_>) -> Result<Found, OpenError>;

    /// The same if that needs no waiting; `None` if it may, or if this origin cannot tell.
    fn open_now(&self, _resource: &Resource<'_>) -> Option<Result<Found, OpenError>> {
        None
    }

    /// The local directories that this origin is, by the number of their host; none if it is something else. Then
    /// other processes can look files up.
    fn directories(&self) -> &[Directory] {
        &[]
    }

    /// Returns true if `document` and its variants are still what `place` names. Answers from memory, because an event
    /// loop asks.
    fn is_current(&self, resource: &Resource<'_>, document: &Document) -> bool;

    /// Reads at `offset` until `into` is full or the document ends; returns the bytes read.
    fn read(&self, document: &Document, offset: u64, into: &mut [u8]) -> io::Result<usize>;
}

#[derive(Clone, Debug)]
pub enum Found {
    Document(Arc<Document>),
    /// A directory named without its trailing slash: the client should ask with it.
    Directory,
}

/// Why a path could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The file does not exist or is hidden.
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
