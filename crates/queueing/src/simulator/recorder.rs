//! Records a run of unknown length in bounded memory: batch means, and a histogram per segment.
//!
//! There are at most 4,096 batches; when they are full, neighbours are merged and a batch holds twice as many jobs.
//! Every 64 batches share a histogram. So the warm-up can be cut off afterwards, from means and percentiles alike, and
//! both have batches for their confidence intervals.

use super::histogram::Histogram;

const BATCHES_MAX: usize = 4_096;
const SEGMENT_BATCHES: usize = 64;

/// The mean of a batch and of its control variable.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch {
    pub(super) mean: f64,
    pub(super) control: f64,
}

/// Observations in order of arrival.
#[derive(Debug, Clone)]
pub struct Recorder {
    batches: Vec<Batch>,
    segments: Vec<Histogram>,
    current: Histogram,
    batch_jobs: u64,
    batch_count: u64,
    sum: f64,
    control_sum: f64,
    jobs: u64,
    total: f64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            batches: Vec::with_capacity(BATCHES_MAX),
            segments: Vec::new(),
            current: Histogram::default(),
            batch_jobs: 1,
            batch_count: 0,
            sum: 0.0,
            control_sum: 0.0,
            jobs: 0,
            total: 0.0,
        }
    }
}

impl Recorder {
    /// Records a response time in seconds and the value of its control variable (0 without one).
    #[inline]
    pub fn record(&mut self, value: f64, control: f64) {
        self.current.record(value);
        self.sum += value;
        self.control_sum += control;
        self.batch_count += 1;
        if self.batch_count == self.batch_jobs {
            self.close_batch();
        }
    }

    pub fn jobs(&self) -> u64 {
        self.jobs + self.batch_count
    }

    /// The mean of all observations, warm-up included; 0 without any.
    pub fn mean_overall(&self) -> f64 {
        (self.total + self.sum) / self.jobs().max(1) as f64
    }

    /// The mean of the control variable over all closed batches.
    pub(super) fn control_mean_overall(&self) -> f64 {
        self.batches.iter().map(|batch| batch.control).sum::<f64>() / self.batches.len().max(1) as f64
    }

    pub(super) fn batches(&self) -> &[Batch] {
        &self.batches
    }

    pub(super) fn batch_jobs(&self) -> u64 {
        self.batch_jobs
    }

    /// Histograms of the observations after the first `batches` batches, rounded up to a whole segment.
    pub(super) fn segments_after(&self, batches: usize) -> &[Histogram] {
        &self.segments[batches.div_ceil(SEGMENT_BATCHES).min(self.segments.len())..]
    }

    /// The segment that is not yet full.
    pub(super) fn unfinished(&self) -> &Histogram {
        &self.current
    }

    #[cold]
    fn close_batch(&mut self) {
        let jobs = self.batch_count as f64;
        self.batches.push(Batch { mean: self.sum / jobs, control: self.control_sum / jobs });
        self.jobs += self.batch_count;
        self.total += self.sum;
        (self.sum, self.control_sum, self.batch_count) = (0.0, 0.0, 0);
        if self.batches.len().is_multiple_of(SEGMENT_BATCHES) {
            self.segments.push(std::mem::take(&mut self.current));
        }
        if self.batches.len() == BATCHES_MAX {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let merge = |pair: &[Batch]| Batch {
            mean: (pair[0].mean + pair[1].mean) / 2.0,
            control: (pair[0].control + pair[1].control) / 2.0,
        };
        self.batches = self.batches.chunks_exact(2).map(merge).collect();
        for index in 0..self.segments.len() / 2 {
            self.segments.swap(index, 2 * index);
            let (kept, rest) = self.segments.split_at_mut(2 * index + 1);
            kept[index].merge(&rest[0]);
        }
        self.segments.truncate(self.segments.len() / 2);
        self.batch_jobs *= 2;
    }
}
