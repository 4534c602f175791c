//! HLS on a viewer's connection: requests for playlists and segments, and their responses.

use std::mem;

use rustix::event::epoll::EventFlags;
use sojourn_measure::Nanos;

use crate::{
    hls::{
        location::Location,
        playback::{HlsResponse, Next, Resource, ResponseClass},
        playlist::Playlist,
    },
    http::{
        cause::{Cause, cause},
        connection::{Read, Received, State},
        response_reader::{Progress, Response},
    },
    runtime::read_rate::ReadRate,
    viewers::{
        Run,
        measurements::Measurements,
        verdict::{Ending, Failure},
        viewer::{Behaviour, Phase, Viewer},
    },
};

/// With more locations than this, playlists are parsed for each viewer.
const PLAYLISTS_MAX: usize = 4096;

/// The last text at each location and its parsed form, because many viewers read the same playlist. Sorted by location.
#[derive(Debug, Default)]
pub(crate) struct PlaylistCache(Vec<CachedPlaylist>);

#[derive(Debug)]
struct CachedPlaylist {
    location: Location,
    text: Vec<u8>,
    playlist: Playlist,
}

impl Run {
    /// Handles the result of the TCP handshake.
    pub(crate) fn on_hls_connected(&mut self, key: usize, flags: EventFlags, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        let Some(connection) = viewer.hls_mut().and_then(|session| session.connection.as_mut()) else {
            return;
        };
        connection.closed_by_server = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        if let Some(cause) = connection.connect_error() {
            return self.end(key, Ending::Failed(Failure::of(cause)), now);
        }
        connection.state = State::Idle;
        if viewer.is_connecting() {
            viewer.phase = Phase::Preparing;
        }
        self.limit_read_rate(key);
        self.advance(key, now);
    }

    /// Sends the next request, now or when it is due.
    pub(crate) fn advance(&mut self, key: usize, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        if viewer.is_vanished() {
            return;
        }
        let serial = viewer.serial;
        let Some(session) = viewer.hls_mut() else { return };
        if session.under_way().is_some() || session.connecting_since().is_some() {
            return;
        }
        match session.playback.next(now) {
            Next::Ask if session.connection.is_none() => self.connect_again(key, now),
            Next::Ask => self.send_request(key, now),
            Next::At(time) => self.wakeups.requests.set(time, key, serial),
            Next::Nothing => {}
        }
    }

    fn send_request(&mut self, key: usize, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        viewer.requested = now;
        let Some(session) = viewer.hls_mut() else { return };
        let Some(connection) = &mut session.connection else { return };
        let bytes = session.playback.request_bytes();
        let Some(request) = session.playback.request_mut() else { return };
        request.sent = Some(now);
        // The response to a request that the generator sent late cannot arrive in time.
        let is_first = session.is_retried || connection.answered == 0;
        let lag = if is_first { Nanos::ZERO } else { now - request.due };
        session.is_void = self.measurements.receive_lag(lag);
        connection.response.reset_keeping(request.resource == Resource::Playlist);
        match connection.send(&bytes) {
            Ok(_) => self.watch(key),
            Err(error) => self.on_http_failed(key, cause(error), now),
        }
    }

    pub(crate) fn send_rest_of_request(&mut self, key: usize, now: Nanos) {
        let session = self.table.viewers[key].hls_mut();
        let Some(connection) = session.and_then(|session| session.connection.as_mut()) else { return };
        match connection.send_rest() {
            Ok(()) => self.watch(key),
            Err(error) => self.on_http_failed(key, cause(error), now),
        }
    }

    /// Opens another connection to replace one that was closed.
    fn connect_again(&mut self, key: usize, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        let (socket, opened_by) = match self.sockets.connect_again(viewer.opened_by) {
            Ok(opened) => opened,
            Err(error) => return self.end(key, Ending::Failed(Failure::of(cause(error))), now),
        };
        let flags = EventFlags::IN | EventFlags::OUT;
        let watched = self.wakeups.watch(&socket, viewer.connection_source(key), flags);
        viewer.opened_by = opened_by;
        if let Some(session) = viewer.hls_mut() {
            session.connect(socket, now);
        }
        if watched.is_err() {
            self.end(key, Ending::Failed(Failure::Descriptors), now);
        }
    }

