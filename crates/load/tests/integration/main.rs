//! The load generator against scripted servers.

mod faults;
mod film_server;
mod https;
mod latency;
mod load;
mod scripted;
mod streaming;
mod truth;
mod visits;
mod windows;
