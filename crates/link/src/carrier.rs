//! Describes a link, and defines the interface of the two implementations that carry its packets.

use std::io;
use std::os::fd::BorrowedFd;

use sojourn_measure::Nanos;
use sojourn_queueing::distribution::Distribution;

use crate::line::Line;
use crate::namespace::Namespace;
use crate::network::Network;
use crate::report::Report;

#[derive(Clone, Debug)]
pub struct Link {
    pub network: Network,
    /// The number of clients, each with a line of its own.
    pub lines: u32,
    pub up: Line,
    pub down: Line,
    /// Extra delay in seconds in both directions, drawn once per line.
    pub line_delay: Option<Distribution>,
    /// Seed of all random draws.
    pub seed: u64,
    /// A packet delivered later than this counts as late.
    pub lateness_limit: Nanos,
}

/// A running link, in user space or in the kernel.
pub trait Carrier {
    fn namespace(&self) -> &Namespace;

    /// Also waits for `fd` while packets move; its events carry `token`.
    fn watch(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()>;

    /// Moves packets until `is_over` returns true; it is called with the token of each watched descriptor that becomes
    /// readable.
    fn run(&mut self, is_over: impl FnMut(u64) -> io::Result<bool>) -> io::Result<()>;

    fn report(&self) -> io::Result<Report>;
}
