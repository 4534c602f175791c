//! A viewer's session by RTSP: the connection it speaks on, and the tracks it receives.

use std::{
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
};

use sojourn_measure::Nanos;
use sojourn_media::rtsp::Parser;

use crate::{
    playout::track::Playout,
    rtsp::dialogue::Dialogue,
    runtime::{read_rate::ReadRate, udp::UdpPair},
};

/// A viewer with more unsent bytes sends no more reports and answers: the server does not read.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub struct RtspSession {
    pub socket: OwnedFd,
    /// Our end of the connection; reports and packets go to the same address.
    pub local: Option<IpAddr>,
    pub dialogue: Dialogue,
    /// Received and not yet parsed.
    pub input: Vec<u8>,
    pub parser: Parser,
    /// Not yet sent.
    pub output: Vec<u8>,
    /// How fast the connection may be read, if not as fast as possible.
    pub read_rate: Option<ReadRate>,
    pub tracks: Vec<TrackReceiver>,
    pub play_requested: Nanos,
    pub reports_due: Nanos,
    pub keep_alive_due: Nanos,
}

/// The receiver of a track: its transport, and the packets that arrived.
#[derive(Debug)]
pub struct TrackReceiver {
    pub playout: Playout,
    /// The payload type that the description named.
    pub payload_type: u8,
    /// `None` if the packets come in the RTSP connection.
    pub udp: Option<UdpPair>,
    /// The channels of the connection that packets and reports use.
    pub channels: (u8, u8),
    /// True if the server has granted the transport; no datagram is its own before that.
    pub is_granted: bool,
    /// The server's ports, of packets and of reports, if it says.
    pub server_ports: Option<(u16, u16)>,
    /// The last sender report: the middle of its time, and when it arrived.
    pub sender_report: Option<(u32, Nanos)>,
    /// True if the source said that it leaves.
    pub is_over: bool,
}

impl RtspSession {
    /// A session on a connection that is not established yet.
    pub fn new(socket: OwnedFd, dialogue: Dialogue) -> RtspSession {
        RtspSession {
            socket,
            local: None,
            dialogue,
            input: Vec::new(),
            parser: Parser::default(),
            output: Vec::new(),
            read_rate: None,
            tracks: Vec::new(),
            play_requested: Nanos::ZERO,
            reports_due: Nanos::MAX,
            keep_alive_due: Nanos::MAX,
        }
    }

    /// Notes the transports that the server has granted so far.
    pub fn note_transports(&mut self) {
        for (track, granted) in self.tracks.iter_mut().zip(self.dialogue.granted()) {
            let Some(transport) = granted.as_ref().filter(|_| !track.is_granted) else { continue };
            track.is_granted = true;
            if let Some(ssrc) = transport.source {
                track.playout.name_source(ssrc);
            }
            track.channels = transport.channels.unwrap_or(track.channels);
            track.server_ports = transport.server_ports;
        }
    }

    /// How much of the film has not arrived, as far as its length is known.
    pub fn left_seconds(&self) -> Option<f64> {
        let furthest = self.tracks.iter().map(|track| track.playout.media_seconds()).fold(0.0, f64::max);
        Some(self.dialogue.left_seconds()? - furthest)
    }

    /// Returns true if a source said that it leaves.
    pub fn is_over(&self) -> bool {
        self.tracks.iter().any(|track| track.is_over)
    }
}

impl TrackReceiver {
    /// Returns true if a datagram may be the server's: it comes from it, and from the port that it named. Others may be
    /// those of a session that ended, whose ports are ours now.
    pub fn may_come_from(&self, server: IpAddr, from: SocketAddr, port: fn((u16, u16)) -> u16) -> bool {
        self.is_granted
            && from.ip().to_canonical() == server.to_canonical()
            && self.server_ports.is_none_or(|ports| port(ports) == from.port())
    }
}
