//! The timeouts of connections.
//!
//! Every wait has its limit, and so every client a deadline. Its entry in the wheel is at the deadline or
//! earlier: moving the deadline later, as every request does, costs nothing. While a response is sent the
//! client must take so many bytes in each period.

use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::connection::{Connection, Wait};
use crate::limits::Limits;
use crate::runtime::sockets::send_rate::SendRate;

pub mod drain;
pub mod wheel;

use wheel::{Timers, deadline};

/// The deadline of one client, and its entry in the timers.
#[derive(Debug)]
pub struct Deadline {
    wait: Wait,
    /// The tick at which it ends.
    deadline: u32,
    /// The tick of the entry; `u32::MAX` when it has none.
    entered: u32,
    send_rate: SendRate,
}

impl Deadline {
    pub fn new() -> Deadline {
        Deadline {
            wait: Wait::Request,
            deadline: u32::MAX,
            entered: u32::MAX,
            send_rate: SendRate::default(),
        }
    }

    /// The client behind `token` is waited for, from `now` on.
    pub fn begin(&mut self, wait: Wait, token: u64, now: Duration, limits: &Limits, timers: &mut Timers) {
        if wait.goes_on_after(std::mem::replace(&mut self.wait, wait)) {
            return;
        }
        self.start(token, now, limits, timers);
    }

    fn start(&mut self, token: u64, now: Duration, limits: &Limits, timers: &mut Timers) {
        self.deadline = limits.timeout(self.wait).map_or(u32::MAX, |timeout| deadline(now, timeout));
        if self.deadline < self.entered {
            self.entered = timers.enter(token, self.deadline);
        }
    }

    /// The entry at `tick` of the client behind `token` has come up; returns true if its deadline has passed.
    /// If not, the entry moves to the present deadline.
    pub fn is_over(&mut self, token: u64, tick: u32, timers: &mut Timers) -> bool {
        if self.entered != tick {
            // An earlier deadline has its own entry.
            return false;
        }
        if self.deadline > timers.tick() {
            self.entered = timers.enter(token, self.deadline);
            return false;
        }
        self.entered = u32::MAX;
        true
    }

    /// The deadline passed at `now`: it is extended if the client takes the response fast enough. Returns
    /// true if it does.
    pub fn is_earned(
        &mut self,
        socket: &OwnedFd,
        connection: &mut Connection,
        token: u64,
        now: Duration,
        limits: &Limits,
        timers: &mut Timers,
    ) -> bool {
        let bytes_min = limits.sent_bytes_min(connection.body_fraction());
        let is_earned = self.wait.is_for_sending() && self.send_rate.is_kept(socket, bytes_min);
        if is_earned {
            self.start(token, now, limits, timers);
        }
        is_earned
    }
}

impl Limits {
    /// The timeout of a wait; the disk has none.
    pub(crate) fn timeout(&self, wait: Wait) -> Option<Duration> {
        match wait {
            Wait::Request | Wait::Quiet(_) => Some(self.idle),
            Wait::Head(_) | Wait::Upload => Some(self.head),
            Wait::Client | Wait::Window => Some(self.send),
            Wait::End => Some(self.end),
            Wait::Disk | Wait::Answer => None,
            Wait::UpstreamConnect => Some(self.upstream.connect),
            Wait::UpstreamSend => Some(self.upstream.send),
            Wait::UpstreamHead => Some(self.upstream.head),
            Wait::UpstreamBody => Some(self.upstream.body),
            Wait::UpstreamIdle => Some(self.upstream.idle),
            Wait::Lookup => Some(self.upstream.lookup),
            Wait::Tunnel => Some(self.upstream.tunnel),
        }
    }
}
