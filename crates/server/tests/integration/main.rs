//! The server in the test's own process, through its public interface.

mod disk;
mod origins;
mod reverse_proxy;
mod server;
