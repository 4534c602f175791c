//! One viewer: what it plays, how far it is, and what it has received.

use std::{
    net::IpAddr,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::event::epoll::EventFlags;
use sojourn_measure::Nanos;

use crate::{
    runtime::read_rate::ReadRate,
    viewers::{
        conformance::Ending,
        counts::Counts,
        hls_session::HlsSession,
        rtsp_session::{RtspSession, TrackReceiver},
        sockets::OpenedBy,
        wakeups::{CONNECTION_SLOT, EventSource},
    },
};

/// From the last packet of a film, once so little is left of it, ...
pub const FILM_REST_SECONDS: f64 = 1.0;
/// ... and nothing arrived for so long, it is over.
pub const FILM_OVER_AFTER: Nanos = Nanos(2_000_000_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// As it should: its streams are judged.
    Normal,
    /// It reads too slowly.
    Slow,
    /// It stops reading and sending without closing, so long after it began to play.
    Vanishing(Nanos),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its first connection is not established yet.
    Connecting,
    /// It sets up its session, or loads playlists.
    Preparing,
    Playing,
    /// The end of the session is to be answered by then.
    TearingDown {
        deadline: Nanos,
    },
    /// It neither reads nor sends any more.
    Vanished,
}

/// One viewer, from its connection to the end of its session.
#[derive(Debug)]
pub struct Viewer {
    pub serial: u32,
    pub behaviour: Behaviour,
    pub phase: Phase,
    pub server: IpAddr,
    pub(crate) opened_by: OpenedBy,
    pub(crate) protocol: Protocol,
    pub counts: Counts,
    pub began: Nanos,
    /// When the last request was sent, or connecting began.
    pub requested: Nanos,
    pub playing_since: Option<Nanos>,
    /// When the last packet arrived, or the last bytes of media.
    pub last_packet: Option<Nanos>,
    pub ending: Option<Ending>,
}

#[derive(Debug)]
pub(crate) enum Protocol {
    Rtsp(Box<RtspSession>),
    Hls(Box<HlsSession>),
}

impl Viewer {
    pub(crate) fn rtsp(&self) -> Option<&RtspSession> {
        match &self.protocol {
            Protocol::Rtsp(session) => Some(session),
            Protocol::Hls(_) => None,
        }
    }

    pub(crate) fn rtsp_mut(&mut self) -> Option<&mut RtspSession> {
        match &mut self.protocol {
            Protocol::Rtsp(session) => Some(session),
            Protocol::Hls(_) => None,
        }
    }

    pub(crate) fn hls(&self) -> Option<&HlsSession> {
        match &self.protocol {
            Protocol::Hls(session) => Some(session),
            Protocol::Rtsp(_) => None,
        }
    }

    pub(crate) fn hls_mut(&mut self) -> Option<&mut HlsSession> {
        match &mut self.protocol {
            Protocol::Hls(session) => Some(session),
            Protocol::Rtsp(_) => None,
        }
    }

    pub fn is_connecting(&self) -> bool {
        self.phase == Phase::Connecting
    }

    pub fn is_vanished(&self) -> bool {
        self.phase == Phase::Vanished
    }

    /// The tracks that are received as packets.
    pub(crate) fn tracks(&self) -> &[TrackReceiver] {
        self.rtsp().map_or(&[], |session| &session.tracks)
    }

    pub(crate) fn tracks_mut(&mut self) -> &mut [TrackReceiver] {
        self.rtsp_mut().map_or(&mut [], |session| &mut session.tracks)
    }

    /// The name of its connection in epoll.
    pub(crate) fn connection_source(&self, key: usize) -> EventSource {
        EventSource { viewer: key, serial: self.serial, slot: CONNECTION_SLOT }
    }

    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.protocol {
            Protocol::Rtsp(session) => Some(session.socket.as_fd()),
            Protocol::Hls(session) => session.connection.as_ref().map(|connection| connection.socket.as_fd()),
        }
    }

    /// The limit on how fast its connection is read, where there is one.
    pub(crate) fn read_rate(&mut self) -> Option<&mut ReadRate> {
        match &mut self.protocol {
            Protocol::Rtsp(session) => session.read_rate.as_mut(),
            Protocol::Hls(session) => session.connection.as_mut()?.read_rate.as_mut(),
        }
    }

    /// What its connection is to be watched for: room where something is unsent, bytes unless they may not be read yet.
    pub(crate) fn interest(&mut self) -> EventFlags {
        let has_unsent = match &self.protocol {
            Protocol::Rtsp(session) => !session.output.is_empty(),
            Protocol::Hls(session) => session.connection.as_ref().is_some_and(|each| each.has_unsent()),
        };
        let is_limited = self.read_rate().is_some_and(|rate| rate.waiting);
        let writable = if has_unsent { EventFlags::OUT } else { EventFlags::empty() };
        if is_limited { writable } else { writable | EventFlags::IN }
    }

    /// Returns true if its streams say something of the server.
    pub fn is_judged(&self) -> bool {
        self.behaviour == Behaviour::Normal
    }

    /// Returns true if a request is to be answered.
    pub fn is_waiting(&self) -> bool {
        match &self.protocol {
            Protocol::Rtsp(session) => session.dialogue.is_waiting(),
            Protocol::Hls(session) => session.is_waiting(),
        }
    }

    /// When its first packet arrived, or the first bytes of a segment.
    pub fn first_packet(&self) -> Option<Nanos> {
        match &self.protocol {
            Protocol::Rtsp(session) => {
                session.tracks.iter().filter_map(|track| track.playout.first_arrival()).min()
            }
            Protocol::Hls(session) => session.first_media,
        }
    }

    /// Packets that were sent to it and that were lost, by their numbers; or segments.
    pub fn expected_and_lost(&self) -> (u64, u64) {
        match &self.protocol {
            Protocol::Rtsp(session) => {
                let all = session.tracks.iter().map(|track| (track.playout.expected(), track.playout.lost()));
                all.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
            }
            Protocol::Hls(session) => session.playback.expected_and_lost(),
        }
    }

    /// Returns true if the film is over but for its last second, as far as its length is known.
    pub fn is_near_end(&self, now: Nanos) -> bool {
        let left_seconds = match &self.protocol {
            Protocol::Rtsp(session) => session.left_seconds(),
            Protocol::Hls(session) => session.playback.player().left(now).map(Nanos::seconds),
        };
        left_seconds.is_some_and(|left| left <= FILM_REST_SECONDS)
    }

    /// Returns true if the film is over: nothing arrives near its end, or after its source left where the end is unknown.
    pub fn is_film_over(&self, now: Nanos) -> bool {
        match &self.protocol {
            Protocol::Rtsp(session) => {
                let has_no_end = session.is_over() && session.dialogue.left_seconds().is_none();
                self.is_silent(now) && (self.is_near_end(now) || has_no_end)
            }
            Protocol::Hls(session) => session.playback.player().left(now) == Some(Nanos::ZERO),
        }
    }

    /// Returns true if a source said that it leaves in the middle of the film.
    pub fn has_source_left(&self, now: Nanos) -> bool {
        self.is_silent(now) && self.rtsp().is_some_and(RtspSession::is_over)
    }

    fn is_silent(&self, now: Nanos) -> bool {
        self.last_packet.is_some_and(|last| now - last >= FILM_OVER_AFTER)
    }

    /// Adds up the time with nothing to show that no packet has ended yet.
    pub fn starve_until(&mut self, now: Nanos) {
        let Viewer { protocol, counts, .. } = self;
        let mut count = |(begins, length)| counts.starve(begins, length);
        match protocol {
            Protocol::Rtsp(session) => {
                session.tracks.iter_mut().for_each(|track| count(track.playout.starve_until(now)));
            }
            Protocol::Hls(session) => count(session.playback.player_mut().stall_until(now)),
        }
    }
}
