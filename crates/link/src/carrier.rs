//! What a link is like, and the seam between what runs behind it and what carries its packets.

use std::io;
use std::os::fd::BorrowedFd;

use sojourn_measure::Nanos;
use sojourn_queueing::distribution::Distribution;

use crate::line::Line;
use crate::namespace::Namespace;
use crate::network::Network;
use crate::report::Report;

/// What a link is like.
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
    /// How much later than due a packet may be handed over.
    pub lateness_limit: Nanos,
}

/// A link that is up, whoever carries its packets.
pub trait Carrier {
    fn namespace(&self) -> &Namespace;

    /// Watches something else while packets move; it is told apart by its token.
    fn watch(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()>;

    /// Lets packets move until `is_over`, which is asked with its token whenever something watched has become readable.
    fn run(&mut self, is_over: impl FnMut(u64) -> io::Result<bool>) -> io::Result<()>;

    /// What went over the link so far.
    fn report(&self) -> io::Result<Report>;
}
