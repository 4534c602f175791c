//! Seeded random numbers for every sampler: xoshiro256++, with ziggurat tables for the exponential and the normal.
//!
//! One stream per purpose (arrivals, sizes, routing, …), so that two simulated systems that differ in one
//! parameter see the same arrivals and the same sizes: common random numbers without any bookkeeping.

mod ziggurat;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ziggurat::{Shape, Tables};

/// 2⁻⁵³: the spacing of the uniforms.
const UNIT: f64 = 1.0 / (1_u64 << 53) as f64;

/// A stream of random numbers, reproducible from its seed and its index.
#[derive(Clone)]
pub struct Random {
    generator: Xoshiro256PlusPlus,
    tables: &'static Tables,
}

impl Random {
    /// The first stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { generator: Xoshiro256PlusPlus::seed_from_u64(seed), tables: Tables::shared() }
    }

    /// Stream number `index` of `seed`; streams do not overlap within 2¹⁹² draws.
    pub fn stream(seed: u64, index: usize) -> Self {
        let mut random = Self::new(seed);
        (0..index).for_each(|_| random.generator.long_jump());
        random
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// Uniform in [0, 1).
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * UNIT
    }

    /// Uniform in (0, 1]: safe to take the logarithm of.
    #[inline]
    pub fn uniform_positive(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 * UNIT
    }

    /// Uniform among 0..`count`; `count` must be positive.
    #[inline]
    pub fn index(&mut self, count: usize) -> usize {
        ((u128::from(self.bits()) * count as u128) >> 64) as usize
    }

    /// Exponential with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        let tables = self.tables;
        tables.exponential.sample(self, Shape::Exponential)
    }

    /// Normal with mean 0 and variance 1.
    #[inline]
    pub fn normal(&mut self) -> f64 {
        let tables = self.tables;
        tables.normal.sample(self, Shape::Normal)
    }
}
