//! Starts viewers: when, which of them are slow or vanish, and their first connection.

use std::net::SocketAddr;

use rand::RngExt;
use rustix::{
    event::epoll::{self, EventData, EventFlags},
    io::Errno,
};
use sojourn_measure::Nanos;
use sojourn_media::rtsp::Parser;

use crate::{
    hls::{course::Course, playback::Playback},
    http::cause::{Cause, cause},
    rtsp::dialogue::Dialogue,
    runtime::{
        connector::{ConnectOptions, Connector},
        read_rate::Reader,
    },
    viewers::{
        conformance::{Ending, Failure, Fault},
        counts::Counts,
        plan::Transport,
        run::{CHECK_EVERY, Run, event_data},
        viewer::{Manner, Phase, Viewer},
    },
};

impl Run {
    /// When the next of the clients comes that the plan speaks of.
    pub(crate) fn next_start(&self) -> Nanos {
        let come = self.serial_of_plan();
        if self.draining || come >= u64::from(self.plan.clients) {
            return Nanos::MAX;
        }
        self.origin + Nanos::from_seconds(come as f64 / self.plan.clients_per_second)
    }

    /// The number of viewers started so far, without those that start another film.
    fn serial_of_plan(&self) -> u64 {
        self.begun - self.streams.films_over
    }

    /// Lets in a viewer: it connects.
    pub(crate) fn begin_viewer(&mut self, now: Nanos) {
        let film = self.plan.films[(self.begun % self.plan.films.len() as u64) as usize].clone();
        self.begun += 1;
        self.streams.started += 1;
        let manner = self.draw_manner();
        let start = self.plan.random_start.then(|| self.random.random::<f64>());
        let is_slow = manner == Manner::Slow;
        let connector = self.connector(film.address, is_slow);
        let opened =
            if self.descriptors_left == 0 { Err(Errno::MFILE) } else { self.connectors[connector].open() };
        let (socket, source) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.fail_to_begin(manner, failure(cause(error))),
        };
        self.descriptors_left -= 1;
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        let entry = self.viewers.vacant_entry();
        let key = entry.key();
        let flags = EventFlags::IN | EventFlags::OUT;
        if epoll::add(&self.epoll, &socket, EventData::new_u64(event_data(key, serial, 0)), flags).is_err() {
            self.connectors[connector].closed(source, false);
            self.descriptors_left += 1;
            return self.fail_to_begin(manner, Failure::Descriptors);
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
            opened_by: (connector, source),
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
        self.timers.set(now + CHECK_EVERY, key, serial);
    }

    fn fail_to_begin(&mut self, manner: Manner, failure: Failure) {
        self.streams.end(Ending::Failed(failure));
        if manner == Manner::Usual {
            self.streams.judge(Some(Fault::Failed));
        }
    }

    /// Each viewer draws as often, so that one share does not change who falls into another.
    fn draw_manner(&mut self) -> Manner {
        let (vanishes, slow, when): (f64, f64, f64) =
            (self.random.random(), self.random.random(), self.random.random());
        if vanishes < self.plan.vanishing_share {
            Manner::Vanishing(Nanos::from_seconds(when * self.plan.duration.seconds()))
        } else if slow < self.plan.slow_share && self.plan.transport != Transport::Udp {
            Manner::Slow
        } else {
            Manner::Usual
        }
    }

    fn connector(&mut self, server: SocketAddr, is_slow: bool) -> usize {
        let (connectors, plan, descriptors) = (&mut self.connectors, &self.plan, self.descriptors);
        *self.connector_of.entry((server, is_slow)).or_insert_with(|| {
            let options = ConnectOptions {
                read_bytes_per_second: is_slow.then_some(plan.slow_bytes_per_second),
                timestamps: true,
                ..ConnectOptions::default()
            };
            connectors.push(Connector::new(server, true, descriptors, &options));
            connectors.len() - 1
        })
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
