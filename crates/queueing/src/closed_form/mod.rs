//! Closed forms of one open station: M/G/1 FIFO and PS, and limited processor sharing between them.
//!
//! All take the arrival rate and the first two moments of the service demand, and refuse a utilisation of 1 or more,
//! where the mean is infinite. Times are seconds; any other unit works if you use it throughout.

mod lps;
mod mg1;

use thiserror::Error;

pub use lps::{Lps, Validity};
pub use mg1::Mg1;

/// The reason why a closed form does not apply.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum ClosedFormError {
    /// Utilisation would be 1 or more, so the mean is infinite.
    #[error(
        "the station is unstable: utilisation would be {utilisation:.4}; the arrival rate must stay below \
         {saturation_per_second:.6}/s"
    )]
    Unstable {
        /// λ·`E[S]`.
        utilisation: f64,
        /// 1/`E[S]`: the arrival rate that the station cannot reach.
        saturation_per_second: f64,
    },
    /// A parameter is out of its domain.
    #[error("{name} must be {requirement}, not {value}")]
    Parameter {
        name: &'static str,
        /// Completes the sentence "NAME must be …".
        requirement: &'static str,
        value: f64,
    },
}

/// P(an arrival at M/M/c waits), for `offered` Erlangs, by the stable recursion of Erlang B.
pub(crate) fn erlang_c(servers: u32, offered: f64) -> f64 {
    let blocked = (1..=servers).fold(1.0, |blocked, c| {
        let load = offered * blocked;
        load / (f64::from(c) + load)
    });
    let idle = 1.0 - offered / f64::from(servers);
    blocked / (idle + blocked * (1.0 - idle))
}

#[cfg(test)]
mod tests;
