//! The access log: a line per request, in Apache's LogFormat.
//!
//! Loops and threads append lines to a buffer in memory; a thread writes it to the file every second, or when it has
//! grown. If the disk is slow, full or does not answer, lines are lost and counted, but requests are never delayed, and the
//! server ends in bounded time. Processes that serve connections send their lines to a process that writes them
//! ([`pipe`]), or write them themselves if nothing but inetd has started them: then a disk that does not answer holds them
//! up.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::clock::{Clock, now, since_1970};
use crate::counters::scoreboard::Scoreboard;

mod file;
mod format;
mod line;
mod outcome;
pub mod pipe;

use file::{LogFile, count};
pub use format::{FormatError, LogFormat, NICKNAMES};
use line::Ended;
pub use line::{Entry, OpenLine, Upstream, append_escaped};
pub use outcome::Outcome;
use pipe::LinePipe;

/// The longest time a line stays in memory.
const FLUSH_PERIOD: Duration = Duration::from_secs(1);

/// The buffer is written early when it has this size.
const FLUSH_BYTES: usize = 256 * 1024;

/// Lines are dropped while this much waits for the disk.
const BUFFER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long a server that ends waits for its last lines to be written: the file may be on a disk of another machine,
/// which does not answer.
pub const CLOSING_MAX: Duration = Duration::from_secs(3);

/// An open access log; clones share it. Dropping the last one writes the buffered lines.
#[derive(Clone, Debug)]
pub struct AccessLog {
    owner: Arc<Owner>,
    format: Arc<LogFormat>,
}

#[derive(Debug)]
struct Owner {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: Target,
    state: Mutex<State>,
    wake: Condvar,
    /// The writing thread has ended.
    ended: Condvar,
    dropped: AtomicU64,
}

/// Where lines go.
#[derive(Clone, Debug)]
enum Target {
    File(Arc<Mutex<LogFile>>),
    /// To the process that writes the file.
    Pipe(Arc<LinePipe>),
}

#[derive(Debug)]
struct State {
    lines: Vec<u8>,
    writer: Writer,
    is_closing: bool,
    /// Lines that the thread is writing.
    lines_in_hand: u64,
    has_ended: bool,
}

#[derive(Debug)]
enum Writer {
    /// A thread, started with the first line, so that a process that logs nothing has none when it forks.
    UnstartedThread,
    Thread(JoinHandle<()>),
    /// The thread that logs, once per period.
    Caller {
        written: Instant,
    },
}

impl AccessLog {
    /// The clock for a loop with this log: exact only if the log's lines need durations.
    pub fn clock(log: Option<&AccessLog>) -> Clock {
        if log.is_some_and(AccessLog::has_durations) { Clock::exact() } else { Clock::new() }
    }

    /// Opens `path` for appending from a separate thread; it is reopened when that is
    /// [requested](Scoreboard::request_reopening) on `scoreboard`.
    pub fn open(path: &Path, format: LogFormat, scoreboard: &Scoreboard) -> std::io::Result<AccessLog> {
        let file = Arc::new(Mutex::new(LogFile::open(path, scoreboard)?));
        Ok(AccessLog::with(Target::File(file), Arc::new(format), Writer::UnstartedThread))
    }

    /// Sends lines through `pipe` from the thread that logs, when [told to](AccessLog::write_out) or when many have
    /// gathered.
    pub fn of_pipe(pipe: LinePipe, format: LogFormat) -> AccessLog {
        AccessLog::through(Arc::new(pipe), Arc::new(format))
    }

    /// The same format through `pipe`, for a process that serves a single connection.
    pub fn sending_through(&self, pipe: &Arc<LinePipe>) -> AccessLog {
        AccessLog::through(Arc::clone(pipe), Arc::clone(&self.format))
    }

    fn through(pipe: Arc<LinePipe>, format: Arc<LogFormat>) -> AccessLog {
        AccessLog::with(Target::Pipe(pipe), format, Writer::Caller { written: Instant::now() })
    }

    /// The same format through `pipe`, for a process that lives long: a thread of its own sends its lines.
    pub fn sending_from_own_thread(&self, pipe: &Arc<LinePipe>) -> AccessLog {
        AccessLog::with(Target::Pipe(Arc::clone(pipe)), Arc::clone(&self.format), Writer::UnstartedThread)
    }

    /// Gives the file to a user who will reopen it later.
    pub fn chown_to(&self, user: u32, group: u32) -> std::io::Result<()> {
        match &self.owner.shared.target {
            Target::File(file) => lock_file(file).chown_to(user, group),
            Target::Pipe(_) => Ok(()),
        }
    }

    /// The same file for a process that may block, as one does that serves a single connection: it writes its lines
    /// itself, when [told to](AccessLog::write_out) or when many have gathered. Each write consists of whole lines, so
    /// processes can share the file.
    pub fn writing_in_caller(&self) -> AccessLog {
        let writer = Writer::Caller { written: Instant::now() };
        AccessLog::with(self.owner.shared.target.clone(), Arc::clone(&self.format), writer)
    }

    /// The same file for the process that writes the lines of others, from a thread of its own.
    pub fn writing_in_own_thread(&self) -> AccessLog {
        AccessLog::with(self.owner.shared.target.clone(), Arc::clone(&self.format), Writer::UnstartedThread)
    }

