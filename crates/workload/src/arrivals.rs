//! When sessions start: as the log has them, or drawn at random at a wanted rate.

/// One session to run: which one, when, and from which of its requests on.
///
/// Request `k` of the session is due at `start_ns + think_scale * offset_ns(k)` after the run's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When its connection is opened, in nanoseconds since the run's start.
    pub connect_ns: u64,
    /// When the session began; negative (or before `connect_ns`) for one that is already in progress.
    pub start_ns: i64,
    /// Index into `Trace::sessions`.
    pub session: u32,
    /// Index within the session of the first request to send; what lies before it is past.
    pub first_request: u32,
}
