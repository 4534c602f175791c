//! The trace file: a [`Trace`] as bytes, compact, read without trust.
//!
//! Little-endian throughout, in this order:
//!
//! | what | bytes |
//! |---|---|
//! | magic `SJTRACE2` | 8 |
//! | origin: Unix time in ns (i64), clock ahead of UTC in s (i32) | 12 |
//! | counts of documents, sessions, requests (u32 each) | 12 |
//! | each document: size in bytes (u64), status (u16), length of the host (u16) and of the name (u32), host and name in UTF-8 | 16 + host + name |
//! | each session: start in ns (u64), count of requests (u32) | 12 |
//! | each request, session by session: offset in ns (u64), document (u32) | 12 |
//!
//! Nothing follows. Counts are not believed when memory is reserved: it grows with the bytes that come.

use std::io::{self, Read, Write};

use thiserror::Error;

use crate::import::selection::MAP_BYTES_MAX;
use crate::import::{DOCUMENTS_MAX, HOST_BYTES_MAX, LINE_BYTES_MAX, REQUESTS_MAX};
use crate::trace::{Document, Origin, Request, Session, Trace};

const MAGIC: [u8; 8] = *b"SJTRACE2";

/// The longest name: a whole line of a log, each byte of it replaced by the three of U+FFFD, behind another
/// prefix than it had.
pub const NAME_BYTES_MAX: usize = 3 * LINE_BYTES_MAX + MAP_BYTES_MAX;

/// The longest host, each byte of it replaced likewise; a host that a name was mapped to is shorter.
pub const HOST_TEXT_BYTES_MAX: usize = 3 * HOST_BYTES_MAX;

/// The latest moment after the trace's origin, and what the origin is less than from 1970: 146 years, so that
/// sums stay within 63 bits.
pub const TIME_NS_MAX: u64 = 1 << 62;

/// Why bytes are not a trace.
#[derive(Debug, Error)]
pub enum TraceFileError {
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The first bytes are others.
    #[error("not a Sojourn trace file: it does not begin with SJTRACE2")]
    NotATrace,
    /// It ends too early.
    #[error("the trace file ends in the middle of its {0}")]
    Truncated(&'static str),
    /// It goes on.
    #[error("the trace file goes on after its last request")]
    TrailingBytes,
    /// A count, a length or a time above its limit.
    #[error("the trace file holds {value} as {what}, more than {limit}")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// What it holds.
        value: u64,
        /// What is allowed.
        limit: u64,
    },
    /// Values that contradict each other.
    #[error("the trace file is damaged: {0}")]
    Inconsistent(&'static str),
}

impl Trace {
    /// Writes the trace; give a buffered writer.
    pub fn write(&self, mut writer: impl Write) -> io::Result<()> {
        writer.write_all(&MAGIC)?;
        writer.write_all(&self.origin.unix_ns.to_le_bytes())?;
        writer.write_all(&self.origin.utc_offset_seconds.to_le_bytes())?;
        for count in [self.documents.len(), self.sessions.len(), self.requests.len()] {
            writer.write_all(&(count as u32).to_le_bytes())?;
        }
        for document in &self.documents {
            writer.write_all(&document.size_bytes.to_le_bytes())?;
            writer.write_all(&document.status.to_le_bytes())?;
            writer.write_all(&(document.host.len() as u16).to_le_bytes())?;
            writer.write_all(&(document.name.len() as u32).to_le_bytes())?;
            writer.write_all(document.host.as_bytes())?;
            writer.write_all(document.name.as_bytes())?;
        }
        for session in &self.sessions {
            write_pair(&mut writer, session.start_ns, session.count)?;
        }
        for request in &self.requests {
            write_pair(&mut writer, request.offset_ns, request.document)?;
        }
        writer.flush()
    }

    /// Reads a trace and checks all that its methods rely on; give a buffered reader.
    pub fn read(reader: impl Read) -> Result<Trace, TraceFileError> {
        let mut bytes = Bytes { reader };
        let magic = bytes.array::<8>("magic").map_err(|error| match error {
            TraceFileError::Truncated(_) => TraceFileError::NotATrace,
            other => other,
        })?;
        if magic != MAGIC {
            return Err(TraceFileError::NotATrace);
        }
        let origin = Origin {
            unix_ns: i64::from_le_bytes(bytes.array("origin")?),
            utc_offset_seconds: i32::from_le_bytes(bytes.array("origin")?),
        };
        at_most("the origin's distance from 1970", origin.unix_ns.unsigned_abs(), TIME_NS_MAX - 1)?;
        let document_count = bytes.count("the count of documents", DOCUMENTS_MAX)?;
        let session_count = bytes.count("the count of sessions", REQUESTS_MAX)?;
        let request_count = bytes.count("the count of requests", REQUESTS_MAX)?;
        let documents = bytes.many(document_count, Bytes::document)?;
        let mut sessions = bytes.many(session_count, Bytes::session)?;
        number_requests(&mut sessions, request_count)?;
        let requests = bytes.many(request_count, |bytes| bytes.request(document_count))?;
        bytes.end()?;
        let trace = Trace { documents, sessions, requests, origin };
        let forward = |session| trace.requests_of(session).is_sorted_by_key(|request| request.offset_ns);
        if !trace.sessions.iter().all(forward) {
            return Err(TraceFileError::Inconsistent("a session's requests go back in time"));
        }
        at_most("its last moment", trace.span_ns(), TIME_NS_MAX)?;
        Ok(trace)
    }
}

fn write_pair(writer: &mut impl Write, long: u64, short: u32) -> io::Result<()> {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&long.to_le_bytes());
    bytes[8..].copy_from_slice(&short.to_le_bytes());
    writer.write_all(&bytes)
}

