//! The state of an HLS viewer: its film, the response in progress, its connection.

use sojourn_measure::Nanos;

use crate::{
    hls::{
        playback::{Asked, Playback},
        playlist::PLAYLIST_BYTES_MAX,
    },
    http::response_reader::Reception,
};

/// A connection as the next request finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Not there yet, since then.
    Connecting(Nanos),
    Open,
    Closed,
}

/// How far a viewer is with its film.
pub struct Course {
    pub playback: Playback,
    pub reception: Reception,
    pub line: Line,
    pub answered: u32,
    /// True if the request under way has been sent on an earlier connection, which was closed before it was answered.
    pub is_retried: bool,
    /// True if the generator was too late for the answer under way to say when it came.
    pub is_void: bool,
    /// When something of an answer came last, media or not.
    pub last_byte: Option<Nanos>,
    /// True if the player was seen to begin.
    pub has_begun: bool,
}

impl std::fmt::Debug for Course {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Course").field("playback", &self.playback).field("line", &self.line).finish()
    }
}

impl Course {
    /// Before its connection is there.
    pub fn new(playback: Playback, now: Nanos) -> Course {
        Course {
            playback,
            reception: Reception::keeping(PLAYLIST_BYTES_MAX),
            line: Line::Connecting(now),
            answered: 0,
            is_retried: false,
            is_void: false,
            last_byte: None,
            has_begun: false,
        }
    }

    /// The request that was sent and is not answered in full.
    pub fn under_way(&self) -> Option<&Asked> {
        self.playback.asked().filter(|asked| asked.sent.is_some())
    }

    /// Returns true if the first byte of an answer is missing, or any of a playlist.
    pub fn is_waiting(&self) -> bool {
        self.under_way().is_some_and(|asked| asked.first_byte.is_none() || !asked.is_media())
    }

    /// Returns true if a connection that was closed now had been closed for idleness, most likely: it had served
    /// before, and nothing of an answer is there.
    pub fn is_stale(&self) -> bool {
        self.answered > 0 && !self.is_retried && !self.reception.has_begun()
    }
}
