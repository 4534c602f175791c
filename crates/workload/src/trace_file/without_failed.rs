//! A trace without failed requests. Their documents stay, unreferenced, so that all keep their numbers.
//!
//! A session whose first requests failed starts later than before, possibly after sessions that followed it. It is held
//! until no remaining session can start before it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Read;

use super::{TraceFileError, TraceReader};
use crate::trace::Request;

/// Yields a file's sessions without failed requests, in order of start.
pub struct WithoutFailed<'f, R> {
    reader: TraceReader<R>,
    failed: &'f [bool],
    /// Sessions ordered by start and then by their number in the file.
    held: BinaryHeap<Reverse<(u64, u32, Vec<Request>)>>,
    /// A lower bound of the remaining sessions' starts; `None` at the end.
    horizon_ns: Option<u64>,
    requests: Vec<Request>,
}

impl<'f, R: Read> WithoutFailed<'f, R> {
    /// Wraps a reader; `failed` has a flag per document.
    pub fn new(reader: TraceReader<R>, failed: &'f [bool]) -> Self {
        WithoutFailed { reader, failed, held: BinaryHeap::new(), horizon_ns: Some(0), requests: Vec::new() }
    }

    /// Returns the start of the next session after the file's origin and its requests; `None` after the last one.
    pub fn session(&mut self) -> Result<Option<(u64, Vec<Request>)>, TraceFileError> {
        while let Some(horizon_ns) = self.horizon_ns {
            if self.held.peek().is_some_and(|Reverse((start_ns, ..))| *start_ns <= horizon_ns) {
                break;
            }
            let number = self.reader.place().sessions_before;
            self.horizon_ns = self.reader.session(&mut self.requests)?;
            if let Some(start_ns) = self.horizon_ns
                && let Some(later_ns) = got(self.failed, &mut self.requests)
            {
                self.held.push(Reverse((start_ns + later_ns, number, self.requests.clone())));
            }
        }
        Ok(self.held.pop().map(|Reverse((start_ns, _, requests))| (start_ns, requests)))
    }
}

/// Removes failed requests from a session; returns how long after its start the first remaining one was.
pub fn got(failed: &[bool], requests: &mut Vec<Request>) -> Option<u64> {
    requests.retain(|request| !failed[request.document as usize]);
    let later_ns = requests.first()?.offset_ns;
    requests.iter_mut().for_each(|request| request.offset_ns -= later_ns);
    Some(later_ns)
}
