//! The description of a link, and the seam between the program behind it and the carrier of its packets.

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
    /// Clients, each behind a line of its own.
    pub lines: u32,
    /// From clients to the server.
    pub up: Line,
    /// From the server to clients.
    pub down: Line,
    /// Seconds that packets travel longer, in either direction: drawn once for each line.
    pub line_delay: Option<Distribution>,
    /// Says everything that is random.
    pub seed: u64,
    /// How late a packet may be delivered.
    pub lateness_limit: Nanos,
}

/// A link that is up, in user space or in the kernel.
pub trait Carrier {
    fn namespace(&self) -> &Namespace;

    /// Also watches `fd` while packets move; events carry its token.
    fn watch(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()>;

    /// Lets packets move until `is_over`, which is asked with its token whenever something watched has become readable.
    fn run(&mut self, is_over: impl FnMut(u64) -> io::Result<bool>) -> io::Result<()>;

    fn report(&self) -> io::Result<Report>;
}
