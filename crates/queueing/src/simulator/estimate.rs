//! Mean and percentiles of the response times after the warm-up, each with a confidence interval or the reason why
//! there is none.
//!
//! The warm-up is a fixed share of every run. A cut that looks at the data, such as MSER's, prefers to drop busy
//! stretches at the start, and so estimates of many short replications came out several per cent low. A percentile's
//! interval comes from the interval of the fraction of jobs below it, read back through the distribution (Woodruff,
//! JASA 47, 1952): no density has to be guessed.

use super::interval::{Interval, Ratio};
use super::recorder::{Recorder, Section};
use super::result::{ResponseTime, Target};
use super::unreliable::Unreliable;

pub(super) const WARM_UP_SHARE: usize = 8;
/// Merging stops at this many sections over all runs together.
const SECTIONS: usize = 32;
/// A section must be worth at least this many independent observations.
const INDEPENDENT_MIN: f64 = 10.0;
/// A section must hold at least this many independent observations beyond a percentile.
const BEYOND_SECTION_MIN: f64 = 0.5;
/// The fewest observations beyond a percentile, all sections together.
const BEYOND_MIN: f64 = 100.0;

/// A figure of the response time, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    pub(super) value: f64,
    /// Half of the width of the 95 % interval, or the reason why there is none.
    pub(super) half_width: Result<f64, Unreliable>,
}

/// The observations after the warm-up, cut into sections.
pub(super) struct Sample {
    sections: Vec<Section>,
    pub(super) grouping: Grouping,
    /// All observations, including those after the last whole section.
    all: Section,
    warm_up_jobs: u64,
}

/// The estimates from one sample, with the diagnostics that results report.
pub(super) struct Estimates {
    /// In the order of [`Target::ALL`].
    figures: [Estimate; 6],
    max: f64,
    pub(super) warm_up_jobs: u64,
    /// Correlation of neighbouring sections.
    pub(super) lag_one: f64,
    /// Variance without the control variate over variance with it; 1 without one.
    pub(super) variance_reduction: f64,
}

impl Sample {
    /// Collects the sections of all `groups`, which hold equal numbers of replications; keeps the warm-up unless `cut`
    /// is set.
    pub(super) fn of(groups: &[&Recorder], cut: bool) -> Self {
        let grouping = Grouping::of(groups, cut);
        let mut sample = Self { sections: Vec::new(), grouping, all: Section::default(), warm_up_jobs: 0 };
        for group in groups {
            let group = group.at(grouping.shift);
            let (warm_up, steady) = group.sections().split_at(grouping.warm_up);
            sample.warm_up_jobs += warm_up.iter().map(|section| section.histogram.total()).sum::<u64>();
            steady.iter().for_each(|section| sample.all.merge(section));
            sample.sections.extend(grouping.merged(steady, Section::merge));
        }
        sample
    }

    /// Computes all figures and adds `delta` seconds to each; `known_control` is the exact mean of the control
    /// variable, and `unreliable` rules out every interval.
    pub(super) fn estimates(
        &self,
        delta: f64,
        known_control: Option<f64>,
        unreliable: Option<Unreliable>,
    ) -> Estimates {
        let mean = self.mean(known_control, unreliable);
        let figures = Target::ALL.map(|(_, target)| {
            let figure = match target.quantile() {
                Some(p) => self.percentile(p, unreliable.or(mean.unreliable)),
                None => mean.estimate,
            };
            Estimate { value: figure.value + delta, ..figure }
        });
        let any = self.all.histogram.total() > 0;
        Estimates {
            figures,
            max: if any { self.all.histogram.max() + delta } else { 0.0 },
            warm_up_jobs: self.warm_up_jobs,
            lag_one: mean.lag_one,
            variance_reduction: mean.variance_reduction,
        }
    }

    fn mean(&self, known_control: Option<f64>, unreliable: Option<Unreliable>) -> Mean {
        let jobs = self.all.histogram.total() as f64;
        let per = |section: &Section, sum: f64| (sum, section.histogram.total() as f64);
        let mut ratio = Ratio::of(self.sections.iter().map(|section| per(section, section.sum)));
        let overall = self.all.sum / jobs.max(1.0);
        let Some(plain) = ratio.interval(self.grouping.chain, 0) else {
            let half_width = Err(unreliable.unwrap_or(Unreliable::TooFew));
            return Mean::of(Estimate { value: overall, half_width });
        };
        let variance = self.all.squares / jobs - overall * overall;
        let unreliable_mean = unreliable.or(too_short(&plain, variance, INDEPENDENT_MIN));
        let Some(known) = known_control else {
            let half_width = with_interval(&plain, unreliable_mean);
            return Mean { lag_one: plain.lag_one, ..Mean::of(Estimate { value: overall, half_width }) };
        };
        let control = Ratio::of(self.sections.iter().map(|section| per(section, section.control)));
        let slope = ratio.slope(&control);
        let trusted = control.interval(self.grouping.chain, 0).is_some_and(|interval| {
            let deviation = known - control.value;
            -interval.below <= deviation && deviation <= interval.above
        });
        let mut found = Mean::of(Estimate { value: overall, half_width: Err(Unreliable::Tail) });
        if !trusted {
            found.lag_one = plain.lag_one;
            found.unreliable = Some(Unreliable::Tail);
            found.estimate.half_width = Err(unreliable_mean.unwrap_or(Unreliable::Tail));
            return found;
        }
        ratio.control(&control, slope);
        let with = ratio.interval(self.grouping.chain, 1).unwrap_or(plain);
        let value = overall - slope * (self.all.control / jobs - known);
        found.estimate = Estimate { value, half_width: with_interval(&with, unreliable_mean) };
        found.lag_one = with.lag_one;
        found.variance_reduction = if with.variance > 0.0 { plain.variance / with.variance } else { 1.0 };
        found
    }

