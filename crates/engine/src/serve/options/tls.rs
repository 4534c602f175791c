//! TLS listeners and certificates.

use std::path::PathBuf;

/// TLS.
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
