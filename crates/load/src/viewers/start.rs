//! Starts viewers: when, which of them are slow or vanish, and their first connection.

use rand::RngExt;
use rustix::event::epoll::EventFlags;
use sojourn_measure::Nanos;
use sojourn_media::rtsp::Parser;

use crate::{
    hls::{course::Course, playback::Playback},
    http::cause::{Cause, cause},
    rtsp::dialogue::Dialogue,
    runtime::read_rate::Reader,
    viewers::{
        conformance::{Ending, Failure},
        counts::Counts,
        event_loop::CHECK_EVERY,
        plan::{StreamPlan, Transport},
        run::{Run, ViewerTable},
        viewer::{Manner, Phase, Viewer},
        wakeups::{CONNECTION_SLOT, EventSource},
    },
};

impl Run {
    /// When the plan's next viewer begins.
    pub(crate) fn next_start(&self) -> Nanos {
        // A viewer that begins another film is not one more of the plan's.
        let begun = self.table.begun - self.measurements.streams.films_over;
        if self.draining || begun >= u64::from(self.plan.clients) {
            return Nanos::MAX;
        }
        self.origin + Nanos::from_seconds(begun as f64 / self.plan.clients_per_second)
    }

    /// Begins a viewer: it connects.
    pub(crate) fn begin_viewer(&mut self, now: Nanos) {
        let film = self.plan.films[(self.table.begun % self.plan.films.len() as u64) as usize].clone();
        self.table.begun += 1;
        self.measurements.streams.started += 1;
        let manner = self.table.draw_manner(&self.plan);
        let start = self.plan.random_start.then(|| self.table.random.random::<f64>());
        let is_slow = manner == Manner::Slow;
        let (socket, opened_by) = match self.sockets.connect(film.address, is_slow) {
            Ok(opened) => opened,
            Err(error) => {
                return self.measurements.not_begun(manner, Ending::Failed(failure(cause(error))));
            }
        };
        self.table.serial = self.table.serial.wrapping_add(1);
        let serial = self.table.serial;
        let entry = self.table.viewers.vacant_entry();
        let key = entry.key();
        let source = EventSource { viewer: key, serial, slot: CONNECTION_SLOT };
        if self.wakeups.watch(&socket, source, EventFlags::IN | EventFlags::OUT).is_err() {
            self.sockets.disconnected(opened_by, false);
            return self.measurements.not_begun(manner, Ending::Failed(Failure::Descriptors));
        }
        entry.insert(Viewer {
            serial,
            manner,
            phase: Phase::Connecting,
            server: film.address.ip(),
            dialogue: Dialogue::new(&film.url, film.credentials, start),
            hls: film.playlist.map(|place| {
                let playback = Playback::new(place, self.plan.hls, self.plan.quality.prebuffer, start, now);
                Box::new(Course::new(playback, now))
            }),
            socket,
            opened_by,
            local: None,
            input: Vec::new(),
            parser: Parser::default(),
            output: Vec::new(),
            reader: is_slow.then(|| Reader::new(self.plan.slow_bytes_per_second)),
            tracks: Vec::new(),
            counts: Counts::default(),
            began: now,
            asked: now,
            play_asked: now,
            playing_since: None,
            first_media: None,
            last_packet: None,
            reports_due: Nanos::MAX,
            sign_of_life_due: Nanos::MAX,
            leave_by: Nanos::MAX,
            ending: None,
        });
        self.wakeups.checks.set(now + CHECK_EVERY, key, serial);
    }
}

impl ViewerTable {
    /// Each viewer draws as often, so that one share does not change which viewers fall into another.
    fn draw_manner(&mut self, plan: &StreamPlan) -> Manner {
        let (vanishes, slow, when): (f64, f64, f64) =
            (self.random.random(), self.random.random(), self.random.random());
        if vanishes < plan.vanishing_share {
            Manner::Vanishing(Nanos::from_seconds(when * plan.duration.seconds()))
        } else if slow < plan.slow_share && plan.transport != Transport::Udp {
            Manner::Slow
        } else {
            Manner::Usual
        }
    }
}

/// The failure that a cause of the connector is.
pub(crate) fn failure(cause: Cause) -> Failure {
    match cause {
        Cause::ConnectRefused => Failure::ConnectRefused,
        Cause::ConnectTimeout => Failure::ConnectTimeout,
        Cause::Descriptors => Failure::Descriptors,
        Cause::Addresses => Failure::Addresses,
        Cause::Reset => Failure::Reset,
        _ => Failure::ConnectFailed,
    }
}
