//! A trace: the documents a log names and the sessions that asked for them.
//!
//! Times are nanoseconds. A session is one client's run of requests over one persistent connection; its
//! requests hold their offset from the session's start, so that scaling session arrivals leaves think
//! times alone. Requests with the same offset form a burst.

/// A distinct (path, size) of the log: seed IBM RC22629, 3.3, treats each as a file of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The path as the log spells it, decoded to UTF-8 with replacement.
    pub name: String,
    /// The length of the body in bytes.
    pub size_bytes: u64,
}

/// A run of requests by one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Start, in nanoseconds since the first request of the trace.
    pub start_ns: u64,
    /// Index of its first request in [`Trace::requests`].
    pub first: u32,
    /// How many requests it holds, at least one.
    pub count: u32,
}

/// One request of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Nanoseconds since the session's start, not decreasing within a session.
    pub offset_ns: u64,
    /// Index into [`Trace::documents`].
    pub document: u32,
}

/// Where the trace lies in real time; only the daily rhythm needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The first request of the trace, in nanoseconds since 1970-01-01 00:00 UTC.
    pub unix_ns: i64,
    /// What the log's clock is ahead of UTC, by its first line.
    pub utc_offset_seconds: i32,
}

/// Documents, sessions in order of their start, and the sessions' requests, contiguous per session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The distinct documents.
    pub documents: Vec<Document>,
    /// The sessions, sorted by start.
    pub sessions: Vec<Session>,
    /// The requests of all sessions.
    pub requests: Vec<Request>,
    /// When the trace was recorded.
    pub origin: Origin,
}

impl Trace {
    /// The requests of one session, in the order they are sent.
    pub fn requests_of(&self, session: &Session) -> &[Request] {
        &self.requests[session.first as usize..(session.first + session.count) as usize]
    }

    /// From a session's first request to its last.
    pub fn duration_ns(&self, session: &Session) -> u64 {
        self.requests_of(session).last().map_or(0, |request| request.offset_ns)
    }

    /// From the first request of the trace to its last.
    pub fn span_ns(&self) -> u64 {
        let ends = self.sessions.iter().map(|session| session.start_ns + self.duration_ns(session));
        ends.max().unwrap_or(0)
    }

    /// Requests over sessions; zero for an empty trace.
    pub fn mean_requests_per_session(&self) -> f64 {
        self.requests.len() as f64 / (self.sessions.len() as f64).max(1.0)
    }

    /// The mean over all sessions, those of a single request (of no duration) included.
    pub fn mean_session_duration_ns(&self) -> f64 {
        let total: f64 = self.sessions.iter().map(|session| self.duration_ns(session) as f64).sum();
        total / (self.sessions.len() as f64).max(1.0)
    }

    /// How often each document is asked for.
    pub fn requests_per_document(&self) -> Vec<u32> {
        let mut counts = vec![0; self.documents.len()];
        for request in &self.requests {
            counts[request.document as usize] += 1;
        }
        counts
    }
}

/// Where a document lives on a built site, with a leading slash: by index and size, so that no name of
/// the log (`..`, a directory that is also a file, 300 characters) can reach the file system.
pub fn site_path(document: u32, size_bytes: u64) -> String {
    format!("/{:03}/{document:06}-{size_bytes}", document / 1000)
}
