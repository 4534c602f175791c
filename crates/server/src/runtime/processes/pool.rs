//! A dispatcher's helpers: who is idle, who is busy and since when; the dead are replaced.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::process::Pid;

use super::channel::{Message, ToHelper, channel};
use super::helper::help;
use super::supervisor::Mourning;
use super::{Children, Ended};
use crate::counters::scoreboard::Permit;
use crate::runtime::sockets::accept::Arrival;
use crate::site::Site;

/// Helpers heard before others have their turn.
const EVENTS_MAX: usize = 64;

/// The helpers, by process.
#[derive(Debug)]
pub struct Pool {
    size: usize,
    helpers: HashMap<Pid, Helper>,
    /// The last to become idle is the first to be given work: its caches are warm.
    idle: Vec<Pid>,
    /// Readable when one has something to say.
    said: OwnedFd,
    started: usize,
    mourning: Mourning,
}

#[derive(Debug)]
struct Helper {
    channel: ToHelper,
    /// Since when it serves a connection, and its seat.
    busy: Option<(Instant, Permit)>,
    /// It was told to stop: after this connection it gets no other.
    is_leaving: bool,
}

impl Pool {
    /// A pool to be [completed](Pool::complete) to `size` helpers.
    pub fn new(size: usize) -> io::Result<Pool> {
        let said = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (helpers, mourning) = (HashMap::new(), Mourning::default());
        Ok(Pool { size, helpers, idle: Vec::new(), said, started: 0, mourning })
    }

    /// Starts helpers until there are enough. In each, `let_go_of_rest` closes what the dispatcher has open and
    /// the pool does not know.
    ///
    /// # Errors
    /// If there is none and none can be started.
    pub fn complete(
        &mut self,
        children: &mut Children,
        site: &Site,
        mut let_go_of_rest: impl FnMut(),
    ) -> io::Result<()> {
        while self.helpers.len() < self.size && self.mourning.left().is_none() {
            match self.start(children, site, &mut let_go_of_rest) {
                Ok(()) if self.started > self.size => children.count_replaced(),
                Ok(()) => {}
                Err(error) if self.helpers.is_empty() => return Err(error),
                // Those there are serve meanwhile.
                Err(_) => self.mourning.begin(),
            }
        }
        Ok(())
    }

    /// How long no helper is started although one is missing.
    pub fn pause(&self) -> Option<Duration> {
        self.mourning.left().filter(|_| self.helpers.len() < self.size)
    }

    /// Returns true if one could be given a connection.
    pub fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Returns true if there is none at all.
    pub fn is_empty(&self) -> bool {
        self.helpers.is_empty()
    }

    /// Passes a connection to an idle helper, if there is one.
    pub fn pass(&mut self, arrival: &Arrival) -> Option<io::Result<()>> {
        let helper = self.helpers.get_mut(&self.idle.pop()?)?;
        let passed = helper.channel.pass(arrival);
        helper.busy = passed.is_ok().then(|| (Instant::now(), arrival.seat));
        Some(passed)
    }

    /// Listens to those who have something to say; returns how long each was busy whose connection is over, and the
    /// seat of that.
    pub fn hear(&mut self) -> Vec<(Duration, Permit)> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // If it fails, it is tried again in the next turn.
        let _ = epoll::wait(&self.said, rustix::buffer::spare_capacity(&mut events), Some(&now));
        let mut over = Vec::new();
        for process in events.iter().filter_map(|event| Pid::from_raw(event.data.u64() as i32)) {
            let Some(helper) = self.helpers.get_mut(&process) else { continue };
            match helper.channel.hear() {
                Some(Message::Ready) => {
                    over.extend(helper.busy.take().map(|(since, seat)| (since.elapsed(), seat)));
                    self.idle.push(process);
                }
                Some(Message::Leaving) => helper.is_leaving = true,
                // It is gone, as its end will tell.
                None => {}
            }
        }
        over
    }

    /// Lets those idle go who want to, or `all` of them.
    pub fn dismiss_idle(&mut self, all: bool) {
        for process in std::mem::take(&mut self.idle) {
            match self.helpers.get(&process) {
                Some(helper) if all || helper.is_leaving => drop(self.remove(process)),
                _ => self.idle.push(process),
            }
        }
    }

    /// A child has ended; returns the seat of the connection that ended with it, if it was a helper who had one.
    pub fn bury(&mut self, ended: &Ended) -> Option<Permit> {
        let helper = self.remove(ended.process)?;
        self.mourning.notice(ended);
        self.idle.retain(|process| *process != ended.process);
        helper.busy.map(|(_, seat)| seat)
    }

    /// Closes the channels, in a child that is no business of the helpers.
    pub fn let_go(&mut self) {
        self.helpers.clear();
    }

    fn start(
        &mut self,
        children: &mut Children,
        site: &Site,
        let_go_of_rest: &mut impl FnMut(),
    ) -> io::Result<()> {
        let (to_helper, to_dispatcher) = channel()?;
        let mut to_helper = Some(to_helper);
        let process = children.start(site.board.place(), |place, stop| {
            let_go_of_rest();
            self.let_go();
            to_helper = None;
            help(site, place, stop, &to_dispatcher)
        })?;
        self.started += 1;
        let channel = to_helper.take().expect("taken in the child only");
        let data = epoll::EventData::new_u64(process.as_raw_pid() as u64);
        epoll::add(&self.said, &channel, data, epoll::EventFlags::IN)?;
        self.helpers.insert(process, Helper { channel, busy: None, is_leaving: false });
        self.idle.push(process);
        Ok(())
    }

    fn remove(&mut self, process: Pid) -> Option<Helper> {
        let helper = self.helpers.remove(&process)?;
        // A child that was just forked may still have it open, so closing it would not take it off the list.
        let _ = epoll::delete(&self.said, &helper.channel);
        Some(helper)
    }
}

impl AsFd for Pool {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.said.as_fd()
    }
}
