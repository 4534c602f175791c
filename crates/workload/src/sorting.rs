//! External merge sort: sorts more records than fit in memory by spilling sorted runs and merging them.
//!
//! Records within the budget never leave memory, so a short log needs no file. The sort is stable, spilled or not, on one
//! thread or on several: the result depends neither on the budget nor on the number of threads. With other threads, one
//! sorts and writes a run while the next one is collected, and later several merge ahead of the caller.

mod merge;
mod runs;

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, Write};
use std::ops::Range;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use merge::Merge;
use runs::Spiller;

/// Temporary storage for spilled runs, such as a temporary file.
pub trait Scratch: Read + Write + Seek + Send {}

impl<T: Read + Write + Seek + Send> Scratch for T {}

/// The memory budget of a sort, and the storage beyond it.
pub struct Spill<'s> {
    /// The bytes of records that one sort collects in memory; merging needs about as much. Each thread that merges ahead
    /// needs a part more.
    pub budget_bytes: usize,
    /// Creates empty temporary storage.
    pub open: &'s mut dyn FnMut() -> io::Result<Box<dyn Scratch>>,
}

/// The default memory budget: 8 MiB, half a million requests.
pub const SORT_BYTES: usize = 8 << 20;

/// The most threads that merge ahead of the caller; each holds a part of the records.
const MERGERS_MAX: usize = 4;

/// Fewer records are sorted by the caller alone.
const SORTED_APART_MIN: usize = 1 << 15;

/// A record of fixed size, which may have bytes of any length behind it: its tail.
pub trait Record: Copy + Send + Sync + 'static {
    type Key: Ord + Copy + Send;
    /// The bytes of `encode`.
    const ENCODED_BYTES: usize;

    fn key(&self) -> Self::Key;
    fn encode(&self, bytes: &mut Vec<u8>);
    /// Decodes a record from the bytes of `encode`.
    fn decode(bytes: &[u8]) -> Self;

    /// Sorts by key, stably.
    fn sort(records: &mut [Self]) {
        records.sort_by_key(Self::key);
    }

    /// Where its tail lies among the tails of its batch.
    fn tail(&self) -> Range<usize> {
        0..0
    }

    /// The record with its tail at another place.
    fn with_tail_at(self, _begin: usize) -> Self {
        self
    }
}

/// Records with their tails.
pub struct Batch<R> {
    pub records: Vec<R>,
    pub tails: Vec<u8>,
}

impl<R> Default for Batch<R> {
    fn default() -> Self {
        Batch { records: Vec::new(), tails: Vec::new() }
    }
}

impl<R: Record> Batch<R> {
    fn bytes(&self) -> usize {
        size_of_val(&*self.records) + self.tails.len()
    }

    fn clear(&mut self) {
        self.records.clear();
        self.tails.clear();
    }

    fn sort(&mut self) {
        R::sort(&mut self.records);
    }

    /// Sorts on so many other threads, too: each sorts a part, and the stable sort of sorted parts is a merge.
    fn sort_beside(&mut self, threads: usize) {
        let part = self.records.len().div_ceil(threads.min(MERGERS_MAX) + 1);
        if part >= SORTED_APART_MIN {
            thread::scope(|scope| {
                for part in self.records.chunks_mut(part) {
                    scope.spawn(move || R::sort(part));
                }
            });
        }
        self.sort();
    }

    /// Sorts on so many other threads, too; returns parts, of which each is sorted, and has its tails in the order of its
    /// records. One part behind the other, a stable sort gives what it gives of the whole.
    fn into_sorted_parts(self, threads: usize) -> Vec<Batch<R>> {
        let count = self.records.len();
        let length = count.div_ceil(threads.min(MERGERS_MAX) + 1).max(SORTED_APART_MIN);
        let part = |begin: usize| {
            let mut part = Batch::default();
            part.append(&self, begin..(begin + length).min(count));
            part.sort();
            if part.tails.is_empty() { part } else { part.laid_out() }
        };
        thread::scope(|scope| {
            let begin = |begin| scope.spawn(move || part(begin));
            let others: Vec<_> = (length..count).step_by(length).map(begin).collect();
            let own = part(0);
            let joined = |other: thread::ScopedJoinHandle<'_, _>| {
                other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            std::iter::once(own).chain(others.into_iter().map(joined)).collect()
        })
    }

    /// The same with the tails in the order of the records.
    fn laid_out(&self) -> Batch<R> {
        let mut tails = Vec::with_capacity(self.tails.len());
        let moved = |record: &R| {
            let begin = tails.len();
            tails.extend_from_slice(&self.tails[record.tail()]);
            record.with_tail_at(begin)
        };
        let records = self.records.iter().map(moved).collect();
        Batch { records, tails }
    }

