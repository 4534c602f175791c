//! Where the server listens, how connections are accepted, and its certificates.

use std::path::PathBuf;
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
    /// Connections that may wait to be accepted, if they do not wait longer than --accept-wait-max; the kernel caps it at
    /// net.core.somaxconn [default: 4096, or what a service manager chose]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=65535))]
    pub backlog: Option<i32>,
    /// Accept a connection when its first bytes have arrived, or after about this time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub defer_accept: Option<Duration>,
    /// Address and port of the admin listener with GET /metrics
    #[arg(long, value_name = "ADDR")]
    pub admin_listen: Option<String>,
}

/// TLS listeners and certificates.
#[derive(clap::Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsOptions {
    /// Address and port for TLS (HTTPS); repeatable
    #[arg(long, value_name = "ADDR")]
    pub tls_listen: Vec<String>,
    /// Certificate chain in PEM, the server's own certificate first; repeatable: a client gets the one for the name it
    /// requests (SNI), or the first
    #[arg(long, value_name = "FILE")]
    pub tls_certificate: Vec<PathBuf>,
    /// Private key in PEM; repeatable, in the order of the certificates
    #[arg(long, value_name = "FILE")]
    pub tls_key: Vec<PathBuf>,
    /// OCSP response in DER to staple to the certificate; repeatable, in the order of the certificates
    #[arg(long, value_name = "FILE")]
    pub tls_ocsp: Vec<PathBuf>,
}
