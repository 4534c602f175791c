//! The system calls by which time and chance come into a program, and what they give instead.

use super::tracing::Tracee;
#[cfg(target_arch = "x86_64")]
use super::{REAL_SECONDS, UPTIME_SECONDS, tracing::Registers};

/// What is random, the same in every run: another value at each call.
#[derive(Default)]
pub struct Chance {
    calls: u64,
}

/// More bytes than this are never asked for at once by those who need a seed.
const RANDOM_BYTES_MAX: usize = 4096;

/// The calls that are answered here.
#[cfg(target_arch = "x86_64")]
pub const HELD: &[libc::c_long] = &[
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
];
#[cfg(not(target_arch = "x86_64"))]
pub const HELD: &[libc::c_long] = &[];

/// Answers the call at which `tracee` stands, or changes it so that it waits for ever.
#[cfg(target_arch = "x86_64")]
pub fn answer(tracee: Tracee, chance: &mut Chance) {
    let Some(mut registers) = Registers::of(tracee) else { return };
    let [first, second, third, fourth, _] = registers.arguments();
    match registers.call() {
        libc::SYS_clock_gettime => {
            let seconds = match first as libc::clockid_t {
                libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => REAL_SECONDS,
                _ => UPTIME_SECONDS,
            };
            tracee.write(second, &pair(seconds));
            registers.skip(0);
        }
        libc::SYS_gettimeofday => {
            tracee.write(first, &pair(REAL_SECONDS));
            registers.skip(0);
        }
        libc::SYS_time => {
            if first != 0 {
                tracee.write(first, &REAL_SECONDS.to_ne_bytes());
            }
            registers.skip(REAL_SECONDS as u64);
        }
        libc::SYS_getrandom => {
            let count = (second as usize).min(RANDOM_BYTES_MAX);
            tracee.write(first, &chance.bytes(count));
            registers.skip(count as u64);
        }
        libc::SYS_setsockopt if second == libc::SOL_SOCKET as u64 && is_timeout(third) => registers.skip(0),
        libc::SYS_setsockopt => {}
        libc::SYS_futex if is_wait(second) => registers.set_argument(3, 0),
        libc::SYS_futex => {}
        // With nothing to wait for it is a sleep, and without a time it is a look.
        libc::SYS_poll if second > 0 && third as i32 > 0 => registers.set_argument(2, u64::MAX),
        libc::SYS_ppoll if second > 0 && is_a_while(tracee, third) => registers.set_argument(2, 0),
        libc::SYS_select | libc::SYS_pselect6 => {
            let until = registers.arguments()[4];
            if first > 0 && is_a_while(tracee, until) {
                registers.set_argument(4, 0);
            }
        }
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait if fourth as i32 > 0 => {
            registers.set_argument(3, u64::MAX)
        }
        libc::SYS_epoll_pwait2 if is_a_while(tracee, fourth) => registers.set_argument(3, 0),
        _ => {}
    }
    registers.restore(tracee);
}

/// Nothing is held here, so nothing is to be answered.
#[cfg(not(target_arch = "x86_64"))]
pub fn answer(_: Tracee, _: &mut Chance) {}

impl Chance {
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        self.calls += 1;
        // Any sequence serves that differs from call to call: a program may try until it finds something new.
        let byte = |place: u64| (self.calls * 0x9e37_79b9 + place * 0x85eb_ca6b) >> 13;
        (0..count as u64).map(|place| byte(place) as u8).collect()
    }
}

/// A second and no fraction, as clocks give them.
#[cfg(target_arch = "x86_64")]
fn pair(seconds: i64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&seconds.to_ne_bytes());
    bytes
}

/// Whether the socket option has calls on the socket time out.
#[cfg(target_arch = "x86_64")]
fn is_timeout(option: u64) -> bool {
    /// The same with times of 64 bits everywhere, from Linux 5.1 on.
    const NEW: [i32; 2] = [66, 67];
    [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO, NEW[0], NEW[1]].contains(&(option as i32))
}

/// Whether the operation on a futex waits, so that its fourth argument is a time.
#[cfg(target_arch = "x86_64")]
fn is_wait(operation: u64) -> bool {
    let operation = operation as i32 & libc::FUTEX_CMD_MASK;
    operation == libc::FUTEX_WAIT || operation == libc::FUTEX_WAIT_BITSET
}

/// Whether the time at the address is there and not 0.
#[cfg(target_arch = "x86_64")]
fn is_a_while(tracee: Tracee, address: u64) -> bool {
    address != 0 && tracee.read::<16>(address).is_some_and(|time| time != [0; 16])
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