    /// Reads a part of the pending response.
    pub(crate) fn read_response(&mut self, key: usize, now: Nanos) {
        let Run { table, sockets, wakeups, measurements, .. } = self;
        let viewer = &mut table.viewers[key];
        let session = viewer.hls_mut();
        let Some(connection) = session.and_then(|session| session.connection.as_mut()) else { return };
        if !connection.is_busy() {
            // Some servers say why they close an idle connection.
            if connection.has_unsolicited(&mut sockets.buffer) {
                self.on_http_failed(key, Cause::ClosedEarly, now);
            }
            return;
        }
        match connection.read(&mut sockets.buffer, true, now) {
            Ok(Read::Received(received)) if received.bytes == 0 => {
                self.on_http_failed(key, Cause::ClosedEarly, now);
            }
            Ok(Read::Received(received)) => {
                let arrival = wakeups.arrivals.arrival(received.stamp);
                count_bytes(viewer, measurements, received.bytes, (arrival, now));
                self.take_bytes(key, &received, arrival, now);
            }
            Ok(Read::Nothing) => {}
            Ok(Read::Limited) => self.read_later_if_slow(key),
            Err(error) => self.on_http_failed(key, error.cause(), now),
        }
    }

    fn take_bytes(&mut self, key: usize, received: &Received, arrival: Nanos, now: Nanos) {
        let session = self.table.viewers[key].hls_mut();
        let Some(connection) = session.and_then(|session| session.connection.as_mut()) else { return };
        match connection.take(&self.sockets.buffer, received, 0) {
            Ok((_, Progress::More)) => self.read_later_if_slow(key),
            Ok((used, Progress::Complete(_))) if used < received.bytes => {
                self.on_bad_response(key, "the response is longer than the requested range".to_owned(), now);
            }
            Ok((_, Progress::Complete(response))) => {
                connection.complete();
                connection.answered += 1;
                let text = connection.response.take_kept();
                let is_closed = !response.keep_alive || connection.closed_by_server;
                if is_closed && let Some(session) = self.table.viewers[key].hls_mut() {
                    session.connection = None;
                }
                self.on_response(key, &response, &text, arrival, now);
            }
            Err(_) => {
                let why = "a response is not HTTP, or too long for a playlist";
                self.on_bad_response(key, why.to_owned(), now);
            }
        }
    }

    fn on_response(&mut self, key: usize, response: &Response, text: &[u8], arrival: Nanos, now: Nanos) {
        let Run { table, measurements, playlists, .. } = self;
        let viewer = &mut table.viewers[key];
        let Some(session) = viewer.hls_mut() else { return };
        session.is_retried = false;
        let sent = session.playback.request().and_then(|request| request.sent);
        let is_void = session.is_void;
        let answer =
            HlsResponse { status: response.status, body_bytes: response.body_bytes, arrival, is_void };
        match session.playback.on_response(&answer, |location| playlists.read(location, text)) {
            ResponseClass::Preparation => self.on_prepared(key, now),
            ResponseClass::Segment(found) => {
                if found.behind.is_some() && viewer.is_judged() {
                    measurements.times.segment.record(arrival - sent.unwrap_or(arrival));
                }
                measurements.arrival(viewer, &found, 0);
                self.note_beginning(key, arrival);
                self.advance(key, now);
            }
            ResponseClass::Refused(status) => self.end(key, Ending::Refused(status), now),
            ResponseClass::Invalid(why) => self.on_bad_response(key, why, now),
        }
    }

