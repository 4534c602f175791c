//! Viewers of films by HLS (RFC 8216): playlists and segments over HTTP/1.1, and what a player has to show.
//!
//! Pure: `place` (where URIs of a playlist lead), `playlist` (what a player takes from one), `player` (the buffer and the
//! clock of what is shown), `playback` (what is asked for next, what an answer means). `fetch` performs, as a part of
//! the run of viewers that RTSP's have too: how they come, are counted, are judged and end is theirs together.

mod course;
mod fetch;
mod place;
mod playback;
mod player;
mod playlist;

pub use course::{Course, Line};
pub use fetch::Known;
pub use place::Place;
pub use playback::{HlsPlan, Playback, Variant};
pub use playlist::Playlist;
