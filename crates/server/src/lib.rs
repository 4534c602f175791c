//! The connection machine and the table of architectures.
//!
//! A [`connection`] does no I/O and knows no architecture: it takes events and returns wants. An [`architecture`] owns
//! processes, threads and waiting, and knows no HTTP.
//!
//! Three drivers perform the wants of connections: `epoll` by readiness, `uring` by completion, `blocking` by waiting;
//! an architecture adds processes and threads to a driver. They share `sockets`, `timers` and `disk`. Reading order:
//! `connection`, `architecture`, `runtime::epoll`, then one file per architecture.

// A closed standard error must not end the process: `stderr::write`.
#![cfg_attr(not(test), warn(clippy::print_stderr))]

mod access_log;
pub mod admin;
pub mod applications;
pub mod architecture;
mod clients;
mod clock;
pub mod connection;
mod counters;
pub mod handler;
mod hosts;
mod limits;
pub mod memory;
pub mod metrics;
mod runtime;
pub mod sandbox;
mod signals;
mod site;
pub mod stderr;
mod stop;
pub mod tls;
mod watermark;

pub use access_log::pipe::LinePipe;
pub use access_log::{AccessLog, CLOSING_MAX, FormatError, LogFormat, NICKNAMES, append_escaped};
pub use architecture::{ALL, Architecture, CacheScope};
pub use clients::Clients;
pub use clock::Clock;
pub use counters::scoreboard::{Permit, SLOTS_MAX, Scoreboard, network};
pub use counters::{Counter, CounterKind, Served};
pub use hosts::{Host, HostError, Hosts, Pages, UnknownHosts};
pub use limits::{ACCEPT_WAIT_MAX, DRAIN_UNLIMITED, Limits, UpstreamLimits};
pub use runtime::blocking::serve_one;
pub use runtime::sockets::accept::{Accepted, Acceptor, Arrival, BACKLOG, address, shed_with};
pub use runtime::sockets::accept::{LISTENERS_MAX, Listener};
pub use runtime::sockets::options::{defer_accept, kernel_tls_available};
pub use runtime::sockets::registry::{complete as listening_is_complete, enter_admin, listening_sockets};
pub use signals::{PASSED_ON, Requests, ignore, reopen_on_signal};
pub use site::{Program, Site};
pub use stop::Stop;