    /// Adds some records of a batch whose tails lie in the order of its records.
    fn append(&mut self, other: &Batch<R>, range: Range<usize>) {
        let records = &other.records[range];
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return };
        let (begin, at) = (first.tail().start, self.tails.len());
        self.tails.extend_from_slice(&other.tails[begin..last.tail().end]);
        let moved = |record: &R| record.with_tail_at(record.tail().start - begin + at);
        self.records.extend(records.iter().map(moved));
    }
}

/// Collects records in any order.
pub struct Sorter<R: Record> {
    batch: Batch<R>,
    count: u64,
    threads: usize,
    spiller: Option<Spiller<R>>,
}

impl<R: Record> Sorter<R> {
    /// `threads` is the number of threads beside the caller's.
    pub fn new(threads: usize) -> Self {
        Sorter { batch: Batch::default(), count: 0, threads, spiller: None }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds a record without a tail. Without storage to spill to, all records stay in memory.
    pub fn push(&mut self, record: R, spill: &mut Option<Spill<'_>>) -> io::Result<()> {
        self.push_with(record, |_| (), spill)
    }

    /// Adds a record with the tail that `write` appends.
    pub fn push_with(
        &mut self,
        record: R,
        write: impl FnOnce(&mut Vec<u8>),
        spill: &mut Option<Spill<'_>>,
    ) -> io::Result<()> {
        self.count += 1;
        self.batch.records.push(record.with_tail_at(self.batch.tails.len()));
        write(&mut self.batch.tails);
        match spill {
            Some(spill) if self.batch.bytes() >= self.batch_bytes(spill) => self.spill(spill),
            _ => Ok(()),
        }
    }

    /// What is spilled at once: with other threads one batch is filled while another one is written.
    fn batch_bytes(&self, spill: &Spill<'_>) -> usize {
        if self.threads > 0 { spill.budget_bytes / 2 } else { spill.budget_bytes }
    }

    fn spill(&mut self, spill: &mut Spill<'_>) -> io::Result<()> {
        let spiller = match &mut self.spiller {
            Some(spiller) => spiller,
            none => none.insert(Spiller::new((spill.open)()?, self.threads > 0)),
        };
        let full = std::mem::take(&mut self.batch);
        self.batch = spiller.spill(full)?;
        Ok(())
    }

    /// Yields all records in order of their keys.
    pub fn finish(mut self, spill: &mut Option<Spill<'_>>) -> io::Result<Sorted<R>> {
        let (Some(spiller), Some(spill)) = (self.spiller, spill) else {
            self.batch.sort_beside(self.threads);
            return Ok(Sorted { source: Source::Held(Some(self.batch)) });
        };
        // The last run need not leave memory.
        let held = self.batch.into_sorted_parts(self.threads);
        let merge = Merge::new(spiller.finish()?, held, spill.budget_bytes);
        Ok(Sorted {
            source: if self.threads == 0 { Source::Here(merge) } else { ahead(merge, self.threads) },
        })
    }
}

/// All records in order, batch by batch.
pub struct Sorted<R: Record> {
    source: Source<R>,
}

impl<R: Record> Sorted<R> {
    /// The records alone.
    pub fn records(self) -> Records<R> {
        Records { sorted: self, batch: Vec::new().into_iter() }
    }
}

/// Records without tails, in order.
pub struct Records<R: Record> {
    sorted: Sorted<R>,
    batch: std::vec::IntoIter<R>,
}

impl<R: Record> Iterator for Records<R> {
    type Item = io::Result<R>;

