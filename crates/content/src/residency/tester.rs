//! The residency test for event loops: counts tests, and trusts an answer for a limited time.
//!
//! Flash tested before every send. A large, popular document is then tested for every range of every request. Here a
//! document is tested in parts larger than one send, and a resident part is not tested again for
//! [`trust`](Tester::new). If its pages are dropped meanwhile, one send waits for the disk. A verdict belongs to an
//! open document, so it never applies to a newer version of the file.

use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::{Answer, Residency};
use crate::job::{Done, FileRange, LoadError, blank};
use crate::lru::{Lru, Weight};

/// How long an answer is trusted by default. A test before every send of a hot document of 100 KB took 1.6 of 12.9
/// microseconds of processor time per request (one loop, 16 clients); with 10 ms or more the cost was no longer
/// measurable. A page sent within the last tenth of a second is unlikely to be evicted next.
pub const TRUST: Duration = Duration::from_millis(100);

/// Larger documents are tested in parts of this size.
const PART_BYTES: u64 = 4 << 20;

/// What was resident so long ago, or is not known, may be missing by now.
const EXPECTED: Duration = Duration::from_secs(1);

/// The most verdicts kept; beyond that the least recently used are forgotten.
const VERDICTS_MAX: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResidencyCounts {
    pub tests: u64,
    /// Tests that found data missing, or could not tell.
    pub misses: u64,
    /// Tests saved because a recent answer was trusted.
    pub trusted: u64,
}

/// Why a range cannot be read without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// It is on disk only; after it has been read the answer changes.
    Missing,
    /// The test cannot tell for this file.
    Unknown,
}

pub struct Tester {
    residency: &'static dyn Residency,
    trust: Duration,
    /// By document ID and part number.
    verdicts: Lru<(u64, u64), Verdict>,
    counts: ResidencyCounts,
}

#[derive(Debug)]
struct Verdict {
    tested: Duration,
    is_resident: bool,
}

impl Tester {
    /// Uses `residency` and trusts its answers for `trust`; zero tests every time, as Flash did.
    pub fn new(residency: &'static dyn Residency, trust: Duration) -> Tester {
        let verdicts = Lru::new(Weight { bytes: usize::MAX, count: VERDICTS_MAX });
        Tester { residency, trust, verdicts, counts: ResidencyCounts::default() }
    }

    /// Loads `range` if that needs no waiting; otherwise says why it might.
    pub fn load_now(&mut self, range: &FileRange) -> Result<Done, Absent> {
        if range.into_memory {
            return self.read_now(range);
        }
        let now = clock_gettime(ClockId::MonotonicCoarse);
        let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
        self.test_or_trust(range, now)
    }

    /// Like `load_now`, but trusts no earlier answer: for data that was missing a moment ago.
    pub fn load_if_arrived(&mut self, range: &FileRange) -> Result<Done, Absent> {
        if range.into_memory {
            return self.read_now(range);
        }
        self.test(range, range.offset, range.length, true)
    }

    pub fn counts(&self) -> ResidencyCounts {
        self.counts
    }

    fn read_now(&mut self, range: &FileRange) -> Result<Done, Absent> {
        let Some(file) = range.document.file() else { return Err(Absent::Unknown) };
        let mut bytes = blank(range.length);
        let into = Arc::get_mut(&mut bytes).expect("nobody else has it yet");
        let answer = self.residency.read_now(&file, range.offset, into);
        self.judge(answer, || Some(bytes))
    }

    fn test_or_trust(&mut self, range: &FileRange, now: Duration) -> Result<Done, Absent> {
        if self.trust.is_zero() {
            return self.test(range, range.offset, range.length, true);
        }
        let tests_before = self.counts.tests;
        let last = range.offset + (range.length as u64).saturating_sub(1);
        for part in range.offset / PART_BYTES..=last / PART_BYTES {
            if !self.is_part_resident(range, part, now) {
                // Part of it is missing, which may be outside of the wanted range.
                return self.test(range, range.offset, range.length, false);
            }
        }
        if self.counts.tests == tests_before {
            self.counts.trusted += 1;
        }
        Ok(Done::Loaded(Ok(None)))
    }