/// Sessions follow each other in start and own the requests one after the other, all of them.
fn number_requests(sessions: &mut [Session], request_count: usize) -> Result<(), TraceFileError> {
    if !sessions.is_sorted_by_key(|session| session.start_ns) {
        return Err(TraceFileError::Inconsistent("sessions are not sorted by their start"));
    }
    let mut first = 0_u64;
    for session in sessions {
        session.first = first as u32; // in range, or the sum below is not
        first += u64::from(session.count);
        if session.count == 0 || first > request_count as u64 {
            return Err(TraceFileError::Inconsistent("sessions and requests do not add up"));
        }
    }
    if first == request_count as u64 {
        Ok(())
    } else {
        Err(TraceFileError::Inconsistent("sessions and requests do not add up"))
    }
}

/// How many items are reserved before any of them is read.
const RESERVED_MAX: usize = 4096;

struct Bytes<R> {
    reader: R,
}

impl<R: Read> Bytes<R> {
    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], TraceFileError> {
        let mut array = [0; N];
        match self.reader.read_exact(&mut array) {
            Ok(()) => Ok(array),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(TraceFileError::Truncated(what))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn pair(&mut self, what: &'static str) -> Result<(u64, u32), TraceFileError> {
        Ok((u64::from_le_bytes(self.array(what)?), u32::from_le_bytes(self.array(what)?)))
    }

    fn count(&mut self, what: &'static str, limit: usize) -> Result<usize, TraceFileError> {
        let count = u32::from_le_bytes(self.array("counts")?);
        at_most(what, u64::from(count), limit as u64)?;
        Ok(count as usize)
    }

    fn many<T>(
        &mut self,
        count: usize,
        mut one: impl FnMut(&mut Self) -> Result<T, TraceFileError>,
    ) -> Result<Vec<T>, TraceFileError> {
        let mut items = Vec::with_capacity(count.min(RESERVED_MAX));
        for _ in 0..count {
            items.push(one(self)?);
        }
        Ok(items)
    }

    fn document(&mut self) -> Result<Document, TraceFileError> {
        let size_bytes = u64::from_le_bytes(self.array("documents")?);
        let status = u16::from_le_bytes(self.array("documents")?);
        let host_length = u16::from_le_bytes(self.array("documents")?);
        let name_length = u32::from_le_bytes(self.array("documents")?);
        at_most("the size of a document", size_bytes, i64::MAX as u64)?;
        at_most("the status of a document", status.into(), 999)?;
        at_most("the length of a host", host_length.into(), HOST_TEXT_BYTES_MAX as u64)?;
        at_most("the length of a name", name_length.into(), NAME_BYTES_MAX as u64)?;
        let host = self.text(host_length.into())?;
        let name = self.text(name_length as usize)?;
        Ok(Document { name, host, size_bytes, status })
    }

    fn text(&mut self, length: usize) -> Result<String, TraceFileError> {
        let mut text = vec![0; length];
        self.reader.read_exact(&mut text).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => TraceFileError::Truncated("documents"),
            _ => TraceFileError::Io(error),
        })?;
        String::from_utf8(text).map_err(|_| TraceFileError::Inconsistent("a name is not UTF-8"))
    }

    fn session(&mut self) -> Result<Session, TraceFileError> {
        let (start_ns, count) = self.pair("sessions")?;
        at_most("the start of a session", start_ns, TIME_NS_MAX)?;
        Ok(Session { start_ns, first: 0, count })
    }

    fn request(&mut self, document_count: usize) -> Result<Request, TraceFileError> {
        let (offset_ns, document) = self.pair("requests")?;
        at_most("the offset of a request", offset_ns, TIME_NS_MAX)?;
        if document as usize >= document_count {
            return Err(TraceFileError::Inconsistent("a request is for a document that is not there"));
        }
        Ok(Request { offset_ns, document })
    }

    fn end(&mut self) -> Result<(), TraceFileError> {
        match self.array::<1>("end") {
            Err(TraceFileError::Truncated(_)) => Ok(()),
            Ok(_) => Err(TraceFileError::TrailingBytes),
            Err(error) => Err(error),
        }
    }
}

fn at_most(what: &'static str, value: u64, limit: u64) -> Result<(), TraceFileError> {
    if value <= limit { Ok(()) } else { Err(TraceFileError::TooLarge { what, value, limit }) }
}
