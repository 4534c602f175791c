//! A histogram of response times with bins of equal relative width, so that p50 and p99.9 are equally sharp.
//!
//! A bin is the exponent and the upper seven bits of the mantissa: 128 bins per octave, found by one shift.
//! Within a bin the quantile is interpolated, so its error is far below the bin's 0.8 %.

const BITS_PER_OCTAVE: u32 = 7;
const SHIFT: u32 = f64::MANTISSA_DIGITS - 1 - BITS_PER_OCTAVE;
/// From 2⁻³⁴ s (58 ps) to 2²⁶ s (two years); values outside count in the outermost bins.
const EXPONENT_MIN: i64 = -34;
const OCTAVES: usize = 60;
const BINS: usize = OCTAVES << BITS_PER_OCTAVE;
/// The bit pattern, shifted, of the lowest bin.
const BASE: u64 = ((1023 + EXPONENT_MIN) as u64) << BITS_PER_OCTAVE;

/// Counts per bin, and the exact maximum.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Box<[u32]>,
    total: u64,
    max: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BINS].into_boxed_slice(), total: 0, max: 0.0 }
    }
}

impl Histogram {
    /// Counts one value in seconds; it must not be negative.
    #[inline]
    pub fn record(&mut self, value: f64) {
        let bin = (value.to_bits() >> SHIFT).saturating_sub(BASE) as usize;
        self.counts[bin.min(BINS - 1)] += 1;
        self.total += 1;
        self.max = self.max.max(value);
    }

    /// Adds another histogram to this one.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// The largest value, exact.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The quantile p in seconds; 0 when empty.
    pub fn quantile(&self, p: f64) -> f64 {
        let rank = p * self.total as f64;
        let mut below = 0.0;
        for (bin, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = f64::from(count);
            if below + count >= rank {
                let within = (rank - below) / count;
                let (low, high) = (edge(bin), edge(bin + 1));
                return (low + within * (high - low)).min(self.max);
            }
            below += count;
        }
        self.max
    }
}

fn edge(bin: usize) -> f64 {
    if bin == 0 { 0.0 } else { f64::from_bits((BASE + bin as u64) << SHIFT) }
}
