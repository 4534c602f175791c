//! The destinations that the requests of a forward proxy's clients name: which are allowed, and where they are.
//!
//! [`Rules`] say which clients may use the proxy, and which origins, ports and networks they may reach. A [`Resolver`]
//! looks up names. A destination that is not allowed or not found has a [`Refusal`]. Both proxies use this; it is no
//! handler.

mod network;
mod origin;
mod refusal;
mod resolver;
mod rules;

pub use network::{LOOPBACK, Network, NetworkError, is_public};
pub use origin::{Origin, Ports, PortsError};
pub use refusal::{Refusal, refuse};
pub use resolver::{Addresses, Busy, Pending, Resolver};
pub use rules::{PORTS, Rules, TUNNEL_PORTS};
