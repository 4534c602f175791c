//! Child processes: forking them, telling them to stop, noticing their end.
//!
//! A child begins with a stop of its own and ends without returning to its parent's code. It inherits no lock
//! that could be held: its parent takes slots on the scoreboard and logs nothing, and the threads that may
//! run beside it (the admin listener) touch neither the child's slot nor its log. A parent's death stops its
//! children.

mod accept;
mod channel;
mod child;
mod children;
mod dispatcher;
mod pool;
mod supervisor;

pub use children::{Children, Ended};
pub use dispatcher::{Dispatched, Plan, dispatch};
pub use supervisor::supervise;
