//! Reads a trace file front to back, one session at a time, and checks everything that replay relies on.

use std::io::{self, Read};

use super::{
    HOST_TEXT_BYTES_MAX, Head, MAGIC, MAGIC_NAME, MAGIC_WITH_TIMES, NAME_BYTES_MAX, TIME_NS_MAX,
    TraceFileError,
};
use crate::limits::{DOCUMENTS_MAX, REQUESTS_MAX};
use crate::request_times::{Distribution, PATHS_MAX, PathTimes, RequestTimes, Times};
use crate::trace::{Document, Origin, Request, Session, Trace};

/// The most items to reserve before reading any, and the most requests to read at once.
const RESERVED_MAX: usize = 4096;

/// Yields the sessions of a file one after the other.
pub struct TraceReader<R> {
    reader: R,
    head: Head,
    times: Option<RequestTimes>,
    place: Place,
    bytes: Vec<u8>,
}

/// A position in the file, from which another reader can continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub at_bytes: u64,
    pub sessions_before: u32,
    requests_before: u32,
    /// Start of the previous session.
    before_ns: u64,
}

impl<R: Read> TraceReader<R> {
    /// Reads the head and the documents. Give a buffered reader.
    pub fn open(reader: R) -> Result<(Self, Vec<Document>), TraceFileError> {
        let place = Place { at_bytes: 0, sessions_before: 0, requests_before: 0, before_ns: 0 };
        let mut file = TraceReader { reader, head: Head::default(), times: None, place, bytes: Vec::new() };
        file.head = file.read_head()?;
        let mut documents = Vec::with_capacity((file.head.documents as usize).min(RESERVED_MAX));
        for _ in 0..file.head.documents {
            documents.push(file.document()?);
        }
        Ok((file, documents))
    }

    /// Resumes at a position. The reader must already stand there.
    pub fn resume(reader: R, head: Head, place: Place) -> Self {
        TraceReader { reader, head, times: None, place, bytes: Vec::new() }
    }

    pub fn head(&self) -> Head {
        self.head
    }

    /// Logged request durations, if the file has them and was read from its start.
    pub fn times(&self) -> Option<&RequestTimes> {
        self.times.as_ref()
    }

    /// The position of the next session.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Reads the next session: returns its start after the origin and replaces `requests`; `None` after the last
    /// session, where the file must end.
    pub fn session(&mut self, requests: &mut Vec<Request>) -> Result<Option<u64>, TraceFileError> {
        requests.clear();
        let Place { sessions_before, requests_before, before_ns, .. } = self.place;
        let requests_left = self.head.requests - requests_before;
        if sessions_before == self.head.sessions {
            return if requests_left == 0 { self.end() } else { Err(UNEQUAL) };
        }
        let start_ns = u64::from_le_bytes(self.array("sessions")?);
        let count = u32::from_le_bytes(self.array("sessions")?);
        at_most("the start of a session", start_ns, TIME_NS_MAX)?;
        if start_ns < before_ns {
            return Err(TraceFileError::Inconsistent("sessions are not sorted by their start"));
        }
        if count == 0 || count > requests_left {
            return Err(UNEQUAL);
        }
        self.requests(count as usize, requests)?;
        let last_ns = requests.last().map_or(0, |request| request.offset_ns);
        at_most("its last moment", start_ns + last_ns, TIME_NS_MAX)?;
        self.place.sessions_before += 1;
        self.place.requests_before += count;
        self.place.before_ns = start_ns;
        Ok(Some(start_ns))
    }

    fn requests(&mut self, count: usize, requests: &mut Vec<Request>) -> Result<(), TraceFileError> {
        let mut before_ns = 0;
        let mut left = count;
        while left > 0 {
            let now = left.min(RESERVED_MAX);
            left -= now;
            self.bytes.resize(now * Request::ENCODED_BYTES, 0);
            let mut bytes = std::mem::take(&mut self.bytes);
            self.fill(&mut bytes, "requests")?;
            for encoded in bytes.as_chunks().0 {
                let request = Request::decoded(*encoded);
                at_most("the offset of a request", request.offset_ns, TIME_NS_MAX)?;
                if request.document >= self.head.documents {
                    return Err(TraceFileError::Inconsistent(
                        "a request refers to a document that does not exist",
                    ));
                }
                if request.offset_ns < before_ns {
                    return Err(TraceFileError::Inconsistent("a session's requests go back in time"));
                }
                before_ns = request.offset_ns;
                requests.push(request);
            }
            self.bytes = bytes;
        }
        Ok(())
    }

