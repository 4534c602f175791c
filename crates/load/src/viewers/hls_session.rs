//! A viewer's HLS session: its playback, and the connection for its requests.

use std::{fmt, os::fd::OwnedFd};

use sojourn_measure::Nanos;

use crate::{
    hls::{
        playback::{HlsRequest, Playback},
        playlist::PLAYLIST_BYTES_MAX,
    },
    http::{
        connection::{HttpConnection, State},
        response_reader::ResponseReader,
    },
};

pub struct HlsSession {
    pub playback: Playback,
    /// `None` after it was closed, until the next request.
    pub(crate) connection: Option<HttpConnection>,
    /// True if the pending request was already sent on an earlier connection that was closed before the response.
    pub is_retried: bool,
    /// True if the generator was too late for the pending response to have a valid arrival time.
    pub is_void: bool,
    /// When bytes of a response last arrived, media or not.
    pub last_byte: Option<Nanos>,
    /// When the first bytes of media arrived.
    pub first_media: Option<Nanos>,
    /// True once the player was seen to start.
    pub has_begun: bool,
}

impl fmt::Debug for HlsSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HlsSession").field("playback", &self.playback).finish_non_exhaustive()
    }
}

impl HlsSession {
    /// A session on a connection that was started at `opened`.
    pub fn new(playback: Playback, socket: OwnedFd, opened: Nanos) -> HlsSession {
        let mut session = HlsSession {
            playback,
            connection: None,
            is_retried: false,
            is_void: false,
            last_byte: None,
            first_media: None,
            has_begun: false,
        };
        session.connect(socket, opened);
        session
    }

    /// Continues on another connection, started at `opened`.
    pub(crate) fn connect(&mut self, socket: OwnedFd, opened: Nanos) -> &mut HttpConnection {
        let response = ResponseReader::keeping(PLAYLIST_BYTES_MAX);
        self.connection.insert(HttpConnection::new(socket, opened, response))
    }

    pub fn connecting_since(&self) -> Option<Nanos> {
        let connection = self.connection.as_ref()?;
        (connection.state == State::Connecting).then_some(connection.opened)
    }

    /// The request that was sent and not completely answered.
    pub fn under_way(&self) -> Option<&HlsRequest> {
        self.playback.request().filter(|request| request.sent.is_some())
    }

    /// Returns true if the first byte of a response is missing, or any byte of a playlist.
    pub fn is_waiting(&self) -> bool {
        self.under_way().is_some_and(|request| request.first_byte.is_none() || !request.is_media())
    }
}
