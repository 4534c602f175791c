//! The access log, in Common or Combined Log Format.
//!
//! Loops append lines to a buffer in memory; one thread writes it out, each second or when it has grown. A log
//! that cannot be written (slow or full disk) loses lines, counted; it never holds up a request. Processes that
//! serve one connection at a time, and wait for disks anyway, write their lines themselves.

use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sojourn_http::Status;
use sojourn_http::request::Request;

/// The longest time a line stays in memory.
const FLUSH_PERIOD: Duration = Duration::from_secs(1);

/// Written out before the period ends when this much has gathered.
const FLUSH_BYTES: usize = 256 * 1024;

/// Lines are dropped while this much waits for the disk.
const BUFFER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Which fields a line has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Host, time, request line, status, bytes.
    Common,
    /// Also Referer and User-Agent.
    Combined,
}

/// An open access log. Clones are the same log; dropping the last writes what is left.
#[derive(Clone, Debug)]
pub struct AccessLog {
    owner: Arc<Owner>,
    format: LogFormat,
}

#[derive(Debug)]
struct Owner {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    file: Arc<File>,
    state: Mutex<State>,
    wake: Condvar,
    dropped: AtomicU64,
}

#[derive(Debug)]
struct State {
    lines: Vec<u8>,
    writer: Writer,
    is_closing: bool,
}

/// Who writes the lines out.
#[derive(Debug)]
enum Writer {
    /// A thread that starts with the first line: a process that logs nothing itself has none when it forks.
    ThreadToBe,
    Thread(JoinHandle<()>),
    /// Whoever logs, once a period.
    Caller {
        written: Instant,
    },
}

/// A line that lacks only the bytes sent, for responses that take their time.
#[derive(Debug)]
pub struct OpenLine {
    text: Vec<u8>,
    bytes_at: usize,
}

impl AccessLog {
    /// Appends to `file`, which should be open for appending: from a thread of its own.
    pub fn new(file: File, format: LogFormat) -> AccessLog {
        AccessLog::with(Arc::new(file), format, Writer::ThreadToBe)
    }

    /// The same file for a process, or a thread, that may wait for its disk: it writes its lines itself, when it is
    /// [told to](AccessLog::write_out) or has gathered many. Each write is of whole lines, so processes can share
    /// the file.
    pub fn without_thread(&self) -> AccessLog {
        let writer = Writer::Caller { written: Instant::now() };
        AccessLog::with(Arc::clone(&self.owner.shared.file), self.format, writer)
    }

    fn with(file: Arc<File>, format: LogFormat, writer: Writer) -> AccessLog {
        let state = Mutex::new(State { lines: Vec::new(), writer, is_closing: false });
        let shared = Shared { file, state, wake: Condvar::new(), dropped: AtomicU64::new(0) };
        AccessLog { owner: Arc::new(Owner { shared: Arc::new(shared) }), format }
    }

    /// Begins the line for `request`; without one (it could not be read) for the refusal.
    pub fn begin(
        &self,
        peer: IpAddr,
        time: &[u8],
        request: Option<&Request<'_>>,
        status: Status,
    ) -> OpenLine {
        let mut text = Vec::with_capacity(256);
        let _ = write!(text, "{peer} - - ");
        text.extend_from_slice(time);
        text.extend_from_slice(b" \"");
        append_quoted(&mut text, request.map_or(b"-", |request| request.line));
        let _ = write!(text, "\" {} ", status.code());
        let bytes_at = text.len();
        if self.format == LogFormat::Combined {
            for field in [request.and_then(|request| request.referer), request.and_then(|r| r.user_agent)] {
                text.extend_from_slice(b" \"");
                append_quoted(&mut text, field.unwrap_or(b"-"));
                text.push(b'"');
            }
        }
        text.push(b'\n');
        OpenLine { text, bytes_at }
    }

