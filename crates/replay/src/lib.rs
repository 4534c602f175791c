//! The trace file of a replay: read whole before the first request, then ahead of the clients.
//!
//! It is no part of `sojourn-engine`, which is compiled for size: what reads a file of millions of sessions is generic, and
//! would be compiled there.

mod part;
mod read_ahead;
mod stored;

pub use part::Part;
pub use read_ahead::{ReadAhead, Reading, as_logged, at_random};
pub use stored::Stored;
