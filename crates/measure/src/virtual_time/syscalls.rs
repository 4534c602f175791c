//! System calls that bring real time and randomness into a program, and their replacements.

use super::ptrace::{Registers, Tracee};
use super::time::Time;
use super::waits::{Wait, is_sleep};
use super::{REAL_SECONDS, UPTIME_SECONDS};

/// A deterministic source of random bytes: each call gets different ones, the same in every run.
#[derive(Default)]
pub struct Chance {
    calls: u64,
}

/// Requests for random seeds are never longer than this.
const RANDOM_BYTES_MAX: usize = 4096;

/// The intercepted system calls.
pub const INTERCEPTED: &[libc::c_long] = &[
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_time,
    libc::SYS_getrandom,
    libc::SYS_setsockopt,
    libc::SYS_futex,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
];

/// Answers the call at which `tracee` is stopped, or changes it so that it waits until an event or its deadline in
/// `time`. If virtual time advances, sleeps are such waits; if it stands still, sleeps run normally.
pub fn answer(tracee: Tracee, chance: &mut Chance, time: &mut Time) {
    let Some(mut registers) = Registers::of(tracee) else { return };
    let call = registers.call();
    let arguments = registers.arguments();
    let [first, second, third, ..] = arguments;
    let wait = match Wait::begun(tracee, &registers, time.passed()) {
        Some(_) if is_sleep(call, arguments) && !time.passes() => None,
        wait => wait,
    };
    time.set_wait(tracee, None);
    if matches!(call, libc::SYS_clock_gettime | libc::SYS_gettimeofday | libc::SYS_time) {
        time.record_reading();
    }
    match (call, wait) {
        (_, Some(wait)) if wait.until <= time.passed() => registers.skip(wait.result().cast_unsigned()),
        (_, Some(mut wait)) => {
            wait.last(&mut registers);
            time.set_wait(tracee, Some(wait));
        }
        (libc::SYS_clock_gettime, _) => {
            tracee.write(second, &clock(first as libc::clockid_t, time));
            registers.skip(0);
        }
        (libc::SYS_gettimeofday, _) => {
            tracee.write(first, &pair(real_seconds(time), time.passed().subsec_micros()));
            registers.skip(0);
        }
        (libc::SYS_time, _) => {
            let seconds = real_seconds(time);
            if first != 0 {
                tracee.write(first, &seconds.to_ne_bytes());
            }
            registers.skip(seconds.cast_unsigned());
        }
        (libc::SYS_getrandom, _) => {
            let count = (second as usize).min(RANDOM_BYTES_MAX);
            tracee.write(first, &chance.bytes(count));
            registers.skip(count as u64);
        }
        (libc::SYS_setsockopt, _) if second == libc::SOL_SOCKET as u64 && is_timeout(third) => {
            registers.skip(0);
        }
        _ => {}
    }
    registers.restore(tracee);
}

impl Chance {
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        self.calls += 1;
        // The bytes must differ from call to call, because a program may retry until it gets new ones.
        let byte = |place: u64| (self.calls * 0x9e37_79b9 + place * 0x85eb_ca6b) >> 13;
        (0..count as u64).map(|place| byte(place) as u8).collect()
    }
}

/// The reading of a clock. CPU clocks do not advance.
fn clock(clock: libc::clockid_t, time: &Time) -> [u8; 16] {
    let nanoseconds = time.passed().subsec_nanos();
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => {
            pair(real_seconds(time), nanoseconds)
        }
        libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_BOOTTIME => pair(UPTIME_SECONDS + time.passed().as_secs().cast_signed(), nanoseconds),
        _ => pair(UPTIME_SECONDS, 0),
    }
}

fn real_seconds(time: &Time) -> i64 {
    REAL_SECONDS + time.passed().as_secs().cast_signed()
}

/// Seconds and fraction in the layout of clocks.
fn pair(seconds: i64, parts: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&seconds.to_ne_bytes());
    bytes[8..].copy_from_slice(&i64::from(parts).to_ne_bytes());
    bytes
}

/// True if the socket option sets a timeout.
fn is_timeout(option: u64) -> bool {
    /// Their variants with 64-bit times, since Linux 5.1.
    const NEW: [i32; 2] = [66, 67];
    [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO, NEW[0], NEW[1]].contains(&(option as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_differs_from_call_to_call_and_is_the_same_in_every_run() {
        let (mut one, mut other) = (Chance::default(), Chance::default());
        let first = one.bytes(16);
        assert_eq!(first, other.bytes(16));
        assert_ne!(first, one.bytes(16));
        assert!(first.windows(2).any(|pair| pair[0] != pair[1]));
    }
}
