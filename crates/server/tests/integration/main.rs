//! The server in the process of the test, by its public interface.

mod disk;
mod reverse_proxy;
mod server;
