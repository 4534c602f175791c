//! `preadv2` with `RWF_NOWAIT`: test and read in one call, for any user.
//!
//! A large range is sampled, not read: pages arrive and leave in runs, and a wrong "resident" costs one
//! blocking send. A miss makes the kernel start reading ahead, so a second test a little later may find the
//! data. It reads ahead by what was wanted: for one byte it reads four pages, and a document of 50 KB then takes two
//! reads of the disk in place of one. So what is probably missing is read instead of sampled, up to a stride: that
//! copies nothing unless it is there. For more the kernel would read 256 KiB at once, much of which is evicted before
//! it is sent where memory is short: of documents of 500 KB a quarter fewer were answered.

use std::cell::RefCell;
use std::io::IoSliceMut;
use std::os::fd::AsFd;

use rustix::fs::fcntl_get_seals;
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2};

use super::{Answer, Cause, Residency};

/// The distance between sampled bytes. With readahead and large folios, neighbouring pages are mostly in the same
/// state.
const SAMPLE_STRIDE_BYTES: u64 = 64 * 1024;

thread_local! {
    /// For bytes that nobody wants.
    static UNWANTED: RefCell<Box<[u8]>> = RefCell::new(vec![0; SAMPLE_STRIDE_BYTES as usize].into());
}

pub struct Nowait;

impl Nowait {
    /// Tests by reading, at most a stride.
    fn read_unwanted(&self, file: &dyn AsFd, offset: u64, length: usize) -> Answer {
        UNWANTED.with_borrow_mut(|bytes| {
            let length = length.min(bytes.len());
            self.read_now(file, offset, &mut bytes[..length])
        })
    }
}

impl Residency for Nowait {
    fn name(&self) -> &'static str {
        "nowait"
    }

    fn summary(&self) -> &'static str {
        "preadv2 with RWF_NOWAIT"
    }

    fn test(&self, file: &dyn AsFd, offset: u64, length: usize, expected: bool) -> Answer {
        let last = offset + (length as u64).saturating_sub(1);
        if !expected && length as u64 <= SAMPLE_STRIDE_BYTES {
            return self.read_unwanted(file, offset, length);
        }
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
            // If nothing is in memory the kernel reports AGAIN; 0 bytes mean the end of the file.
            Ok(0) => Answer::Truncated,
            Ok(count) => match self.read_now(file, offset + count as u64, &mut [0]) {
                Answer::Truncated => Answer::Truncated,
                _ => Answer::Missing,
            },
            Err(Errno::AGAIN) => Answer::Missing,
            Err(Errno::OPNOTSUPP) if is_in_memory(file) => match pread(file, into, offset) {
                Ok(count) if count == wanted => Answer::Resident,
                Ok(_) => Answer::Truncated,
                Err(_) => Answer::Unknown,
            },
            Err(_) => Answer::Unknown,
        }
    }

    fn probe(&self, file: &dyn AsFd) -> Result<(), Cause> {
        match preadv2(file, &mut [IoSliceMut::new(&mut [0])], 0, ReadWriteFlags::NOWAIT) {
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(Errno::OPNOTSUPP) if is_in_memory(file) => Ok(()),
            Err(error) => Err(Cause::Unsupported(error)),
        }
    }
}

/// Whether it is a file of tmpfs, which lacks `RWF_NOWAIT` and does not need it: only such files have seals. To ask the
/// file system for its type would wait for its server, if it has one.
fn is_in_memory(file: &dyn AsFd) -> bool {
    fcntl_get_seals(file).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Advice, fadvise};
    use sojourn_testing::drop_pages;
    use std::fs::File;
    use std::path::Path;

    fn file(directory: &Path) -> File {
        let path = directory.join("residency-test");
        std::fs::write(&path, vec![7; 200_000]).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file
    }

    fn check(directory: &Path) {
        let file = file(directory);
        assert_eq!(Nowait.probe(&file), Ok(()));
        assert_eq!(Nowait.test(&file, 0, 200_000, true), Answer::Resident);
        let mut bytes = [0; 1000];
        assert_eq!(Nowait.read_now(&file, 199_000, &mut bytes), Answer::Resident);
        assert_eq!(bytes, [7; 1000]);
        assert_eq!(Nowait.test(&file, 199_000, 2000, true), Answer::Truncated);
        assert_eq!(Nowait.read_now(&file, 199_500, &mut bytes), Answer::Truncated);
    }

    #[test]
    fn what_was_just_written_is_resident() {
        check(tempfile::tempdir().unwrap().path());
        check(Path::new("/dev/shm"));
    }

    #[test]
    fn what_is_not_expected_is_tested_as_well() {
        for directory in [tempfile::tempdir().unwrap().path(), Path::new("/dev/shm")] {
            let file = file(directory);
            for length in [1, 1000, 64 * 1024, 64 * 1024 + 1, 200_000] {
                assert_eq!(Nowait.test(&file, 0, length, false), Answer::Resident, "{length}");
            }
            assert_eq!(Nowait.test(&file, 199_000, 2000, false), Answer::Truncated);
            assert_eq!(Nowait.test(&file, 0, 300_000, false), Answer::Truncated);
        }
    }

    #[test]
    fn a_document_that_is_not_expected_to_be_there_is_read_whole() {
        let file = file(tempfile::tempdir().unwrap().path());
        let arrived = |expected| {
            drop_pages(&file);
            assert_eq!(Nowait.test(&file, 0, 60_000, expected), Answer::Missing);
            let begun = std::time::Instant::now();
            while Nowait.read_now(&file, 0, &mut [0]) == Answer::Missing && begun.elapsed().as_secs() < 5 {
                std::thread::yield_now();
            }
            Nowait.read_now(&file, 0, &mut [0; 60_000]) == Answer::Resident
        };
        if arrived(true) {
            eprintln!("skipped: this kernel or file system reads all of it for one byte");
            return;
        }
        assert!((0..3).any(|_| arrived(false)));
    }

    #[test]
    fn what_was_dropped_is_missing() {
        let file = file(tempfile::tempdir().unwrap().path());
        drop_pages(&file);
        // Without readahead nothing arrives that was not requested.
        fadvise(&file, 0, None, Advice::Random).unwrap();
        pread(&file, &mut [0u8; 4096], 0).unwrap();
        assert_eq!(Nowait.test(&file, 0, 4096, true), Answer::Resident);
        assert_eq!(Nowait.test(&file, 0, 200_000, true), Answer::Missing);
        drop_pages(&file);
        pread(&file, &mut [0u8; 4096], 0).unwrap();
        assert_eq!(Nowait.read_now(&file, 0, &mut [0; 9000]), Answer::Missing, "the first page is there");
    }
}
