//! One viewer: what it plays, its state, and what it has received.

use std::{
    net::IpAddr,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::event::epoll::EventFlags;
use sojourn_measure::Nanos;

use crate::{
    runtime::read_rate::ReadRate,
    viewers::{
        counts::Counts,
        hls_session::HlsSession,
        rtsp_session::{RtspSession, TrackReceiver},
        verdict::Ending,
        wakeups::{CONNECTION_SLOT, EventSource},
    },
};

/// A film counts as ended if at most this much was left at its last packet, ...
pub const FILM_REST_SECONDS: f64 = 1.0;
/// ... and nothing arrived for this long.
pub const FILM_OVER_AFTER: Nanos = Nanos(2_000_000_000);

/// Which connector opened a connection, and from which of its source addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenedBy {
    pub(crate) connector: usize,
    pub(crate) source: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// A normal viewer, whose streams are judged.
    Normal,
    /// It reads too slowly.
    Slow,
    /// Stops reading and sending without closing, this long after it started to play.
    Vanishing(Nanos),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its first connection is not established yet.
    Connecting,
    /// It sets up its session, or loads playlists.
    Preparing,
    Playing,
    /// TEARDOWN must be answered by then.
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
    /// When the last request was sent, or connecting started.
    pub requested: Nanos,
    pub playing_since: Option<Nanos>,
    /// When the last packet, or the last bytes of media, arrived.
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

    /// The tracks received as packets.
    pub(crate) fn tracks(&self) -> &[TrackReceiver] {
        self.rtsp().map_or(&[], |session| &session.tracks)
    }

    pub(crate) fn tracks_mut(&mut self) -> &mut [TrackReceiver] {
        self.rtsp_mut().map_or(&mut [], |session| &mut session.tracks)
    }

    /// Its connection's ID in epoll.
    pub(crate) fn connection_source(&self, key: usize) -> EventSource {
        EventSource { viewer: key, serial: self.serial, slot: CONNECTION_SLOT }
    }

    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.protocol {
            Protocol::Rtsp(session) => Some(session.socket.as_fd()),
            Protocol::Hls(session) => session.connection.as_ref().map(|connection| connection.socket.as_fd()),
        }
    }

    /// The limit on how fast its connection is read, if there is one.
    pub(crate) fn read_rate(&mut self) -> Option<&mut ReadRate> {
        match &mut self.protocol {
            Protocol::Rtsp(session) => session.read_rate.as_mut(),
            Protocol::Hls(session) => session.connection.as_mut()?.read_rate.as_mut(),
        }
    }

    /// The events to wait for: writable if something is unsent, readable unless the read rate forbids it.
    pub(crate) fn interest(&mut self) -> EventFlags {
        let has_unsent = match &self.protocol {
            Protocol::Rtsp(session) => !session.output.is_empty(),
            Protocol::Hls(session) => session.connection.as_ref().is_some_and(|each| each.has_unsent()),
        };
        let is_limited = self.read_rate().is_some_and(|rate| rate.waiting);
        let writable = if has_unsent { EventFlags::OUT } else { EventFlags::empty() };
        if is_limited { writable } else { writable | EventFlags::IN }
    }

    /// Returns true if its streams show something about the server.
    pub fn is_judged(&self) -> bool {
        self.behaviour == Behaviour::Normal
    }

    /// Returns true if it waits for a response.
    pub fn is_waiting(&self) -> bool {
        match &self.protocol {
            Protocol::Rtsp(session) => session.client.is_waiting(),
            Protocol::Hls(session) => session.is_waiting(),
        }
    }

    /// When its first packet, or the first bytes of a segment, arrived.
    pub fn first_packet(&self) -> Option<Nanos> {
        match &self.protocol {
            Protocol::Rtsp(session) => {
                session.tracks.iter().filter_map(|track| track.playout.first_arrival()).min()
            }
            Protocol::Hls(session) => session.first_media,
        }
    }

    /// Packets (by sequence numbers) or segments that were expected and lost.
    pub fn expected_and_lost(&self) -> (u64, u64) {
        match &self.protocol {
            Protocol::Rtsp(session) => {
                let all = session.tracks.iter().map(|track| (track.playout.expected(), track.playout.lost()));
                all.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
            }
            Protocol::Hls(session) => session.playback.expected_and_lost(),
        }
    }

    /// Returns true in the film's last second, if its length is known.
    pub fn is_near_end(&self, now: Nanos) -> bool {
        let left_seconds = match &self.protocol {
            Protocol::Rtsp(session) => session.left_seconds(),
            Protocol::Hls(session) => session.playback.player().left(now).map(Nanos::seconds),
        };
        left_seconds.is_some_and(|left| left <= FILM_REST_SECONDS)
    }

    /// Returns true if the film has ended: nothing arrives near its end, or after BYE if the length is unknown.
    pub fn is_film_over(&self, now: Nanos) -> bool {
        match &self.protocol {
            Protocol::Rtsp(session) => {
                let has_no_end = session.is_over() && session.client.left_seconds().is_none();
                self.is_silent(now) && (self.is_near_end(now) || has_no_end)
            }
            Protocol::Hls(session) => session.playback.player().left(now) == Some(Nanos::ZERO),
        }
    }

    /// Returns true if the source sent BYE before the end of the film.
    pub fn has_source_left(&self, now: Nanos) -> bool {
        self.is_silent(now) && self.rtsp().is_some_and(RtspSession::is_over)
    }

    fn is_silent(&self, now: Nanos) -> bool {
        self.last_packet.is_some_and(|last| now - last >= FILM_OVER_AFTER)
    }

    /// Counts time with nothing to show that no packet has ended yet.
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
