//! Records runs of unknown length in bounded memory: sections of equal length, each with its sums and a histogram.
//!
//! When all sections are full, neighbours are merged and a section holds twice as many jobs. So the warm-up can be cut
//! off afterwards, from means and percentiles alike, and both have sections for their confidence intervals. Several
//! replications may share a recorder: a section then holds the same stretch of each.

use std::borrow::Cow;

use super::encoding::{Encoded, encoded};
use super::histogram::Histogram;

/// A section never holds so many jobs (2^`SHIFT_MAX`).
pub(super) const SHIFT_MAX: u32 = 48;

/// The observations of one section of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Section {
    pub(super) sum: f64,
    pub(super) squares: f64,
    pub(super) control: f64,
    pub(super) histogram: Histogram,
}

encoded!(Section { sum, squares, control, histogram });

/// Records observations in order of completion.
#[derive(Debug, Clone)]
pub(super) struct Recorder {
    sections: Vec<Section>,
    /// The most sections (even). Neighbours are merged when all are full.
    sections_max: usize,
    /// A section holds 2^shift jobs of each replication.
    shift: u32,
    replications: u64,
}

impl Recorder {
    pub(super) fn new(sections_max: usize, replications: u64) -> Self {
        Self { sections: Vec::with_capacity(sections_max), sections_max, shift: 0, replications }
    }

    /// Records a response time in seconds and the value of its control variable (0 without one) of a replication that
    /// has recorded `count` jobs here. Returns true if it was the last of its section.
    #[inline]
    pub(super) fn record(&mut self, count: &mut u64, value: f64, control: f64) -> bool {
        let mut index = (*count >> self.shift) as usize;
        if index >= self.sections.len() {
            index = self.open(*count);
        }
        let section = &mut self.sections[index];
        section.histogram.record(value);
        section.sum += value;
        section.squares += value * value;
        section.control += control;
        *count += 1;
        count.trailing_zeros() >= self.shift
    }

    #[cold]
    fn open(&mut self, count: u64) -> usize {
        while (count >> self.shift) as usize >= self.sections_max {
            self.merge();
        }
        let index = (count >> self.shift) as usize;
        if index >= self.sections.len() {
            self.sections.resize_with(index + 1, Section::default);
        }
        index
    }

    pub(super) fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The number of sections that every replication has filled.
    pub(super) fn complete(&self) -> usize {
        let full = self.replications << self.shift;
        self.sections.iter().take_while(|section| section.histogram.total() == full).count()
    }

    /// The base-2 logarithm of the jobs per section and replication.
    pub(super) fn shift(&self) -> u32 {
        self.shift
    }

    /// The record with sections merged to 2^`shift` jobs, at least their present size.
    pub(super) fn at(&self, shift: u32) -> Cow<'_, Self> {
        if shift == self.shift {
            return Cow::Borrowed(self);
        }
        let mut merged = self.clone();
        while merged.shift < shift {
            merged.merge();
        }
        Cow::Owned(merged)
    }

    fn merge(&mut self) {
        self.shift += 1;
        merge_neighbours(&mut self.sections, Section::merge);
    }
}

impl Section {
    pub(super) fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.squares += other.squares;
        self.control += other.control;
        self.histogram.merge(&other.histogram);
    }
}

impl Encoded for Recorder {
    fn write(&self, out: &mut Vec<u8>) {
        self.sections.write(out);
        (self.sections_max as u64, self.shift).write(out);
        self.replications.write(out);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let sections = Vec::read(bytes)?;
        let (sections_max, shift) = <(u64, u32)>::read(bytes)?;
        let (sections_max, replications) = (usize::try_from(sections_max).ok()?, u64::read(bytes)?);
        let fits = sections.len() <= sections_max && shift < SHIFT_MAX;
        fits.then_some(Self { sections, sections_max, shift, replications })
    }
}

/// Merges each odd entry into the one before it.
pub(super) fn merge_neighbours<T>(entries: &mut Vec<T>, merge: impl Fn(&mut T, &T)) {
    let half = entries.len().div_ceil(2);
    for index in 0..half {
        entries.swap(index, 2 * index);
        if 2 * index + 1 < entries.len() {
            let (kept, rest) = entries.split_at_mut(2 * index + 1);
            merge(&mut kept[index], &rest[0]);
        }
    }
    entries.truncate(half);
}
