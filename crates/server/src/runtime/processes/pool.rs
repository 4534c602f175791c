//! The dispatcher's helpers: tracks which are idle or busy, and replaces ended ones.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::process::Pid;

use super::backoff::RestartBackoff;
use super::channel::{Message, ToDispatcher, ToHelper, channel};
use super::log_writer::LogWriter;
use super::{Children, Ended};
use crate::access_log::AccessLog;
use crate::counters::scoreboard::{Permit, Slot};
use crate::runtime::blocking::run_worker;
use crate::runtime::sockets::accept::Arrival;
use crate::site::Site;
use crate::stop::Stop;

/// Messages read per loop iteration.
const EVENTS_MAX: usize = 64;

#[derive(Debug)]
pub struct Pool {
    size: usize,
    helpers: HashMap<Pid, Helper>,
    /// The helper that became idle last is used first, because its caches are warm.
    idle: Vec<Pid>,
    /// Readable when a helper has sent a message.
    messages: OwnedFd,
    started: usize,
    backoff: RestartBackoff,
}

#[derive(Debug)]
struct Helper {
    channel: ToHelper,
    /// When its current connection started, and that connection's permit.
    busy: Option<(Instant, Permit)>,
    /// It was told to stop: it gets no further connection.
    is_stopping: bool,
}

impl Pool {
    /// A pool of `size` helpers, which [`complete`](Pool::complete) starts.
    pub fn new(size: usize) -> io::Result<Pool> {
        let messages = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (helpers, backoff) = (HashMap::new(), RestartBackoff::default());
        Ok(Pool { size, helpers, idle: Vec::new(), messages, started: 0, backoff })
    }

    /// Starts missing helpers. In each, `close_inherited` closes the dispatcher's descriptors that the pool does not
    /// know.
    ///
    /// # Errors
    /// If there is no helper and none can be started.
    pub fn complete(
        &mut self,
        children: &mut Children,
        site: &Site,
        log_writer: Option<&LogWriter>,
        mut close_inherited: impl FnMut(),
    ) -> io::Result<()> {
        while self.helpers.len() < self.size && self.backoff.left().is_none() {
            match self.start(children, site, log_writer, &mut close_inherited) {
                Ok(()) if self.started > self.size => children.count_replaced(),
                Ok(()) => {}
                Err(error) if self.helpers.is_empty() => return Err(error),
                // The others serve meanwhile.
                Err(_) => self.backoff.begin(),
            }
        }
        Ok(())
    }

    /// How long the next attempt to start a missing helper is delayed.
    pub fn pause(&self) -> Option<Duration> {
        self.backoff.left().filter(|_| self.helpers.len() < self.size)
    }

    /// Returns true if a helper is idle.
    pub fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.helpers.is_empty()
    }

    /// Passes a connection to an idle helper; `None` if there is none.
    pub fn pass(&mut self, arrival: &Arrival) -> Option<io::Result<()>> {
        let helper = self.helpers.get_mut(&self.idle.pop()?)?;
        let passed = helper.channel.pass(arrival);
        helper.busy = passed.is_ok().then(|| (Instant::now(), arrival.permit));
        Some(passed)
    }

    /// Reads the helpers' messages; returns busy time and permit of each finished connection.
    pub fn receive_messages(&mut self) -> Vec<(Duration, Permit)> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // If it fails, the next loop iteration tries again.
        let _ = epoll::wait(&self.messages, rustix::buffer::spare_capacity(&mut events), Some(&now));
        let mut over = Vec::new();
        for process in events.iter().filter_map(|event| Pid::from_raw(event.data.u64() as i32)) {
            let Some(helper) = self.helpers.get_mut(&process) else { continue };
            match helper.channel.read_message() {
                Some(Message::Ready) => {
                    over.extend(helper.busy.take().map(|(since, permit)| (since.elapsed(), permit)));
                    self.idle.push(process);
                }
                Some(Message::Leaving) => helper.is_stopping = true,
                // It has ended, which is noticed separately.
                None => {}
            }
        }
        over
    }

    /// Ends idle helpers that were told to stop, or `all` idle ones.
    pub fn stop_idle(&mut self, all: bool) {
        for process in std::mem::take(&mut self.idle) {
            match self.helpers.get(&process) {
                Some(helper) if all || helper.is_stopping => drop(self.remove(process)),
                _ => self.idle.push(process),
            }
        }
    }

    /// Handles a child's end; if it was a helper, returns the permit of its connection.
    pub fn reap(&mut self, ended: &Ended) -> Option<Permit> {
        let helper = self.remove(ended.process)?;
        self.backoff.record(ended);
        self.idle.retain(|process| *process != ended.process);
        helper.busy.map(|(_, permit)| permit)
    }

    /// Closes the channels in a child that is not a helper.
    pub fn close_channels(&mut self) {
        self.helpers.clear();
    }

    fn start(
        &mut self,
        children: &mut Children,
        site: &Site,
        log_writer: Option<&LogWriter>,
        close_inherited: &mut impl FnMut(),
    ) -> io::Result<()> {
        let (to_helper, to_dispatcher) = channel()?;
        let mut to_helper = Some(to_helper);
        let process = children.start(site.scoreboard.slot(), |slot, stop| {
            close_inherited();
            self.close_channels();
            to_helper = None;
            let log = log_writer.map(LogWriter::log_of_worker);
            serve_as_helper(site, log, slot, stop, &to_dispatcher)
        })?;
        self.started += 1;
        let channel = to_helper.take().expect("taken in the child only");
        let data = epoll::EventData::new_u64(process.as_raw_pid() as u64);
        epoll::add(&self.messages, &channel, data, epoll::EventFlags::IN)?;
        self.helpers.insert(process, Helper { channel, busy: None, is_stopping: false });
        self.idle.push(process);
        Ok(())
    }

    fn remove(&mut self, process: Pid) -> Option<Helper> {
        let helper = self.helpers.remove(&process)?;
        // A child that was just forked may still have it open, so closing it would not remove it from epoll.
        let _ = epoll::delete(&self.messages, &helper.channel);
        Some(helper)
    }
}

impl AsFd for Pool {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.messages.as_fd()
    }
}

/// Serves connections from the dispatcher until it closes the channel.
///
/// A helper that is told to stop reports that and continues, each response being the last of its connection: the
/// dispatcher may have passed it a connection already, and when the whole server stops there may be a queue to serve.
fn serve_as_helper(
    site: &Site,
    log: Option<AccessLog>,
    slot: Slot,
    stop: &Stop,
    channel: &ToDispatcher,
) -> io::Result<()> {
    run_worker(site, slot, log, stop, |worker| {
        let mut is_stopping = false;
        loop {
            if stop.is_requested() && !is_stopping {
                channel.send(Message::Leaving);
                is_stopping = true;
            }
            if worker.wait_for_work(channel.as_fd(), !is_stopping) {
                let Some(arrival) = channel.receive() else { return Ok(()) };
                worker.serve(arrival, None);
                channel.send(Message::Ready);
            }
        }
    })
}
