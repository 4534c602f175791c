//! Drivers of connections: event loops, sockets, timers, disk reads, processes. Knows no HTTP.
//!
//! Three drivers perform the wants of connections: `epoll` by readiness, `uring` by completion, `blocking` by
//! waiting; `event_loop` holds what the first two share. All three use `sockets`, `timers` and `disk`;
//! `contention` makes clients of a busy worker give way to others. `processes` supervises worker and helper processes.

pub mod blocking;
pub mod contention;
pub mod disk;
pub mod epoll;
pub mod event_loop;
pub mod processes;
pub mod sockets;
pub mod timers;
pub mod uring;
