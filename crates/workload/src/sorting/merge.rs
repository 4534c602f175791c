//! Merges sorted runs stored one after the other, each read through its own buffer.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io::{self, Read, SeekFrom};

use super::{Record, Scratch};

/// The size range of a run's buffer: large enough for efficient reads, small enough for a thousand runs at once.
const BUFFER_BYTES: std::ops::RangeInclusive<usize> = 16 << 10..=1 << 20;

/// Yields the records of all runs in order.
pub struct Merge<R: Record> {
    scratch: Box<dyn Scratch>,
    runs: Vec<Run>,
    /// The next record of every unfinished run.
    heads: BinaryHeap<Head<R>>,
}

/// The rest of a run: a part in the buffer, the remainder in temporary storage.
struct Run {
    buffer: Box<[u8]>,
    begin: usize,
    end: usize,
    next_at: u64,
    ends_at: u64,
}

struct Head<R: Record> {
    key: R::Key,
    run: usize,
    record: R,
}

impl<R: Record> Merge<R> {
    /// Prepares to merge: run k lies from `bounds[k]` to `bounds[k + 1]`; all buffers together take about
    /// `budget_bytes`.
    pub fn new(scratch: Box<dyn Scratch>, bounds: &[u64], budget_bytes: usize) -> io::Result<Self> {
        let runs = bounds.len() - 1;
        let buffer_bytes = (budget_bytes / runs).clamp(*BUFFER_BYTES.start(), *BUFFER_BYTES.end());
        let run = |bounds: &[u64]| Run {
            buffer: vec![0; buffer_bytes].into_boxed_slice(),
            begin: 0,
            end: 0,
            next_at: bounds[0],
            ends_at: bounds[1],
        };
        let runs: Vec<Run> = bounds.windows(2).map(run).collect();
        let mut merge = Merge { scratch, runs, heads: BinaryHeap::new() };
        for run in 0..merge.runs.len() {
            merge.advance(run)?;
        }
        Ok(merge)
    }

    /// Loads the next record of a run, if there is one.
    fn advance(&mut self, number: usize) -> io::Result<()> {
        let run = &mut self.runs[number];
        if run.begin == run.end && run.next_at == run.ends_at {
            run.buffer = Box::default();
            (run.begin, run.end) = (0, 0);
            return Ok(());
        }
        let record = R::decode(&mut RunReader { run, scratch: &mut *self.scratch })?;
        self.heads.push(Head { key: record.key(), run: number, record });
        Ok(())
    }
}

impl<R: Record> Iterator for Merge<R> {
    type Item = io::Result<R>;

    fn next(&mut self) -> Option<io::Result<R>> {
        let Head { run, record, .. } = self.heads.pop()?;
        Some(self.advance(run).map(|()| record))
    }
}

struct RunReader<'m> {
    run: &'m mut Run,
    scratch: &'m mut dyn Scratch,
}

impl Read for RunReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let run = &mut *self.run;
        if run.begin == run.end {
            let left = usize::try_from(run.ends_at - run.next_at).unwrap_or(usize::MAX);
            let wanted = left.min(run.buffer.len());
            self.scratch.seek(SeekFrom::Start(run.next_at))?;
            self.scratch.read_exact(&mut run.buffer[..wanted])?;
            (run.begin, run.end) = (0, wanted);
            run.next_at += wanted as u64;
        }
        let count = out.len().min(run.end - run.begin);
        out[..count].copy_from_slice(&run.buffer[run.begin..run.begin + count]);
        run.begin += count;
        Ok(count)
    }
}

// A BinaryHeap yields its greatest item first, so the order is reversed: smallest key first, and of equal keys the
// earliest run.
impl<R: Record> Ord for Head<R> {
    fn cmp(&self, other: &Self) -> Ordering {
        (&other.key, other.run).cmp(&(&self.key, self.run))
    }
}

impl<R: Record> PartialOrd for Head<R> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<R: Record> PartialEq for Head<R> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<R: Record> Eq for Head<R> {}
