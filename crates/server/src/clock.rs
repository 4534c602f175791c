//! The coarse clock of a loop: read once per turn, its texts made once per second.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use sojourn_http::HttpDate;
use sojourn_http::date::DATE_BYTES;

/// The length of `[06/Nov/1994:08:49:37 +0000]`.
pub const LOG_TIME_BYTES: usize = 28;

/// Now, as it was when the loop last looked.
#[derive(Debug)]
pub struct Clock {
    /// Time since the machine started.
    pub now: Duration,
    /// The second, as dates have it.
    pub second: HttpDate,
    /// The Date field.
    pub date: [u8; DATE_BYTES],
    /// The time as access logs write it.
    pub log_time: [u8; LOG_TIME_BYTES],
}

impl Clock {
    /// A clock that shows the time.
    pub fn new() -> Clock {
        let second = HttpDate::from_seconds(0);
        let mut clock =
            Clock { now: Duration::ZERO, second, date: [0; DATE_BYTES], log_time: [0; LOG_TIME_BYTES] };
        clock.look();
        clock
    }

    /// Looks again. The coarse clocks cost no system call and lag by a few milliseconds.
    pub fn look(&mut self) {
        let now = clock_gettime(ClockId::MonotonicCoarse);
        self.now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
        let second = HttpDate::from_seconds(clock_gettime(ClockId::RealtimeCoarse).tv_sec);
        if second != self.second {
            self.second = second;
            self.date = second.text();
            self.log_time = log_time(&self.date);
        }
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` as `[06/Nov/1994:08:49:37 +0000]`.
fn log_time(date: &[u8; DATE_BYTES]) -> [u8; LOG_TIME_BYTES] {
    let mut text = *b"[dd/mmm/yyyy:hh:mm:ss +0000]";
    text[1..3].copy_from_slice(&date[5..7]);
    text[4..7].copy_from_slice(&date[8..11]);
    text[8..12].copy_from_slice(&date[12..16]);
    text[13..21].copy_from_slice(&date[17..25]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_times() {
        assert_eq!(&log_time(b"Sun, 06 Nov 1994 08:49:37 GMT"), b"[06/Nov/1994:08:49:37 +0000]");
    }
}
