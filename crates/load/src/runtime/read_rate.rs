//! A limit on the rate at which a connection is read, which emulates a client on a slow line.
//!
//! It allows small reads at a steady rate, so that the server's send buffer fills up as with a real slow line
//! (backpressure). The socket's receive buffer is small for the same reason.

use sojourn_measure::Nanos;

/// The line time per read: short enough for a steady flow, long enough to be cheap.
const QUANTUM_SECONDS: f64 = 0.02;
/// Limits of bytes per read: a segment, and what a fast line delivers.
const QUANTUM_BYTES_MIN: u64 = 1448;
const QUANTUM_BYTES_MAX: u64 = 1 << 20;
/// The smallest receive buffer; the kernel doubles it.
const BUFFER_BYTES_MIN: u64 = 4096;

/// The emulated line of one connection.
#[derive(Clone, Copy, Debug)]
pub struct ReadRate {
    bytes_per_second: f64,
    /// When the line will be free.
    free_at: Nanos,
    /// True if a wake-up is pending.
    pub waiting: bool,
}

impl ReadRate {
    pub fn new(bytes_per_second: f64) -> ReadRate {
        ReadRate { bytes_per_second, free_at: Nanos::ZERO, waiting: false }
    }

    /// The receive buffer size for a rate.
    pub fn buffer_bytes(bytes_per_second: f64) -> u64 {
        (2 * quantum(bytes_per_second)).max(BUFFER_BYTES_MIN)
    }

    /// How many bytes may be read now; 0 until the line is free.
    pub fn allowed(&self, now: Nanos) -> u64 {
        if now < self.free_at { 0 } else { quantum(self.bytes_per_second) }
    }

    /// When bytes may be read again.
    pub fn free_at(&self) -> Nanos {
        self.free_at
    }

    /// Records a read: the line is busy for as long as the bytes need. An idle line does not catch up.
    pub fn record(&mut self, bytes: u64, now: Nanos) {
        let time = Nanos::from_seconds(bytes as f64 / self.bytes_per_second);
        let slack = Nanos::from_seconds(QUANTUM_SECONDS);
        self.free_at = self.free_at.max(now - slack) + time;
    }
}

fn quantum(bytes_per_second: f64) -> u64 {
    ((bytes_per_second * QUANTUM_SECONDS) as u64).clamp(QUANTUM_BYTES_MIN, QUANTUM_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_passes_its_rate_and_no_more() {
        let mut rate = ReadRate::new(50_000.0);
        let (mut now, mut taken) = (Nanos(1_000_000_000), 0);
        while now < Nanos(11_000_000_000) {
            let bytes = rate.allowed(now);
            if bytes > 0 {
                rate.record(bytes, now);
                taken += bytes;
            }
            now = rate.free_at().max(now + Nanos(1_000_000));
        }
        assert!((taken as f64 / 500_000.0 - 1.0).abs() < 0.01, "{taken}");
    }

    #[test]
    fn a_line_that_was_idle_does_not_catch_up() {
        let mut rate = ReadRate::new(50_000.0);
        rate.record(1448, Nanos(1_000_000_000));
        let later = Nanos(100_000_000_000);
        rate.record(50_000, later);
        assert!(rate.free_at() > later + Nanos(900_000_000));
        assert_eq!(rate.allowed(later + Nanos(500_000_000)), 0);
    }
}
