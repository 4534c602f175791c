//! Certificates and ticket keys. The protocol is in `connection/tls`.

use std::sync::Arc;

use rustls::client::ClientConnection;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use rustls::server::{ServerConnection, ServerSessionMemoryCache};
use rustls::{ClientConfig, ServerConfig};

mod certificate;
mod names;
mod suites;
mod tickets;

pub use certificate::{CERTIFICATES_MAX, CertificateError, CertificateFiles};
pub(crate) use suites::prefers_chacha20;
pub use tickets::{TICKETS_STATE_BYTES, Tickets};

/// HTTP/2 in ALPN (RFC 9113, 3.2).
pub(crate) const H2: &[u8] = b"h2";

/// The protocols offered in ALPN (RFC 7301, 6), the preferred first.
pub(crate) const ALPN: &[&[u8]] = &[H2, b"http/1.1"];

/// Cached sessions of clients that resume by session ID (TLS 1.2) instead of a ticket; each process has its own cache.
const SESSIONS_KEPT_MAX: usize = 1024;

/// Tickets per connection, unless the client says how many it wants (RFC 9149): whoever uses one gets the next one.
const TICKETS: usize = 1;

/// The most tickets that a client gets because it asks for them.
const TICKETS_ASKED_FOR_MAX: usize = 4;

/// The TLS configuration; every process of a server has a copy.
#[derive(Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
    /// The same, but the client's preference decides about the cipher suite.
    client_order: Arc<ServerConfig>,
    tickets: Arc<Tickets>,
}

impl Tls {
    /// Reads the certificates in `files`. A client without SNI, or with an unknown name, gets the first one. Sessions
    /// are resumed with `tickets`.
    ///
    /// # Errors
    /// Which file is wrong, and how.
    pub fn new(files: &[CertificateFiles], tickets: Tickets) -> Result<Tls, CertificateError> {
        if files.len() > CERTIFICATES_MAX {
            return Err(CertificateError::TooMany(files.len()));
        }
        let provider = CryptoProvider { cipher_suites: suites::SUITES.to_vec(), ..default_provider() };
        let provider = Arc::new(provider);
        let certificates = files.iter().map(|files| files.read(&provider)).collect::<Result<_, _>>()?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has suites for both versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(names::ByName::new(certificates)));
        let tickets = Arc::new(tickets);
        config.alpn_protocols = ALPN.iter().map(|name| name.to_vec()).collect();
        config.ticketer = Arc::clone(&tickets) as _;
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS_KEPT_MAX);
        config.send_tls13_tickets = TICKETS;
        config.max_tls13_tickets = TICKETS_ASKED_FOR_MAX;
        let client_order = Arc::new(config.clone());
        config.ignore_client_order = true;
        Ok(Tls { config: Arc::new(config), client_order, tickets })
    }

    /// The server's session for a new connection.
    pub fn accept(&self) -> NewSession {
        NewSession { session: session(&self.config), client_order: Arc::clone(&self.client_order) }
    }

    /// The ticket keys, for a program that serves one connection.
    pub fn tickets(&self) -> &Tickets {
        &self.tickets
    }
}

/// The server's session of a connection from which nothing has arrived yet.
#[derive(Debug)]
pub struct NewSession {
    pub session: ServerConnection,
    /// The configuration for a client that prefers ChaCha20.
    pub client_order: Arc<ServerConfig>,
}

/// A session with this configuration.
pub(crate) fn session(config: &Arc<ServerConfig>) -> ServerConnection {
    ServerConnection::new(Arc::clone(config)).expect("a configuration without a fragment size")
}

/// TLS to an upstream: the expected name, and the trusted authorities.
#[derive(Clone, Debug)]
pub struct UpstreamTls {
    /// Authorities, protocols, and session cache; upstreams may share it.
    pub config: Arc<ClientConfig>,
    /// The name that is sent as SNI and that the certificate must have.
    pub name: ServerName<'static>,
}

impl UpstreamTls {
    /// The client's session for a new connection.
    pub fn connect(&self) -> ClientConnection {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .expect("a configuration without a fragment size")
    }
}
