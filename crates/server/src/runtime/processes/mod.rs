//! Child processes: forks them, tells them to stop, notices their end.
//!
//! A child starts with its own stop and exits without returning to its parent's code. It inherits no lock that could be
//! held: the parent takes slots on the scoreboard and logs nothing (its children's lines go to a process of their own),
//! and threads that may run beside it (the admin listener) touch neither the child's slot nor its log. When the parent dies,
//! its children stop.

mod accept;
mod backoff;
mod channel;
mod child;
mod children;
mod dispatcher;
mod log_writer;
mod pool;
mod supervisor;

pub use children::{Children, Ended};
pub use dispatcher::{Dispatched, Plan, dispatch};
pub use log_writer::{LogWriter, with_log_writer};
pub use supervisor::supervise;
