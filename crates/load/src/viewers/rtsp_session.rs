//! A viewer's RTSP session: its connection, and the tracks it receives.

use std::{
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
};

use sojourn_measure::Nanos;
use sojourn_media::rtsp::Parser;

use crate::{
    playout::track::Playout,
    rtsp::client::RtspClient,
    runtime::{read_rate::ReadRate, udp::UdpPair},
};

/// With more unsent bytes a viewer sends no more reports and responses: the server does not read.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub struct RtspSession {
    pub socket: OwnedFd,
    /// The local address of the connection; packets and reports are sent to it.
    pub local: Option<IpAddr>,
    pub client: RtspClient,
    /// Received and not parsed yet.
    pub input: Vec<u8>,
    pub parser: Parser,
    /// Not yet sent.
    pub output: Vec<u8>,
    /// The limit on how fast the connection is read.
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
    /// The payload type in the description.
    pub payload_type: u8,
    /// `None` if packets are interleaved in the RTSP connection.
    pub udp: Option<UdpPair>,
    /// The interleaved channels of packets and reports.
    pub channels: (u8, u8),
    /// True if the server has granted the transport; datagrams before that are not from this session.
    pub is_granted: bool,
    /// The server's RTP and RTCP ports, if it names them.
    pub server_ports: Option<(u16, u16)>,
    /// The last sender report: the middle 32 bits of its time, and when it arrived.
    pub sender_report: Option<(u32, Nanos)>,
    /// True if the source sent BYE.
    pub is_over: bool,
}

impl RtspSession {
    /// A session on a connection that is not established yet.
    pub fn new(socket: OwnedFd, client: RtspClient) -> RtspSession {
        RtspSession {
            socket,
            local: None,
            client,
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

    /// Records the transports that the server has granted.
    pub fn note_transports(&mut self) {
        for (track, granted) in self.tracks.iter_mut().zip(self.client.granted()) {
            let Some(transport) = granted.as_ref().filter(|_| !track.is_granted) else { continue };
            track.is_granted = true;
            if let Some(ssrc) = transport.source {
                track.playout.name_source(ssrc);
            }
            track.channels = transport.channels.unwrap_or(track.channels);
            track.server_ports = transport.server_ports;
        }
    }

    /// The remaining length of the film, if it is known.
    pub fn left_seconds(&self) -> Option<f64> {
        let furthest = self.tracks.iter().map(|track| track.playout.media_seconds()).fold(0.0, f64::max);
        Some(self.client.left_seconds()? - furthest)
    }

    /// Returns true if a source sent BYE.
    pub fn is_over(&self) -> bool {
        self.tracks.iter().any(|track| track.is_over)
    }
}

impl TrackReceiver {
    /// Returns true if a datagram may be from the server: it has the server's address and announced port. Others may
    /// belong to an ended session that used the same ports.
    pub fn may_come_from(&self, server: IpAddr, from: SocketAddr, port: fn((u16, u16)) -> u16) -> bool {
        self.is_granted
            && from.ip().to_canonical() == server.to_canonical()
            && self.server_ports.is_none_or(|ports| port(ports) == from.port())
    }
}
