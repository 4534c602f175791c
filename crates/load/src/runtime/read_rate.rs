//! A client behind a slow line: how much of an answer it may take by when.
//!
//! Bytes are taken in spoonfuls at a steady rate, so that the server's send buffer fills up as behind a real
//! line. The socket's receive buffer is made small for the same reason.

use sojourn_measure::Nanos;

/// Bytes per read, in seconds of the line: often enough to be even, seldom enough to be cheap.
const SPOON_SECONDS: f64 = 0.02;
/// Limits of bytes per read: a segment, and the amount that a fast line delivers.
const SPOON_BYTES_MIN: u64 = 1448;
const SPOON_BYTES_MAX: u64 = 1 << 20;
/// The smallest receive buffer; the kernel doubles it.
const BUFFER_BYTES_MIN: u64 = 4096;

/// The line of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    bytes_per_second: f64,
    /// When the line is free again.
    free_at: Nanos,
    /// True if a wake-up is pending.
    pub waiting: bool,
}

impl Reader {
    pub fn new(bytes_per_second: f64) -> Reader {
        Reader { bytes_per_second, free_at: Nanos::ZERO, waiting: false }
    }

    /// The receive buffer that goes with a line.
    pub fn buffer_bytes(bytes_per_second: f64) -> u64 {
        (2 * spoon(bytes_per_second)).max(BUFFER_BYTES_MIN)
    }

    /// The bytes that may be read now: none until the line is free.
    pub fn allowed(&self, now: Nanos) -> u64 {
        if now < self.free_at { 0 } else { spoon(self.bytes_per_second) }
    }

    /// When bytes may be taken again.
    pub fn free_at(&self) -> Nanos {
        self.free_at
    }

    /// Bytes were taken: the line is busy for as long as they need. A line that was idle does not catch up.
    pub fn took(&mut self, bytes: u64, now: Nanos) {
        let time = Nanos::from_seconds(bytes as f64 / self.bytes_per_second);
        let slack = Nanos::from_seconds(SPOON_SECONDS);
        self.free_at = self.free_at.max(now - slack) + time;
    }
}

fn spoon(bytes_per_second: f64) -> u64 {
    ((bytes_per_second * SPOON_SECONDS) as u64).clamp(SPOON_BYTES_MIN, SPOON_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_passes_its_rate_and_no_more() {
        let mut reader = Reader::new(50_000.0);
        let (mut now, mut taken) = (Nanos(1_000_000_000), 0);
        while now < Nanos(11_000_000_000) {
            let bytes = reader.allowed(now);
            if bytes > 0 {
                reader.took(bytes, now);
                taken += bytes;
            }
            now = reader.free_at().max(now + Nanos(1_000_000));
        }
        assert!((taken as f64 / 500_000.0 - 1.0).abs() < 0.01, "{taken}");
    }

    #[test]
    fn a_line_that_was_idle_does_not_catch_up() {
        let mut reader = Reader::new(50_000.0);
        reader.took(1448, Nanos(1_000_000_000));
        let later = Nanos(100_000_000_000);
        reader.took(50_000, later);
        assert!(reader.free_at() > later + Nanos(900_000_000));
        assert_eq!(reader.allowed(later + Nanos(500_000_000)), 0);
    }
}
