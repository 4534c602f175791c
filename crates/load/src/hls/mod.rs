//! A viewer's side of HLS (RFC 8216), without sockets: where URIs lead, playlists, and what to fetch next.

pub(crate) mod location;
pub(crate) mod playback;
pub(crate) mod playlist;

pub use playback::{HlsPlan, Variant};
