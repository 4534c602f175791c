//! A trace: the documents of a log and the sessions that requested them.
//!
//! Times are nanoseconds. A session is one client's sequence of requests over one persistent connection. Requests hold
//! their offset from the session's start, so scaling session arrivals leaves think times alone. Requests with the same
//! offset form a burst.

use std::borrow::Cow;

use crate::request_times::RequestTimes;

/// A document: a distinct (path, size) of the log, as IBM RC22629, 3.3, defines it. A failed or partial response is
/// marked by its status; it has size 0 and no file on a generated site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The path as the log spells it, decoded to UTF-8 with replacement.
    pub name: String,
    /// The site's host; empty where the log does not record it.
    pub host: String,
    /// The length of the body in bytes; 0 for a failed document.
    pub size_bytes: u64,
    /// The response status: 200 for a successful response.
    pub status: u16,
}

impl Document {
    pub fn got(name: impl Into<String>, size_bytes: u64) -> Self {
        Document { name: name.into(), host: String::new(), size_bytes, status: 200 }
    }

    /// Returns true for statuses other than 200. A logged 304 counts for the document that the client already had.
    pub fn is_failed(&self) -> bool {
        self.status != 200
    }
}

/// A run of requests by one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Start, in nanoseconds since the first request of the trace.
    pub start_ns: u64,
    /// Index of its first request in [`Trace::requests`].
    pub first: u32,
    /// Requests, at least one.
    pub count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// Nanoseconds since the session's start, not decreasing within a session.
    pub offset_ns: u64,
    /// Index into [`Trace::documents`].
    pub document: u32,
}

impl Request {
    pub const ENCODED_BYTES: usize = 12;

    /// Encodes as in the file: offset and document, little-endian.
    pub fn encoded(&self) -> [u8; Self::ENCODED_BYTES] {
        let mut bytes = [0; Self::ENCODED_BYTES];
        bytes[..8].copy_from_slice(&self.offset_ns.to_le_bytes());
        bytes[8..].copy_from_slice(&self.document.to_le_bytes());
        bytes
    }

    pub fn decoded(bytes: [u8; Self::ENCODED_BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, document @ ..] = bytes;
        let offset_ns = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        Request { offset_ns, document: u32::from_le_bytes(document) }
    }
}

/// The trace's position in real time, which only the daily rhythm needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The first request of the trace, in nanoseconds since 1970-01-01 00:00 UTC.
    pub unix_ns: i64,
    /// The UTC offset of the log's first line.
    pub utc_offset_seconds: i32,
}

/// Documents, sessions in order of their start, and the sessions' requests, contiguous per session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    pub documents: Vec<Document>,
    /// The sessions, sorted by start.
    pub sessions: Vec<Session>,
    pub requests: Vec<Request>,
    pub origin: Origin,
    /// Logged request durations, if the log records them.
    pub times: Option<RequestTimes>,
}

impl Trace {
    /// The requests of one session, in the order they are sent.
    pub fn requests_of(&self, session: &Session) -> &[Request] {
        &self.requests[session.first as usize..(session.first + session.count) as usize]
    }

    /// The time from a session's first request to its last.
    pub fn duration_ns(&self, session: &Session) -> u64 {
        self.requests_of(session).last().map_or(0, |request| request.offset_ns)
    }

    /// Requests over sessions; zero for an empty trace.
    pub fn mean_requests_per_session(&self) -> f64 {
        self.requests.len() as f64 / (self.sessions.len() as f64).max(1.0)
    }

    /// The mean over all sessions, those of a single request (of no duration) included.
    pub fn mean_session_duration_ns(&self) -> f64 {
        self.session_durations_ns() / (self.sessions.len() as f64).max(1.0)
    }

    /// The sum of all sessions' durations.
    pub fn session_durations_ns(&self) -> f64 {
        self.sessions.iter().map(|session| self.duration_ns(session) as f64).sum()
    }

    /// A copy without failed requests; the trace itself if there are none. Documents of failed requests stay,
    /// unreferenced, so that document numbers do not change.
    pub fn without_failed(&self) -> Cow<'_, Trace> {
        let is_failed = |request: &Request| self.documents[request.document as usize].is_failed();
        if !self.documents.iter().any(Document::is_failed) {
            return Cow::Borrowed(self);
        }
        let (documents, origin, times) = (self.documents.clone(), self.origin, self.times.clone());
        let mut trace = Trace { documents, origin, times, ..Trace::default() };
        for session in &self.sessions {
            let first = trace.requests.len();
            let mut kept = self.requests_of(session).iter().filter(|request| !is_failed(request));
            let Some(begin) = kept.next() else { continue };
            trace.requests.push(Request { offset_ns: 0, ..*begin });
            let later =
                |request: &Request| Request { offset_ns: request.offset_ns - begin.offset_ns, ..*request };
            trace.requests.extend(kept.map(later));
            let count = (trace.requests.len() - first) as u32;
            let start_ns = session.start_ns + begin.offset_ns;
            trace.sessions.push(Session { start_ns, first: first as u32, count });
        }
        trace.rebase();
        Cow::Owned(trace)
    }

    /// Sorts sessions by start and makes the first start the trace's origin.
    fn rebase(&mut self) {
        let requests = std::mem::take(&mut self.requests);
        self.sessions.sort_by_key(|session| session.start_ns);
        let origin_ns = self.sessions.first().map_or(0, |session| session.start_ns);
        self.origin.unix_ns += origin_ns as i64;
        self.requests.reserve(requests.len());
        for session in &mut self.sessions {
            let old = session.first as usize..(session.first + session.count) as usize;
            session.first = self.requests.len() as u32;
            session.start_ns -= origin_ns;
            self.requests.extend_from_slice(&requests[old]);
        }
    }

    pub fn requests_per_document(&self) -> Vec<u32> {
        let mut counts = vec![0; self.documents.len()];
        for request in &self.requests {
            counts[request.document as usize] += 1;
        }
        counts
    }
}

/// The path of a document on a generated site, with a leading slash. It consists of index and size, so that names from
/// the log (`..`, a directory that is also a file, 300 characters) never reach the file system.
pub fn site_path(document: u32, size_bytes: u64) -> String {
    format!("/{:03}/{document:06}-{size_bytes}", document / 1000)
}
