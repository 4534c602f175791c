//! TLS to upstreams: their names, and the trusted authorities.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::ClientConnection;
use rustls::pki_types::ServerName;

#[derive(Clone, Debug)]
pub struct UpstreamTls {
    /// Authorities, protocols, and sessions to be resumed; upstreams may share it.
    pub config: Arc<ClientConfig>,
    /// The name that its certificate has to be for, and that it is told.
    pub name: ServerName<'static>,
}

impl UpstreamTls {
    /// This side of a new connection.
    pub fn connect(&self) -> ClientConnection {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .expect("a configuration without a fragment size")
    }
}
