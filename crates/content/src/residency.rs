//! Is it in the page cache? The test that lets AMPED send at once what will not wait for a disk.
//!
//! `mincore` tells a process that neither owns a file nor may write it that every page is resident, and
//! `cachestat` refuses it; `preadv2` with `RWF_NOWAIT` is right for everybody, so it is the default. A large
//! range is sampled, not read: pages arrive and leave in runs, and a wrong "resident" costs one blocking send.

use std::io::IoSliceMut;
use std::os::fd::AsFd;

use rustix::fs::fstatfs;
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2};

/// The distance between sampled bytes: with readahead and large folios, neighbours share their fate.
const SAMPLE_STRIDE_BYTES: u64 = 64 * 1024;

/// `f_type` of tmpfs, which has no `RWF_NOWAIT` and no need of it.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// What a test says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// In memory, as far as sampled.
    Resident,
    /// Not in memory.
    Missing,
    /// The file system cannot tell.
    Unknown,
}

/// A way to find out. One row of [`ALL`] each.
pub trait Residency: Sync {
    /// The name for the command line.
    fn name(&self) -> &'static str;

    /// Whether `length` bytes at `offset` can be sent without waiting for a disk.
    fn test(&self, file: &dyn AsFd, offset: u64, length: usize) -> Answer;

    /// Reads all of `into` if that needs no waiting.
    fn read_now(&self, file: &dyn AsFd, offset: u64, into: &mut [u8]) -> Answer;
}

/// Every residency test.
pub const ALL: &[&dyn Residency] = &[&Nowait, &Never];

/// `preadv2` with `RWF_NOWAIT`.
pub struct Nowait;

/// No test: whatever is not in the server's own caches goes to a helper.
pub struct Never;

impl Residency for Nowait {
    fn name(&self) -> &'static str {
        "nowait"
    }

    fn test(&self, file: &dyn AsFd, offset: u64, length: usize) -> Answer {
        let last = offset + (length as u64).saturating_sub(1);
        let mut at = offset;
        loop {
            match self.read_now(file, at, &mut [0]) {
                Answer::Resident if at == last => return Answer::Resident,
                Answer::Resident => at = (at + SAMPLE_STRIDE_BYTES).min(last),
                other => return other,
            }
        }
    }

    fn read_now(&self, file: &dyn AsFd, offset: u64, into: &mut [u8]) -> Answer {
        let wanted = into.len();
        match preadv2(file, &mut [IoSliceMut::new(into)], offset, ReadWriteFlags::NOWAIT) {
            Ok(count) if count == wanted => Answer::Resident,
            // Short: the rest is missing, or the file was truncated; the helper will see which.
            Ok(_) | Err(Errno::AGAIN) => Answer::Missing,
            Err(Errno::OPNOTSUPP) if is_in_memory(file) => match pread(file, into, offset) {
                Ok(count) if count == wanted => Answer::Resident,
                _ => Answer::Missing,
            },
            Err(_) => Answer::Unknown,
        }
    }
}

impl Residency for Never {
    fn name(&self) -> &'static str {
        "none"
    }

    fn test(&self, _file: &dyn AsFd, _offset: u64, _length: usize) -> Answer {
        Answer::Unknown
    }

    fn read_now(&self, _file: &dyn AsFd, _offset: u64, _into: &mut [u8]) -> Answer {
        Answer::Unknown
    }
}

fn is_in_memory(file: &dyn AsFd) -> bool {
    fstatfs(file).is_ok_and(|statistics| statistics.f_type == TMPFS_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::path::Path;

    fn check(directory: &Path) {
        let path = directory.join("residency-test");
        std::fs::write(&path, vec![7; 200_000]).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(Nowait.test(&file, 0, 200_000), Answer::Resident);
        let mut bytes = [0; 1000];
        assert_eq!(Nowait.read_now(&file, 199_000, &mut bytes), Answer::Resident);
        assert_eq!(bytes, [7; 1000]);
        assert_eq!(Nowait.test(&file, 199_000, 2000), Answer::Missing);
        assert_eq!(Never.test(&file, 0, 1), Answer::Unknown);
    }

    #[test]
    fn what_was_just_written_is_resident() {
        check(tempfile::tempdir().unwrap().path());
        check(Path::new("/dev/shm"));
    }
}
