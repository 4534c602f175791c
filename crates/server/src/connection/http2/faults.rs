//! How many errors a client may make: those that reset only their stream (RFC 9113, 5.4.2).

use std::time::Duration;

use super::limits::{FAULTS_MAX, FAULTS_PER_SECOND};

/// The number of errors that a client may still make; it grows with time.
#[derive(Debug)]
pub struct Allowance {
    left: u32,
    grown: Duration,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { left: FAULTS_MAX, grown: Duration::ZERO }
    }
}

impl Allowance {
    /// Returns false if one more exceeds the allowance.
    pub fn take(&mut self, now: Duration) -> bool {
        let more = now.saturating_sub(self.grown).as_secs().saturating_mul(FAULTS_PER_SECOND.into());
        if more > 0 {
            self.left = u32::try_from(more).unwrap_or(u32::MAX).saturating_add(self.left).min(FAULTS_MAX);
            self.grown = now;
        }
        self.left.checked_sub(1).map(|left| self.left = left).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowance_grows_with_time() {
        let mut allowance = Allowance::default();
        let mut count = |seconds: f64| {
            let now = Duration::from_secs_f64(seconds);
            std::iter::repeat_with(|| allowance.take(now)).take_while(|is_allowed| *is_allowed).count()
        };
        assert_eq!(count(0.0), FAULTS_MAX as usize);
        assert_eq!(count(0.9), 0);
        assert_eq!(count(1.0), FAULTS_PER_SECOND as usize);
        assert_eq!(count(1.0), 0);
        assert_eq!(count(1000.0), FAULTS_MAX as usize);
    }
}
