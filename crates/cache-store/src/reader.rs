//! Reads a body, whole or a range, from a complete object or one in transit.
//!
//! A reader never blocks: it waits for bytes with a waker. It keeps what it reads alive, so eviction, replacement and
//! purging do not disturb it.

use std::sync::Arc;
use std::task::Waker;

use crate::body::{ExternalReader, ReadStep, Slice};
use crate::busy_object::{Attached, BusyObject};
use crate::object::Object;

#[derive(Debug)]
pub struct Reader {
    source: Source,
    position: u64,
    end: u64,
}

#[derive(Debug)]
enum Source {
    Object(Arc<Object>),
    External(Box<dyn ExternalReader>),
    BusyObject(Arc<BusyObject>, usize),
}

#[derive(Clone, Debug)]
pub enum Next {
    /// The next bytes; the reader has advanced past them.
    Bytes(Slice),
    /// Nothing yet; the waker will be called.
    Wait,
    End,
    /// The body ended early: the client must be able to notice.
    Truncated,
}

impl Reader {
    pub fn of_object(object: Arc<Object>) -> Reader {
        let source = match object.external_body() {
            Some(body) => Source::External(Arc::clone(body).reader()),
            None => Source::Object(object),
        };
        Reader { source, position: 0, end: u64::MAX }
    }

    pub(crate) fn of_busy_object(busy: Arc<BusyObject>, place: usize) -> Reader {
        Reader { source: Source::BusyObject(busy, place), position: 0, end: u64::MAX }
    }

    /// Restricts the reader to the bytes from `start` to `end`.
    #[must_use]
    pub fn within(mut self, start: u64, end: u64) -> Reader {
        (self.position, self.end) = (start, end);
        self.report_position();
        self
    }

    /// Returns true if getting the next bytes may need a wait.
    pub fn may_wait(&self) -> bool {
        !matches!(self.source, Source::Object(_))
    }

    /// Returns true if the next bytes are available in memory.
    pub fn is_ready(&self) -> bool {
        self.position < self.end
            && match &self.source {
                Source::Object(object) => self.position < object.length(),
                Source::External(_) => false,
                Source::BusyObject(busy, _) => busy.holds(self.position),
            }
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next bytes, at most one chunk.
    pub fn next(&mut self, waker: &Waker) -> Next {
        if self.position >= self.end {
            return Next::End;
        }
        let at = match &mut self.source {
            Source::Object(object) => object.slice(self.position).map_or(ReadStep::End, ReadStep::Bytes),
            Source::External(reader) => reader.read_at(self.position, waker),
            Source::BusyObject(busy, place) => busy.at(*place, self.position, waker),
        };
        match at {
            ReadStep::Bytes(slice) => {
                let slice = slice.up_to(self.end - self.position);
                self.position += slice.as_bytes().len() as u64;
                self.report_position();
                Next::Bytes(slice)
            }
            ReadStep::Pending => Next::Wait,
            ReadStep::End => Next::End,
            ReadStep::Gone | ReadStep::Truncated => Next::Truncated,
        }
    }

    fn report_position(&self) {
        if let Source::BusyObject(busy, place) = &self.source {
            busy.moved(*place, Some(self.position));
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Source::BusyObject(busy, place) = &self.source {
            busy.moved(*place, None);
        }
    }
}

impl BusyObject {
    /// A reader at the body's start; `None` if the first bytes have already been dropped.
    pub fn reader(self: &Arc<Self>) -> Option<Reader> {
        match self.attach()? {
            Attached::Object(object) => Some(Reader::of_object(object)),
            Attached::Reader(index) => Some(Reader::of_busy_object(Arc::clone(self), index)),
        }
    }
}
