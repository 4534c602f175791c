//! Processes that answer requests: scripts, one per request (CGI), and persistent application workers.
//!
//! A thread of the server's first process starts and watches them, so that neither delays a loop, and limits count for
//! all loops and processes together. Loops only see sockets.

mod program;
mod script_failures;
mod script_process;
mod scripts;
mod workers;

pub use script_failures::{ScriptFailure, ScriptRun};
pub use script_process::ScriptSettings;
pub use scripts::Scripts;
pub use workers::{WorkerSettings, Workers, WorkersError};
