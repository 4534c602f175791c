//! The streaming server: one event loop that never waits for a disk or a client, and helpers for the disk.
//!
//! The loop has RTSP connections, sessions, and a heap of the sessions' next due times. Time is divided into slots of
//! [`SLOT`]: all samples of a slot are sent together at its start, so a few system calls serve many sessions. All
//! sessions share a pair of UDP sockets. Interleaved packets wait in their connection, and a client that does not read
//! them loses whole pictures without delaying others.
//!
//! `film`, `send_schedule`, `stream` and `admission` are pure; `control_connection`, `udp_ports` and `datagram_batch` know
//! sockets and no sessions. `server` is the loop: `accept`, `requests`, `methods`, `setup`, `pacing`, `rtcp_reports`,
//! `timeouts`.

mod access_log;
mod admission;
mod authentication;
mod control_connection;
mod counters;
mod datagram_batch;
mod film;
mod film_cache;
mod send_schedule;
mod server;
mod settings;
mod stream;
mod udp_ports;

pub use authentication::{Users, UsersError};
pub use counters::{Counter, Counts, Published};
pub use server::{SLOT, Server, Site};
pub use settings::Settings;