    fn next(&mut self) -> Option<io::Result<R>> {
        loop {
            if let Some(record) = self.batch.next() {
                return Some(Ok(record));
            }
            match self.sorted.next()? {
                Ok(batch) => self.batch = batch.records.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

enum Source<R: Record> {
    Held(Option<Batch<R>>),
    Here(Merge<R>),
    Ahead(Ahead<R>),
}

impl<R: Record> Iterator for Sorted<R> {
    type Item = io::Result<Batch<R>>;

    fn next(&mut self) -> Option<io::Result<Batch<R>>> {
        match &mut self.source {
            Source::Held(batch) => batch.take().map(Ok),
            Source::Here(merge) => merge.part().transpose().map(|part| {
                let mut part = part?;
                part.sort();
                Ok(part)
            }),
            Source::Ahead(ahead) => ahead.next(),
        }
    }
}

/// Parts of the records that other threads sort, to be taken in order.
struct Ahead<R> {
    sorted: Receiver<(u64, io::Result<Batch<R>>)>,
    waiting: BTreeMap<u64, io::Result<Batch<R>>>,
    next: u64,
}

/// Merges on other threads: each cuts off the next part of all runs, alone, and then sorts it beside the others.
fn ahead<R: Record>(merge: Merge<R>, threads: usize) -> Source<R> {
    let merge = Arc::new(Mutex::new((merge, 0)));
    // A thread waits until its part is taken, or until no one will take it.
    let (send, sorted) = mpsc::sync_channel(0);
    for _ in 0..threads.min(MERGERS_MAX) {
        let (merge, send) = (merge.clone(), send.clone());
        thread::spawn(move || {
            loop {
                let (number, part) = {
                    let mut merge = merge.lock().unwrap_or_else(PoisonError::into_inner);
                    let (merge, number) = &mut *merge;
                    *number += 1;
                    (*number - 1, merge.part())
                };
                let sorted = part.map(|part| {
                    part.map(|mut part| {
                        part.sort();
                        part
                    })
                });
                let Some(sorted) = sorted.transpose() else { return };
                let is_last = sorted.is_err();
                if send.send((number, sorted)).is_err() || is_last {
                    return;
                }
            }
        });
    }
    Source::Ahead(Ahead { sorted, waiting: BTreeMap::new(), next: 0 })
}

impl<R> Ahead<R> {
    fn next(&mut self) -> Option<io::Result<Batch<R>>> {
        loop {
            if let Some(batch) = self.waiting.remove(&self.next) {
                self.next += 1;
                return Some(batch);
            }
            let (number, batch) = self.sorted.recv().ok()?;
            self.waiting.insert(number, batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A key, and the number of bytes in its tail, each of which is its number.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Tailed {
        key: u8,
        number: u32,
        bytes: u8,
        begin: usize,
    }

    impl Record for Tailed {
        type Key = u8;

        const ENCODED_BYTES: usize = 6;

        fn key(&self) -> u8 {
            self.key
        }

        fn encode(&self, bytes: &mut Vec<u8>) {
            bytes.extend_from_slice(&[self.key, self.bytes]);
            bytes.extend_from_slice(&self.number.to_le_bytes());
        }

        fn decode(bytes: &[u8]) -> Self {
            let number = u32::from_le_bytes(bytes[2..].try_into().unwrap());
            Tailed { key: bytes[0], bytes: bytes[1], number, begin: 0 }
        }

        fn tail(&self) -> Range<usize> {
            self.begin..self.begin + usize::from(self.bytes)
        }

        fn with_tail_at(self, begin: usize) -> Self {
            Tailed { begin, ..self }
        }
    }

    proptest! {
        #[test]
        fn spilled_or_not_the_order_is_that_of_a_stable_sort(
            keys in proptest::collection::vec((0_u8..20, any::<u8>()), 0..500), budget_bytes in 1_usize..5000,
            threads in 0_usize..4,
        ) {
            let records: Vec<_> =
                keys.iter().zip(0..).map(|(&(key, bytes), number)| Tailed { key, number, bytes, begin: 0 }).collect();
            let mut open = || Ok(Box::new(io::Cursor::new(Vec::new())) as Box<dyn Scratch>);
            let mut spill = Some(Spill { budget_bytes, open: &mut open });
            let mut sorter = Sorter::new(threads);
            for record in &records {
                let tail = vec![record.number as u8; record.bytes.into()];
                sorter.push_with(*record, |tails| tails.extend_from_slice(&tail), &mut spill).unwrap();
            }
            let mut sorted = Vec::new();
            for batch in sorter.finish(&mut spill).unwrap() {
                let batch = batch.unwrap();
                for record in batch.records {
                    prop_assert!(batch.tails[record.tail()].iter().all(|byte| *byte == record.number as u8));
                    sorted.push(record.with_tail_at(0));
                }
            }
            let mut expected = records;
            expected.sort_by_key(|record| record.key);
            prop_assert_eq!(sorted, expected);
        }
    }

    #[test]
    fn parts_sorted_apart_are_merged_stably() {
        let record = |number: u32| Tailed {
            key: (number.wrapping_mul(2_654_435_761) >> 27) as u8,
            number,
            bytes: 0,
            begin: 0,
        };
        let records: Vec<_> = (0..3 * SORTED_APART_MIN as u32).map(record).collect();
        let mut sorter = Sorter::new(2);
        records.iter().try_for_each(|record| sorter.push(*record, &mut None)).unwrap();
        let sorted: Vec<_> = sorter.finish(&mut None).unwrap().records().map(Result::unwrap).collect();
        let mut expected = records;
        expected.sort_by_key(|record| record.key);
        assert_eq!(sorted, expected);
    }

    /// Storage that fails after some bytes.
    struct Full(io::Cursor<Vec<u8>>, u64);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0.position() + bytes.len() as u64 > self.1 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for Full {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.0.read(bytes)
        }
    }

    impl Seek for Full {
        fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    #[test]
    fn a_full_disk_is_told_whichever_thread_meets_it() {
        for threads in [0, 1] {
            let mut open = || Ok(Box::new(Full(io::Cursor::default(), 1000)) as Box<dyn Scratch>);
            let mut spill = Some(Spill { budget_bytes: 100, open: &mut open });
            let mut sorter = Sorter::new(threads);
            let record = |number| Tailed { key: 0, number, bytes: 0, begin: 0 };
            let pushed = (0..1000).try_for_each(|number| sorter.push(record(number), &mut spill));
            assert_eq!(pushed.unwrap_err().kind(), io::ErrorKind::StorageFull, "{threads} threads");
        }
    }
}
