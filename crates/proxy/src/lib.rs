//! The caching proxy: what may be kept and used again.
//!
//! [`rules`] decides, by RFC 9111: pure, without sockets, files or a clock.

pub mod rules;