    /// Ends a line: so many bytes of body were sent.
    pub fn finish(&self, line: &OpenLine, body_bytes: u64) {
        let shared = &self.owner.shared;
        let mut state = shared.lock();
        if state.lines.len() > BUFFER_BYTES_MAX {
            shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let (before, after) = line.text.split_at(line.bytes_at);
        state.lines.extend_from_slice(before);
        let _ = write!(state.lines, "{body_bytes}");
        state.lines.extend_from_slice(after);
        let is_full = state.lines.len() >= FLUSH_BYTES;
        match state.writer {
            Writer::ThreadToBe => state.writer = Shared::start_writer(shared),
            Writer::Thread(_) if is_full => shared.wake.notify_one(),
            Writer::Caller { .. } if is_full => shared.write_out(&mut state),
            Writer::Thread(_) | Writer::Caller { .. } => {}
        }
    }

    /// How long lines may still wait in memory before the caller writes them [out](AccessLog::write_out); `None` if
    /// there are none, or a thread does it.
    pub fn due_in(&self) -> Option<Duration> {
        let state = self.owner.shared.lock();
        match state.writer {
            Writer::Caller { written } if !state.lines.is_empty() => {
                Some(FLUSH_PERIOD.saturating_sub(written.elapsed()))
            }
            _ => None,
        }
    }

    /// Writes the lines out, in the caller's time.
    pub fn write_out(&self) {
        self.owner.shared.write_out(&mut self.owner.shared.lock());
    }

    /// Lines lost so far.
    pub fn dropped(&self) -> u64 {
        self.owner.shared.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_closing = true;
        match std::mem::replace(&mut state.writer, Writer::ThreadToBe) {
            Writer::Thread(thread) => {
                drop(state);
                self.shared.wake.notify_one();
                let _ = thread.join();
            }
            Writer::ThreadToBe | Writer::Caller { .. } => self.shared.write_out(&mut state),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_writer(this: &Arc<Shared>) -> Writer {
        let shared = Arc::clone(this);
        let thread = std::thread::Builder::new().name("access-log".into());
        match thread.spawn(move || shared.write_from_thread()) {
            Ok(thread) => Writer::Thread(thread),
            // Out of threads: rather late than lost.
            Err(_) => Writer::Caller { written: Instant::now() },
        }
    }

    /// The writer's life.
    fn write_from_thread(&self) {
        let mut lines = Vec::new();
        loop {
            let waits = |state: &mut State| !state.is_closing && state.lines.len() < FLUSH_BYTES;
            let (mut state, _) = self
                .wake
                .wait_timeout_while(self.lock(), FLUSH_PERIOD, waits)
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut lines, &mut state.lines);
            let is_closing = state.is_closing;
            drop(state);
            self.append(&lines);
            lines.clear();
            if is_closing {
                return;
            }
        }
    }

    fn write_out(&self, state: &mut State) {
        self.append(&state.lines);
        state.lines.clear();
        if let Writer::Caller { written } = &mut state.writer {
            *written = Instant::now();
        }
    }

    /// In one write, unless the disk is full: lines of several processes do not mix.
    fn append(&self, lines: &[u8]) {
        if !lines.is_empty() && (&*self.file).write_all(lines).is_err() {
            let lost = lines.iter().filter(|byte| **byte == b'\n').count();
            self.dropped.fetch_add(lost as u64, Ordering::Relaxed);
        }
    }
}

/// Quotes, backslashes and whatever is no visible ASCII are written as escapes, so that a line stays a line.
fn append_quoted(text: &mut Vec<u8>, value: &[u8]) {
    for byte in value {
        match byte {
            b'"' | b'\\' => text.extend_from_slice(&[b'\\', *byte]),
            b' '..=b'~' => text.push(*byte),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_http::request::{Parsed, Parser};

    fn check(format: LogFormat, request: &str, expected: &str) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let log = AccessLog::new(file.reopen().unwrap(), format);
        let Ok(Parsed::Complete(parsed)) = Parser::default().parse(request.as_bytes()) else {
            panic!("{request}")
        };
        let line =
            log.begin([127, 0, 0, 1].into(), b"[06/Nov/1994:08:49:37 +0000]", Some(&parsed), Status::Ok);
        log.finish(&line, 42);
        drop(log);
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), expected);

        let log = AccessLog::new(file.reopen().unwrap(), format).without_thread();
        assert_eq!(log.due_in(), None);
        log.finish(&line, 42);
        assert!(log.due_in() <= Some(FLUSH_PERIOD) && log.due_in().is_some());
        log.write_out();
        assert_eq!(log.due_in(), None);
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), expected);
    }

    #[test]
    fn lines() {
        let request = "GET /a\"b HTTP/1.1\r\nHost: h\r\nUser-Agent: x \u{e9}\r\n\r\n";
        let common = "127.0.0.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /a\\\"b HTTP/1.1\" 200 42";
        check(LogFormat::Common, request, &format!("{common}\n"));
        check(LogFormat::Combined, request, &format!("{common} \"-\" \"x \\xc3\\xa9\"\n"));
    }
}
