//! Where the server listens, and how connections are accepted.

use std::time::Duration;

use super::values::duration;

/// Listening sockets.
#[derive(clap::Args)]
#[command(next_help_heading = "Listening")]
pub struct ListenOptions {
    /// Address and port to listen on; repeatable; port 0 chooses a free one. With socket activation, the passed sockets
    /// are used [default: 127.0.0.1:8080, or none with --tls-listen]
    #[arg(long, value_name = "ADDR")]
    pub listen: Vec<String>,
    /// TCP congestion control, one of net.ipv4.tcp_available_congestion_control [default: the system's]
    #[arg(long, value_name = "NAME")]
    pub congestion_control: Option<String>,
    /// Accept a connection when its first bytes have arrived, or after about this time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub defer_accept: Option<Duration>,
    /// Address and port of the admin listener with GET /metrics
    #[arg(long, value_name = "ADDR")]
    pub admin_listen: Option<String>,
}
