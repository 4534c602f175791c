//! The rules of a shared cache (RFC 9111): what may be stored, when it may be used, and what is sent each way.
//!
//! Pure: time is an argument, in whole seconds since 1970.

pub mod directives;
