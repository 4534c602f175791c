//! TLS to upstreams: the expected name, and the trusted authorities.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::ClientConnection;
use rustls::pki_types::ServerName;

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