    fn read_head(&mut self) -> Result<Head, TraceFileError> {
        let magic = self.array::<8>("magic").map_err(|error| match error {
            TraceFileError::Truncated(_) => TraceFileError::NotATrace,
            other => other,
        })?;
        let has_times = magic == MAGIC_WITH_TIMES;
        if magic != MAGIC && !has_times {
            let is_other = magic.starts_with(MAGIC_NAME) && magic[7].is_ascii_digit();
            return Err(match is_other {
                true => TraceFileError::OtherVersion(magic[7]),
                false => TraceFileError::NotATrace,
            });
        }
        let origin = Origin {
            unix_ns: i64::from_le_bytes(self.array("origin")?),
            utc_offset_seconds: i32::from_le_bytes(self.array("origin")?),
        };
        at_most("the origin's distance from 1970", origin.unix_ns.unsigned_abs(), TIME_NS_MAX - 1)?;
        let head = Head {
            origin,
            documents: self.count("the count of documents", DOCUMENTS_MAX)?,
            sessions: self.count("the count of sessions", REQUESTS_MAX)?,
            requests: self.count("the count of requests", REQUESTS_MAX)?,
        };
        if has_times {
            self.times = Some(self.request_times()?);
        }
        Ok(head)
    }

    fn request_times(&mut self) -> Result<RequestTimes, TraceFileError> {
        let count = u32::from_le_bytes(self.array("times")?);
        at_most("the count of paths with times", count.into(), PATHS_MAX as u64)?;
        let all = self.times_of_requests()?;
        let path = |file: &mut Self| {
            let host_length = u16::from_le_bytes(file.array("times")?);
            let path_length = u32::from_le_bytes(file.array("times")?);
            at_most("the length of a host", host_length.into(), HOST_TEXT_BYTES_MAX as u64)?;
            at_most("the length of a path", path_length.into(), NAME_BYTES_MAX as u64)?;
            let host = file.text(host_length.into())?;
            let path = file.text(path_length as usize)?;
            Ok(PathTimes { path, host, times: file.times_of_requests()? })
        };
        let paths = (0..count).map(|_| path(self)).collect::<Result<_, TraceFileError>>()?;
        Ok(RequestTimes { all, paths })
    }

    fn times_of_requests(&mut self) -> Result<Times, TraceFileError> {
        let times =
            Times { request_time_seconds: self.distribution()?, upstream_time_seconds: self.distribution()? };
        if times == Times::default() {
            return Err(TraceFileError::Inconsistent("times of no request"));
        }
        Ok(times)
    }

    fn distribution(&mut self) -> Result<Option<Distribution>, TraceFileError> {
        let mut numbers = [0; Distribution::NUMBERS];
        numbers[0] = u64::from_le_bytes(self.array("times")?);
        if numbers[0] == 0 {
            return Ok(None);
        }
        for number in &mut numbers[1..] {
            *number = u64::from_le_bytes(self.array("times")?);
        }
        let found = Distribution::of_numbers(numbers, TIME_NS_MAX);
        found.map(Some).ok_or(TraceFileError::Inconsistent("percentiles that no times have"))
    }

    fn count(&mut self, what: &'static str, limit: usize) -> Result<u32, TraceFileError> {
        let count = u32::from_le_bytes(self.array("counts")?);
        at_most(what, u64::from(count), limit as u64)?;
        Ok(count)
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
        self.fill(&mut text, "documents")?;
        String::from_utf8(text).map_err(|_| TraceFileError::Inconsistent("a name is not UTF-8"))
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], TraceFileError> {
        let mut array = [0; N];
        self.fill(&mut array, what)?;
        Ok(array)
    }

    fn fill(&mut self, bytes: &mut [u8], what: &'static str) -> Result<(), TraceFileError> {
        self.reader.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => TraceFileError::Truncated(what),
            _ => TraceFileError::Io(error),
        })?;
        self.place.at_bytes += bytes.len() as u64;
        Ok(())
    }

    fn end<T>(&mut self) -> Result<Option<T>, TraceFileError> {
        match self.array::<1>("end") {
            Err(TraceFileError::Truncated(_)) => Ok(None),
            Ok(_) => Err(TraceFileError::TrailingBytes),
            Err(error) => Err(error),
        }
    }
}

const UNEQUAL: TraceFileError = TraceFileError::Inconsistent("sessions and requests do not add up");

fn at_most(what: &'static str, value: u64, limit: u64) -> Result<(), TraceFileError> {
    if value <= limit { Ok(()) } else { Err(TraceFileError::TooLarge { what, value, limit }) }
}

impl Trace {
    /// Reads a whole trace into memory. Give a buffered reader.
    pub fn read(reader: impl Read) -> Result<Trace, TraceFileError> {
        let (mut file, documents) = TraceReader::open(reader)?;
        let (origin, times) = (file.head().origin, file.times().cloned());
        let mut trace = Trace { documents, origin, times, ..Trace::default() };
        let mut requests = Vec::new();
        while let Some(start_ns) = file.session(&mut requests)? {
            let first = trace.requests.len() as u32;
            trace.sessions.push(Session { start_ns, first, count: requests.len() as u32 });
            trace.requests.append(&mut requests);
        }
        Ok(trace)
    }
}
