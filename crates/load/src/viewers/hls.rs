//! How viewers of HLS get what they ask for: connections that are kept, requests, answers.

use std::{mem, os::fd::AsFd};

use rustix::{event::epoll::EventFlags, io::Errno};
use sojourn_measure::{Nanos, clock};

use crate::{
    hls::{
        course::Line,
        location::Place,
        playback::{Answer, Answered, Next, Wanted},
        playlist::Playlist,
    },
    http::{
        cause::cause,
        response_reader::{Progress, Response},
    },
    runtime::{connector::socket_error, receive::DISCARD_BYTES_MIN, timestamps},
    viewers::{
        conformance::{Ending, Failure},
        measurements::Measurements,
        run::Run,
        start::failure,
        viewer::{Phase, Viewer},
    },
};

/// The most that is thrown away at once: others have their turn.
const DISCARD_BYTES_MAX: u64 = 1 << 20;
/// Playlists of more places are read anew for each viewer.
const PLAYLISTS_MAX: usize = 4096;

/// The last text read at each location and its parsed form: many viewers read the same. Sorted by location.
#[derive(Debug, Default)]
pub(crate) struct PlaylistCache(Vec<CachedPlaylist>);

#[derive(Debug)]
struct CachedPlaylist {
    place: Place,
    text: Vec<u8>,
    playlist: Playlist,
}