    fn on_prepared(&mut self, key: usize, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        let is_ready = viewer.hls().is_some_and(|session| session.playback.is_prepared());
        if is_ready && viewer.phase == Phase::Preparing {
            viewer.phase = Phase::Playing;
            self.measurements.playing(viewer, now);
            self.limit_read_rate(key);
        }
        self.advance(key, now);
    }

    /// Starts to emulate the slow line of a slow viewer when it plays.
    fn limit_read_rate(&mut self, key: usize) {
        let viewer = &mut self.table.viewers[key];
        if viewer.behaviour != Behaviour::Slow || viewer.playing_since.is_none() {
            return;
        }
        if let Some(connection) = viewer.hls_mut().and_then(|session| session.connection.as_mut()) {
            connection.read_rate = Some(ReadRate::new(self.plan.slow_bytes_per_second));
        }
    }

    /// Records when the player starts to show the film.
    fn note_beginning(&mut self, key: usize, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        let (began, is_judged) = (viewer.began, viewer.is_judged());
        let Some(session) = viewer.hls_mut() else { return };
        if session.playback.player().has_begun() && !mem::replace(&mut session.has_begun, true) && is_judged {
            self.measurements.times.startup.record(now - began);
        }
    }

    /// The connection was closed or failed: that completes some responses and truncates others.
    fn on_http_failed(&mut self, key: usize, cause: Cause, now: Nanos) {
        let Some(session) = self.table.viewers[key].hls_mut() else { return };
        let Some(mut connection) = session.connection.take() else { return };
        if session.under_way().is_none() {
            return;
        }
        if let Ok(response) = connection.response.end() {
            let arrival = session.last_byte.unwrap_or(now);
            return self.on_response(key, &response, &connection.response.take_kept(), arrival, now);
        }
        if session.is_retried || !connection.is_stale() {
            let failure = if cause == Cause::ClosedEarly { Failure::Closed } else { Failure::Reset };
            return self.fail(key, failure, now);
        }
        session.is_retried = true;
        if let Some(request) = session.playback.request_mut() {
            request.sent = None;
        }
        self.advance(key, now);
    }

    fn on_bad_response(&mut self, key: usize, why: String, now: Nanos) {
        self.measurements.complain(why);
        self.fail(key, Failure::BadReply, now);
    }
}

fn count_bytes(
    viewer: &mut Viewer,
    measurements: &mut Measurements,
    count: usize,
    (arrival, now): (Nanos, Nanos),
) {
    let is_void = measurements.receive_lag(now - arrival);
    let is_first = viewer.last_packet.is_none();
    let Some(session) = viewer.hls_mut() else { return };
    session.last_byte = Some(arrival);
    session.is_void |= is_void;
    let Some(request) = session.playback.request_mut().filter(|request| request.sent.is_some()) else {
        return;
    };
    request.first_byte.get_or_insert(arrival);
    if !request.is_media() {
        return;
    }
    if is_first {
        measurements.times.first_packet.record(arrival - request.sent.unwrap_or(arrival));
        session.first_media = Some(arrival);
    }
    viewer.last_packet = Some(arrival);
    viewer.counts.bytes += count as u64;
    measurements.counts.bytes += count as u64;
}

impl PlaylistCache {
    /// Parses the text at a location, or returns the cached result.
    fn read(&mut self, location: &Location, text: &[u8]) -> Result<Playlist, &'static str> {
        let PlaylistCache(cached) = self;
        let key = (&location.host, &location.path);
        let at = cached.binary_search_by(|each| (&each.location.host, &each.location.path).cmp(&key));
        if let Ok(index) = at
            && cached[index].text == text
        {
            return Ok(cached[index].playlist.clone());
        }
        let playlist = Playlist::read(text, location)?;
        let read =
            CachedPlaylist { location: location.clone(), text: text.to_vec(), playlist: playlist.clone() };
        match at {
            Ok(index) => cached[index] = read,
            Err(index) if cached.len() < PLAYLISTS_MAX => cached.insert(index, read),
            Err(_) => {}
        }
        Ok(playlist)
    }
}
