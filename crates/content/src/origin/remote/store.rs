//! What a remote origin needs of a store of objects: one file per protocol implements it.

use std::fmt::Debug;
use std::io;

use sojourn_http::HttpDate;

/// Objects by key. Every call may wait, but never longer than the store's limits allow.
pub trait Store: Debug + Send + Sync {
    /// Reads what describes the object, and its first bytes, up to `bytes_max`, in one exchange if possible. If it is
    /// still `known`, nothing is read.
    ///
    /// # Errors
    /// If there is none, or if it cannot be read now.
    fn open(&self, key: &[u8], known: Option<&Version>, bytes_max: u64) -> Result<Opened, StoreError>;

    /// Reads from `offset` until `into` is full, of this version only.
    ///
    /// # Errors
    /// If the object has changed, or if it cannot be read now.
    fn read(&self, key: &[u8], version: &Version, offset: u64, into: &mut [u8]) -> Result<(), StoreError>;
}

/// Which version of an object: what the store says about it, to be given back with conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub size: u64,
    /// As received, quotes and all.
    pub entity_tag: Option<Box<str>>,
    pub modified: Option<HttpDate>,
}

#[derive(Debug)]
pub enum Opened {
    /// It is the version that was known.
    Unchanged,
    Object(Object),
}

#[derive(Debug)]
pub struct Object {
    pub version: Version,
    pub media_type: Option<Box<str>>,
    pub content_encoding: Option<Box<str>>,
    pub cache_control: Option<Box<str>>,
    /// The first bytes, as many as were asked for or as there are.
    pub start: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("no such object")]
    NotFound,
    #[error("access denied: {0}")]
    Forbidden(String),
    /// The object is another version by now.
    #[error("the object has changed")]
    Changed,
    /// The limit that was exceeded.
    #[error("{0} exceeded")]
    Timeout(&'static str),
    #[error("{0}")]
    Failed(String),
}

impl Version {
    /// Returns true if nothing tells this version from another of the same size.
    pub fn is_anonymous(&self) -> bool {
        self.entity_tag.is_none() && self.modified.is_none()
    }
}

/// Reading is part of an origin, whose errors are those of files: the kind tells a timeout from other failures.
impl From<StoreError> for io::Error {
    fn from(error: StoreError) -> io::Error {
        let kind = match error {
            StoreError::Timeout(_) => io::ErrorKind::TimedOut,
            _ => io::ErrorKind::ConnectionAborted,
        };
        io::Error::new(kind, error)
    }
}
