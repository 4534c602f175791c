//! The sessions of a trace to characterise: in memory, or in a file that is read several times.

use std::convert::Infallible;
use std::io::{BufReader, Read, Seek, SeekFrom};

use crate::request_times::RequestTimes;
use crate::trace::{Document, Origin, Request, Trace};
use crate::trace_file::{Head, Place, TraceFileError, TraceReader, got};

const BUFFER_BYTES: usize = 256 << 10;

/// A trace that can be read more than once.
pub trait Source {
    type Error;
    fn documents(&self) -> &[Document];
    fn origin(&self) -> Origin;
    /// Logged request durations, if the log records them.
    fn times(&self) -> Option<&RequestTimes>;
    /// Calls `visit` with every session's start after the origin and its requests.
    fn for_each_session(&mut self, visit: &mut dyn FnMut(u64, &[Request])) -> Result<(), Self::Error>;
}

impl Source for &Trace {
    type Error = Infallible;

    fn documents(&self) -> &[Document] {
        &self.documents
    }

    fn origin(&self) -> Origin {
        self.origin
    }

    fn times(&self) -> Option<&RequestTimes> {
        self.times.as_ref()
    }

    fn for_each_session(&mut self, visit: &mut dyn FnMut(u64, &[Request])) -> Result<(), Infallible> {
        self.sessions.iter().for_each(|session| visit(session.start_ns, self.requests_of(session)));
        Ok(())
    }
}

/// A trace file with only its documents in memory.
pub struct StoredTrace<R> {
    reader: R,
    head: Head,
    documents: Vec<Document>,
    times: Option<RequestTimes>,
    first: Place,
}

impl<R: Read + Seek> StoredTrace<R> {
    pub fn open(mut reader: R) -> Result<Self, TraceFileError> {
        let (file, documents) = TraceReader::open(BufReader::with_capacity(BUFFER_BYTES, &mut reader))?;
        let (head, first, times) = (file.head(), file.place(), file.times().cloned());
        Ok(StoredTrace { reader, head, documents, times, first })
    }

    pub fn head(&self) -> Head {
        self.head
    }

    /// Reads the sessions from the first one.
    pub fn sessions(&mut self) -> Result<TraceReader<BufReader<&mut R>>, TraceFileError> {
        self.reader.seek(SeekFrom::Start(self.first.at_bytes))?;
        let reader = BufReader::with_capacity(BUFFER_BYTES, &mut self.reader);
        Ok(TraceReader::resume(reader, self.head, self.first))
    }

    /// Returns the file, its head, and the position of its first session.
    pub fn into_parts(self) -> (R, Head, Place) {
        (self.reader, self.head, self.first)
    }
}

impl<R: Read + Seek> Source for StoredTrace<R> {
    type Error = TraceFileError;

    fn documents(&self) -> &[Document] {
        &self.documents
    }

    fn origin(&self) -> Origin {
        self.head.origin
    }

    fn times(&self) -> Option<&RequestTimes> {
        self.times.as_ref()
    }

    fn for_each_session(&mut self, visit: &mut dyn FnMut(u64, &[Request])) -> Result<(), TraceFileError> {
        let mut sessions = self.sessions()?;
        let mut requests = Vec::new();
        while let Some(start_ns) = sessions.session(&mut requests)? {
            visit(start_ns, &requests);
        }
        Ok(())
    }
}

/// Visits the sessions without failed requests.
pub fn for_each_got<S: Source>(
    source: &mut S,
    mut visit: impl FnMut(u64, &[Request]),
) -> Result<(), S::Error> {
    let failed: Vec<bool> = source.documents().iter().map(Document::is_failed).collect();
    if !failed.contains(&true) {
        return source.for_each_session(&mut visit);
    }
    let mut kept = Vec::new();
    source.for_each_session(&mut |start_ns, requests| {
        kept.clear();
        kept.extend_from_slice(requests);
        if let Some(later_ns) = got(&failed, &mut kept) {
            visit(start_ns + later_ns, &kept);
        }
    })
}
