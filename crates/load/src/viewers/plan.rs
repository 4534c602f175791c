//! A load of viewers as data: films, arrivals, behaviour, quality rules, timeouts.

use sojourn_measure::Nanos;

use crate::{hls::playback::HlsPlan, viewers::film::Film};

const SECOND: u64 = 1_000_000_000;
/// The plan of a run of viewers.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// Assigned to the clients in turn.
    pub films: Vec<Film>,
    /// Concurrent viewers. A viewer whose film ends starts the next film.
    pub clients: u32,
    /// Viewers that start per second at first.
    pub clients_per_second: f64,
    /// How long the run continues once all viewers have started.
    pub duration: Nanos,
    /// How media are sent; always HTTP for HLS.
    pub transport: Transport,
    pub hls: HlsPlan,
    /// True to start anywhere in the film.
    pub random_start: bool,
    /// The share of viewers that read too slowly; not with UDP, where it would make no difference.
    pub slow_share: f64,
    pub slow_bytes_per_second: f64,
    /// The share that vanishes while playing, as if a cable were pulled.
    pub vanishing_share: f64,
    /// The rules for conforming streams.
    pub quality: Quality,
    pub limits: StreamLimits,
    /// The receive buffer size of UDP sockets, if not the system's default.
    pub receive_buffer_bytes: Option<usize>,
    pub interval: Nanos,
    /// The seed of all random draws.
    pub seed: u64,
    /// The core that the generator is pinned to.
    pub core: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// RTP over UDP, to ports of the client.
    Udp,
    /// RTP interleaved in the RTSP connection.
    Interleaved,
    /// HLS: in the bodies of responses.
    Http,
}

impl Transport {
    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Udp => "udp",
            Transport::Interleaved => "tcp",
            Transport::Http => "http",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// How long after its first packet a track is shown; how much media an HLS player buffers first.
    pub prebuffer: Nanos,
    /// The largest share of packets that may be late or lost.
    pub late_or_lost_max: f64,
    /// The minimum media time that must arrive per second; with a nominal rate, the minimum share of it.
    pub pace_min: f64,
    /// The film's bit rate, if streams are to be judged by it.
    pub nominal_bits_per_second: Option<f64>,
}

impl Default for Quality {
    fn default() -> Self {
        Quality {
            prebuffer: Nanos(5 * SECOND),
            late_or_lost_max: 0.01,
            pace_min: 0.95,
            nominal_bits_per_second: None,
        }
    }
}

/// Timeouts, and the limit on the generator's lateness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    pub reply_timeout: Nanos,
    /// From the response to PLAY to the first packet.
    pub first_packet_timeout: Nanos,
    /// The longest accepted pause between packets.
    pub silence_timeout: Nanos,
    /// A packet that the generator reads this much later than it arrived is a void sample.
    pub receive_lag: Nanos,
}

impl Default for StreamLimits {
    fn default() -> Self {
        StreamLimits {
            reply_timeout: Nanos(10 * SECOND),
            first_packet_timeout: Nanos(10 * SECOND),
            silence_timeout: Nanos(8 * SECOND),
            receive_lag: Nanos(10_000_000),
        }
    }
}
