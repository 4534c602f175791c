//! Where the server listens, and how connections come in.

use std::time::Duration;

use super::values::duration;

/// Listening sockets.
#[derive(clap::Args)]
#[command(next_help_heading = "Listening")]
pub struct ListenOptions {
    /// Address and port, also several times; port 0 takes a free one; under socket activation they are the sockets
    /// that are passed [default: 127.0.0.1:8080, or none with --tls-listen]
    #[arg(long, value_name = "ADDR")]
    pub listen: Vec<String>,
    /// Congestion control of the connections, as in net.ipv4.tcp_available_congestion_control [default: the system's]
    #[arg(long, value_name = "NAME")]
    pub congestion_control: Option<String>,
    /// Accept a connection when its first bytes are there, or after about this time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub defer_accept: Option<Duration>,
    /// Address and port of a second listener with GET /metrics
    #[arg(long, value_name = "ADDR")]
    pub admin_listen: Option<String>,
}
