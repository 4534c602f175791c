//! One viewer: what it plays, how far it is, and what it has received.

use std::{
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
};

use sojourn_measure::Nanos;
use sojourn_media::rtsp::Parser;

use crate::{
    hls::course::Course,
    playout::track::Playout,
    rtsp::dialogue::Dialogue,
    runtime::{read_rate::Reader, udp::UdpPair},
    viewers::{
        conformance::Ending,
        counts::Counts,
        sockets::OpenedBy,
        wakeups::{CONNECTION_SLOT, EventSource},
    },
};

/// A viewer with more unsent bytes is given up: the server does not read.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// From the last packet of a film, once so little is left of it, ...
pub const FILM_REST_SECONDS: f64 = 1.0;
/// ... and nothing came for so long, it is over.
pub const FILM_OVER_AFTER: Nanos = Nanos(2_000_000_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// As it should: its streams are judged.
    Usual,
    Slow,
    /// It falls silent without a word, so long after it began to play.
    Vanishing(Nanos),
}

/// How far a viewer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its connection is not there yet.
    Connecting,
    Talking,
    Playing,
    /// The end of the session is to be answered.
    Leaving,
    /// It neither reads nor says anything any more.
    Gone,
}

/// How the packets of a track come, and what became of them.
#[derive(Debug)]
pub struct TrackWay {
    /// The player's state.
    pub playout: Playout,
    /// The payload type that they should have.
    pub payload_type: u8,
    /// Where they come by UDP.
    pub udp: Option<UdpPair>,
    /// The channels of the connection on which they and reports come.
    pub channels: (u8, u8),
    /// True if the server has said how they come; nothing is its own before that.
    pub is_granted: bool,
    /// The server's ports, of packets and of reports, if it says.
    pub server_ports: Option<(u16, u16)>,
    /// The last sender report: the middle of its time, and when it came.
    pub sender_report: Option<(u32, Nanos)>,
    /// True if the source said that it leaves.
    pub is_over: bool,
}

impl TrackWay {
    /// Returns true if a datagram may be the server's: it comes from it, and from the port that it named. Others may be
    /// those of a session that ended, whose ports are ours now.
    pub fn may_come_from(&self, server: IpAddr, from: SocketAddr, port: fn((u16, u16)) -> u16) -> bool {
        self.is_granted
            && from.ip().to_canonical() == server.to_canonical()
            && self.server_ports.is_none_or(|ports| port(ports) == from.port())
    }
}

/// One viewer, from its connection to the end of its session.
#[derive(Debug)]
pub struct Viewer {
    pub serial: u32,
    pub manner: Manner,
    pub phase: Phase,
    pub server: IpAddr,
    pub dialogue: Dialogue,
    /// Its HLS state; such a viewer does not speak RTSP.
    pub hls: Option<Box<Course>>,
    pub socket: OwnedFd,
    pub(crate) opened_by: OpenedBy,
    /// Our end of the connection; reports and packets go to the same address.
    pub local: Option<IpAddr>,
    /// Received and not yet taken apart.
    pub input: Vec<u8>,
    pub parser: Parser,
    pub output: Vec<u8>,
    pub reader: Option<Reader>,
    pub tracks: Vec<TrackWay>,
    pub counts: Counts,
    pub began: Nanos,
    /// When the last request was sent, or connecting began.
    pub asked: Nanos,
    pub play_asked: Nanos,
    pub playing_since: Option<Nanos>,
    /// When the first of media came by HTTP.
    pub first_media: Option<Nanos>,
    pub last_packet: Option<Nanos>,
    /// When receiver reports and signs of life are due.
    pub reports_due: Nanos,
    pub sign_of_life_due: Nanos,
    pub leave_by: Nanos,
    pub ending: Option<Ending>,
}

impl Viewer {
    /// The name of its connection in epoll.
    pub(crate) fn connection_source(&self, key: usize) -> EventSource {
        EventSource { viewer: key, serial: self.serial, slot: CONNECTION_SLOT }
    }

    /// Learns how packets come, as far as the server has said so.
    pub fn learn_ways(&mut self) {
        for (way, granted) in self.tracks.iter_mut().zip(self.dialogue.granted()) {
            let Some(transport) = granted.as_ref().filter(|_| !way.is_granted) else { continue };
            way.is_granted = true;
            if let Some(ssrc) = transport.source {
                way.playout.name_source(ssrc);
            }
            way.channels = transport.channels.unwrap_or(way.channels);
            way.server_ports = transport.server_ports;
        }
    }

    /// Returns true if its streams say something of the server.
    pub fn is_judged(&self) -> bool {
        self.manner == Manner::Usual
    }

    /// Returns true if a request is to be answered.
    pub fn is_waiting(&self) -> bool {
        self.hls.as_ref().map_or_else(|| self.dialogue.is_waiting(), |course| course.is_waiting())
    }

    /// When its first packet came, or the first of a segment.
    pub fn first_packet(&self) -> Option<Nanos> {
        let packets = self.tracks.iter().filter_map(|track| track.playout.first_arrival());
        packets.chain(self.first_media).min()
    }

    /// Packets that were sent to it and that were lost, by their numbers; or segments.
    pub fn expected_and_lost(&self) -> (u64, u64) {
        if let Some(course) = &self.hls {
            return course.playback.expected_and_lost();
        }
        let all = self.tracks.iter().map(|track| (track.playout.expected(), track.playout.lost()));
        all.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
    }

    /// Returns true if the film is over but for its last second, as far as its length is known.
    pub fn is_near_end(&self, now: Nanos) -> bool {
        if let Some(course) = &self.hls {
            return course
                .playback
                .player()
                .left(now)
                .is_some_and(|left| left.seconds() <= FILM_REST_SECONDS);
        }
        let furthest = self.tracks.iter().map(|track| track.playout.media_seconds()).fold(0.0, f64::max);
        self.dialogue.left_seconds().is_some_and(|left| furthest >= left - FILM_REST_SECONDS)
    }

    /// Returns true if the film is over: near its end or without one nothing comes any more, or every source said so.
    pub fn has_seen_all(&self, now: Nanos) -> bool {
        if let Some(course) = &self.hls {
            return course.playback.player().left(now) == Some(Nanos::ZERO);
        }
        let Some(last) = self.last_packet else { return false };
        let said_so = self.tracks.iter().any(|track| track.is_over);
        let is_silent = now - last >= FILM_OVER_AFTER;
        is_silent && (self.is_near_end(now) || (said_so && self.dialogue.left_seconds().is_none()))
    }

    /// Returns true if a source said that it leaves in the middle of the film.
    pub fn was_left(&self, now: Nanos) -> bool {
        let is_silent = self.last_packet.is_some_and(|last| now - last >= FILM_OVER_AFTER);
        is_silent && self.tracks.iter().any(|track| track.is_over)
    }

    /// Adds up the time with nothing to show that no packet has ended yet.
    pub fn starve_until(&mut self, now: Nanos) {
        if let Some(course) = &mut self.hls {
            let (begins, length) = course.playback.player_mut().stall_until(now);
            self.counts.starve(begins, length);
        }
        for track in &mut self.tracks {
            let (begins, length) = track.playout.starve_until(now);
            self.counts.starve(begins, length);
        }
    }
}
