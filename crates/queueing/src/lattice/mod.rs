//! Percentiles of sums of independent times, bounded from below and from above, for any law.
//!
//! Each time is rounded to a lattice twice, down and up. Sums of the rounded times are below and above the true sum with
//! probability one, and so are their percentiles. A FIFO wait is a sum of a geometric number of residual demands
//! (Pollaczek and Khinchine), and rounds in the same way. The sums are power series in one variable, multiplied and
//! divided as values on a circle inside the unit disc, which keeps what lies beyond the lattice from folding back. All
//! errors of this are bounded: what folds back, what is rounded in the arithmetic (a bound of the norm), what a law does
//! not know of itself. A percentile is refined until its two bounds agree.

mod fourier;
mod series;

pub(crate) use series::Series;

/// The fewest lattice points, and the points per expected term of a sum in the first lattice.
const POINTS_MIN: usize = 1 << 10;
const POINTS_PER_TERM: f64 = 16.0;
/// The most lattice points. A load within about 1 % of saturation needs more for [`TOLERANCE`].
pub(crate) const POINTS_MAX: usize = 1 << 19;
const REFINEMENTS_MAX: usize = 6;
/// Between neighbouring steps of lattices: 2^(1/4).
const STEP_RATIO: f64 = 1.189_207_115_002_721;
/// Refinement aims at bounds narrower than allowed by this factor.
const WIDTH_WANTED: f64 = 1.4;
/// The first lattice's step grows fourfold at most this often.
const GROWTHS_MAX: usize = 60;

/// The relative half-width at which two bounds of a percentile agree.
pub(crate) const TOLERANCE: f64 = 1e-3;

/// The survival function P(X > t) of a time, for t ≥ 0.
pub(crate) type Survival<'l> = Box<dyn Fn(f64) -> f64 + 'l>;

/// An independent term of a sum.
pub(crate) struct Part<'l> {
    survival: Survival<'l>,
    kind: Kind,
    /// Parts of one number are equal, in whatever sum: a [`Series`] computes their values once.
    number: Option<usize>,
}

#[derive(Clone, Copy)]
enum Kind {
    /// A time. Its survival function may be too small by at most `error_bound`.
    Time { error_bound: f64 },
    /// The sum of n times of the law with probability (1 − ρ)ρⁿ, ρ the utilisation.
    Geometric { utilisation: f64 },
}

impl<'l> Part<'l> {
    /// A time, whose survival function may be `error_bound` too small.
    pub(crate) fn time(survival: Survival<'l>, error_bound: f64) -> Self {
        Self { survival, kind: Kind::Time { error_bound }, number: None }
    }

    /// The sum of a geometric number of times.
    pub(crate) fn geometric(survival: Survival<'l>, utilisation: f64) -> Self {
        Self { survival, kind: Kind::Geometric { utilisation }, number: None }
    }

    pub(crate) fn numbered(self, number: usize) -> Self {
        Self { number: Some(number), ..self }
    }
}

/// One of several possible sums: a constant plus independent parts.
pub(crate) struct Path<'l> {
    pub(crate) probability: f64,
    pub(crate) constant: f64,
    pub(crate) parts: Vec<Part<'l>>,
}

