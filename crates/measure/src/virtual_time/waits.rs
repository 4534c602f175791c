//! Waits with a timeout: their deadlines, how their timeouts are removed, and their result on expiry.
//!
//! The kernel's clock is not the program's, so each timeout is removed from the call and handled here.

use std::time::Duration;

use super::ptrace::{Registers, Tracee};
use super::{REAL_SECONDS, UPTIME_SECONDS};

#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// The deadline in the program's time.
    pub until: Duration,
    /// The system call in which the thread waits.
    pub call: libc::c_long,
    arguments: [u64; 5],
}

/// True if the call only sleeps.
pub fn is_sleep(call: libc::c_long, arguments: [u64; 5]) -> bool {
    match call {
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => true,
        libc::SYS_poll | libc::SYS_ppoll => arguments[1] == 0,
        libc::SYS_select | libc::SYS_pselect6 => arguments[0] == 0,
        _ => false,
    }
}

impl Wait {
    /// The wait that the system call at which `tracee` stopped would start, where `passed` is the current time. `None`
    /// for waits without a timeout, polls, and all other calls.
    pub fn begun(tracee: Tracee, registers: &Registers, passed: Duration) -> Option<Wait> {
        let (call, arguments) = (registers.call(), registers.arguments());
        let [first, second, third, fourth, fifth] = arguments;
        let later = |time: Duration| (!time.is_zero()).then(|| passed + time);
        let until = match call {
            libc::SYS_poll => later(milliseconds(third)?)?,
            libc::SYS_epoll_wait | libc::SYS_epoll_pwait => later(milliseconds(fourth)?)?,
            libc::SYS_ppoll => later(duration(tracee, third, NANOSECOND)?)?,
            libc::SYS_epoll_pwait2 => later(duration(tracee, fourth, NANOSECOND)?)?,
            libc::SYS_select => later(duration(tracee, fifth, MICROSECOND)?)?,
            libc::SYS_pselect6 => later(duration(tracee, fifth, NANOSECOND)?)?,
            libc::SYS_nanosleep => passed + duration(tracee, first, NANOSECOND)?,
            libc::SYS_clock_nanosleep => {
                let is_absolute = second as i32 & libc::TIMER_ABSTIME != 0;
                let time = duration(tracee, third, NANOSECOND)?;
                let is_real = first as i32 == libc::CLOCK_REALTIME;
                if is_absolute { since_beginning(time, is_real) } else { passed + time }
            }
            libc::SYS_futex => {
                let (operation, is_real) = (second as i32 & libc::FUTEX_CMD_MASK, second as i32 & REAL != 0);
                match operation {
                    libc::FUTEX_WAIT => passed + duration(tracee, fourth, NANOSECOND)?,
                    libc::FUTEX_WAIT_BITSET => {
                        since_beginning(duration(tracee, fourth, NANOSECOND)?, is_real)
                    }
                    _ => return None,
                }
            }
            _ => return None,
        };
        Some(Wait { until, call, arguments })
    }

    /// Removes the timeout from the call.
    pub fn last(&mut self, registers: &mut Registers) {
        match self.call {
            libc::SYS_poll => registers.set_argument(2, u64::MAX),
            libc::SYS_epoll_wait | libc::SYS_epoll_pwait => registers.set_argument(3, u64::MAX),
            libc::SYS_ppoll => registers.set_argument(2, 0),
            libc::SYS_select | libc::SYS_pselect6 => registers.set_argument(4, 0),
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep => {
                self.call = libc::SYS_pause;
                registers.set_call(self.call);
            }
            _ => registers.set_argument(3, 0),
        }
    }

    /// The call's result on expiry.
    pub fn result(&self) -> i64 {
        if self.call == libc::SYS_futex { -i64::from(libc::ETIMEDOUT) } else { 0 }
    }

    /// Writes to the thread's memory, where the call does that, that no event happened.
    pub fn write_no_events(&self, tracee: Tracee) {
        if matches!(self.call, libc::SYS_select | libc::SYS_pselect6) {
            let bytes = vec![0; (self.arguments[0] as usize).min(libc::FD_SETSIZE).div_ceil(64) * 8];
            for &set in self.arguments[1..4].iter().filter(|&&set| set != 0) {
                tracee.write(set, &bytes);
            }
        }
    }
}

const REAL: i32 = libc::FUTEX_CLOCK_REALTIME;

const NANOSECOND: Duration = Duration::from_nanos(1);
const MICROSECOND: Duration = Duration::from_micros(1);

/// `None` for negative numbers, which mean no timeout.
fn milliseconds(argument: u64) -> Option<Duration> {
    u64::try_from(argument as i32).ok().map(Duration::from_millis)
}

/// The seconds and fraction at the address; `None` if the address is null or the time invalid.
fn duration(tracee: Tracee, address: u64, part: Duration) -> Option<Duration> {
    let bytes = if address == 0 { None } else { tracee.read::<16>(address) }?;
    let (seconds, parts) = bytes.split_at(8);
    let [seconds, parts] = [seconds, parts].map(|half| half.try_into().map(i64::from_ne_bytes));
    let (seconds, parts) = (u64::try_from(seconds.ok()?).ok()?, u32::try_from(parts.ok()?).ok()?);
    Some(Duration::from_secs(seconds) + part * parts)
}

/// Converts a clock's time to the time since the clocks' starting point.
fn since_beginning(time: Duration, is_real: bool) -> Duration {
    let beginning = if is_real { REAL_SECONDS } else { UPTIME_SECONDS };
    time.saturating_sub(Duration::from_secs(beginning.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_begin_at_their_own_seconds() {
        let uptime = Duration::from_secs(UPTIME_SECONDS.unsigned_abs());
        assert_eq!(since_beginning(uptime + Duration::from_millis(5), false), Duration::from_millis(5));
        assert_eq!(since_beginning(uptime, true), Duration::ZERO);
    }

    #[test]
    fn less_than_no_milliseconds_are_no_end() {
        assert_eq!(milliseconds(u64::from((-1_i32).cast_unsigned())), None);
        assert_eq!(milliseconds(250), Some(Duration::from_millis(250)));
    }

    #[test]
    fn sleeps_wait_for_nothing_else() {
        assert!(is_sleep(libc::SYS_poll, [0, 0, 10, 0, 0]));
        assert!(!is_sleep(libc::SYS_poll, [1, 2, 10, 0, 0]));
        assert!(is_sleep(libc::SYS_clock_nanosleep, [1, 0, 1, 0, 0]));
        assert!(!is_sleep(libc::SYS_futex, [0; 5]));
    }
}
