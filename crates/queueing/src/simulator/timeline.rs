//! The totals of every station in each section of a run: busy and queued time, visits, and the deviation of the demands
//! drawn. Sections are those of the first recorder.

use std::borrow::Cow;

use super::encoding::{Encoded, encoded};
use super::estimate::Grouping;
use super::interval::{ERROR_PROBABILITY, Interval, Ratio};
use super::recorder::{SHIFT_MAX, merge_neighbours};
use super::unreliable::Unreliable;

/// Deviations of the drawn demands from their distribution below this are ignored: moments by quadrature deviate as
/// much.
const NEGLIGIBLE: f64 = 1e-3;

/// A station's totals, from the start of a run or over one section of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) seconds: f64,
    /// ∫ v(n) dt.
    pub(super) busy: f64,
    /// ∫ jobs present dt.
    pub(super) present: f64,
    pub(super) visits: f64,
    /// Their total residence time.
    pub(super) residence: f64,
    /// Arrivals at a station of limited capacity, retries included.
    pub(super) attempts: f64,
    /// Arrivals that found the station full.
    pub(super) found_full: f64,
    pub(super) begun: f64,
    pub(super) demand: f64,
    /// Sum of demands (or of their squares where jobs wait for each other to end) minus its expectation.
    pub(super) excess: f64,
    pub(super) expected: f64,
}

encoded!(Totals {
    seconds,
    busy,
    present,
    visits,
    residence,
    attempts,
    found_full,
    begun,
    demand,
    excess,
    expected,
});

/// Totals by section and station, summed over the replications that share the timeline.
#[derive(Debug, Clone, Default)]
pub(super) struct Timeline {
    sections: Vec<Vec<Totals>>,
    shift: u32,
}

impl Encoded for Timeline {
    fn write(&self, out: &mut Vec<u8>) {
        self.sections.write(out);
        self.shift.write(out);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (sections, shift) = Encoded::read(bytes)?;
        (shift < SHIFT_MAX).then_some(Self { sections, shift })
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct StationFigure {
    pub(super) value: f64,
    pub(super) half_width: Option<f64>,
}

/// One station over the sections after the warm-up.
pub(super) struct StationSample {
    sections: Vec<Totals>,
    chain: usize,
    /// The totals after the warm-up, or of the whole run if it has no whole sections.
    pub(super) total: Totals,
}

impl Timeline {
    /// Adds the totals of a section of 2^`shift` jobs that ended with a replication's job number `count`.
    pub(super) fn add(&mut self, count: u64, shift: u32, totals: &[Totals]) {
        self.merge_to(shift);
        let index = ((count - 1) >> shift) as usize;
        if index >= self.sections.len() {
            self.sections.resize_with(index + 1, || vec![Totals::default(); totals.len()]);
        }
        self.sections[index].iter_mut().zip(totals).for_each(|(own, more)| own.add(more));
    }

    /// Returns true if each section has so many totals.
    pub(super) fn is_of(&self, totals: usize) -> bool {
        self.sections.iter().all(|section| section.len() == totals)
    }

    /// The timeline with sections merged to 2^`shift` jobs, at least their present size.
    fn at(&self, shift: u32) -> Cow<'_, Self> {
        if shift == self.shift {
            return Cow::Borrowed(self);
        }
        let mut merged = self.clone();
        merged.merge_to(shift);
        Cow::Owned(merged)
    }

    fn merge_to(&mut self, shift: u32) {
        while self.shift < shift {
            self.shift += 1;
            merge_neighbours(&mut self.sections, |section, other| {
                section.iter_mut().zip(other).for_each(|(own, more)| own.add(more));
            });
        }
    }
}

impl StationSample {
    /// Groups the sections of `groups` as those of their response times; `whole` is the run's totals over all groups.
    pub(super) fn of(groups: &[&Timeline], grouping: Grouping, station: usize, whole: Totals) -> Self {
        let (mut sections, mut total) = (Vec::new(), whole);
        for group in groups {
            let group = group.at(grouping.shift);
            let own: Vec<Totals> = group.sections.iter().map(|all| all[station]).collect();
            let (warm_up, steady) = own.split_at(grouping.warm_up);
            warm_up.iter().for_each(|section| total.subtract(section));
            sections.extend(grouping.merged(steady, Totals::add));
        }
        Self { sections, chain: grouping.chain, total }
    }

    /// Estimates the ratio of two totals; `unreliable` rules out its interval.
    pub(super) fn figure(
        &self,
        above: fn(&Totals) -> f64,
        below: fn(&Totals) -> f64,
        unreliable: Option<Unreliable>,
    ) -> StationFigure {
        let total = below(&self.total);
        let value = if total > 0.0 { above(&self.total) / total } else { 0.0 };
        let half_width = self
            .interval(ERROR_PROBABILITY, above, below)
            .filter(|interval| unreliable.or_else(|| Unreliable::of(interval)).is_none())
            .map(|interval| interval.half_width());
        StationFigure { value, half_width }
    }

    /// Returns false if the drawn demands differ from their distribution by more than chance: the rare large ones are
    /// missing. The error probability is shared with the other stations that are checked, `stations` in all, so that a run of
    /// many is not refused more often than a run of one (Bonferroni).
    pub(super) fn has_its_tail(&self, stations: usize) -> bool {
        let (excess, expected) = self.sections.iter().fold((0.0, 0.0), |(excess, expected), section| {
            (excess + section.excess, expected + section.expected)
        });
        let deviation = if expected > 0.0 { excess / expected } else { 0.0 };
        let error_probability = ERROR_PROBABILITY / stations as f64;
        let interval = self.interval(error_probability, |totals| totals.excess, |totals| totals.expected);
        interval.is_none_or(|interval| {
            deviation.abs() < NEGLIGIBLE || (-interval.above <= deviation && deviation <= interval.below)
        })
    }

    fn interval(
        &self,
        error_probability: f64,
        above: fn(&Totals) -> f64,
        below: fn(&Totals) -> f64,
    ) -> Option<Interval> {
        Ratio::of(self.sections.iter().map(|section| (above(section), below(section)))).interval_at(
            error_probability,
            self.chain,
            0,
        )
    }
}

impl StationFigure {
    /// Multiplies every total by `factor`.
    pub(super) fn times(self, factor: f64) -> Self {
        Self { value: self.value * factor, half_width: self.half_width.map(|width| width * factor) }
    }
}

impl Totals {
    pub(super) fn add(&mut self, more: &Self) {
        self.combine(more, 1.0);
    }

    pub(super) fn subtract(&mut self, less: &Self) {
        self.combine(less, -1.0);
    }

    fn combine(&mut self, other: &Self, factor: f64) {
        self.seconds += factor * other.seconds;
        self.busy += factor * other.busy;
        self.present += factor * other.present;
        self.visits += factor * other.visits;
        self.residence += factor * other.residence;
        self.attempts += factor * other.attempts;
        self.found_full += factor * other.found_full;
        self.begun += factor * other.begun;
        self.demand += factor * other.demand;
        self.excess += factor * other.excess;
        self.expected += factor * other.expected;
    }
}