impl Path<'_> {
    /// The expected number of terms in the sum.
    fn terms(&self) -> f64 {
        let terms = self.parts.iter().map(|part| match part.kind {
            Kind::Time { .. } => 1.0,
            Kind::Geometric { utilisation } => utilisation / (1.0 - utilisation),
        });
        terms.sum()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Between {
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// An interpolated estimate between the bounds.
    pub(crate) best: f64,
}

impl Between {
    /// The most by which [`Between::best`] can be wrong, as a fraction of it.
    pub(crate) fn relative_error(self) -> f64 {
        let distance = (self.high - self.best).max(self.best - self.low);
        if distance == 0.0 { 0.0 } else { distance / self.best }
    }

    pub(crate) fn plus(self, constant: f64) -> Self {
        Self { low: self.low + constant, high: self.high + constant, best: self.best + constant }
    }
}

/// Bounds the percentiles (ascending) of a choice of sums; `scale` is about the mean of the sum, and `constant` is
/// added to all. The bounds agree to `tolerance` where the lattice may be fine enough.
pub(crate) fn percentiles(
    series: &mut Series,
    paths: &[Path<'_>],
    probabilities: &[f64],
    scale: f64,
    constant: f64,
    tolerance: f64,
) -> Vec<Between> {
    let least = paths.iter().map(|path| path.constant).fold(f64::INFINITY, f64::min);
    let constant = constant + least;
    let mut found = vec![Known::NOTHING; probabilities.len()];
    let mut lattices = Lattices { paths, least, probabilities, series };
    let terms = paths.iter().map(Path::terms).fold(0.0, f64::max);
    let first = ((POINTS_PER_TERM * terms) as usize).next_power_of_two().clamp(POINTS_MIN, POINTS_MAX);
    let mut step = common(8.0 * (scale - least).max(scale * 1e-9).max(f64::MIN_POSITIVE) / first as f64);
    for _ in 0..GROWTHS_MAX {
        lattices.narrow(&mut found, step, first);
        if found.iter().all(|known| known.bounds.high.is_finite()) {
            break;
        }
        step *= 4.0;
    }
    for index in (0..probabilities.len()).rev() {
        for _ in 0..REFINEMENTS_MAX {
            let Known { bounds, steps, step } = found[index];
            if bounds.plus(constant).relative_error() <= tolerance || !bounds.high.is_finite() {
                break;
            }
            let wanted = WIDTH_WANTED * tolerance * bounds.plus(constant).best / steps;
            let reach = 1.02 * bounds.high + 2.0 * wanted;
            let points = (reach / common(wanted / STEP_RATIO)).min(POINTS_MAX as f64) as usize;
            let points = points.next_power_of_two().clamp(POINTS_MIN, POINTS_MAX);
            let finer = reach / points as f64;
            let finer = if points < POINTS_MAX { common(finer) } else { finer };
            lattices.narrow(&mut found, finer, points);
            // A gap or an uncertainty of the law at the percentile keeps the bounds apart, however fine the lattice is.
            let gap = found[index].steps * found[index].step > 0.7 * steps * step && finer < 0.5 * step;
            if points == POINTS_MAX || gap {
                break;
            }
        }
    }
    found.into_iter().map(|known| known.bounds.plus(constant)).collect()
}

/// The next larger of the steps that all sums have in common, so that equal parts of theirs have equal values.
fn common(step: f64) -> f64 {
    STEP_RATIO.powf((step.ln() / STEP_RATIO.ln()).ceil())
}

#[derive(Clone, Copy)]
struct Known {
    /// The intersection of the bounds from all lattices.
    bounds: Between,
    /// The width of the bounds from the finest lattice, in steps: a number that hardly depends on the step.
    steps: f64,
    step: f64,
}

impl Known {
    const NOTHING: Self = Self {
        bounds: Between { low: 0.0, high: f64::INFINITY, best: 0.0 },
        steps: f64::INFINITY,
        step: f64::INFINITY,
    };

    /// Intersects with the bounds from another lattice.
    fn add(&mut self, other: Between, step: f64) {
        let low = self.bounds.low.max(other.low);
        let high = self.bounds.high.min(other.high).max(low);
        let finer = step < self.step && other.high.is_finite();
        if finer {
            (self.steps, self.step) = ((other.high - other.low) / step, step);
        }
        let best = if finer { other.best } else { self.bounds.best };
        self.bounds = Between { low, high, best: best.clamp(low, high) };
    }
}

struct Lattices<'p, 'l> {
    paths: &'p [Path<'l>],
    least: f64,
    probabilities: &'p [f64],
    series: &'p mut Series,
}

impl Lattices<'_, '_> {
    /// Narrows the bounds with a lattice of this step.
    fn narrow(&mut self, found: &mut [Known], step: f64, points: usize) {
        let (mut below, mut above) = (vec![0.0; points], vec![0.0; points]);
        let mut error_bound = 0.0;
        for path in self.paths.iter().filter(|path| path.probability > 0.0) {
            let sums = self.series.sums(&path.parts, step, points);
            error_bound += path.probability * sums.error_bound;
            let shift = (path.constant - self.least) / step;
            add(&mut below, &sums.below, path.probability, shift.floor());
            add(&mut above, &sums.above, path.probability, shift.ceil());
        }
        for (known, p) in found.iter_mut().zip(self.probabilities) {
            let low = below.partition_point(|at_most| *at_most < p - error_bound);
            let high = above.partition_point(|at_most| *at_most < p + error_bound);
            // A value that was rounded down lies in the step above its point, one that was rounded up in that below.
            let best =
                || (low as f64 + high as f64 - 1.0) + reached(&below, low, *p) + reached(&above, high, *p);
            let (high, best) =
                if high < points { (high as f64, best() / 2.0) } else { (f64::INFINITY, low as f64) };
            known.add(Between { low: low as f64 * step, high: high * step, best: best * step }, step);
        }
    }
}

/// The share of the rise of a distribution function at `index` that lies below p.
fn reached(distribution: &[f64], index: usize, p: f64) -> f64 {
    let before = if index > 0 { distribution[index - 1] } else { 0.0 };
    let rise = distribution[index] - before;
    if rise > 0.0 { ((p - before) / rise).clamp(0.0, 1.0) } else { 0.5 }
}

/// Adds a distribution function, weighted by a probability and shifted by a number of steps.
fn add(sum: &mut [f64], distribution: &[f64], probability: f64, steps: f64) {
    if steps < sum.len() as f64 {
        let moved = sum.iter_mut().skip(steps as usize).zip(distribution);
        moved.for_each(|(sum, at_most)| *sum += probability * at_most);
    }
}

#[cfg(test)]
mod tests;
