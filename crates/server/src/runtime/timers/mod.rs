//! The timeouts of connections.
//!
//! Every wait has a timeout, so every client has a deadline. Its entry in the timer wheel is at the deadline or
//! earlier, so moving the deadline later, as every request does, costs nothing. While a response is sent, the client
//! must read a minimum of bytes per period.

use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::connection::{Connection, Wait};
use crate::limits::Limits;
use crate::runtime::sockets::send_rate::SendRate;

pub mod drain;
pub mod wheel;

use wheel::{Timers, deadline, ticks};

/// A client that has been idle for less may be about to send a request.
const IDLE_TICKS_MIN: u32 = 4;

/// A client's deadline and its entry in the timers.
#[derive(Debug)]
pub struct Deadline {
    wait: Wait,
    /// The tick at which the wait began.
    began: u32,
    /// The tick of the deadline.
    deadline: u32,
    /// The tick of the entry; `u32::MAX` without one.
    entered: u32,
    send_rate: SendRate,
}

impl Deadline {
    pub fn new() -> Deadline {
        Deadline {
            wait: Wait::Request,
            began: 0,
            deadline: u32::MAX,
            entered: u32::MAX,
            send_rate: SendRate::default(),
        }
    }

    /// What its client waits for.
    pub fn wait(&self) -> Wait {
        self.wait
    }

    /// Starts a wait of the client with `token` at `now`.
    pub fn begin(&mut self, wait: Wait, token: u64, now: Duration, limits: &Limits, timers: &mut Timers) {
        if !wait.continues(std::mem::replace(&mut self.wait, wait)) {
            return self.start(token, now, limits, timers);
        }
        // The deadline has passed, and the client goes on: that is over at the next tick.
        if self.entered == u32::MAX && self.deadline != u32::MAX {
            self.entered = timers.enter(token, self.deadline);
        }
    }

    fn start(&mut self, token: u64, now: Duration, limits: &Limits, timers: &mut Timers) {
        self.began = ticks(now);
        self.deadline = limits.timeout(self.wait).map_or(u32::MAX, |timeout| deadline(now, timeout));
        if self.deadline < self.entered {
            self.entered = timers.enter(token, self.deadline);
        }
    }

    /// The tick from which on its client has been idle, if that is longer than [`IDLE_TICKS_MIN`].
    pub fn idle_since(&self, now: Duration) -> Option<u32> {
        let is_long = ticks(now).saturating_sub(self.began) >= IDLE_TICKS_MIN;
        (self.wait == Wait::Request && is_long).then_some(self.began)
    }

    /// Handles the entry at `tick`: returns true if the deadline has passed; otherwise the entry moves to the current
    /// deadline.
    pub fn is_over(&mut self, token: u64, tick: u32, timers: &mut Timers) -> bool {
        if self.entered != tick {
            // The deadline was moved earlier and has an entry of its own.
            return false;
        }
        if self.deadline > timers.tick() {
            self.entered = timers.enter(token, self.deadline);
            return false;
        }
        self.entered = u32::MAX;
        true
    }

    /// Called when the deadline has passed: extends it and returns true if the client reads the response fast enough.
    pub fn try_extend(
        &mut self,
        socket: &OwnedFd,
        connection: &mut Connection,
        token: u64,
        now: Duration,
        limits: &Limits,
        timers: &mut Timers,
    ) -> bool {
        let bytes_min = limits.sent_bytes_min(connection.body_fraction());
        let is_fast_enough = self.wait.is_for_sending() && self.send_rate.is_kept(socket, bytes_min);
        if is_fast_enough {
            self.start(token, now, limits, timers);
        }
        is_fast_enough
    }
}

impl Limits {
    /// The timeout of a wait; waits for the disk have none.
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

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: u64 = 7;

    fn at(tick: u32) -> Duration {
        Duration::from_millis(250 * u64::from(tick) + 13)
    }

    /// Returns true if the timers find at this tick that the deadline has passed.
    fn is_over(own: &mut Deadline, timers: &mut Timers, tick: u32) -> bool {
        timers.advance(at(tick)).into_iter().any(|(token, tick)| own.is_over(token, tick, timers))
    }

    #[test]
    fn a_wait_that_goes_on_after_its_deadline_is_over_at_the_next_tick() {
        let limits = Limits::default();
        for (wait, next) in
            [(Wait::Head(0), Wait::Head(0)), (Wait::Quiet(3), Wait::Quiet(3)), (Wait::Window, Wait::Client)]
        {
            let (mut own, mut timers) = (Deadline::new(), Timers::new(at(1000)));
            own.begin(wait, TOKEN, at(1000), &limits, &mut timers);
            let last = deadline(at(1000), limits.timeout(wait).unwrap());
            assert!(!is_over(&mut own, &mut timers, last - 1), "{wait:?}");
            assert!(is_over(&mut own, &mut timers, last), "{wait:?}");
            own.begin(next, TOKEN, at(last), &limits, &mut timers);
            assert!(is_over(&mut own, &mut timers, last + 1), "{wait:?}");
            // Another wait has its time.
            own.begin(Wait::End, TOKEN, at(last + 1), &limits, &mut timers);
            assert!(!is_over(&mut own, &mut timers, last + 2), "{wait:?}");
        }
    }
}
