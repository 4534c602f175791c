//! A histogram of response times with bins of equal relative width, so that p50 and p99.9 are equally sharp.
//!
//! A bin is the exponent and the upper seven bits of the mantissa: 128 bins per octave, found by one shift.
//! Within a bin the quantile is interpolated: far better than the bin's 0.8 % where the density is smooth, and no better
//! where many values are equal. [`Histogram::resolution`] tells the two apart.

const BITS_PER_OCTAVE: u32 = 7;
const SHIFT: u32 = f64::MANTISSA_DIGITS - 1 - BITS_PER_OCTAVE;
/// From 2⁻³⁴ s (58 ps) to 2²⁶ s (two years); values outside count in the outermost bins.
const EXPONENT_MIN: i64 = -34;
const OCTAVES: usize = 60;
const BINS: usize = OCTAVES << BITS_PER_OCTAVE;
/// The bit pattern, shifted, of the lowest bin.
const BASE: u64 = ((1023 + EXPONENT_MIN) as u64) << BITS_PER_OCTAVE;

use super::encoding::Encoded;

/// Counts per bin, and the exact extremes.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    counts: Box<[u32]>,
    total: u64,
    min: f64,
    max: f64,
}

/// A position in a histogram: a bin, and the fraction of its values below.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    bin: usize,
    within: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BINS].into_boxed_slice(), total: 0, min: f64::INFINITY, max: 0.0 }
    }
}

impl Histogram {
    /// Counts one value in seconds; it must not be negative.
    #[inline]
    pub(super) fn record(&mut self, value: f64) {
        let bin = (value.to_bits() >> SHIFT).saturating_sub(BASE) as usize;
        self.counts[bin.min(BINS - 1)] += 1;
        self.total += 1;
        // Both are rare, and predicted: cheaper than f64::min and f64::max, which care for NaN.
        if value < self.min {
            self.min = value;
        }
        if value > self.max {
            self.max = value;
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.total += other.total;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The largest value, exact.
    pub(super) fn max(&self) -> f64 {
        self.max
    }

    /// Locates the quantile p; `None` when the histogram is empty.
    pub(super) fn place(&self, p: f64) -> Option<Place> {
        let rank = p * self.total as f64;
        let mut below = 0.0;
        let mut last = None;
        for (bin, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = f64::from(count);
            if below + count >= rank {
                return Some(Place { bin, within: (rank - below) / count });
            }
            below += count;
            last = Some(Place { bin, within: 1.0 });
        }
        last
    }

    /// The quantile at a place, in seconds.
    pub(super) fn value(&self, place: Place) -> f64 {
        let (low, high) = self.range(place.bin);
        low + place.within * (high - low)
    }

    /// The quantile p in seconds; 0 when empty.
    pub(super) fn quantile(&self, p: f64) -> f64 {
        self.place(p).map_or(0.0, |place| self.value(place))
    }

    /// The fraction of values up to a position, which may come from another histogram.
    pub(super) fn fraction(&self, place: Place) -> f64 {
        let below: u64 = self.counts[..place.bin].iter().map(|count| u64::from(*count)).sum();
        (below as f64 + place.within * f64::from(self.counts[place.bin])) / self.total.max(1) as f64
    }

    /// The possible error of a quantile because of its bin: the bin's width times the share of its values that exceed
    /// what the neighbouring bins predict. Where many values are equal, that is the whole width.
    pub(super) fn resolution(&self, place: Place) -> f64 {
        let count = |bin: Option<usize>| {
            bin.and_then(|bin| self.counts.get(bin)).map_or(0.0, |count| f64::from(*count))
        };
        let own = count(Some(place.bin)).max(1.0);
        let beside = f64::midpoint(count(place.bin.checked_sub(1)), count(Some(place.bin + 1)));
        let (low, high) = self.range(place.bin);
        (high - low) * (1.0 - beside / own).abs().min(1.0)
    }

    /// The range of values that fall into a bin.
    fn range(&self, bin: usize) -> (f64, f64) {
        (edge(bin).clamp(self.min, self.max), edge(bin + 1).clamp(self.min, self.max))
    }
}

/// Only bins with values are written.
impl Encoded for Histogram {
    fn write(&self, out: &mut Vec<u8>) {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(bin, count)| (bin as u32, *count)).collect::<Vec<_>>().write(out);
        self.total.write(out);
        (self.min, self.max).write(out);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let mut histogram = Self::default();
        for (bin, count) in Vec::<(u32, u32)>::read(bytes)? {
            *histogram.counts.get_mut(bin as usize)? = count;
        }
        histogram.total = u64::read(bytes)?;
        (histogram.min, histogram.max) = Encoded::read(bytes)?;
        // A range that is none would panic where it is used.
        (histogram.total == 0 || histogram.min <= histogram.max).then_some(histogram)
    }
}

fn edge(bin: usize) -> f64 {
    if bin == 0 { 0.0 } else { f64::from_bits((BASE + bin as u64) << SHIFT) }
}
