//! A load of viewers as data: films, arrivals, behaviour, quality rules, timeouts.

use sojourn_measure::Nanos;

use crate::{hls::playback::HlsPlan, viewers::film::Film};

const SECOND: u64 = 1_000_000_000;
/// The plan of a run of viewers.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// Assigned to the clients in turn.
    pub films: Vec<Film>,
    /// Concurrent viewers. A viewer whose film ends starts the next.
    pub clients: u32,
    /// Viewers that start per second at the beginning.
    pub clients_per_second: f64,
    /// How long it goes on once all have started.
    pub duration: Nanos,
    /// How media are sent: by HTTP where the films are by HLS.
    pub transport: Transport,
    pub hls: HlsPlan,
    /// True if clients begin anywhere in the film.
    pub random_start: bool,
    /// The share that reads too slowly; not by UDP, where it would make no difference.
    pub slow_share: f64,
    pub slow_bytes_per_second: f64,
    /// The share that vanishes while it plays, as when a cable is pulled.
    pub vanishing_share: f64,
    /// The rules by which a stream conforms.
    pub quality: Quality,
    pub limits: StreamLimits,
    /// The size of UDP sockets' receive buffers, where the system's default is not wanted.
    pub receive_buffer_bytes: Option<usize>,
    pub interval: Nanos,
    /// Says everything that is random.
    pub seed: u64,
    /// The core that the generator is pinned to.
    pub core: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// To ports of the client.
    Udp,
    /// In the connection, between replies.
    Interleaved,
    /// As the bodies of answers: HLS.
    Http,
}

impl Transport {
    /// As it is typed and reported.
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
    /// How long after its first packet a track begins to be shown; how much media a player of HLS begins with.
    pub prebuffer: Nanos,
    /// The largest share of packets that may be late or lost.
    pub late_or_lost_max: f64,
    /// The least media time that has to arrive in a second; with a nominal rate, the least share of it.
    pub pace_min: f64,
    /// The rate that the film has, if it is to be judged by bits.
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
    /// From PLAY's answer to the first packet.
    pub first_packet_timeout: Nanos,
    /// From a packet to the next.
    pub silence_timeout: Nanos,
    /// A packet that the generator reads later than this after its arrival is a void sample.
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
