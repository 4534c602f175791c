//! A function of a random value in straight pieces: the service demand of a document, by its size.
//!
//! Laws with atoms are mapped value by value; what is left has a continuous distribution function, so it does not
//! matter to which piece an end belongs.

use super::{Affine, Deterministic, Distribution, RandomVariable};
use crate::random::Random;

/// Strata per segment for the second moment. Their widths grow geometrically, so that the scale of the law does not matter.
const STRATA: usize = 2_000;
/// Values below this quantile make one stratum, as geometric ones would never reach 0.
const LEAST: f64 = 1e-9;

/// `factor`·x + `offset` for x smaller than `below` and not smaller than the previous segment's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Exclusive; infinite for the last segment.
    pub below: f64,
    /// The slope; not negative.
    pub factor: f64,
    /// Added to every value; not negative.
    pub offset: f64,
}

/// g(X) for a continuous X and several segments.
#[derive(Debug, Clone, PartialEq)]
pub struct Piecewise {
    inner: Box<Distribution>,
    segments: Vec<Segment>,
}

/// The distribution of g(X) for sizes X; without sizes, that of g(0).
pub(crate) fn of_size(sizes: Option<&Distribution>, segments: &[Segment]) -> Distribution {
    sizes.map_or_else(|| constant_at(at(segments, 0.0)), |sizes| of(sizes, segments))
}

fn of(inner: &Distribution, segments: &[Segment]) -> Distribution {
    match inner {
        Distribution::Deterministic(constant) => constant_at(at(segments, constant.mean())),
        Distribution::Empirical(empirical) => empirical.mapped(|x| at(segments, x)).into(),
        Distribution::Mixture(mixture) => mixture.mapped(|part| of(part, segments)).into(),
        Distribution::Affine(affine) => {
            let (inner, factor, offset) = affine.parts();
            if factor == 0.0 {
                return constant_at(at(segments, offset));
            }
            let through = |segment: &Segment| Segment {
                below: (segment.below - offset) / factor,
                factor: segment.factor * factor,
                offset: segment.offset + segment.factor * offset,
            };
            // Segments that end below the least value of X hold nothing.
            let reached = segments.iter().filter(|segment| segment.below > offset);
            of(inner, &reached.map(through).collect::<Vec<_>>())
        }
        continuous => match segments {
            [only] if only.factor == 0.0 => constant_at(only.offset),
            [only] => affine(continuous, only),
            _ => Piecewise { inner: Box::new(continuous.clone()), segments: segments.to_vec() }.into(),
        },
    }
}

/// g(x).
fn at(segments: &[Segment], x: f64) -> f64 {
    let segment = segments.iter().find(|segment| x < segment.below).or(segments.last());
    segment.map_or(0.0, |segment| segment.factor * x + segment.offset)
}

fn constant_at(value: f64) -> Distribution {
    Deterministic::unchecked(value).into()
}

fn affine(inner: &Distribution, segment: &Segment) -> Distribution {
    Affine::unchecked(inner.clone(), segment.factor, segment.offset).into()
}

impl Piecewise {
    /// Each segment with its lower end, and the probabilities of X below its two ends.
    fn pieces(&self) -> impl Iterator<Item = (&Segment, f64, f64, f64)> {
        let lows = std::iter::once(0.0).chain(self.segments.iter().map(|segment| segment.below));
        self.segments.iter().zip(lows).map(|(segment, low)| {
            let until = if segment.below.is_finite() { self.inner.cdf(segment.below) } else { 1.0 };
            (segment, low, if low > 0.0 { self.inner.cdf(low) } else { 0.0 }, until)
        })
    }

    /// `E[X − from; X > from]` without what lies beyond `until`, less `E[t − from]` there: ∫ (x − t) dF from `from` to
    /// `until`.
    fn integral_above(&self, t: f64, from: f64, until: f64) -> f64 {
        let upper = |x: f64| {
            if x.is_finite() { self.inner.excess(x) + (x - t) * (1.0 - self.inner.cdf(x)) } else { 0.0 }
        };
        upper(from) - upper(until)
    }

    /// `E[X²; low < X ≤ high]`. A stratum has its exact probability and mean; its variance is between 0 and (mean −
    /// from)(to − mean), and a third of that where the density is flat.
    fn square_between(&self, low: f64, high: f64) -> f64 {
        // P(X ≤ x) and E[X; X > x].
        let at = |x: f64| {
            let below = self.inner.cdf(x);
            (x, below, self.inner.excess(x) + x * (1.0 - below))
        };
        let first = self.inner.quantile(LEAST).max(high * f64::EPSILON).clamp(low, high);
        let step = (high / first).ln() / STRATA as f64;
        let ends = (0..STRATA).map(|stratum| first * (step * stratum as f64).exp());
        let (mut from, mut sum) = (at(low), 0.0);
        for to in ends.chain([high]).map(at) {
            let probability = to.1 - from.1;
            if probability > 0.0 {
                let mean = ((from.2 - to.2) / probability).clamp(from.0, to.0.max(from.0));
                sum += probability * (mean * mean + (mean - from.0) * (to.0 - mean) / 3.0);
            }
            from = to;
        }
        sum
    }
}

impl RandomVariable for Piecewise {
    fn mean(&self) -> f64 {
        let part = |(segment, low, before, until): (&Segment, f64, f64, f64)| {
            segment.factor * self.integral_above(0.0, low, segment.below) + segment.offset * (until - before)
        };
        self.pieces().map(part).sum()
    }
    fn second_moment(&self) -> f64 {
        // The last segment takes what the others leave, because its strata would have no end.
        let mut left = self.inner.second_moment();
        let mut sum = 0.0;
        for (segment, low, before, until) in self.pieces() {
            let (a, b) = (segment.factor, segment.offset);
            let first = self.integral_above(0.0, low, segment.below);
            let second =
                if segment.below.is_finite() { self.square_between(low, segment.below) } else { left };
            left = (left - second).max(0.0);
            sum += a * a * second + 2.0 * a * b * first + b * b * (until - before);
        }
        sum
    }
    fn cdf(&self, x: f64) -> f64 {
        let part = |(segment, low, before, until): (&Segment, f64, f64, f64)| {
            if segment.factor == 0.0 {
                return if segment.offset <= x { until - before } else { 0.0 };
            }
            let reach = (x - segment.offset) / segment.factor;
            if reach <= low { 0.0 } else { self.inner.cdf(reach).min(until) - before }
        };
        self.pieces().map(part).sum::<f64>().clamp(0.0, 1.0)
    }
    fn excess(&self, x: f64) -> f64 {
        let part = |(segment, low, before, until): (&Segment, f64, f64, f64)| {
            if segment.factor == 0.0 {
                return (segment.offset - x).max(0.0) * (until - before);
            }
            let reach = (x - segment.offset) / segment.factor;
            if reach >= segment.below {
                return 0.0;
            }
            segment.factor * self.integral_above(reach, reach.max(low), segment.below)
        };
        self.pieces().map(part).sum::<f64>().max(0.0)
    }
    fn sample(&self, random: &mut Random) -> f64 {
        at(&self.segments, self.inner.sample(random))
    }
}
