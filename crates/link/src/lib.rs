//! A network link between namespaces, in user space: rate, delay by a law, loss, and a limited queue.
//!
//! Two TUN devices, one in each network namespace, and between them this program: what leaves one device is put
//! through a [`line::Line`] and written to the other when it is due. Everything above stays real: sockets, TCP,
//! congestion control. Clients sit behind lines of their own, told apart by their addresses, so that many modems or
//! many round-trip times are one link.
//!
//! [`line`] and [`loss`] are pure and take time and randomness as arguments; [`namespace`], [`netlink`] and [`tun`]
//! make the two sides; [`emulator`] moves the packets and records how late it was, and [`command`] is what runs
//! behind the link meanwhile.

pub mod command;
pub mod emulator;
pub mod line;
pub mod loss;
pub mod namespace;
mod netlink;
pub mod network;
mod report;
mod tun;

pub use report::{Report, Way};
