//! Where TLS is spoken, and with which certificates.

use std::path::PathBuf;

/// TLS.
#[derive(clap::Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsOptions {
    /// Address and port where TLS is spoken (HTTPS), also several times
    #[arg(long, value_name = "ADDR")]
    pub tls_listen: Vec<String>,
    /// Certificate chain in PEM, the server's own certificate first; of several each client gets the one for the name
    /// that it asks for, or the first
    #[arg(long, value_name = "FILE")]
    pub tls_certificate: Vec<PathBuf>,
    /// Its private key in PEM; of several in the order of the certificates
    #[arg(long, value_name = "FILE")]
    pub tls_key: Vec<PathBuf>,
}
