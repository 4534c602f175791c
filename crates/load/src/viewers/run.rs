//! The loop of a run of viewers: one thread, one epoll descriptor, as many viewers as descriptors allow.
//!
//! It waits for sockets or for what is due, whichever comes first. Packets carry the kernel's time of arrival, so that
//! at high rates turns may be put off a little and many packets be taken by one. How viewers come is in `come`, how they
//! talk in `talk`, what they receive in `receive`, how they end in `leave`; how they fetch films by HLS in `hls`.

use std::{
    collections::BTreeMap,
    mem::MaybeUninit,
    net::SocketAddr,
    num::NonZeroU64,
    os::fd::OwnedFd,
    sync::atomic::{AtomicBool, Ordering},
    time::SystemTime,
};

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::{
    event::epoll::{self, CreateFlags, Event},
    io::Errno,
    thread::{clock_nanosleep_absolute, set_current_timer_slack},
    time::{ClockId, Timespec},
};
use slab::Slab;
use sojourn_measure::{Histogram, Nanos, clock, limits};

use crate::{
    runtime::{
        RunError,
        batching::Batching,
        connector::Connector,
        epoll as readiness,
        timers::Timers,
        timestamps,
        udp::{Batch, Ports},
    },
    statistics::recorder::Level,
    viewers::{
        counts::{Counts, StreamTimeline, Streams, Times},
        hls::Known,
        outcome::StreamOutcome,
        plan::StreamPlan,
        progress::{LastRow, StreamProgress},
        snapshot::Snapshot,
        viewer::{Phase, Viewer},
    },
};

/// Descriptors asked for: some fifty thousand viewers of two tracks by UDP.
const DESCRIPTORS_WANTED: u64 = 262_144;
/// Descriptors kept free of viewers.
const DESCRIPTORS_RESERVED: u64 = 64;
const EVENTS_MAX: usize = 256;
/// By how much turns may be put off at high rates: far less than what makes a sample void.
const TURN_SLACK: Nanos = Nanos(1_000_000);
/// How often a viewer's limits are looked at.
pub(crate) const CHECK_EVERY: Nanos = Nanos(250_000_000);
/// Viewers that begin and limits that are looked at before sockets are looked at again.
const WAKES_MAX: usize = 64;
/// For answers to TEARDOWN at the end.
const DRAIN: Nanos = Nanos(2_000_000_000);
/// Bytes per read of a connection.
pub(crate) const BUFFER_BYTES: usize = 64 * 1024;
const SECOND: u64 = 1_000_000_000;

/// Does what the plan says until it ends or `interrupted` is set.
pub fn run_streams(
    plan: StreamPlan,
    interrupted: &AtomicBool,
    progress: Option<&mut dyn FnMut(&StreamProgress)>,
) -> Result<StreamOutcome, RunError> {
    let descriptors = limits::raise_descriptors(DESCRIPTORS_WANTED);
    // Sleep to the nanosecond; not granted in some sandboxes, where the default of 50 µs stays.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let mut run = Run::new(plan, descriptors)?;
    let was_interrupted = run.until_over(interrupted, progress)?;
    Ok(run.outcome(was_interrupted))
}

pub(crate) struct Run {
    pub(crate) plan: StreamPlan,
    pub(crate) viewers: Slab<Viewer>,
    pub(crate) connectors: Vec<Connector>,
    /// By server, and whether they read slowly.
    pub(crate) connector_of: BTreeMap<(SocketAddr, bool), usize>,
    pub(crate) ports: Ports,
    pub(crate) descriptors_left: u64,
    pub(crate) descriptors: u64,
    pub(crate) epoll: OwnedFd,
    pub(crate) timers: Timers,
    pub(crate) readers: Timers,
    /// When players of HLS have room for the next segment.
    pub(crate) asks: Timers,
    /// Playlists as they were found last.
    pub(crate) playlists: Vec<Known>,
    pub(crate) batch: Option<Batch>,
    pub(crate) buffer: Vec<u8>,
    pub(crate) random: Xoshiro256PlusPlus,
    pub(crate) serial: u32,
    /// Viewers let in so far, those after the end of a film included.
    pub(crate) begun: u64,
    pub(crate) origin: Nanos,
    pub(crate) started_at: SystemTime,
    /// How far the wall clock, on which the kernel stamps, is ahead of ours.
    pub(crate) wall_ahead: Nanos,
    /// Since when this turn's events are worked off: the time of arrival of what has no stamp.
    pub(crate) turn_at: Nanos,
    pub(crate) stamped: u64,
    pub(crate) unstamped: u64,
    turns: Batching,
    pub(crate) turns_taken: u64,
    pub(crate) counts: Counts,
    pub(crate) streams: Streams,
    pub(crate) times: Times,
    /// How late packets were since it was last looked at.
    pub(crate) recent: Histogram,
    pub(crate) playing: Level,
    pub(crate) timeline: StreamTimeline,
    pub(crate) last_row: LastRow,
    pub(crate) marks: Vec<Snapshot>,
    /// Complaints about senseless answers, with their counts.
    pub(crate) complaints: BTreeMap<String, u64>,
    pub(crate) draining: bool,
}

