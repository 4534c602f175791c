//! Samples the few distributions that workloads need, by inversion where it is exact and short.

use rand::{Rng, RngExt};

/// Uniform in (0, 1]: safe to take the logarithm of.
fn positive_unit(rng: &mut impl Rng) -> f64 {
    1.0 - rng.random::<f64>()
}

pub fn exponential(rng: &mut impl Rng) -> f64 {
    -positive_unit(rng).ln()
}

/// Poisson: how many unit-rate exponentials fit into `mean`. Takes time in proportion to `mean`.
pub fn poisson(rng: &mut impl Rng, mean: f64) -> usize {
    let mut count = 0;
    let mut elapsed = exponential(rng);
    while elapsed < mean {
        count += 1;
        elapsed += exponential(rng);
    }
    count
}

/// Standard normal by the Box–Muller method, cosine half.
pub fn normal(rng: &mut impl Rng) -> f64 {
    let radius = (2.0 * exponential(rng)).sqrt();
    radius * (2.0 * std::f64::consts::PI * rng.random::<f64>()).cos()
}
