//! Tests of the installed engine as a process: its command line, and its servers, over real sockets.
//!
//! Architectures that fork need a process that does nothing else, so every architecture is tested like this.

mod access_log;
mod activation;
mod binary_upgrade;
mod changing_files;
mod cold_disk;
mod configuration;
mod contention;
mod descriptors;
mod dynamic;
mod engine;
mod handlers;
mod hls;
mod http2;
mod limits;
mod listeners;
mod load;
mod memory;
mod operations;
mod origins;
mod overload;
mod processes;
mod proxy;
mod residency;
mod robustness;
mod sandbox;
mod soak;
mod tls;
mod uring;
mod wire;
