//! Queueing models of web systems: distributions, closed forms, networks of stations, and a simulator.
//!
//! Pure: no clock and no files; time and randomness are arguments. Threads run only where a plan asks for several
//! replications. Times are seconds and sizes are bytes throughout. `docs/models.md` has the mathematics and the oracles.
//!
//! Read the modules in this order; each imports only modules above it:
//!
//! - [`random`]: seeded streams of random numbers;
//! - [`distribution`]: distributions of sizes and times;
//! - [`closed_form`]: one open station under Poisson arrivals, FIFO, PS or LPS;
//! - [`speed`], [`station`]: how fast n jobs are served, and a station that serves them in simulated time;
//! - [`exact_lps`]: limited processor sharing solved exactly;
//! - [`fit`]: distributions and speeds fitted to measured values;
//! - [`system`], [`system_file`]: stations, classes and routes, and the TOML file that describes them;
//! - [`simulator`]: discrete-event simulation of a station or of a system;
//! - [`solver`]: the analytic solvers of a system, side by side.

#![forbid(unsafe_code)]

pub mod closed_form;
mod complex;
pub mod distribution;
pub mod exact_lps;
pub mod fit;
mod lattice;
mod matrix;
mod named;
pub mod random;
pub mod simulator;
pub mod solver;
pub mod speed;
pub mod station;
pub mod system;
pub mod system_file;

pub use named::Named;

#[cfg(test)]
mod testing {
    /// Fails unless `actual` differs from `expected` by at most the fraction `relative` of it.
    pub fn check(actual: f64, expected: f64, relative: f64) {
        assert!(
            (actual - expected).abs() <= relative * expected.abs(),
            "{actual} is not {expected} within {relative}"
        );
    }
}
