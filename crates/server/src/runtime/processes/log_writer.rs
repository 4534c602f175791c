//! The process that writes the access log for children that serve connections.
//!
//! It is told the lines by a pipe and ends when all children have. Nobody waits for it longer than for a log in a thread:
//! if the file system does not answer, not even a signal ends it, and the server ends without it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::children::Children;
use crate::access_log::pipe::{LinePipe, line_pipe};
use crate::access_log::{AccessLog, CLOSING_MAX};
use crate::runtime::sockets::accept::Listener;
use crate::site::Site;

/// How much longer than for its last lines the process is waited for.
const ENDING_MAX: Duration = Duration::from_secs(1);

/// Runs `serve` on `listeners`, with a process that writes the log of `site` if it has one.
///
/// # Errors
/// If the process cannot be started, or `serve` fails.
pub fn with_log_writer(
    site: &Site,
    listeners: Vec<Listener>,
    serve: impl FnOnce(Vec<Listener>, Option<&LogWriter>) -> io::Result<()>,
) -> io::Result<()> {
    let mut listeners = Some(listeners);
    let start = |log| LogWriter::start(site, log, || listeners = None);
    let log_writer = site.log.as_ref().map(start).transpose()?;
    let served = serve(listeners.expect("closed in the child only"), log_writer.as_ref());
    if let Some(log_writer) = log_writer {
        log_writer.close();
    }
    served
}

pub struct LogWriter {
    pipe: Arc<LinePipe>,
    log: AccessLog,
    process: Children,
}

impl LogWriter {
    /// Starts the process that writes `log`; it first calls `close`, which closes what it must not keep open.
    ///
    /// # Errors
    /// If the system lacks the resources.
    fn start(site: &Site, log: &AccessLog, close: impl FnOnce()) -> io::Result<LogWriter> {
        let (source, pipe) = line_pipe()?;
        let (mut source, mut pipe) = (Some(source), Some(pipe));
        let mut process = Children::new(&site.scoreboard)?;
        process.start(site.scoreboard.connection_slot(), |slot, _| {
            close();
            // Whoever reads what the server prints must not wait for this process.
            rustix::stdio::dup2_stdout(File::open("/dev/null")?)?;
            // It ends when nobody else has this end.
            pipe = None;
            let source = source.take().expect("taken in the child only");
            source.write_to(&log.writing_in_own_thread(), &slot)
        })?;
        let pipe = Arc::new(pipe.expect("taken in the child only"));
        Ok(LogWriter { pipe, log: log.clone(), process })
    }

    /// The log for a child of this process that serves one connection.
    pub fn log_of_child(&self) -> AccessLog {
        self.log.sending_through(&self.pipe)
    }

    /// The log for a child of this process that serves one connection after the other.
    pub fn log_of_worker(&self) -> AccessLog {
        self.log.sending_from_own_thread(&self.pipe)
    }

    /// Waits until the last lines are written, now that all children have ended; not for long.
    fn close(self) {
        let LogWriter { pipe, log, mut process } = self;
        drop((pipe, log));
        let until = Instant::now() + CLOSING_MAX + ENDING_MAX;
        while process.len() > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // If this does not end it, it ends when the file system answers.
                return process.kill();
            }
            let timeout = Timespec::try_from(left).ok();
            let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], timeout.as_ref());
            process.reap();
        }
    }
}

impl AsFd for LogWriter {
    /// The end of the pipe that a program executed for a connection inherits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}
