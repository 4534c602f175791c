//! What tests of several crates share: wire scripts, a client with a deadline, requests, scripted upstreams, and the
//! small sites that the scripts use. It does not depend on the server.

pub mod client;
pub mod fixture;
pub mod nfs_server;
pub mod object_store;
mod pages;
mod pipe;
pub mod rich_fixture;
pub mod script;
pub mod smuggling;
pub mod upstream;

pub use client::{Client, DEADLINE, until, with_deadline};
pub use pages::drop_pages;
pub use pipe::Pipe;
