//! Fixtures that the tests of several crates share: wire scripts (bytes to send, bytes to expect), a client that reads
//! with a deadline, requests, upstreams that do as a test says, and the little sites that the scripts are about. It knows
//! nothing of the server.

pub mod client;
pub mod fixture;
mod pages;
pub mod requests;
pub mod rich_fixture;
pub mod script;
mod until;
pub mod upstream;

pub use client::{Client, DEADLINE, with_deadline};
pub use pages::drop_pages;
pub use until::until;
