//! The streaming server: one loop that never waits for a disk or a client, and helpers that wait for the disk.
//!
//! RTSP connections, sessions, and a heap of when each session next has something to send. Time passes in slots of
//! [`SLOT`]: what is due within one goes out together at its beginning, so that a few system calls serve many sessions.
//! Datagrams of all sessions leave by one pair of sockets; packets within a connection wait there, and a client that
//! does not take them loses whole pictures and holds up nobody.
//!
//! `schedule`, `film`, `newcomers`, `admission` and the protocol's modules are pure; `connection`, `ports` and `outgoing`
//! know sockets and no sessions; `arrivals` accepts, `conversation` reads requests, `control` and `setup` follow them,
//! `guard` lets in, `pace` sends, `reports` is RTCP, `sweep` ends what is over.

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