    fn with(target: Target, format: Arc<LogFormat>, writer: Writer) -> AccessLog {
        let lines = Vec::new();
        let state = State { lines, writer, is_closing: false, lines_in_hand: 0, has_ended: false };
        let shared = Shared {
            target,
            state: Mutex::new(state),
            wake: Condvar::new(),
            ended: Condvar::new(),
            dropped: AtomicU64::new(0),
        };
        AccessLog { owner: Arc::new(Owner { shared: Arc::new(shared) }), format }
    }

    /// Returns true if lines contain the durations of responses.
    pub fn has_durations(&self) -> bool {
        self.format.has_durations()
    }

    pub fn begin(&self, entry: &Entry<'_>) -> OpenLine {
        OpenLine::begin(&self.format, entry)
    }

    /// Completes a line: `body_bytes` of the body were sent.
    pub fn finish(&self, line: &OpenLine, body_bytes: u64) {
        let ended = Ended {
            at: if self.has_durations() { now() } else { Duration::ZERO },
            moment: if self.format.has_moments() { since_1970() } else { Duration::ZERO },
        };
        self.append(|lines| line.end(&self.format, body_bytes, ended, lines));
    }

    /// Appends a line that is not about a request. `write` writes all of it, including the line end.
    pub fn append(&self, write: impl FnOnce(&mut Vec<u8>)) {
        self.append_lines(1, write);
    }

    /// Appends as many lines at once.
    fn append_lines(&self, lines: u64, write: impl FnOnce(&mut Vec<u8>)) {
        let shared = &self.owner.shared;
        let mut state = shared.lock();
        if state.lines.len() > BUFFER_BYTES_MAX {
            shared.dropped.fetch_add(lines, Ordering::Relaxed);
            return;
        }
        write(&mut state.lines);
        let is_full = state.lines.len() >= FLUSH_BYTES;
        match state.writer {
            Writer::UnstartedThread => state.writer = Shared::start_writer(shared),
            Writer::Thread(_) if is_full => shared.wake.notify_one(),
            Writer::Caller { .. } if is_full => shared.write_out(&mut state),
            Writer::Thread(_) | Writer::Caller { .. } => {}
        }
    }

    /// The time until the caller must [write](AccessLog::write_out) buffered lines; `None` if there are none or a
    /// thread does it.
    pub fn due_in(&self) -> Option<Duration> {
        let state = self.owner.shared.lock();
        match state.writer {
            Writer::Caller { written } if !state.lines.is_empty() => {
                Some(FLUSH_PERIOD.saturating_sub(written.elapsed()))
            }
            _ => None,
        }
    }

    /// Writes the buffered lines, blocking the caller.
    pub fn write_out(&self) {
        self.owner.shared.write_out(&mut self.owner.shared.lock());
    }

    /// Writes what is buffered, for the last time. A thread that writes is waited for until `limit`; lines that it has
    /// not written by then are dropped and counted, even if a part of them has been.
    pub fn close(&self, limit: Duration) {
        self.owner.shared.close(limit);
    }

    pub fn dropped(&self) -> u64 {
        self.owner.shared.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.close(CLOSING_MAX);
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
            // No thread available: late lines are better than lost ones.
            Err(_) => Writer::Caller { written: Instant::now() },
        }
    }

    fn write_from_thread(&self) {
        let mut lines = Vec::new();
        loop {
            let waits = |state: &mut State| !state.is_closing && state.lines.len() < FLUSH_BYTES;
            let (mut state, _) = self
                .wake
                .wait_timeout_while(self.lock(), FLUSH_PERIOD, waits)
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut lines, &mut state.lines);
            state.lines_in_hand = count(&lines);
            let is_closing = state.is_closing;
            drop(state);
            self.append(&lines);
            lines.clear();
            self.reopen_if_requested();
            let mut state = self.lock();
            state.lines_in_hand = 0;
            if is_closing {
                state.has_ended = true;
                self.ended.notify_one();
                return;
            }
        }
    }

    fn close(&self, limit: Duration) {
        let mut state = self.lock();
        state.is_closing = true;
        match std::mem::replace(&mut state.writer, Writer::UnstartedThread) {
            Writer::Thread(thread) => {
                self.wake.notify_one();
                let (mut state, _) = self
                    .ended
                    .wait_timeout_while(state, limit, |state| !state.has_ended)
                    .unwrap_or_else(PoisonError::into_inner);
                if state.has_ended {
                    drop(state);
                    let _ = thread.join();
                } else {
                    // It hangs in the file system until the process ends.
                    let lost = state.lines_in_hand + count(&state.lines);
                    state.lines.clear();
                    self.dropped.fetch_add(lost, Ordering::Relaxed);
                }
            }
            Writer::Caller { .. } => self.write_out(&mut state),
            // Nothing is buffered, or it is closed.
            Writer::UnstartedThread => {}
        }
    }

    fn write_out(&self, state: &mut State) {
        self.append(&state.lines);
        state.lines.clear();
        if let Writer::Caller { written } = &mut state.writer {
            *written = Instant::now();
        }
    }

    fn append(&self, lines: &[u8]) {
        let lost = match &self.target {
            Target::File(file) => lock_file(file).append(lines),
            Target::Pipe(pipe) => pipe.send(lines),
        };
        self.dropped.fetch_add(lost, Ordering::Relaxed);
    }

    /// Closes a file that was moved away, even if there is nothing to write.
    fn reopen_if_requested(&self) {
        if let Target::File(file) = &self.target {
            lock_file(file).reopen_if_requested();
        }
    }
}

fn lock_file(file: &Mutex<LogFile>) -> MutexGuard<'_, LogFile> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
