//! Queueing models of web systems: laws, closed forms, the simulator and system files. Pure: no clock, no
//! files; time and randomness are arguments. Threads only where a plan asks for replications.
//!
//! Reading order: [`distribution`], [`closed_form`], [`speed`], [`station`], [`simulator`], [`system`],
//! [`system_file`], [`solver`].
//! Times are seconds and sizes bytes throughout. `docs/models.md` has the mathematics and the oracles.

pub mod closed_form;
mod complex;
pub mod distribution;
pub mod exact_lps;
pub mod fit;
mod matrix;
pub mod random;
pub mod simulator;
pub mod solver;
pub mod speed;
pub mod station;
pub mod system;
pub mod system_file;
#[cfg(test)]
mod testing;
