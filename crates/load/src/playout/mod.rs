//! The playout buffer of a viewer: what came in time, what was lost, and when there was nothing to show.

pub(crate) mod segments;
pub(crate) mod sequence;
pub(crate) mod track;

pub(crate) const USER_AGENT: &str = concat!("sojourn-load/", env!("CARGO_PKG_VERSION"));
/// A random start lies in this first part of the film, so that something is left to be played.
pub(crate) const START_WITHIN: f64 = 0.9;
