//! An origin finds documents and reads them; opening and reading may block.
//!
//! One file per kind of origin. Callers that must not block let a helper do it.

use std::io;
use std::sync::Arc;

use crate::document::{Document, Extract};
use crate::resource::Resource;

mod hosts;
mod local;
pub mod remote;

pub use hosts::{Directories, Origins};
pub use local::Directory;
pub(crate) use local::PATH_BYTES_MAX;
pub use remote::OriginCounts;

pub trait Origin: Send + Sync {
    /// Opens what `resource` names now.
    fn open(&self, resource: &Resource<'_>) -> Result<Found, OpenError>;

    /// Like `open`, if that needs no waiting; `None` if it might wait, or if this origin cannot tell.
    fn open_now(&self, _resource: &Resource<'_>) -> Option<Result<Found, OpenError>> {
        None
    }

    /// The local directories of this origin by host number, which helper processes need; empty if it is something else.
    fn directories(&self) -> &[Directory] {
        &[]
    }

    /// Returns true if `document` and its variants are still what `resource` names. An event loop calls this, so it
    /// must answer from memory.
    fn is_current(&self, resource: &Resource<'_>, document: &Document) -> bool;

    /// Reads at `offset` until `into` is full or the document ends; returns the number of bytes read.
    fn read(&self, document: &Document, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// The document generated from `file`, which `resource` names, with the rules applied.
    fn extract(
        &self,
        _resource: &Resource<'_>,
        _file: &Document,
        _extract: Extract<'_>,
    ) -> Result<Arc<Document>, OpenError> {
        Err(OpenError::NotFound)
    }

    /// What it has done, if it is remote.
    fn counts(&self) -> Option<OriginCounts> {
        None
    }
}

#[derive(Clone, Debug)]
pub enum Found {
    Document(Arc<Document>),
    /// A document of a remote origin, and its first chunk, which came with it.
    Loaded(Arc<Document>, Arc<[u8]>),
    /// A directory whose trailing slash is missing: the client is redirected.
    Directory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The file does not exist or is hidden.
    #[error("no such document")]
    NotFound,
    /// Not readable, or not a regular file.
    #[error("the document may not be read")]
    Forbidden,
    /// Out of file descriptors or memory; a later attempt may succeed.
    #[error("too many open files")]
    Busy,
    /// A remote origin failed.
    #[error("the origin failed")]
    Unavailable,
    /// A remote origin took longer than its limits allow.
    #[error("the origin took too long")]
    TimedOut,
    /// Any other error, with its number.
    #[error("opening failed: {}", io::Error::from_raw_os_error(*.0))]
    Failed(i32),
}
