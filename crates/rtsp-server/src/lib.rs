//! The streaming server: one loop that never waits for a disk or a client, and helpers that wait for the disk.
//!
//! RTSP connections, sessions, and a heap of the sessions' next due times. Time passes in slots of [`SLOT`]:
//! all samples of a slot leave together at its beginning, so that a few system calls serve many sessions.
//! Datagrams of all sessions leave by one pair of sockets; packets within a connection wait there, and a
//! client that does not read them loses whole pictures and delays no other.
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
