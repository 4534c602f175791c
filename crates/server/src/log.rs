//! The access log, in Common or Combined Log Format.
//!
//! Loops append lines to a buffer in memory; one thread writes it out, each second or when it has grown. A log
//! that cannot be written (slow or full disk) loses lines, counted; it never holds up a request.

use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

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

/// An open access log. Dropping it writes what is left.
#[derive(Debug)]
pub struct AccessLog {
    shared: Arc<Shared>,
    format: LogFormat,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    lines: Vec<u8>,
    is_closing: bool,
}

/// A line that lacks only the bytes sent, for responses that take their time.
#[derive(Debug)]
pub struct OpenLine {
    text: Vec<u8>,
    bytes_at: usize,
}

impl AccessLog {
    /// Appends to `file` from a thread of its own.
    pub fn new(file: File, format: LogFormat) -> std::io::Result<AccessLog> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let writer =
            std::thread::Builder::new().name("access-log".into()).spawn(move || theirs.write(file))?;
        Ok(AccessLog { shared, format, writer: Some(writer) })
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
        let mut state = self.shared.lock();
        if state.lines.len() > BUFFER_BYTES_MAX {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let (before, after) = line.text.split_at(line.bytes_at);
        state.lines.extend_from_slice(before);
        let _ = write!(state.lines, "{body_bytes}");
        state.lines.extend_from_slice(after);
        let is_full = state.lines.len() >= FLUSH_BYTES;
        drop(state);
        if is_full {
            self.shared.wake.notify_one();
        }
    }

    /// Lines lost so far.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.shared.lock().is_closing = true;
        self.shared.wake.notify_one();
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer's life.
    fn write(&self, mut file: File) {
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
            if file.write_all(&lines).is_err() {
                let lost = lines.iter().filter(|byte| **byte == b'\n').count();
                self.dropped.fetch_add(lost as u64, Ordering::Relaxed);
            }
            lines.clear();
            if is_closing {
                return;
            }
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
        let log = AccessLog::new(file.reopen().unwrap(), format).unwrap();
        let Ok(Parsed::Complete(parsed)) = Parser::default().parse(request.as_bytes()) else {
            panic!("{request}")
        };
        let line =
            log.begin([127, 0, 0, 1].into(), b"[06/Nov/1994:08:49:37 +0000]", Some(&parsed), Status::Ok);
        log.finish(&line, 42);
        drop(log);
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