impl Run {
    fn new(plan: StreamPlan, descriptors: u64) -> Result<Run, RunError> {
        let (origin, started_at) = (clock::now(), SystemTime::now());
        Ok(Run {
            viewers: Slab::new(),
            connectors: Vec::new(),
            connector_of: BTreeMap::new(),
            ports: Ports::new(),
            descriptors_left: descriptors.saturating_sub(DESCRIPTORS_RESERVED),
            descriptors,
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            timers: Timers::default(),
            readers: Timers::default(),
            asks: Timers::default(),
            playlists: Vec::new(),
            batch: Some(Batch::new()),
            buffer: vec![0; BUFFER_BYTES],
            random: Xoshiro256PlusPlus::seed_from_u64(plan.seed),
            serial: 0,
            begun: 0,
            origin,
            started_at,
            wall_ahead: timestamps::wall_ahead(origin),
            turn_at: origin,
            stamped: 0,
            unstamped: 0,
            turns: Batching::new(TURN_SLACK),
            turns_taken: 0,
            counts: Counts::default(),
            streams: Streams::default(),
            times: Times::default(),
            recent: Histogram::coarse(),
            playing: Level::default(),
            timeline: StreamTimeline::new(started_at),
            last_row: LastRow::new(origin),
            marks: Vec::new(),
            complaints: BTreeMap::new(),
            draining: false,
            plan,
        })
    }

    /// How long the viewers take to come.
    pub(crate) fn ramp(&self) -> Nanos {
        Nanos::from_seconds(f64::from(self.plan.clients) / self.plan.clients_per_second)
    }

    /// Runs; whether it was interrupted.
    fn until_over(
        &mut self,
        interrupted: &AtomicBool,
        mut progress: Option<&mut dyn FnMut(&StreamProgress)>,
    ) -> Result<bool, RunError> {
        let measured_from = self.origin + self.ramp();
        let end = measured_from + self.plan.duration;
        let mut next_row = self.origin + self.plan.interval;
        let mut drained_by = Nanos::MAX;
        let mut was_interrupted = false;
        let mut events = [MaybeUninit::<Event>::uninit(); EVENTS_MAX];
        loop {
            let now = clock::now();
            if self.marks.is_empty() && now >= measured_from {
                self.mark();
            }
            let is_asked = interrupted.load(Ordering::Relaxed);
            if !self.draining && (now >= end || is_asked) {
                was_interrupted = is_asked && now < end;
                self.add_row(now);
                self.draining = true;
                self.end_all(now);
                drained_by = now + DRAIN;
            }
            if self.draining
                && (now >= drained_by || self.viewers.iter().all(|(_, each)| each.phase == Phase::Gone))
            {
                return Ok(was_interrupted);
            }
            if !self.draining && now >= next_row {
                let row = self.add_row(now);
                if let Some(progress) = &mut progress {
                    progress(
                        &row.with_fraction((now - self.origin).seconds() / (end - self.origin).seconds()),
                    );
                }
                // A late row does not bunch up with the next.
                next_row = (next_row + self.plan.interval).max(now);
            }
            let due = self.wake_due(now);
            let mark = if self.marks.is_empty() { measured_from } else { Nanos::MAX };
            let last = if self.draining { drained_by } else { end.min(next_row) };
            self.wait(due.min(mark).min(last), &mut events)?;
        }
    }

