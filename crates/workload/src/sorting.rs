//! External merge sort: sorts more records than fit in memory by spilling sorted runs and merging them.
//!
//! Records within the budget never leave memory, so a short log needs no file. The sort is stable, spilled or not: the
//! result does not depend on the budget.

mod merge;

use std::io::{self, Read, Seek, Write};

use merge::Merge;

/// Temporary storage for spilled runs, such as a temporary file.
pub trait Scratch: Read + Write + Seek + Send {}

impl<T: Read + Write + Seek + Send> Scratch for T {}

/// The memory budget of a sort, and the storage beyond it.
pub struct Spill<'s> {
    /// The bytes of records that one sort holds in memory; merging uses as much for its buffers.
    pub budget_bytes: usize,
    /// Creates empty temporary storage.
    pub open: &'s mut dyn FnMut() -> io::Result<Box<dyn Scratch>>,
}

/// The default memory budget: 8 MiB, half a million requests.
pub const SORT_BYTES: usize = 8 << 20;

pub trait Record: Sized {
    type Key: Ord;
    fn key(&self) -> Self::Key;
    fn memory_bytes(&self) -> usize;
    fn encode(&self, bytes: &mut Vec<u8>);
    /// Decodes a record from the bytes of `encode`.
    fn decode(bytes: &mut impl Read) -> io::Result<Self>;
}

/// Collects records in any order.
pub struct Sorter<R> {
    records: Vec<R>,
    held_bytes: usize,
    count: u64,
    spilled: Option<Spilled>,
}

/// Sorted runs in temporary storage, one after the other.
struct Spilled {
    scratch: Box<dyn Scratch>,
    /// The start of each run, and the end of the last one.
    bounds: Vec<u64>,
}

/// Runs are written in pieces of this size.
const WRITE_BYTES: usize = 1 << 20;

impl<R> Default for Sorter<R> {
    fn default() -> Self {
        Sorter { records: Vec::new(), held_bytes: 0, count: 0, spilled: None }
    }
}

impl<R: Record> Sorter<R> {
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds a record. Without storage to spill to, all records stay in memory.
    pub fn push(&mut self, record: R, spill: &mut Option<Spill<'_>>) -> io::Result<()> {
        self.held_bytes += record.memory_bytes();
        self.count += 1;
        self.records.push(record);
        match spill {
            Some(spill) if self.held_bytes >= spill.budget_bytes => self.spill(spill),
            _ => Ok(()),
        }
    }

    fn spill(&mut self, spill: &mut Spill<'_>) -> io::Result<()> {
        let Spilled { scratch, bounds } = match &mut self.spilled {
            Some(spilled) => spilled,
            none => none.insert(Spilled { scratch: (spill.open)()?, bounds: vec![0] }),
        };
        self.records.sort_by_key(R::key);
        let mut bytes = Vec::with_capacity(WRITE_BYTES);
        for record in self.records.drain(..) {
            record.encode(&mut bytes);
            if bytes.len() >= WRITE_BYTES {
                scratch.write_all(&bytes)?;
                bytes.clear();
            }
        }
        scratch.write_all(&bytes)?;
        bounds.push(scratch.stream_position()?);
        self.held_bytes = 0;
        Ok(())
    }

    /// Yields all records in order of their keys.
    pub fn finish(mut self, spill: &mut Option<Spill<'_>>) -> io::Result<Sorted<R>> {
        if let (Some(_), Some(spill)) = (&self.spilled, spill) {
            let budget_bytes = spill.budget_bytes;
            self.spill(spill)?;
            self.records = Vec::new();
            let Some(Spilled { scratch, bounds }) = self.spilled else { unreachable!("it was spilled") };
            return Ok(Sorted::Merged(Merge::new(scratch, &bounds, budget_bytes)?));
        }
        self.records.sort_by_key(R::key);
        Ok(Sorted::Held(self.records.into_iter()))
    }
}

pub enum Sorted<R: Record> {
    Held(std::vec::IntoIter<R>),
    Merged(Merge<R>),
}

impl<R: Record> Iterator for Sorted<R> {
    type Item = io::Result<R>;

    fn next(&mut self) -> Option<io::Result<R>> {
        match self {
            Sorted::Held(records) => records.next().map(Ok),
            Sorted::Merged(merge) => merge.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Record for (u8, u32) {
        type Key = u8;

        fn key(&self) -> u8 {
            self.0
        }

        fn memory_bytes(&self) -> usize {
            8
        }

        fn encode(&self, bytes: &mut Vec<u8>) {
            bytes.push(self.0);
            bytes.extend_from_slice(&self.1.to_le_bytes());
        }

        fn decode(bytes: &mut impl Read) -> io::Result<Self> {
            let (mut key, mut value) = ([0], [0; 4]);
            bytes.read_exact(&mut key)?;
            bytes.read_exact(&mut value)?;
            Ok((key[0], u32::from_le_bytes(value)))
        }
    }

    proptest! {
        #[test]
        fn spilled_or_not_the_order_is_that_of_a_stable_sort(
            keys in proptest::collection::vec(any::<u8>(), 0..500), budget_bytes in 1_usize..2000,
        ) {
            let records: Vec<_> = keys.into_iter().zip(0_u32..).collect();
            let mut open = || Ok(Box::new(io::Cursor::new(Vec::new())) as Box<dyn Scratch>);
            let mut spill = Some(Spill { budget_bytes, open: &mut open });
            let mut sorter = Sorter::default();
            for record in &records {
                sorter.push(*record, &mut spill).unwrap();
            }
            let sorted: Vec<_> = sorter.finish(&mut spill).unwrap().map(Result::unwrap).collect();
            let mut expected = records;
            expected.sort_by_key(|record| record.0);
            prop_assert_eq!(sorted, expected);
        }
    }
}
