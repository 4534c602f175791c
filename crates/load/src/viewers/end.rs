//! How viewers end: timeouts, films that are over, and the end of the session.

use sojourn_measure::Nanos;

use crate::{
    hls::course::Line,
    viewers::{
        conformance::{Ending, Failure},
        measurements::STARVATION_ASKED_AFTER,
        plan::StreamLimits,
        rtsp::REPORTS_EVERY,
        run::Run,
        viewer::{Manner, Phase, Viewer},
    },
};

/// For the answer to TEARDOWN.
const LEAVE_WITHIN: Nanos = Nanos(2_000_000_000);

impl Run {
    /// Looks at a viewer's limits, and does what is due.
    pub(crate) fn check(&mut self, key: usize, now: Nanos) {
        let limits = self.plan.limits;
        let viewer = &mut self.table.viewers[key];
        // Servers close what is idle; another connection is a new one.
        let line = viewer.hls.as_ref().map(|course| course.line);
        match viewer.phase {
            Phase::Gone => {}
            _ if matches!(line, Some(Line::Connecting(since)) if now - since >= limits.reply_timeout) => {
                self.fail(key, Failure::ConnectTimeout, now);
            }
            Phase::Connecting if now - viewer.asked >= limits.reply_timeout => {
                self.fail(key, Failure::ConnectTimeout, now);
            }
            Phase::Leaving if now >= viewer.leave_by => self.remove(key, false),
            Phase::Connecting | Phase::Leaving => {}
            _ if viewer.is_waiting() && now - viewer.asked >= limits.reply_timeout => {
                self.fail(key, Failure::ReplyTimeout, now);
            }
            Phase::Talking => {}
            Phase::Playing => self.check_playing(key, now),
        }
    }

    fn check_playing(&mut self, key: usize, now: Nanos) {
        let limits = self.plan.limits;
        let viewer = &mut self.table.viewers[key];
        let playing_since = viewer.playing_since.unwrap_or(now);
        if matches!(viewer.manner, Manner::Vanishing(after) if now - playing_since >= after) {
            return self.vanish(key, now);
        }
        if viewer.has_seen_all(now) {
            return self.end(key, Ending::FilmOver, now);
        }
        if let Some(failure) = silent_for_too_long(viewer, playing_since, &limits, now) {
            return self.end(key, Ending::Failed(failure), now);
        }
        let is_silent = viewer.last_packet.is_some_and(|last| now - last >= STARVATION_ASKED_AFTER);
        if (is_silent || viewer.hls.is_some()) && !viewer.is_near_end(now) {
            self.measurements.starve(viewer, now);
        }
        if viewer.hls.is_some() {
            return;
        }
        let (reports, sign_of_life) = (now >= viewer.reports_due, now >= viewer.sign_of_life_due);
        let serial = viewer.serial;
        if reports {
            viewer.reports_due = now + REPORTS_EVERY;
            self.report(key, now);
        }
        if sign_of_life && self.table.is_live(key, serial) {
            self.say_alive(key, now);
        }
    }

    /// Falls silent: nothing is read or said any more, and nothing is closed.
    fn vanish(&mut self, key: usize, now: Nanos) {
        self.settle(key, Ending::Vanished, now);
        self.table.viewers[key].phase = Phase::Gone;
        self.ignore(key, true);
    }

    /// Ends a stream because of a failure; what fails after its end only ends the talk.
    pub(crate) fn fail(&mut self, key: usize, failure: Failure, now: Nanos) {
        if self.table.viewers[key].ending.is_none() {
            self.settle(key, Ending::Failed(failure), now);
        }
        self.remove(key, matches!(failure, Failure::Reset | Failure::Closed));
    }

    /// Ends a stream, and the session in good order where there is one.
    pub(crate) fn end(&mut self, key: usize, ending: Ending, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        if viewer.ending.is_some() {
            return;
        }
        let is_connected = viewer.phase != Phase::Connecting;
        self.settle(key, ending, now);
        let viewer = &mut self.table.viewers[key];
        viewer.phase = Phase::Leaving;
        viewer.leave_by = now + LEAVE_WITHIN;
        let goodbye = viewer.dialogue.tear_down().filter(|_| is_connected && viewer.hls.is_none());
        match goodbye {
            Some(request) => {
                self.ignore(key, false);
                self.ask(key, &request, now);
            }
            None => self.remove(key, false),
        }
        if ending == Ending::FilmOver && !self.draining {
            // Whoever has seen a film begins with the next: as many as were asked for go on playing.
            self.begin_viewer(now);
        }
    }

    /// Ends all streams, because the run is over.
    pub(crate) fn end_all(&mut self, now: Nanos) {
        self.take_snapshot();
        for key in self.table.keys() {
            let viewer = &self.table.viewers[key];
            let is_over =
                viewer.has_seen_all(now) || (viewer.last_packet.is_some() && viewer.is_near_end(now));
            let ending = match viewer.last_packet {
                Some(_) if is_over => Ending::FilmOver,
                Some(_) => Ending::Played,
                None => Ending::Unfinished,
            };
            self.end(key, ending, now);
        }
    }

    fn settle(&mut self, key: usize, ending: Ending, now: Nanos) {
        self.measurements.ended(&mut self.table.viewers[key], ending, &self.plan.quality, now);
    }

    /// Ignores the packets that a viewer receives from now on, and its connection.
    fn ignore(&mut self, key: usize, connection: bool) {
        let viewer = &self.table.viewers[key];
        for pair in viewer.tracks.iter().filter_map(|track| track.udp.as_ref()) {
            self.wakeups.ignore(&pair.media);
            self.wakeups.ignore(&pair.reports);
        }
        if connection {
            self.wakeups.ignore(&viewer.socket);
        }
    }

    /// Removes a viewer and closes its sockets.
    pub(crate) fn remove(&mut self, key: usize, by_server: bool) {
        let viewer = self.table.viewers.remove(key);
        self.sockets.close(viewer, by_server);
    }
}

fn silent_for_too_long(
    viewer: &Viewer,
    playing_since: Nanos,
    limits: &StreamLimits,
    now: Nanos,
) -> Option<Failure> {
    if let Some(course) = &viewer.hls {
        // A player with enough asks for nothing, and nothing comes.
        let is_silent = course.under_way().is_some()
            && course.last_byte.is_some_and(|last| now - last >= limits.silence_timeout);
        let has_nothing = viewer.first_media.is_none() && now - playing_since >= limits.first_packet_timeout;
        return match has_nothing {
            true => Some(Failure::NoPacket),
            false => (is_silent && now - viewer.asked >= limits.silence_timeout).then_some(Failure::Silence),
        };
    }
    match viewer.last_packet {
        None if now - playing_since >= limits.first_packet_timeout => Some(Failure::NoPacket),
        Some(_) if viewer.was_left(now) => Some(Failure::Closed),
        Some(last) if now - last >= limits.silence_timeout => Some(Failure::Silence),
        _ => None,
    }
}
