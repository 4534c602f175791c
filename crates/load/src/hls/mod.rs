//! The client side of HLS (RFC 8216), without sockets: URIs, playlists, and what to fetch next.

pub(crate) mod location;
pub(crate) mod playback;
pub(crate) mod playlist;

pub use playback::{HlsPlan, Variant};
