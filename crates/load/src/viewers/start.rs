//! Starts viewers: when, which are slow or vanish, and their first connection.

use rand::RngExt;
use rustix::event::epoll::EventFlags;
use sojourn_measure::Nanos;

use crate::{
    hls::playback::Playback,
    http::cause::cause,
    rtsp::client::RtspClient,
    viewers::{
        Run, ViewerTable,
        counts::Counts,
        event_loop::CHECK_EVERY,
        hls_session::HlsSession,
        plan::{StreamPlan, Transport},
        rtsp_session::RtspSession,
        verdict::{Ending, Failure},
        viewer::{Behaviour, Phase, Protocol, Viewer},
        wakeups::{CONNECTION_SLOT, EventSource},
    },
};

impl Run {
    /// When the plan's next viewer starts.
    pub(crate) fn next_start(&self) -> Nanos {
        // A viewer that starts another film is not an additional one.
        let begun = self.table.begun - self.measurements.streams.films_over;
        if self.draining || begun >= u64::from(self.plan.clients) {
            return Nanos::MAX;
        }
        self.origin + Nanos::from_seconds(begun as f64 / self.plan.clients_per_second)
    }

    /// Starts a viewer, which connects.
    pub(crate) fn begin_viewer(&mut self, now: Nanos) {
        let film = self.plan.films[(self.table.begun % self.plan.films.len() as u64) as usize].clone();
        self.table.begun += 1;
        self.measurements.streams.started += 1;
        let behaviour = self.table.draw_behaviour(&self.plan);
        let start = self.plan.random_start.then(|| self.table.random.random::<f64>());
        let is_slow = behaviour == Behaviour::Slow;
        let (socket, opened_by) = match self.sockets.connect(film.address, is_slow) {
            Ok(opened) => opened,
            Err(error) => {
                return self.measurements.not_begun(behaviour, Ending::Failed(Failure::of(cause(error))));
            }
        };
        self.table.serial = self.table.serial.wrapping_add(1);
        let serial = self.table.serial;
        let entry = self.table.viewers.vacant_entry();
        let key = entry.key();
        let source = EventSource { viewer: key, serial, slot: CONNECTION_SLOT };
        if self.wakeups.watch(&socket, source, EventFlags::IN | EventFlags::OUT).is_err() {
            self.sockets.disconnected(opened_by, false);
            return self.measurements.not_begun(behaviour, Ending::Failed(Failure::Descriptors));
        }
        let protocol = match film.playlist {
            Some(location) => {
                let playback =
                    Playback::new(location, self.plan.hls, self.plan.quality.prebuffer, start, now);
                Protocol::Hls(Box::new(HlsSession::new(playback, socket, now)))
            }
            None => {
                let client = RtspClient::new(&film.url, film.credentials, start);
                Protocol::Rtsp(Box::new(RtspSession::new(socket, client)))
            }
        };
        entry.insert(Viewer {
            serial,
            behaviour,
            phase: Phase::Connecting,
            server: film.address.ip(),
            opened_by,
            protocol,
            counts: Counts::default(),
            began: now,
            requested: now,
            playing_since: None,
            last_packet: None,
            ending: None,
        });
        self.wakeups.checks.set(now + CHECK_EVERY, key, serial);
    }
}

impl ViewerTable {
    /// Each viewer makes the same number of draws, so that one share does not change which viewers are in another.
    fn draw_behaviour(&mut self, plan: &StreamPlan) -> Behaviour {
        let (vanishes, slow, when): (f64, f64, f64) =
            (self.random.random(), self.random.random(), self.random.random());
        if vanishes < plan.vanishing_share {
            Behaviour::Vanishing(Nanos::from_seconds(when * plan.duration.seconds()))
        } else if slow < plan.slow_share && plan.transport != Transport::Udp {
            Behaviour::Slow
        } else {
            Behaviour::Normal
        }
    }
}
