//! Viewers of films over RTSP or HLS: many clients of a streaming server, and what a player would make of what they
//! receive.
//!
//! [`run_streams`] performs a [`StreamPlan`] and returns a [`StreamOutcome`]. A stream conforms by the rule in
//! `conformance`: it was neither refused nor cut off, its player never starved, and packets were neither late nor lost
//! nor too few. The generator's own lateness is measured, too. One thread with one epoll descriptor serves all viewers.
//!
//! Reading order: `plan`, `conformance`; this file and `event_loop`; a viewer's life in `start`, `rtsp` or `hls`, `rtp`,
//! `end`; `measurements`, `outcome`, `report`. The protocols without sockets are the crate's modules `rtsp`, `hls` and
//! `playout`; RTSP messages and RTP and RTCP headers are in the media crate.

mod conformance;
mod connection;
mod counts;
mod end;
mod event_loop;
mod film;
mod hls;
mod hls_session;
mod measurements;
mod outcome;
mod plan;
mod progress;
mod report;
mod rtp;
mod rtsp;
mod rtsp_session;
mod snapshot;
mod sockets;
mod start;
mod verdict;
mod viewer;
mod wakeups;

use std::{num::NonZeroU64, sync::atomic::AtomicBool, time::SystemTime};

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::thread::set_current_timer_slack;
use slab::Slab;
use sojourn_measure::{Nanos, clock, limits};

use crate::{
    runtime::RunError,
    viewers::{
        hls::PlaylistCache, measurements::Measurements, snapshot::Snapshot, sockets::Sockets, viewer::Viewer,
        wakeups::Wakeups,
    },
};

pub use crate::hls::{HlsPlan, Variant};
pub use counts::StreamTimeline;
pub use film::{Film, FilmError};
pub use outcome::StreamOutcome;
pub use plan::{Quality, StreamLimits, StreamPlan, Transport};
pub use progress::StreamProgress;
pub use report::StreamReport;

/// The descriptor limit asked for: some fifty thousand viewers of two tracks by UDP.
const DESCRIPTORS_WANTED: u64 = 262_144;

/// Runs the plan until it ends or `interrupted` is set.
pub fn run_streams(
    plan: StreamPlan,
    interrupted: &AtomicBool,
    progress: Option<&mut dyn FnMut(&StreamProgress)>,
) -> Result<StreamOutcome, RunError> {
    let descriptors = limits::raise_descriptors(DESCRIPTORS_WANTED);
    // Sleep with nanosecond precision. Some sandboxes forbid that; the default of 50 µs stays then.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let mut run = Run::new(plan, descriptors)?;
    let was_interrupted = run.run_until_over(interrupted, progress)?;
    Ok(run.outcome(was_interrupted))
}

/// The state of a run, grouped by what changes it: the event loop writes `wakeups` and `draining`, starting and ending
/// viewers write `table` and `sockets`, and everything is recorded in `measurements`.
pub(crate) struct Run {
    pub(crate) plan: StreamPlan,
    pub(crate) table: ViewerTable,
    pub(crate) sockets: Sockets,
    pub(crate) wakeups: Wakeups,
    pub(crate) measurements: Measurements,
    /// Playlists that several viewers read.
    pub(crate) playlists: PlaylistCache,
    pub(crate) origin: Nanos,
    started_at: SystemTime,
    /// True once all streams must end.
    pub(crate) draining: bool,
}

/// The viewers of a run, each with a key and a serial number.
pub(crate) struct ViewerTable {
    pub(crate) viewers: Slab<Viewer>,
    /// The serial of the newest viewer.
    pub(crate) serial: u32,
    /// Viewers started so far, including restarts after the end of a film.
    pub(crate) begun: u64,
    pub(crate) random: Xoshiro256PlusPlus,
}

impl ViewerTable {
    /// Returns true if the viewer with this serial still exists.
    pub(crate) fn is_live(&self, key: usize, serial: u32) -> bool {
        self.viewers.get(key).is_some_and(|viewer| viewer.serial == serial)
    }

    pub(crate) fn keys(&self) -> Vec<usize> {
        self.viewers.iter().map(|(key, _)| key).collect()
    }
}

impl Run {
    fn new(plan: StreamPlan, descriptors: u64) -> Result<Run, RunError> {
        let (origin, started_at) = (clock::now(), SystemTime::now());
        Ok(Run {
            table: ViewerTable {
                viewers: Slab::new(),
                serial: 0,
                begun: 0,
                random: Xoshiro256PlusPlus::seed_from_u64(plan.seed),
            },
            sockets: Sockets::new(descriptors, plan.slow_bytes_per_second, plan.receive_buffer_bytes),
            wakeups: Wakeups::new(origin)?,
            measurements: Measurements::new(origin, started_at, plan.limits.receive_lag),
            playlists: PlaylistCache::default(),
            origin,
            started_at,
            draining: false,
            plan,
        })
    }

    /// How long it takes until all viewers have started.
    pub(crate) fn ramp(&self) -> Nanos {
        Nanos::from_seconds(f64::from(self.plan.clients) / self.plan.clients_per_second)
    }

    pub(crate) fn take_snapshot(&mut self) {
        let Measurements { counts, playing, .. } = self.measurements;
        let snapshot = Snapshot::read(self.plan.core, counts, playing, self.wakeups.iterations);
        self.measurements.snapshots.push(snapshot);
    }

    fn outcome(mut self, was_interrupted: bool) -> StreamOutcome {
        for key in self.table.keys() {
            self.remove(key, false);
        }
        StreamOutcome {
            was_interrupted,
            started_at: self.started_at,
            origin: self.origin,
            ramp: self.ramp(),
            descriptors: self.sockets.descriptors,
            stamped: self.wakeups.arrivals.stamped,
            unstamped: self.wakeups.arrivals.unstamped,
            measurements: self.measurements,
            plan: self.plan,
        }
    }
}
