//! The playout buffer of a viewer: which media arrived in time, which were lost, and when the player starved.

pub(crate) mod segments;
pub(crate) mod sequence;
pub(crate) mod track;

pub(crate) const USER_AGENT: &str = concat!("sojourn-load/", env!("CARGO_PKG_VERSION"));
/// A random start is within this first part of the film, so that something is left to play.
pub(crate) const START_WITHIN: f64 = 0.9;
