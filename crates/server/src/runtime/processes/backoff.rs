//! When a child that has died may be replaced: at once, unless it died soon after its start.

use std::time::{Duration, Instant};

use super::Ended;
use crate::stderr;

/// A child that dies younger than this is replaced only after a pause, so that a child that cannot run is not restarted
/// in a tight loop.
const CHILD_AGE_MIN: Duration = Duration::from_secs(1);

/// The first pause; each further one without a longer-lived child in between is twice as long.
const PAUSE_MIN: Duration = Duration::from_secs(1);

const PAUSE_MAX: Duration = Duration::from_secs(32);

/// When a replacement for a dead child may be started.
#[derive(Debug, Default)]
pub struct RestartBackoff {
    until: Option<Instant>,
    /// Pauses since a child last lived long enough.
    pauses: u32,
}

impl RestartBackoff {
    /// Records the end of a child.
    pub fn record(&mut self, ended: &Ended) {
        if ended.age >= CHILD_AGE_MIN {
            self.pauses = 0;
        } else if self.left().is_none() {
            // Children that die together count once.
            self.begin();
            stderr::write(&format!(
                "warning: child process {} ended after {:.3} s: the next one starts in {:.0} s\n",
                ended.process,
                ended.age.as_secs_f64(),
                self.left().unwrap_or_default().as_secs_f64()
            ));
        }
    }

    /// Starts a pause.
    pub fn begin(&mut self) {
        let pause = PAUSE_MIN.saturating_mul(1 << self.pauses.min(16)).min(PAUSE_MAX);
        self.pauses += 1;
        self.until = Some(Instant::now() + pause);
    }

    /// The rest of the current pause.
    pub fn left(&self) -> Option<Duration> {
        let left = self.until?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::scoreboard::Permit;
    use rustix::process::getpid;

    #[test]
    fn pauses_grow_until_a_child_lives() {
        let ended = |age| Ended { process: getpid(), permit: Permit::default(), age };
        let mut backoff = RestartBackoff::default();
        let mut pause = || {
            backoff.record(&ended(Duration::from_millis(5)));
            // Another one in the same moment changes nothing.
            backoff.record(&ended(Duration::from_millis(5)));
            let pause = backoff.left().unwrap().as_secs_f64().ceil();
            backoff.until = None;
            pause
        };
        let pauses: Vec<f64> = (0..7).map(|_| pause()).collect();
        assert_eq!(pauses, [1., 2., 4., 8., 16., 32., 32.]);
        backoff.record(&ended(CHILD_AGE_MIN));
        assert_eq!((backoff.left(), backoff.pauses), (None, 0));
    }
}
