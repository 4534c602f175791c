//! The caching proxy: what may be kept and used again, and where it is kept.
//!
//! [`rules`] decides, by RFC 9111: pure, without sockets, files or a clock. [`store`] keeps what they allow, in memory
//! and on disk; [`replacement`] says what goes when there is no more room.

pub mod replacement;
pub mod rules;
pub mod simulation;
pub mod store;
