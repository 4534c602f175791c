//! Settings and limits of the streaming server, each with its name on the command line.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Settings {
    /// Bits per second that all sessions together may be promised; `None` promises any.
    pub bandwidth_bits_per_second: Option<u64>,
    /// RTSP connections open at once.
    pub connections_max: usize,
    /// RTSP connections open at once from one address.
    pub connections_per_address: Option<u32>,
    pub sessionless_connections_max: usize,
    /// Sessions that play or have played.
    pub sessions_max: usize,
    pub sessions_per_address: Option<u32>,
    /// Sessions that have never played.
    pub setups_max: usize,
    /// Films whose index is kept in memory.
    pub films_max: usize,
    /// A session ends when its client has said nothing for so long.
    pub session_timeout: Duration,
    /// A session ends when it has not played for so long since it was set up.
    pub setup_timeout: Duration,
    /// How long a request may take to arrive.
    pub head_timeout: Duration,
    /// How long a connection may have neither a session nor a request.
    pub idle_timeout: Duration,
    /// How long a client may take nothing of what waits for it.
    pub send_timeout: Duration,
    /// Parts of films kept in memory, in bytes.
    pub body_cache_bytes: usize,
    /// Threads that wait for the disk.
    pub helpers: usize,
    /// Read-ahead: how long before its due time data is read from the disk; zero reads it when it is due.
    pub look_ahead: Duration,
    /// The even port of RTP, if it is to be a certain one.
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
            idle_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(30),
            body_cache_bytes: 128 << 20,
            helpers: 4,
            look_ahead: Duration::ZERO,
            rtp_port: None,
        }
    }
}
