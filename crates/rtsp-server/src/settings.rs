//! Settings and limits of the streaming server, each with its name on the command line.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Settings {
    /// The most bits per second reserved for all sessions; `None` for no limit.
    pub bandwidth_bits_per_second: Option<u64>,
    pub connections_max: usize,
    /// The most RTSP connections from one address.
    pub connections_per_address: Option<u32>,
    pub sessionless_connections_max: usize,
    /// The most sessions that play or have played.
    pub sessions_max: usize,
    pub sessions_per_address: Option<u32>,
    /// The most sessions that have never played.
    pub setups_max: usize,
    pub films_max: usize,
    /// A session ends when its client has been silent for this long.
    pub session_timeout: Duration,
    /// A session ends when it has not played for this long after its setup.
    pub setup_timeout: Duration,
    /// Timeout for receiving a request.
    pub head_timeout: Duration,
    /// Timeout for opening a film.
    pub open_timeout: Duration,
    /// While data comes from the disk later than this after it was due, on average, no other session begins to play.
    pub read_delay_max: Duration,
    /// How long a connection may have neither a session nor a request.
    pub idle_timeout: Duration,
    /// How long a client may read nothing of queued data.
    pub send_timeout: Duration,
    pub body_cache_bytes: usize,
    pub helpers: usize,
    /// Read-ahead: how long before its due time data is read from disk; zero reads it when it is due.
    pub look_ahead: Duration,
    /// A fixed, even port for RTP.
    pub rtp_port: Option<u16>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            bandwidth_bits_per_second: None,
            connections_max: 16 * 1024,
            connections_per_address: None,
            sessionless_connections_max: 1024,
            sessions_max: 16 * 1024,
            sessions_per_address: None,
            setups_max: 4096,
            films_max: 1024,
            session_timeout: Duration::from_secs(60),
            setup_timeout: Duration::from_secs(15),
            head_timeout: Duration::from_secs(15),
            open_timeout: Duration::from_secs(3),
            read_delay_max: Duration::from_millis(250),
            idle_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(30),
            body_cache_bytes: 128 << 20,
            helpers: 4,
            look_ahead: Duration::ZERO,
            rtp_port: None,
        }
    }
}
