//! No test: everything outside the server's own caches counts as missing.

use std::os::fd::AsFd;

use super::{Answer, Cause, Residency};

pub struct Never;

impl Residency for Never {
    fn name(&self) -> &'static str {
        "none"
    }

    fn summary(&self) -> &'static str {
        "no test: anything outside the server's own caches counts as not resident"
    }

    fn test(&self, _file: &dyn AsFd, _offset: u64, _length: usize, _expected: bool) -> Answer {
        Answer::Unknown
    }

    fn read_now(&self, _file: &dyn AsFd, _offset: u64, _into: &mut [u8]) -> Answer {
        Answer::Unknown
    }

    fn probe(&self, _file: &dyn AsFd) -> Result<(), Cause> {
        Ok(())
    }
}
