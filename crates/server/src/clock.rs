//! A loop's clock: read once per iteration; date texts are formatted once per second.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use sojourn_http::HttpDate;
use sojourn_http::date::DATE_BYTES;

/// The length of `[06/Nov/1994:08:49:37 +0000]`.
pub const LOG_TIME_BYTES: usize = 28;

/// The time of the current loop iteration.
#[derive(Debug)]
pub struct Clock {
    /// The clock to read: the coarse one costs no more than a memory read and lags by a few milliseconds.
    clock: ClockId,
    /// Time since boot.
    pub now: Duration,
    pub second: HttpDate,
    pub date: [u8; DATE_BYTES],
    /// The time in the format of access logs.
    pub log_time: [u8; LOG_TIME_BYTES],
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new()
    }
}

impl Clock {
    /// A coarse clock.
    pub fn new() -> Clock {
        Clock::of(ClockId::MonotonicCoarse)
    }

    /// A clock with nanosecond precision, which costs a read of the hardware clock.
    pub fn exact() -> Clock {
        Clock::of(ClockId::Monotonic)
    }

    fn of(clock: ClockId) -> Clock {
        let second = HttpDate::from_seconds(0);
        let (date, log_time) = ([0; DATE_BYTES], [0; LOG_TIME_BYTES]);
        let mut clock = Clock { clock, now: Duration::ZERO, second, date, log_time };
        clock.update();
        clock
    }

    pub fn update(&mut self) {
        self.now = read(self.clock);
        let second = HttpDate::from_seconds(clock_gettime(ClockId::RealtimeCoarse).tv_sec);
        if second != self.second {
            self.second = second;
            self.date = second.text();
            self.log_time = log_time(&self.date);
        }
    }

    /// Appends the time in `format`: the strftime(3) conversions that logs need, in UTC.
    pub fn append_time(&self, format: &str, text: &mut Vec<u8>) {
        let date = &self.date;
        let mut rest = format.bytes();
        while let Some(byte) = rest.next() {
            let conversion = if byte == b'%' { rest.next() } else { None };
            match conversion {
                None => text.push(byte),
                Some(b'a') => text.extend_from_slice(&date[..3]),
                Some(b'd') => text.extend_from_slice(&date[5..7]),
                Some(b'b') => text.extend_from_slice(&date[8..11]),
                Some(b'm') => text.extend_from_slice(month(date).as_bytes()),
                Some(b'Y') => text.extend_from_slice(&date[12..16]),
                Some(b'H') => text.extend_from_slice(&date[17..19]),
                Some(b'M') => text.extend_from_slice(&date[20..22]),
                Some(b'S') => text.extend_from_slice(&date[23..25]),
                Some(b'T') => text.extend_from_slice(&date[17..25]),
                Some(b'F') => self.append_time("%Y-%m-%d", text),
                Some(b'z') => text.extend_from_slice(b"+0000"),
                Some(b's') => text.extend_from_slice(self.second.seconds().to_string().as_bytes()),
                Some(other) => text.push(other),
            }
        }
    }
}

/// Time since boot, exact.
pub fn now() -> Duration {
    read(ClockId::Monotonic)
}

/// Time since 1970, exact.
pub fn since_1970() -> Duration {
    read(ClockId::Realtime)
}

fn read(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The month of an IMF-fixdate, as two digits.
fn month(date: &[u8; DATE_BYTES]) -> &'static str {
    const MONTHS: &[(&[u8], &str)] = &[
        (b"Jan", "01"),
        (b"Feb", "02"),
        (b"Mar", "03"),
        (b"Apr", "04"),
        (b"May", "05"),
        (b"Jun", "06"),
        (b"Jul", "07"),
        (b"Aug", "08"),
        (b"Sep", "09"),
        (b"Oct", "10"),
        (b"Nov", "11"),
        (b"Dec", "12"),
    ];
    MONTHS.iter().find(|(name, _)| *name == &date[8..11]).map_or("00", |(_, digits)| digits)
}

/// Converts `Sun, 06 Nov 1994 08:49:37 GMT` to `[06/Nov/1994:08:49:37 +0000]`.
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

    #[test]
    fn times_in_other_formats() {
        let mut clock = Clock::new();
        clock.second = HttpDate::from_seconds(784_111_777);
        clock.date = clock.second.text();
        let mut text = Vec::new();
        clock.append_time("%a %b %d|%Y-%m-%dT%H:%M:%S%z|%F %T|%s|100%%", &mut text);
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "Sun Nov 06|1994-11-06T08:49:37+0000|1994-11-06 08:49:37|784111777|100%"
        );
    }
}
