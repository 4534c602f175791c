//! A network link between namespaces: rate, delay by a law, loss, and a limited queue.
//!
//! The server's side is in the caller's network namespace, the clients' in one of the link's own. Everything above
//! stays real: sockets, TCP, congestion control. Two carry the packets between, behind one seam ([`carrier`]):
//!
//! - [`emulator`], in user space: two TUN devices, and between them this program. What leaves one device is put through
//!   a [`line::Line`] and written to the other when it is due. Clients sit behind lines of their own, told apart by
//!   their addresses, so that many modems or many round-trip times are one link; how late packets were is recorded.
//! - [`shaped`], by the kernel: the ends of a veth pair with a queueing discipline each, which [`tc`] puts into words
//!   and the programs of [`iproute`] make. It costs less and can less.
//!
//! [`line`], [`loss`] and [`tc`] are pure and take time and randomness as arguments; [`namespace`], [`netlink`] and
//! [`tun`] make the two sides; [`command`] is what runs behind the link meanwhile.

pub mod carrier;
pub mod command;
pub mod emulator;
pub mod iproute;
pub mod line;
pub mod loss;
pub mod namespace;
mod netlink;
pub mod network;
mod readiness;
mod report;
pub mod shaped;
pub mod tc;
mod tun;

pub use report::{DirectionReport, Report, Shaper};
