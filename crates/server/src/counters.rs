//! What a server counts: one table that feeds the final report, the metrics page and the JSON keys.
//!
//! A loop counts in plain memory of its own ([`Served`]) and publishes the whole table once per turn to its
//! place on the [`Board`], where others read it. Counting costs no atomic operation per request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::ser::{Serialize, SerializeMap, Serializer};

/// Whether a counter only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Total,
    /// A time that only grows: counted in nanoseconds, shown in seconds.
    Seconds,
    /// It shows what is now.
    Gauge,
}

macro_rules! counters {
    ($($name:ident $key:literal $kind:ident $help:literal)*) => {
        /// One thing counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter { $(#[doc = $help] $name,)* }

        impl Counter {
            /// Every counter, in the order of the report.
            pub const ALL: &[Counter] = &[$(Counter::$name),*];

            /// The key in JSON, with its unit; metrics put `sojourn_` before it.
            pub fn key(self) -> &'static str {
                match self { $(Counter::$name => $key,)* }
            }

            /// Total, time or gauge.
            pub fn kind(self) -> Kind {
                match self { $(Counter::$name => Kind::$kind,)* }
            }

            /// What it counts.
            pub fn help(self) -> &'static str {
                match self { $(Counter::$name => $help,)* }
            }
        }
    };
}

counters! {
    Requests "requests" Total "Requests answered."
    Responses2xx "responses_2xx" Total "Responses with a status of 200 to 299."
    Responses3xx "responses_3xx" Total "Responses with a status of 300 to 399."
    Responses4xx "responses_4xx" Total "Responses with a status of 400 to 499."
    Responses5xx "responses_5xx" Total "Responses with a status of 500 to 599."
    SentBytes "sent_bytes" Total "Bytes sent to clients, heads included."
    ReceivedBytes "received_bytes" Total "Bytes received from clients."
    ConnectionsAccepted "connections_accepted" Total "Connections accepted."
    ConnectionsShed "connections_shed" Total "Connections answered 503 at once, for want of descriptors or places."
    ConnectionsOpen "connections_open" Gauge "Connections open now."
    ConnectionErrors "connection_errors" Total "Connections that ended in an error: reset, truncated file."
    Timeouts "timeouts" Total "Connections closed because the client took too long."
    AcceptErrors "accept_errors" Total "Failures to accept."
    PathCacheHits "path_cache_hits" Total "Paths found in the path cache and fresh."
    PathCacheMisses "path_cache_misses" Total "Paths not found there, or stale."
    PathCacheEvictions "path_cache_evictions" Total "Paths dropped to make room."
    PathCacheBytes "path_cache_bytes" Gauge "Size of the path cache."
    HeadCacheHits "head_cache_hits" Total "Response fields found in the head cache."
    HeadCacheMisses "head_cache_misses" Total "Response fields not found there."
    HeadCacheEvictions "head_cache_evictions" Total "Response fields dropped to make room."
    HeadCacheBytes "head_cache_bytes" Gauge "Size of the head cache."
    BodyCacheHits "body_cache_hits" Total "Small bodies found in the body cache."
    BodyCacheMisses "body_cache_misses" Total "Small bodies not found there."
    BodyCacheEvictions "body_cache_evictions" Total "Small bodies dropped to make room."
    BodyCacheBytes "body_cache_bytes" Gauge "Size of the body cache."
    ResidencyTests "residency_tests" Total "Tests whether file data is in memory."
    ResidencyMisses "residency_misses" Total "Tests that found it is not, or unknown."
    ResidencyTrusted "residency_tests_skipped" Total "Tests not made, because a recent one was trusted."
    HelperJobs "helper_jobs" Total "Jobs performed by helpers."
    HelperCoalesced "helper_jobs_coalesced" Total "Requests that joined a job under way."
    HelperRefused "helper_jobs_refused" Total "Requests answered 503 because the helpers' queue was full."
    HelperQueueLength "helper_queue_length" Gauge "Jobs waiting for a helper now."
    HelperQueueWait "helper_queue_wait_seconds" Seconds "Time that jobs waited for a helper."
    HelperBusy "helper_busy_seconds" Seconds "Time that helpers spent on jobs."
    MajorFaults "major_faults" Total "Page faults of the server's process that waited for a disk."
    LogLinesDropped "log_lines_dropped" Total "Access log lines dropped because the log could not follow."
}

const COUNT: usize = Counter::ALL.len();

/// A whole table of counters: what one loop, or all of them, served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served([u64; COUNT]);

impl Default for Served {
    fn default() -> Self {
        Served([0; COUNT])
    }
}

impl Served {
    /// The value of a counter.
    pub fn value(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// The value of a counter of nanoseconds, in seconds.
    pub fn seconds(&self, counter: Counter) -> f64 {
        self.value(counter) as f64 / 1e9
    }

    /// Counts one more.
    pub fn count(&mut self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Counts `amount` more.
    pub fn add(&mut self, counter: Counter, amount: u64) {
        self.0[counter as usize] += amount;
    }

    /// Sets a counter that is kept elsewhere.
    pub fn set(&mut self, counter: Counter, value: u64) {
        self.0[counter as usize] = value;
    }

    /// Adds another table to this one.
    pub fn merge(&mut self, other: &Served) {
        for (sum, value) in self.0.iter_mut().zip(other.0) {
            *sum += value;
        }
    }
}

impl Serialize for Served {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(COUNT))?;
        for counter in Counter::ALL {
            match counter.kind() {
                Kind::Seconds => map.serialize_entry(counter.key(), &self.seconds(*counter))?,
                Kind::Total | Kind::Gauge => map.serialize_entry(counter.key(), &self.value(*counter))?,
            }
        }
        map.end()
    }
}

/// Where loops publish their counters. One place per loop; reading adds them up.
#[derive(Debug, Default)]
pub struct Board {
    places: Mutex<Vec<Arc<Place>>>,
}

/// One loop's place on the board.
#[derive(Debug)]
pub struct Place([AtomicU64; COUNT]);

impl Place {
    /// Shows `served` to whoever reads the board.
    pub fn publish(&self, served: &Served) {
        for (shown, value) in self.0.iter().zip(served.0) {
            shown.store(value, Ordering::Relaxed);
        }
    }
}

impl Board {
    /// A new place.
    pub fn place(&self) -> Arc<Place> {
        let place = Arc::new(Place(std::array::from_fn(|_| AtomicU64::new(0))));
        self.places.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&place));
        place
    }

    /// The sum over all places.
    pub fn read(&self) -> Served {
        let mut sum = Served::default();
        for place in self.places.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            sum.merge(&Served(std::array::from_fn(|index| place.0[index].load(Ordering::Relaxed))));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_board_adds_up() {
        let board = Board::default();
        let mut served = Served::default();
        served.count(Counter::Requests);
        served.add(Counter::SentBytes, 10);
        board.place().publish(&served);
        board.place().publish(&served);
        assert_eq!(board.read().value(Counter::SentBytes), 20);
        assert_eq!(board.read().value(Counter::Requests), 2);
    }
}
