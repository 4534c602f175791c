//! A network link between namespaces with a rate, a random delay, loss, and a limited queue.
//!
//! The server's side is in the caller's network namespace, the clients' in a new one. Everything above IP stays real:
//! sockets, TCP, congestion control. Two implementations of [`carrier`] move the packets:
//!
//! - [`emulator`], in user space, between two TUN devices. A packet from one device goes through a [`line::Line`] and
//!   is written to the other when it is due. Each client address has a line of its own, so one link can emulate many
//!   modems or many round-trip times. The lateness of packets is recorded.
//! - [`shaped`], in the kernel: a veth pair with a queueing discipline at each end, described by [`tc`] and created by
//!   [`iproute`]. It costs less and has fewer features.
//!
//! [`line`], [`loss`] and [`tc`] are pure and take time and randomness as arguments; [`namespace`], [`netlink`] and
//! [`tun`] create the two sides; [`command`] runs a program behind the link.

pub mod carrier;
pub mod command;
pub mod emulator;
mod epoll;
pub mod iproute;
pub mod line;
pub mod loss;
pub mod namespace;
mod netlink;
pub mod network;
mod report;
pub mod shaped;
pub mod tc;
mod tun;

pub use report::{DirectionReport, Report, Shaper};
