//! The monotonic clock, a thread's CPU clock, both in nanoseconds, and whether the wall clock is synchronised.

use std::{
    io,
    iter::Sum,
    mem,
    ops::{Add, Sub},
    time::Duration,
};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// A point in time or a duration in nanoseconds; subtraction saturates at zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    pub const ZERO: Nanos = Nanos(0);
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// Negative numbers become zero.
    pub fn from_seconds(seconds: f64) -> Nanos {
        Nanos((seconds * 1e9) as u64)
    }

    pub fn seconds(self) -> f64 {
        // A division, because multiplying by 1e-9 is inexact: 30 s would become 30.000000000000004.
        self.0 as f64 / 1e9
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(parts: I) -> Nanos {
        parts.fold(Nanos::ZERO, Add::add)
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Duration {
        Duration::from_nanos(nanos.0)
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Nanos {
        Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The current time of the monotonic clock.
pub fn now() -> Nanos {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// CPU time of the calling thread, user and system.
pub fn thread_cpu() -> Nanos {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

/// Returns true if the kernel says that the wall clock is synchronised (by NTP or the hypervisor).
pub fn is_synchronised() -> io::Result<bool> {
    // SAFETY: all zeros is a request that changes nothing, and the kernel fills in the structure.
    let state = unsafe {
        let mut request: libc::timex = mem::zeroed();
        libc::adjtimex(&raw mut request)
    };
    match state {
        -1 => Err(io::Error::last_os_error()),
        state => Ok(state != libc::TIME_ERROR),
    }
}

fn nanos(time: Timespec) -> Nanos {
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_costs_time_but_no_cpu() {
        let (wall, cpu) = (now(), thread_cpu());
        std::thread::sleep(Duration::from_millis(50));
        assert!(now() - wall >= Nanos(50_000_000));
        assert!(thread_cpu() - cpu < Nanos(20_000_000));
    }

    #[test]
    fn decimal_times_stay_decimal() {
        for (nanos, expected) in [(30_000_000_000, "30"), (193_170, "0.00019317"), (1_200_000, "0.0012")] {
            assert_eq!(Nanos(nanos).seconds().to_string(), expected);
        }
    }

    #[test]
    fn subtraction_stops_at_zero() {
        assert_eq!(Nanos(1) - Nanos(2), Nanos::ZERO);
        assert_eq!(Nanos::from_seconds(-1.0), Nanos::ZERO);
    }
}
