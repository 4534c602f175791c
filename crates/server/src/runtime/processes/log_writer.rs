//! The process that writes the access log for children that serve connections.
//!
//! It is told the lines by a pipe and ends when all children have. If it dies before, it is replaced. Nobody waits for
//! it longer than for a log in a thread: if the file system does not answer, not even a signal ends it, and the server ends
//! without it.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::backoff::RestartBackoff;
use super::children::Children;
use crate::access_log::pipe::{LinePipe, LineSource, line_pipe};
use crate::access_log::{AccessLog, CLOSING_MAX};
use crate::counters::scoreboard::Scoreboard;
use crate::runtime::sockets::accept::Listener;
use crate::site::Site;
use crate::stderr;

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
    let start = |log: &AccessLog| {
        let log_writer = LogWriter::new(site, log)?;
        log_writer.start(|| listeners = None)?;
        Ok::<_, io::Error>(log_writer)
    };
    let log_writer = site.log.as_ref().map(start).transpose()?;
    let served = serve(listeners.expect("closed in the child only"), log_writer.as_ref());
    if let Some(log_writer) = log_writer {
        log_writer.close();
    }
    served
}

pub struct LogWriter {
    /// For children.
    pipe: Arc<LinePipe>,
    /// Kept for the successor of a process that dies, with the lines that wait.
    source: RefCell<Option<LineSource>>,
    log: AccessLog,
    scoreboard: Scoreboard,
    process: RefCell<Children>,
    /// Readable when it has ended.
    end: OwnedFd,
    backoff: RefCell<RestartBackoff>,
}

impl LogWriter {
    fn new(site: &Site, log: &AccessLog) -> io::Result<LogWriter> {
        let (source, pipe) = line_pipe()?;
        let process = Children::new(&site.scoreboard)?;
        Ok(LogWriter {
            pipe: Arc::new(pipe),
            source: RefCell::new(Some(source)),
            log: log.clone(),
            scoreboard: site.scoreboard.clone(),
            end: process.as_fd().try_clone_to_owned()?,
            process: RefCell::new(process),
            backoff: RefCell::default(),
        })
    }

    /// Starts the process that writes the log; it first calls `close`, which closes what it must not keep open.
    ///
    /// # Errors
    /// If the system lacks the resources.
    fn start(&self, close: impl FnOnce()) -> io::Result<()> {
        self.process.borrow_mut().start(self.scoreboard.connection_slot(), |slot, _| {
            close();
            // Whoever reads what the server prints must not wait for this process.
            rustix::stdio::dup2_stdout(File::open("/dev/null")?)?;
            // It ends when nobody else has this end. SAFETY: its owner belongs to code of the parent, which the child does not
            // return to.
            unsafe { libc::close(self.pipe.as_fd().as_raw_fd()) };
            let source = self.source.take().expect("taken in the child only");
            source.write_to(&self.log.writing_in_own_thread(), &slot)
        })?;
        Ok(())
    }

    /// Starts another process if the present one has died, as it does only if it is killed or fails. Lines wait meanwhile.
    pub fn replace_if_ended(&self, close: impl FnOnce()) {
        let ended = self.process.borrow_mut().reap();
        for ended in &ended {
            stderr::write(&format!(
                "warning: the process {} that writes the access log has ended: another one follows\n",
                ended.process
            ));
            self.backoff.borrow_mut().record(ended);
        }
        if self.process.borrow().len() == 0 && self.pause().is_none() && self.start(close).is_err() {
            // Descriptors or memory may be free later.
            self.backoff.borrow_mut().begin();
        }
    }

    /// How long the next attempt to replace it is delayed.
    pub fn pause(&self) -> Option<Duration> {
        self.backoff.borrow().left().filter(|_| self.process.borrow().len() == 0)
    }

    /// Readable when the process has ended.
    pub fn end(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
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
        let LogWriter { pipe, log, process, .. } = self;
        let mut process = process.into_inner();
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
