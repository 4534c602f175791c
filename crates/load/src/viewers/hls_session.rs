//! A viewer's session by HLS: its playback, and the connection on which it asks for the parts.

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
    /// `None` once it is closed, until there is another request.
    pub(crate) connection: Option<HttpConnection>,
    /// True if the request under way has been sent on an earlier connection, which was closed before it was answered.
    pub is_retried: bool,
    /// True if the generator was too late for the response under way to have a valid time of arrival.
    pub is_void: bool,
    /// When bytes of a response arrived last, media or not.
    pub last_byte: Option<Nanos>,
    /// When the first bytes of media arrived.
    pub first_media: Option<Nanos>,
    /// True if the player was seen to begin.
    pub has_begun: bool,
}

impl fmt::Debug for HlsSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HlsSession").field("playback", &self.playback).finish_non_exhaustive()
    }
}

impl HlsSession {
    /// A session on a connection that began at `opened`.
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

    /// Has another connection from now on, which began at `opened`.
    pub(crate) fn connect(&mut self, socket: OwnedFd, opened: Nanos) -> &mut HttpConnection {
        let response = ResponseReader::keeping(PLAYLIST_BYTES_MAX);
        self.connection.insert(HttpConnection::new(socket, opened, response))
    }

    pub fn connecting_since(&self) -> Option<Nanos> {
        let connection = self.connection.as_ref()?;
        (connection.state == State::Connecting).then_some(connection.opened)
    }

    /// The request that was sent and is not answered in full.
    pub fn under_way(&self) -> Option<&HlsRequest> {
        self.playback.request().filter(|request| request.sent.is_some())
    }

    /// Returns true if the first byte of a response is missing, or any of a playlist.
    pub fn is_waiting(&self) -> bool {
        self.under_way().is_some_and(|request| request.first_byte.is_none() || !request.is_media())
    }
}
