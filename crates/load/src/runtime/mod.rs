//! System interfaces of the generator: sockets and timestamps, the connector, timers, epoll, and batching of wake-ups.

pub(crate) mod batching;
pub(crate) mod connector;
pub(crate) mod epoll;
pub(crate) mod read_rate;
pub(crate) mod receive;
pub(crate) mod source_addresses;
pub(crate) mod timers;
pub mod timestamps;
pub(crate) mod udp;

pub use batching::TIMER_SLACK_MAX;

/// Why a run could not start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The kernel refuses a resource that the loop needs.
    #[error("cannot wait for sockets: {0}")]
    Epoll(#[from] rustix::io::Errno),
}
