//! How viewers end: timeouts, ended films, and the end of the session.

use sojourn_measure::Nanos;

use crate::viewers::{
    Run,
    measurements::STARVATION_ASKED_AFTER,
    plan::StreamLimits,
    rtsp::REPORTS_EVERY,
    verdict::{Ending, Failure},
    viewer::{Behaviour, Phase, Protocol, Viewer},
};

const TEARDOWN_TIMEOUT: Nanos = Nanos(2_000_000_000);

impl Run {
    /// Checks a viewer's timeouts and does what is due.
    pub(crate) fn check(&mut self, key: usize, now: Nanos) {
        let timeout = self.plan.limits.reply_timeout;
        let viewer = &mut self.table.viewers[key];
        // Servers close idle connections, so with HLS a viewer may connect while it plays.
        let is_connecting_too_long = match &viewer.protocol {
            Protocol::Rtsp(_) => viewer.is_connecting() && now - viewer.began >= timeout,
            Protocol::Hls(session) => session.connecting_since().is_some_and(|since| now - since >= timeout),
        };
        match viewer.phase {
            Phase::Vanished => {}
            _ if is_connecting_too_long => self.fail(key, Failure::ConnectTimeout, now),
            Phase::Connecting => {}
            Phase::TearingDown { deadline } if now >= deadline => self.remove(key, false),
            Phase::TearingDown { .. } => {}
            _ if viewer.is_waiting() && now - viewer.requested >= timeout => {
                self.fail(key, Failure::ReplyTimeout, now);
            }
            Phase::Preparing => {}
            Phase::Playing => self.check_playing(key, now),
        }
    }

    fn check_playing(&mut self, key: usize, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        let playing_since = viewer.playing_since.unwrap_or(now);
        if matches!(viewer.behaviour, Behaviour::Vanishing(after) if now - playing_since >= after) {
            return self.disappear(key, now);
        }
        if viewer.is_film_over(now) {
            return self.end(key, Ending::FilmOver, now);
        }
        if let Some(failure) = has_timed_out(viewer, playing_since, &self.plan.limits, now) {
            return self.end(key, Ending::Failed(failure), now);
        }
        let is_silent = viewer.last_packet.is_some_and(|last| now - last >= STARVATION_ASKED_AFTER);
        if (is_silent || viewer.hls().is_some()) && !viewer.is_near_end(now) {
            self.measurements.starve(viewer, now);
        }
        let serial = viewer.serial;
        let Some(session) = viewer.rtsp_mut() else { return };
        let is_keep_alive_due = now >= session.keep_alive_due;
        if now >= session.reports_due {
            session.reports_due = now + REPORTS_EVERY;
            self.send_reports(key, now);
        }
        if is_keep_alive_due && self.table.is_live(key, serial) {
            self.send_keep_alive(key, now);
        }
    }

    /// Falls silent: stops reading and sending without closing anything.
    fn disappear(&mut self, key: usize, now: Nanos) {
        self.record_end(key, Ending::Vanished, now);
        self.table.viewers[key].phase = Phase::Vanished;
        self.ignore_tracks(key);
        if let Some(socket) = self.table.viewers[key].socket() {
            self.wakeups.ignore(socket);
        }
    }

    /// Ends a stream because of a failure. A failure after its end only ends the session.
    pub(crate) fn fail(&mut self, key: usize, failure: Failure, now: Nanos) {
        if self.table.viewers[key].ending.is_none() {
            self.record_end(key, Ending::Failed(failure), now);
        }
        self.remove(key, matches!(failure, Failure::Reset | Failure::Closed));
    }

    /// Ends a stream, and its session with TEARDOWN if there is one.
    pub(crate) fn end(&mut self, key: usize, ending: Ending, now: Nanos) {
        let viewer = &self.table.viewers[key];
        if viewer.ending.is_some() {
            return;
        }
        let is_connected = !viewer.is_connecting();
        self.record_end(key, ending, now);
        let viewer = &mut self.table.viewers[key];
        viewer.phase = Phase::TearingDown { deadline: now + TEARDOWN_TIMEOUT };
        let teardown = viewer.rtsp_mut().and_then(|session| session.client.tear_down());
        match teardown.filter(|_| is_connected) {
            Some(request) => {
                self.ignore_tracks(key);
                self.send_rtsp(key, &request, now);
            }
            None => self.remove(key, false),
        }
        if ending == Ending::FilmOver && !self.draining {
            // A viewer that has seen a film starts the next, so the number of viewers stays the same.
            self.begin_viewer(now);
        }
    }

    /// Ends all streams at the end of the run.
    pub(crate) fn end_all(&mut self, now: Nanos) {
        self.take_snapshot();
        for key in self.table.keys() {
            let viewer = &self.table.viewers[key];
            let is_over =
                viewer.is_film_over(now) || (viewer.last_packet.is_some() && viewer.is_near_end(now));
            let ending = match viewer.last_packet {
                Some(_) if is_over => Ending::FilmOver,
                Some(_) => Ending::Played,
                None => Ending::Unfinished,
            };
            self.end(key, ending, now);
        }
    }

    fn record_end(&mut self, key: usize, ending: Ending, now: Nanos) {
        self.measurements.ended(&mut self.table.viewers[key], ending, &self.plan.quality, now);
    }

    /// From now on ignores packets that a viewer receives by UDP.
    fn ignore_tracks(&mut self, key: usize) {
        for pair in self.table.viewers[key].tracks().iter().filter_map(|track| track.udp.as_ref()) {
            self.wakeups.ignore(&pair.media);
            self.wakeups.ignore(&pair.reports);
        }
    }

    /// Removes a viewer and closes its sockets.
    pub(crate) fn remove(&mut self, key: usize, by_server: bool) {
        let viewer = self.table.viewers.remove(key);
        self.sockets.close(&viewer, by_server);
    }
}

fn has_timed_out(
    viewer: &Viewer,
    playing_since: Nanos,
    limits: &StreamLimits,
    now: Nanos,
) -> Option<Failure> {
    let is_older = |time: Nanos, limit: Nanos| now - time >= limit;
    let no_packet = is_older(playing_since, limits.first_packet_timeout).then_some(Failure::NoPacket);
    if let Some(session) = viewer.hls() {
        if session.first_media.is_none() && no_packet.is_some() {
            return no_packet;
        }
        // A player with a full buffer sends no requests and receives nothing.
        let is_silent = session.under_way().is_some()
            && session.last_byte.is_some_and(|last| is_older(last, limits.silence_timeout))
            && is_older(viewer.requested, limits.silence_timeout);
        return is_silent.then_some(Failure::Silence);
    }
    match viewer.last_packet {
        None => no_packet,
        Some(_) if viewer.has_source_left(now) => Some(Failure::Closed),
        Some(last) => is_older(last, limits.silence_timeout).then_some(Failure::Silence),
    }
}
