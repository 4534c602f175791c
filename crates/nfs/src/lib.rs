//! Calls of NFS version 3 (RFC 1813), of its mount protocol and of the port mapper (RFC 1833), and their replies: as much
//! as reading files needs.
//!
//! Messages are those of ONC RPC (RFC 5531) in XDR (RFC 4506). Pure: no sockets and no clock. The caller sends what
//! [`Call::record`] writes, joins the fragments of the reply ([`fragment`]), and gives the record to [`reply`]. The crate
//! `nfs3_client` was not used: it refuses replies in several fragments, and it allocates what a reply's lengths say.

#![forbid(unsafe_code)]

mod call;
mod reply;
mod xdr;

pub use call::{Call, Credential, NAME_BYTES_MAX, Program};
pub use reply::{
    Attributes, FileKind, LookedUp, Modified, Outcome, Part, Reply, ReplyError, Status, TARGET_BYTES_MAX,
    reply,
};
pub use xdr::{Fragment, fragment};

/// The longest file handle (RFC 1813, 2.4).
pub const HANDLE_BYTES_MAX: usize = 64;

/// What a server calls a file by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle(Box<[u8]>);

impl Handle {
    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