    fn percentile(&self, p: f64, unreliable: Option<Unreliable>) -> Estimate {
        let all = &self.all.histogram;
        let Some(place) = all.place(p) else {
            return Estimate { value: 0.0, half_width: Err(Unreliable::TooFew) };
        };
        let value = all.value(place);
        let half_width = || {
            unreliable.map_or(Ok(()), Err)?;
            if all.total() as f64 * (1.0 - p) < BEYOND_MIN {
                return Err(Unreliable::TooFew);
            }
            let below = |section: &Section| {
                let jobs = section.histogram.total() as f64;
                (section.histogram.fraction(place) * jobs, jobs)
            };
            let ratio = Ratio::of(self.sections.iter().map(below));
            let interval = ratio.interval(self.grouping.chain, 0).ok_or(Unreliable::TooFew)?;
            let independent = INDEPENDENT_MIN.max(BEYOND_SECTION_MIN / p.min(1.0 - p));
            too_short(&interval, p * (1.0 - p), independent).map_or(Ok(()), Err)?;
            with_interval(&interval, None)?;
            // More observations below than p: the percentile lies lower.
            let (low, high) = (p - interval.above, p + interval.below);
            if low <= 0.0 || all.total() as f64 * (1.0 - high) < 1.0 {
                return Err(Unreliable::TooFew);
            }
            let width = (value - all.quantile(low)).max(all.quantile(high) - value);
            Ok(width + all.resolution(place))
        };
        Estimate { value, half_width: half_width() }
    }
}

/// The mean, with the effect of its control variate.
struct Mean {
    estimate: Estimate,
    lag_one: f64,
    variance_reduction: f64,
    /// Why no figure of the run has a reliable interval.
    unreliable: Option<Unreliable>,
}

impl Mean {
    fn of(estimate: Estimate) -> Self {
        Self { estimate, lag_one: 0.0, variance_reduction: 1.0, unreliable: None }
    }
}

/// Returns true if a section is worth too few independent observations: it is worth `variance / interval.variance`.
fn too_short(interval: &Interval, variance: f64, independent: f64) -> Option<Unreliable> {
    (interval.variance * independent > variance).then_some(Unreliable::Correlated)
}

fn with_interval(interval: &Interval, unreliable: Option<Unreliable>) -> Result<f64, Unreliable> {
    unreliable.or_else(|| Unreliable::of(interval)).map_or(Ok(interval.half_width()), Err)
}

/// Tells how to merge the sections of equal runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grouping {
    /// Sections hold 2^shift jobs of each replication.
    pub(super) shift: u32,
    /// Warm-up sections at the start of every run.
    pub(super) warm_up: usize,
    /// The number of merged sections in each run, which are neighbours.
    pub(super) chain: usize,
    /// The number of sections merged into one.
    width: usize,
}

impl Grouping {
    /// Chooses a grouping that fits all runs. Interrupted runs may differ in length.
    fn of(groups: &[&Recorder], cut: bool) -> Self {
        let shift = groups.iter().map(|group| group.shift()).max().unwrap_or(0);
        let complete = groups.iter().map(|group| group.at(shift).complete()).min().unwrap_or(0);
        let warm_up = if cut && complete >= WARM_UP_SHARE { complete.div_ceil(WARM_UP_SHARE) } else { 0 };
        let steady = complete - warm_up;
        let width = (steady * groups.len() / SECTIONS).clamp(1, steady.max(1));
        Self { shift, warm_up, chain: steady / width, width }
    }

    /// Merges entries after the warm-up.
    pub(super) fn merged<'s, T: Clone>(
        &self,
        steady: &'s [T],
        merge: impl Fn(&mut T, &T) + 's,
    ) -> impl Iterator<Item = T> + 's {
        steady.chunks(self.width).take(self.chain).map(move |chunk| {
            let mut whole = chunk[0].clone();
            chunk[1..].iter().for_each(|section| merge(&mut whole, section));
            whole
        })
    }
}

impl Estimates {
    pub(super) fn figure(&self, target: Target) -> Estimate {
        self.figures[target as usize]
    }

    /// Why the run is too short for any reliable interval.
    pub(super) fn unreliable_for_length(&self) -> Option<Unreliable> {
        self.figure(Target::Mean).half_width.err().filter(|unreliable| unreliable.needs_longer_run())
    }

    /// The mean and the percentiles in the form that results report.
    pub(super) fn response_time(&self) -> ResponseTime {
        let [mean, p50, p90, p95, p99, p999] = self.figures.map(|figure| figure.value);
        let [
            mean_half_width,
            p50_half_width,
            p90_half_width,
            p95_half_width,
            p99_half_width,
            p999_half_width,
        ] = self.figures.map(|figure| figure.half_width.ok());
        ResponseTime {
            mean,
            p50,
            p90,
            p95,
            p99,
            p999,
            max: self.max,
            mean_half_width,
            p50_half_width,
            p90_half_width,
            p95_half_width,
            p99_half_width,
            p999_half_width,
        }
    }
}