impl Run {
    /// Something happened on the connection of a viewer of HLS.
    pub(crate) fn on_http(&mut self, key: usize, serial: u32, flags: EventFlags) {
        let now = clock::now();
        let Some(course) = &mut self.table.viewers[key].hls else { return };
        if matches!(course.line, Line::Connecting(_)) {
            if !flags.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP) {
                return;
            }
            course.line = Line::Open;
            if let Some(error) = socket_error(&self.table.viewers[key].socket) {
                return self.end(key, Ending::Failed(failure(cause(error))), now);
            }
            let viewer = &mut self.table.viewers[key];
            if viewer.phase == Phase::Connecting {
                viewer.phase = Phase::Talking;
            }
            return self.go_on(key, now);
        }
        if flags.contains(EventFlags::OUT) {
            self.flush(key, now);
        }
        let is_readable = flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR);
        if is_readable && self.table.is_live(key, serial) {
            self.read_http(key, now);
        }
    }

    /// Asks for what comes next, now or when it is time.
    pub(crate) fn go_on(&mut self, key: usize, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        let Some(course) = viewer.hls.as_mut().filter(|_| viewer.phase != Phase::Gone) else { return };
        if course.under_way().is_some() || matches!(course.line, Line::Connecting(_)) {
            return;
        }
        match course.playback.next(now) {
            Next::Ask if course.line == Line::Closed => self.connect_again(key, now),
            Next::Ask => self.send_request(key, now),
            Next::At(time) => self.wakeups.requests.set(time, key, viewer.serial),
            Next::Nothing => {}
        }
    }

    fn send_request(&mut self, key: usize, now: Nanos) {
        let limit = self.plan.limits.receive_lag;
        let viewer = &mut self.table.viewers[key];
        let Some(course) = &mut viewer.hls else { return };
        course.playback.write_request(&mut viewer.output);
        let Some(asked) = course.playback.asked_mut() else { return };
        asked.sent = Some(now);
        let keeps = asked.wanted == Wanted::Playlist;
        // What the generator asks for too late cannot come in time.
        let lag = if course.is_retried || course.answered == 0 { Nanos::ZERO } else { now - asked.due };
        course.is_void = lag > limit;
        course.reception.reset_keeping(keeps);
        viewer.asked = now;
        self.measurements.times.receive_lag.record(lag);
        self.flush(key, now);
    }

    /// Opens another connection in the place of one that the server closed.
    fn connect_again(&mut self, key: usize, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        let (socket, opened_by) = match self.sockets.connect_again(viewer.opened_by) {
            Ok(opened) => opened,
            Err(error) => return self.end(key, Ending::Failed(failure(cause(error))), now),
        };
        let flags = EventFlags::IN | EventFlags::OUT;
        let added = self.wakeups.watch(&socket, viewer.connection_source(key), flags);
        (viewer.socket, viewer.opened_by) = (socket, opened_by);
        if let Some(course) = &mut viewer.hls {
            (course.line, course.answered) = (Line::Connecting(now), 0);
        }
        if added.is_err() {
            self.end(key, Ending::Failed(Failure::Descriptors), now);
        }
    }

    /// Reads what has come, as much as one turn or a slow line takes.
    pub(crate) fn read_http(&mut self, key: usize, now: Nanos) {
        let Some(most) = self.allowance(key, now) else { return };
        let viewer = &mut self.table.viewers[key];
        let Some(course) = viewer.hls.as_mut().filter(|course| course.line == Line::Open) else { return };
        let unseen = course.reception.discardable().filter(|&bytes| bytes >= DISCARD_BYTES_MIN);
        let buffer = &mut self.sockets.buffer[..most];
        let received = match unseen {
            Some(bytes) => {
                let bytes = bytes.min(DISCARD_BYTES_MAX);
                // A slow line takes no more than it may.
                let bytes = if viewer.reader.is_some() { bytes.min(most as u64) } else { bytes };
                timestamps::discard(viewer.socket.as_fd(), bytes as usize)
            }
            None => timestamps::receive(viewer.socket.as_fd(), buffer),
        };
        match received {
            Ok((0, _)) => self.on_http_closed(key, Failure::Closed, now),
            Ok((count, stamp)) => {
                let arrival = self.wakeups.arrivals.arrival(stamp);
                if let Some(reader) = &mut viewer.reader {
                    reader.took(count as u64, now);
                }
                count_bytes(viewer, &mut self.measurements, count, (arrival, now));
                self.take_answer(key, count, unseen.is_some(), arrival, now);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.on_http_closed(key, Failure::Reset, now),
        }
    }

    fn take_answer(&mut self, key: usize, count: usize, is_unseen: bool, arrival: Nanos, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        let Some(course) = &mut viewer.hls else { return };
        if course.under_way().is_none() {
            // Some servers say why they close an idle connection.
            return self.on_http_closed(key, Failure::Closed, now);
        }
        let fed = match is_unseen {
            true => Ok((count, course.reception.discarded(count as u64))),
            false => course.reception.feed(&self.sockets.buffer[..count]),
        };
        match fed {
            Ok((_, Progress::More)) => self.read_later_if_slow(key),
            Ok((used, Progress::Complete(_))) if used < count => {
                self.broken(key, "more than the answer that was asked for".to_owned(), now);
            }
            Ok((_, Progress::Complete(response))) => self.on_response(key, &response, arrival, now),
            Err(_) => self.broken(key, "an answer is no HTTP, or too long for a playlist".to_owned(), now),
        }
    }

    fn on_response(&mut self, key: usize, response: &Response, arrival: Nanos, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        let Some(course) = &mut viewer.hls else { return };
        course.answered += 1;
        course.is_retried = false;
        if !response.keep_alive {
            course.line = Line::Closed;
            self.wakeups.ignore(&viewer.socket);
        }
        let sent = course.playback.asked().and_then(|asked| asked.sent);
        let is_void = course.is_void;
        let answer = Answer { status: response.status, body_bytes: response.body_bytes, arrival, is_void };
        let text = course.reception.take_kept();
        match course.playback.on_answer(&answer, |place| self.playlists.read(place, &text)) {
            Answered::Prepared => self.on_prepared(key, now),
            Answered::Segment(found) => {
                let viewer = &mut self.table.viewers[key];
                if found.behind.is_some() && viewer.is_judged() {
                    self.measurements.times.segment.record(arrival - sent.unwrap_or(arrival));
                }
                self.measurements.arrival(viewer, &found, 0);
                self.note_beginning(key, arrival);
                self.go_on(key, now);
            }
            Answered::Refused(status) => self.end(key, Ending::Refused(status), now),
            Answered::Broken(why) => self.broken(key, why, now),
        }
    }

    fn on_prepared(&mut self, key: usize, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        let is_ready = viewer.hls.as_ref().is_some_and(|course| course.playback.is_prepared());
        if is_ready && viewer.phase == Phase::Talking {
            viewer.phase = Phase::Playing;
            self.measurements.playing(viewer, now);
        }
        self.go_on(key, now);
    }

    /// Notes when the player begins to show the film.
    fn note_beginning(&mut self, key: usize, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        let is_judged = viewer.is_judged();
        let Some(course) = &mut viewer.hls else { return };
        if course.playback.player().has_begun() && !mem::replace(&mut course.has_begun, true) && is_judged {
            self.measurements.times.startup.record(now - viewer.began);
        }
    }

    /// The server closed the connection, or broke it off.
    pub(crate) fn on_http_closed(&mut self, key: usize, failed: Failure, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        let Some(course) = &mut viewer.hls else { return };
        course.line = Line::Closed;
        self.wakeups.ignore(&viewer.socket);
        viewer.output.clear();
        if course.under_way().is_none() {
            return;
        }
        if let Ok(response) = course.reception.end() {
            let arrival = course.last_byte.unwrap_or(now);
            return self.on_response(key, &response, arrival, now);
        }
        if !course.is_stale() {
            return self.fail(key, failed, now);
        }
        course.is_retried = true;
        if let Some(asked) = course.playback.asked_mut() {
            asked.sent = None;
        }
        self.go_on(key, now);
    }

    fn broken(&mut self, key: usize, why: String, now: Nanos) {
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
    let Some(course) = &mut viewer.hls else { return };
    course.last_byte = Some(arrival);
    course.is_void |= is_void;
    let Some(asked) = course.playback.asked_mut().filter(|asked| asked.sent.is_some()) else { return };
    asked.first_byte.get_or_insert(arrival);
    if !asked.is_media() {
        return;
    }
    if viewer.last_packet.is_none() {
        viewer.first_media = Some(arrival);
        measurements.times.first_packet.record(arrival - asked.sent.unwrap_or(arrival));
    }
    viewer.last_packet = Some(arrival);
    viewer.counts.bytes += count as u64;
    measurements.counts.bytes += count as u64;
}

impl PlaylistCache {
    /// Parses a text found at a location, or returns the cached result.
    fn read(&mut self, place: &Place, text: &[u8]) -> Result<Playlist, &'static str> {
        let PlaylistCache(cached) = self;
        let key = (&place.host, &place.path);
        let at = cached.binary_search_by(|each| (&each.place.host, &each.place.path).cmp(&key));
        if let Ok(index) = at
            && cached[index].text == text
        {
            return Ok(cached[index].playlist.clone());
        }
        let playlist = Playlist::read(text, place)?;
        let read = CachedPlaylist { place: place.clone(), text: text.to_vec(), playlist: playlist.clone() };
        match at {
            Ok(index) => cached[index] = read,
            Err(index) if cached.len() < PLAYLISTS_MAX => cached.insert(index, read),
            Err(_) => {}
        }
        Ok(playlist)
    }
}