    fn is_part_resident(&mut self, range: &FileRange, part: u64, now: Duration) -> bool {
        let (key, start) = ((range.document.id, part), part * PART_BYTES);
        // What is not wanted is not read ahead.
        let mut is_expected = start < range.offset;
        if let Some(verdict) = self.verdicts.get(&key) {
            let age = now.saturating_sub(verdict.tested);
            if age < self.trust {
                return verdict.is_resident;
            }
            is_expected |= verdict.is_resident && age < EXPECTED;
        }
        let length = PART_BYTES.min(range.document.size.saturating_sub(start)) as usize;
        let is_resident = matches!(self.test(range, start, length, is_expected), Ok(Done::Loaded(Ok(_))));
        self.verdicts.insert(key, Verdict { tested: now, is_resident }, Weight { bytes: 0, count: 1 });
        is_resident
    }

    fn test(
        &mut self,
        range: &FileRange,
        offset: u64,
        length: usize,
        expected: bool,
    ) -> Result<Done, Absent> {
        let Some(file) = range.document.file() else { return Err(Absent::Unknown) };
        let answer = self.residency.test(&file, offset, length, expected);
        self.judge(answer, || None)
    }

    fn judge(&mut self, answer: Answer, bytes: impl FnOnce() -> Option<Arc<[u8]>>) -> Result<Done, Absent> {
        self.counts.tests += 1;
        self.counts.misses += u64::from(matches!(answer, Answer::Missing | Answer::Unknown));
        match answer {
            Answer::Resident => Ok(Done::Loaded(Ok(bytes()))),
            Answer::Truncated => Ok(Done::Loaded(Err(LoadError::Truncated))),
            Answer::Missing => Err(Absent::Missing),
            Answer::Unknown => Err(Absent::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::residency::{Cause, Nowait};
    use rustix::fs::fstat;
    use std::io::Write;
    use std::ops::Range;
    use std::os::fd::AsFd;
    use std::sync::Mutex;

    const SECOND: Duration = Duration::from_secs(1);

    const DOCUMENT_BYTES: u64 = PART_BYTES / 2 * 3;

    /// A test controlled by the tests: exactly these bytes of every file are resident.
    struct Fake {
        resident: Mutex<Range<u64>>,
        /// The offset of each test, and whether the bytes were expected to be there.
        expectations: Mutex<Vec<(u64, bool)>>,
    }

    impl Fake {
        fn leaked(resident: Range<u64>) -> &'static Fake {
            Box::leak(Box::new(Fake { resident: Mutex::new(resident), expectations: Mutex::default() }))
        }

        fn set(&self, resident: Range<u64>) {
            *self.resident.lock().unwrap() = resident;
        }
    }

    impl Residency for Fake {
        fn name(&self) -> &'static str {
            "fake"
        }

        fn summary(&self) -> &'static str {
            "what a test says"
        }

        fn test(&self, _file: &dyn AsFd, offset: u64, length: usize, expected: bool) -> Answer {
            self.expectations.lock().unwrap().push((offset, expected));
            let resident = self.resident.lock().unwrap().clone();
            let is_within = resident.start <= offset && offset + length as u64 <= resident.end;
            if is_within { Answer::Resident } else { Answer::Missing }
        }

        fn read_now(&self, file: &dyn AsFd, offset: u64, into: &mut [u8]) -> Answer {
            self.test(file, offset, into.len(), true)
        }

        fn probe(&self, _file: &dyn AsFd) -> Result<(), Cause> {
            Ok(())
        }
    }

