//! The connection machine and the table of architectures.
//!
//! A [`connection`] does no I/O and knows no architecture: events go in, wants come out. An [`architecture`]
//! owns processes, threads and waiting, and knows no HTTP. Reading order: `connection`, `architecture`,
//! `event_loop`, then one file per architecture.

pub mod admin;
pub mod architecture;
mod blocking;
mod board;
mod clients;
mod clock;
pub mod connection;
mod counters;
mod deferral;
mod event_loop;
mod inline;
mod log;
pub mod metrics;
mod processes;
mod program;
mod ring;
mod signals;
mod site;
mod stop;

pub use architecture::{ALL, Architecture};
pub use blocking::serve_one;
pub use board::{Board, PLACES_MAX};
pub use counters::{Counter, Served};
pub use deferral::defer_accept;
pub use event_loop::accept::BACKLOG;
pub use log::{AccessLog, LogFormat};
pub use program::Program;
pub use site::{Limits, Site};
pub use stop::{PASSED_ON, Stop};
