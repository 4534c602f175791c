//! What both loops have, whatever tells them what can be done: readiness (`event_loop`) or completion (`ring`).
//!
//! A loop is its [state](LoopState), which is here, and its way of waiting, which is its own. What connections have a loop
//! do for others are its [errands](Errands).

mod client;
mod launches;
mod state;

pub use client::Client;
pub use launches::Launches;
pub use state::LoopState;
