//! Cuts sorted runs into parts, each of which has all records between two keys, so that parts can be sorted apart.
//!
//! Each run is read through its own buffer. Whatever a run still has in storage is not before the last key in its buffer.
//! So all records before the least of these last keys are in the buffers: they are the next part. A part is a few sorted
//! pieces, and a stable sort merges those fast.

use std::io::{self, SeekFrom};

use super::runs::Runs;
use super::{Batch, Record, Scratch};

/// The size range of a run's buffer: large enough for efficient reads, small enough for a thousand runs at once, and for parts that
/// stay in a processor's cache.
const BUFFER_BYTES: std::ops::RangeInclusive<usize> = 16 << 10..=1 << 18;

pub struct Merge<R: Record> {
    scratch: Box<dyn Scratch>,
    runs: Vec<Run<R>>,
    buffer_bytes: usize,
    bytes: Vec<u8>,
}

/// The rest of a run: a part in memory, the remainder in temporary storage.
struct Run<R> {
    held: Batch<R>,
    /// The number of records in `held` that are already in parts.
    taken: usize,
    next_at: u64,
    ends_at: u64,
}

impl<R: Record> Merge<R> {
    /// Prepares to merge the runs in storage with those behind them, which are held in memory, sorted, with their tails in
    /// the order of their records. All buffers together take about an eighth of `budget_bytes`,
    /// because parts are copied from them, sorted and taken beside.
    pub fn new(runs: Runs, held: Vec<Batch<R>>, budget_bytes: usize) -> Self {
        let Runs { scratch, bounds } = runs;
        let buffer_bytes =
            (budget_bytes / 8 / (bounds.len() - 1)).clamp(*BUFFER_BYTES.start(), *BUFFER_BYTES.end());
        let run =
            |bounds: &[u64]| Run { held: Batch::default(), taken: 0, next_at: bounds[0], ends_at: bounds[1] };
        let held = held.into_iter().map(|held| Run { held, taken: 0, next_at: 0, ends_at: 0 });
        let runs = bounds.windows(2).map(run).chain(held).collect();
        Merge { scratch, runs, buffer_bytes, bytes: Vec::new() }
    }

    /// The next part, whose records are those of one run after those of another; `None` after the last.
    pub fn part(&mut self) -> io::Result<Option<Batch<R>>> {
        for run in &mut self.runs {
            if run.has_more() && run.left_bytes() < self.buffer_bytes.div_ceil(2) {
                run.fill(&mut *self.scratch, self.buffer_bytes, &mut self.bytes)?;
            }
        }
        loop {
            let lasts = self.runs.iter().filter(|run| run.has_more()).filter_map(Run::last_key);
            let bound = lasts.min();
            let mut part = Batch::default();
            for run in &mut self.runs {
                let rest = &run.held.records[run.taken..];
                let count =
                    bound.map_or(rest.len(), |bound| rest.partition_point(|record| record.key() < bound));
                part.append(&run.held, run.taken..run.taken + count);
                run.taken += count;
            }
            if !part.records.is_empty() {
                return Ok(Some(part));
            }
            let Some(bound) = bound else { return Ok(None) };
            // All that these runs hold has one key, and more with that key may follow.
            for run in self.runs.iter_mut().filter(|run| run.has_more() && run.last_key() == Some(bound)) {
                run.fill(&mut *self.scratch, self.buffer_bytes, &mut self.bytes)?;
            }
        }
    }
}

impl<R: Record> Run<R> {
    fn has_more(&self) -> bool {
        self.next_at < self.ends_at
    }

    fn last_key(&self) -> Option<R::Key> {
        self.held.records.last().map(R::key)
    }

    fn left_bytes(&self) -> usize {
        let left = &self.held.records[self.taken..];
        let tails = left.first().map_or(0, |first| self.held.tails.len() - first.tail().start);
        size_of_val(left) + tails
    }

    /// Reads more records, at least one, behind those that are left.
    fn fill(
        &mut self,
        scratch: &mut dyn Scratch,
        buffer_bytes: usize,
        bytes: &mut Vec<u8>,
    ) -> io::Result<()> {
        let mut left = Batch::default();
        left.append(&self.held, self.taken..self.held.records.len());
        (self.held, self.taken) = (left, 0);
        let mut wanted = buffer_bytes;
        loop {
            bytes.resize(wanted.min((self.ends_at - self.next_at).try_into().unwrap_or(usize::MAX)), 0);
            scratch.seek(SeekFrom::Start(self.next_at))?;
            scratch.read_exact(bytes)?;
            let mut at = 0;
            while let Some(encoded) = bytes.get(at..at + R::ENCODED_BYTES) {
                let record = R::decode(encoded);
                let begin = at + R::ENCODED_BYTES;
                let Some(tail) = bytes.get(begin..begin + record.tail().len()) else { break };
                self.held.records.push(record.with_tail_at(self.held.tails.len()));
                self.held.tails.extend_from_slice(tail);
                at = begin + tail.len();
            }
            self.next_at += at as u64;
            if at > 0 {
                return Ok(());
            }
            wanted *= 2; // a single record is longer
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Record for (u8, u16) {
        type Key = u8;

        const ENCODED_BYTES: usize = 3;

        fn key(&self) -> u8 {
            self.0
        }

        fn encode(&self, bytes: &mut Vec<u8>) {
            bytes.push(self.0);
            bytes.extend_from_slice(&self.1.to_le_bytes());
        }

        fn decode(bytes: &[u8]) -> Self {
            (bytes[0], u16::from_le_bytes([bytes[1], bytes[2]]))
        }
    }

    proptest! {
        /// However small the buffers, and however many records have the same key.
        #[test]
        fn parts_have_all_records_between_two_keys(
            runs in proptest::collection::vec(proptest::collection::vec(0_u8..6, 0..40), 1..6), buffer_bytes in 1_usize..40,
            stored in 1_usize..6,
        ) {
            let (mut bytes, mut held) = (Vec::new(), Vec::new());
            let mut bounds = vec![0];
            let mut expected = Vec::new();
            for (place, keys) in runs.into_iter().enumerate() {
                let mut run: Vec<(u8, u16)> = keys.into_iter().zip(expected.len() as u16..).collect();
                run.sort_by_key(|record| record.0);
                expected.extend_from_slice(&run);
                if place < stored {
                    run.iter().for_each(|record| record.encode(&mut bytes));
                    bounds.push(bytes.len() as u64);
                } else {
                    held.push(run);
                }
            }
            expected.sort_by_key(|record| record.0);
            let held = held.into_iter().map(|records| Batch { records, tails: Vec::new() }).collect();
            let runs = Runs { scratch: Box::new(io::Cursor::new(bytes)), bounds };
            let mut merge: Merge<(u8, u16)> = Merge::new(runs, held, 0);
            merge.buffer_bytes = buffer_bytes;
            let mut sorted: Vec<(u8, u16)> = Vec::new();
            while let Some(mut part) = merge.part().unwrap() {
                part.sort();
                sorted.extend(part.records);
            }
            prop_assert_eq!(sorted, expected);
        }
    }
}
