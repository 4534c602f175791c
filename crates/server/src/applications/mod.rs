//! Processes that answer requests in the server's stead: scripts, one for each request (CGI), and applications that stay.
//!
//! A thread of the server's first process starts and watches them, so that neither starting nor waiting holds up a loop, and
//! limits count for all loops and processes. Loops know sockets only.

mod script_process;
mod scripts;
mod workers;

pub use scripts::{ScriptSettings, Scripts};
pub use workers::{WorkerSettings, Workers, WorkersError};