    /// A document of one and a half parts.
    fn document() -> Arc<Document> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; DOCUMENT_BYTES as usize]).unwrap();
        let stat = fstat(&file).unwrap();
        Arc::new(Document::new(file.into(), b"file", &stat))
    }

    fn range(document: &Arc<Document>, offset: u64) -> FileRange {
        FileRange { document: Arc::clone(document), offset, length: 4096, into_memory: false }
    }

    fn counts(tester: &Tester) -> (u64, u64, u64) {
        let ResidencyCounts { tests, misses, trusted } = tester.counts();
        (tests, misses, trusted)
    }

    #[test]
    fn a_part_found_resident_is_trusted_for_a_bounded_time() {
        let document = document();
        let memory = Fake::leaked(0..DOCUMENT_BYTES);
        let mut tester = Tester::new(memory, TRUST);
        assert!(tester.test_or_trust(&range(&document, 0), SECOND).is_ok());
        assert!(tester.test_or_trust(&range(&document, 3 << 20), SECOND + TRUST / 2).is_ok());
        assert_eq!(counts(&tester), (1, 0, 1));
        // Straddles two parts, of which the second has not been tested.
        assert!(tester.test_or_trust(&range(&document, PART_BYTES - 100), SECOND + TRUST / 2).is_ok());
        assert_eq!(counts(&tester), (2, 0, 1));

        memory.set(0..0);
        let still_trusted = SECOND + TRUST - Duration::from_nanos(1);
        assert!(tester.test_or_trust(&range(&document, 0), still_trusted).is_ok());
        assert!(matches!(tester.test_or_trust(&range(&document, 0), SECOND + TRUST), Err(Absent::Missing)));
        assert_eq!(counts(&tester), (4, 2, 2));
    }

    #[test]
    fn only_what_was_resident_a_moment_ago_is_expected_to_be() {
        let document = document();
        let memory = Fake::leaked(0..DOCUMENT_BYTES);
        let mut tester = Tester::new(memory, TRUST);
        let mut expectations = |offset, now| {
            let _ = tester.test_or_trust(&range(&document, offset), now);
            std::mem::take(&mut *memory.expectations.lock().unwrap())
        };
        assert_eq!(expectations(0, SECOND), [(0, false)]);
        assert_eq!(expectations(0, SECOND + TRUST), [(0, true)]);
        assert_eq!(expectations(0, 3 * SECOND), [(0, false)]);
        memory.set(0..0);
        // The part before what is wanted is not worth reading.
        assert_eq!(expectations(8192, 4 * SECOND), [(0, true), (8192, false)]);
    }

    #[test]
    fn nothing_is_waited_for_beyond_the_end() {
        let document = document();
        let mut tester = Tester::new(&Nowait, TRUST);
        rustix::fs::ftruncate(document.file().unwrap(), 1 << 20).unwrap();
        let truncated = |outcome| matches!(outcome, Ok(Done::Loaded(Err(LoadError::Truncated))));
        assert!(truncated(tester.test_or_trust(&range(&document, 2 << 20), SECOND)));
        assert!(!truncated(tester.test_or_trust(&range(&document, 0), SECOND)));
        let into_memory = FileRange { into_memory: true, ..range(&document, (1 << 20) - 100) };
        assert!(truncated(tester.load_now(&into_memory)));
        assert!(truncated(tester.load_if_arrived(&into_memory)));
        assert_eq!(tester.counts().misses, 0);
    }

    #[test]
    fn without_trust_every_send_is_tested() {
        let document = document();
        let memory = Fake::leaked(0..DOCUMENT_BYTES);
        let mut tester = Tester::new(memory, Duration::ZERO);
        for _ in 0..3 {
            assert!(tester.load_now(&range(&document, 0)).is_ok());
        }
        assert_eq!(counts(&tester), (3, 0, 0));
        memory.set(0..0);
        assert!(tester.load_now(&range(&document, 0)).is_err());
    }

    #[test]
    fn what_is_wanted_may_be_resident_when_its_part_is_not() {
        let document = document();
        let mut tester = Tester::new(Fake::leaked(8192..8192 + 4096), TRUST);
        assert!(tester.test_or_trust(&range(&document, 8192), SECOND).is_ok());
        assert_eq!(counts(&tester), (2, 1, 0));
        assert!(
            tester.test_or_trust(&range(&document, 8192), SECOND).is_ok(),
            "a part known as missing is not tested again"
        );
        assert_eq!(counts(&tester), (3, 1, 0));
    }
}