    pub(crate) fn mark(&mut self) {
        self.marks.push(Snapshot::read(self.plan.core, self.counts, self.playing, self.turns_taken));
    }

    /// Lets in viewers and looks at limits as far as they are due; answers when the next is.
    fn wake_due(&mut self, now: Nanos) -> Nanos {
        for _ in 0..WAKES_MAX {
            let start = self.next_start();
            let timer = self.timers.next().unwrap_or(Nanos::MAX);
            let reader = self.readers.next().unwrap_or(Nanos::MAX);
            let ask = self.asks.next().unwrap_or(Nanos::MAX);
            let first = start.min(timer).min(reader).min(ask);
            if first > now {
                return first;
            }
            if start == first {
                self.begin_viewer(now);
            } else if timer == first {
                let Some((key, serial)) = self.timers.take_due(now) else { continue };
                if self.is_live(key, serial) {
                    self.check(key, now);
                    self.timers.set(now + CHECK_EVERY, key, serial);
                }
            } else if ask == first {
                let Some((key, serial)) = self.asks.take_due(now) else { continue };
                if self.is_live(key, serial) {
                    self.go_on(key, now);
                }
            } else if let Some((key, serial)) = self.readers.take_due(now)
                && self.is_live(key, serial)
            {
                self.read_on(key, now);
            }
        }
        now
    }

    /// Returns true if the viewer with this serial still exists.
    pub(crate) fn is_live(&self, key: usize, serial: u32) -> bool {
        self.viewers.get(key).is_some_and(|viewer| viewer.serial == serial)
    }

    fn wait(&mut self, until: Nanos, events: &mut [MaybeUninit<Event>]) -> Result<(), RunError> {
        let mut now = clock::now();
        if until > now
            && let Some(turn) = self.turns.put_off_until(now)
        {
            let time = Timespec { tv_sec: (turn.0 / SECOND) as i64, tv_nsec: (turn.0 % SECOND) as i64 };
            // A signal ends it early: the loop looks at what it asks for.
            let _ = clock_nanosleep_absolute(ClockId::Monotonic, &time);
            now = clock::now();
        }
        let ready = match readiness::wait(&self.epoll, events, until - now) {
            Ok(ready) => ready,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        self.turn_at = clock::now();
        self.wall_ahead = timestamps::wall_ahead(self.turn_at);
        self.turns_taken += 1;
        for event in ready {
            let (key, serial, slot) = event_of(event.data.u64());
            if !self.is_live(key, serial) {
                continue;
            }
            match slot {
                0 => self.on_connection(key, serial, event.flags),
                slot if slot % 2 == 1 => self.receive_media(key, (slot - 1) / 2),
                slot => self.receive_reports(key, (slot - 1) / 2),
            }
        }
        self.turns.begin(self.turn_at);
        Ok(())
    }

    fn outcome(mut self, was_interrupted: bool) -> StreamOutcome {
        let kept: Vec<usize> = self.viewers.iter().map(|(key, _)| key).collect();
        for key in kept {
            self.remove(key, false);
        }
        StreamOutcome {
            was_interrupted,
            started_at: self.started_at,
            origin: self.origin,
            ramp: self.ramp(),
            descriptors: self.descriptors,
            marks: self.marks,
            streams: self.streams,
            times: self.times,
            timeline: self.timeline,
            stamped: self.stamped,
            unstamped: self.unstamped,
            complaints: self.complaints,
            plan: self.plan,
        }
    }
}

const KEY_BITS: u32 = 24;
const SLOT_BITS: u32 = 8;

/// The user data of an epoll event: the viewer, its serial, and one of its sockets.
pub(crate) fn event_data(key: usize, serial: u32, slot: usize) -> u64 {
    (u64::from(serial) << (KEY_BITS + SLOT_BITS)) | ((slot as u64) << KEY_BITS) | key as u64
}

fn event_of(data: u64) -> (usize, u32, usize) {
    let key = data & ((1 << KEY_BITS) - 1);
    let slot = (data >> KEY_BITS) & ((1 << SLOT_BITS) - 1);
    (key as usize, (data >> (KEY_BITS + SLOT_BITS)) as u32, slot as usize)
}
