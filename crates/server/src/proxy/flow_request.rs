//! What of a client's request goes with its flow: its body, and what it may change.

use sojourn_http_cache::Target;

use super::flow::HELD_BYTES_MAX;

/// A request's body on its way to the upstream, framed as it is sent there.
#[derive(Debug, Default)]
pub struct Upload {
    /// What has arrived and is not sent.
    pub bytes: Vec<u8>,
    /// Nothing more will arrive.
    pub is_complete: bool,
    /// The upstream has asked for the body (100 Continue), and the client has not been told.
    pub is_asked_for: bool,
}

impl Upload {
    /// Whether there is something to send, or to be known.
    pub fn has_news(&self) -> bool {
        !self.bytes.is_empty() || self.is_complete
    }

    /// Whether no more is to be received of the client for now.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= HELD_BYTES_MAX
    }
}

/// What a request that is not safe was sent to.
#[derive(Debug)]
pub struct Changes {
    /// The method.
    pub method: Box<[u8]>,
    /// `http` or `https`, as the client came.
    pub scheme: &'static str,
    /// Host and perhaps port.
    pub host: Box<[u8]>,
    /// Path and query.
    pub path: Box<[u8]>,
}

impl Changes {
    /// The target.
    pub fn target(&self) -> Target<'_> {
        Target { scheme: self.scheme, host: &self.host, target: &self.path }
    }
}
