//! The connection machine and the table of architectures.
//!
//! A [`connection`] does no I/O and knows no architecture: events go in, wants come out. An [`architecture`]
//! owns processes, threads and waiting, and knows no HTTP.
//!
//! Three drivers do what connections want: `event_loop` by readiness, `ring` by completion, `blocking` by waiting; an
//! architecture is a driver and what surrounds it. They share `sockets`, `patience` and `disk`. Reading order:
//! `connection`, `architecture`, `event_loop`, then one file per architecture.

pub mod admin;
pub mod architecture;
mod blocking;
mod board;
mod clients;
mod clock;
pub mod connection;
mod counter_table;
mod counters;
mod disk;
mod event_loop;
mod hosts;
mod log;
mod loops;
pub mod metrics;
mod patience;
mod processes;
mod program;
pub mod proxy;
mod ring;
mod signals;
mod site;
mod sockets;
mod stop;
pub mod tls;

pub use architecture::{ALL, Architecture, CacheScope};
pub use blocking::serve_one;
pub use board::{Board, PLACES_MAX, Seat, network};
pub use clients::Clients;
pub use clock::Clock;
pub use counter_table::CounterKind;
pub use counters::{Counter, Served};
pub use hosts::{Host, HostError, Hosts, Others, Pages};
pub use log::{AccessLog, FormatError, LogFormat, NICKNAMES, append_escaped};
pub use program::Program;
pub use signals::{Requests, ignore, reopen_on_signal};
pub use site::{Limits, Site};
pub use sockets::accept::{Accepted, Acceptor, Arrival, BACKLOG, address, shed_with};
pub use sockets::deferral::defer_accept;
pub use sockets::kernel_tls;
pub use sockets::listener::{LISTENERS_MAX, Listener};
pub use sockets::registry::{complete as listening_is_complete, listening_sockets};
pub use stop::{PASSED_ON, Stop};
