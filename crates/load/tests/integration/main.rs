//! The load generator against servers that do as a test says.

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
