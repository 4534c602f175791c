//! How viewers talk with the server: connections, requests and replies, and packets that come between them.

use std::{mem, net::SocketAddr, os::fd::AsFd};

use rand::RngExt;
use rustix::{
    event::epoll::EventFlags,
    io::Errno,
    net::{SendFlags, getsockname, send},
};
use sojourn_measure::{Nanos, clock};
use sojourn_media::rtsp::{Message, Method, Parsed, Request as Asked, Response, Status, Transport, write};

use crate::{
    http::cause::cause,
    playout::track::Playout,
    rtsp::dialogue::{Next, Request},
    runtime::{connector::socket_error, timestamps},
    viewers::{
        conformance::{Ending, Failure},
        plan,
        run::Run,
        start::failure,
        viewer::{OUTPUT_BYTES_MAX, Phase, TrackWay},
        wakeups::EventSource,
    },
};

/// The mean time between receiver reports (RFC 3550, section 6.2).
pub(crate) const REPORTS_EVERY: Nanos = Nanos(5_000_000_000);
/// The longest time between signs of life; a session's time-out may ask for more of them.
const SIGN_OF_LIFE_SECONDS_MAX: f64 = 30.0;

impl Run {
    /// Something happened on a viewer's connection.
    pub(crate) fn on_connection(&mut self, key: usize, serial: u32, flags: EventFlags) {
        if self.table.viewers[key].hls.is_some() {
            return self.on_http(key, serial, flags);
        }
        let now = clock::now();
        if self.table.viewers[key].phase == Phase::Connecting {
            if !flags.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP) {
                return;
            }
            if let Some(error) = socket_error(&self.table.viewers[key].socket) {
                return self.end(key, Ending::Failed(failure(cause(error))), now);
            }
            let viewer = &mut self.table.viewers[key];
            viewer.phase = Phase::Talking;
            viewer.local = local_address(&viewer.socket);
            let request = viewer.dialogue.begin();
            return self.ask(key, &request, now);
        }
        if flags.contains(EventFlags::OUT) {
            self.flush(key, now);
        }
        let is_readable = flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR);
        if is_readable && self.table.is_live(key, serial) {
            self.read_on(key, now);
        }
    }

    /// Reads what has come on a connection, as much as one turn or a slow line takes.
    pub(crate) fn read_on(&mut self, key: usize, now: Nanos) {
        if self.table.viewers[key].hls.is_some() {
            return self.read_http(key, now);
        }
        let Some(most) = self.allowance(key, now) else { return };
        let viewer = &mut self.table.viewers[key];
        let buffer = &mut self.sockets.buffer[..most];
        match timestamps::receive(viewer.socket.as_fd(), buffer) {
            Ok((0, _)) => self.on_closed(key, now),
            Ok((count, stamp)) => {
                if let Some(reader) = &mut viewer.reader {
                    reader.took(count as u64, now);
                }
                viewer.input.extend_from_slice(&buffer[..count]);
                let arrival = self.wakeups.arrivals.arrival(stamp);
                self.take_apart(key, arrival);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.fail(key, Failure::Reset, now),
        }
    }

    /// How much of a connection may be read now; if nothing, it is read later.
    pub(crate) fn allowance(&mut self, key: usize, now: Nanos) -> Option<usize> {
        let viewer = &mut self.table.viewers[key];
        if viewer.phase == Phase::Gone {
            return None;
        }
        let most = self.sockets.buffer.len();
        let Some(reader) = viewer.reader.as_mut().filter(|_| viewer.playing_since.is_some()) else {
            return Some(most);
        };
        reader.waiting = false;
        let most = most.min(reader.allowed(now) as usize);
        if most == 0 {
            self.read_later(key);
            return None;
        }
        Some(most)
    }

    /// Leaves a slow viewer's connection alone for now, once it plays.
    pub(crate) fn read_later_if_slow(&mut self, key: usize) {
        let viewer = &self.table.viewers[key];
        if viewer.reader.is_some() && viewer.playing_since.is_some() {
            self.read_later(key);
        }
    }

    /// Leaves a slow viewer's connection alone until its line is free again.
    fn read_later(&mut self, key: usize) {
        let viewer = &mut self.table.viewers[key];
        let Some(reader) = &mut viewer.reader else { return };
        if !mem::replace(&mut reader.waiting, true) {
            self.wakeups.slow_reads.set(reader.free_at(), key, viewer.serial);
        }
        self.listen(key);
    }

    fn take_apart(&mut self, key: usize, arrival: Nanos) {
        let now = clock::now();
        let viewer = &mut self.table.viewers[key];
        let serial = viewer.serial;
        let (input, mut parser) = (mem::take(&mut viewer.input), viewer.parser);
        let mut taken = 0;
        loop {
            match parser.parse(&input[taken..]) {
                Ok(Parsed::Complete(message, length)) => {
                    taken += length;
                    self.on_message(key, &message, arrival, now);
                }
                Ok(Parsed::Partial) => break,
                Err(error) => {
                    self.measurements.complain(error.to_string());
                    self.fail(key, Failure::BadReply, now);
                    break;
                }
            }
            if !self.table.is_live(key, serial) {
                return;
            }
        }
        if let Some(viewer) = self.table.viewers.get_mut(key).filter(|viewer| viewer.serial == serial) {
            (viewer.input, viewer.parser) = (input, parser);
            viewer.input.drain(..taken);
            self.read_later_if_slow(key);
        }
    }

    fn on_message(&mut self, key: usize, message: &Message<'_>, arrival: Nanos, now: Nanos) {
        match message {
            Message::Response(response) => self.on_reply(key, response, now),
            Message::Interleaved(packet) => self.take_interleaved(key, packet, arrival, now),
            Message::Request(request) => self.answer(key, request, now),
        }
    }

    fn on_reply(&mut self, key: usize, response: &Response<'_>, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        let next = viewer.dialogue.on_reply(response);
        if viewer.phase == Phase::Talking {
            viewer.learn_ways();
        }
        self.follow(key, next, now);
    }

    fn follow(&mut self, key: usize, next: Next, now: Nanos) {
        match next {
            Next::Wait => {}
            Next::Ask(request) => {
                if request.method == Method::Play {
                    self.table.viewers[key].play_asked = now;
                }
                self.ask(key, &request, now);
            }
            Next::Open(track) => match self.open_way(key, track) {
                Ok(transport) => {
                    let request = self.table.viewers[key].dialogue.set_up(track, &transport);
                    self.ask(key, &request, now);
                }
                Err(failure) => self.end(key, Ending::Failed(failure), now),
            },
            Next::Playing => self.begin_playing(key, now),
            Next::Over => self.remove(key, false),
            Next::Refused(status) => self.end(key, Ending::Refused(status), now),
            Next::Broken(why) => {
                self.measurements.complain(why.to_owned());
                self.fail(key, Failure::BadReply, now);
            }
        }
    }

    /// Opens what a track's packets come by.
    fn open_way(&mut self, key: usize, track: usize) -> Result<Transport, Failure> {
        let viewer = &mut self.table.viewers[key];
        let description = &viewer.dialogue.tracks()[track];
        let channel = (2 * track) as u8;
        let mut way = TrackWay {
            playout: Playout::new(description.track(), self.plan.quality.prebuffer),
            payload_type: description.payload_type,
            udp: None,
            channels: (channel, channel + 1),
            is_granted: false,
            server_ports: None,
            sender_report: None,
            is_over: false,
        };
        let mut transport = Transport::interleaved(way.channels);
        if self.plan.transport == plan::Transport::Udp {
            let local = viewer.local.ok_or(Failure::ConnectFailed)?;
            let pair = self.sockets.open_pair(local).map_err(|error| failure(cause(error)))?;
            transport = Transport::udp((pair.port, pair.port + 1));
            way.udp = Some(pair);
        }
        viewer.tracks.push(way);
        if let Some(pair) = &viewer.tracks[track].udp {
            for (socket, slot) in [(&pair.media, 2 * track + 1), (&pair.reports, 2 * track + 2)] {
                let source = EventSource { slot, ..viewer.connection_source(key) };
                let watched = self.wakeups.watch(socket, source, EventFlags::IN);
                watched.map_err(|_| Failure::Descriptors)?;
            }
        }
        Ok(transport)
    }

    fn begin_playing(&mut self, key: usize, now: Nanos) {
        let phase: f64 = self.table.random.random();
        let viewer = &mut self.table.viewers[key];
        viewer.phase = Phase::Playing;
        self.measurements.playing(viewer, now);
        viewer.reports_due = now + Nanos((REPORTS_EVERY.0 as f64 * (0.5 + phase)) as u64);
        viewer.sign_of_life_due = now + sign_of_life_every(viewer.dialogue.timeout_seconds());
    }

    /// Sends a keep-alive.
    pub(crate) fn say_alive(&mut self, key: usize, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        viewer.sign_of_life_due = now + sign_of_life_every(viewer.dialogue.timeout_seconds());
        if let Some(request) = viewer.dialogue.keep_alive() {
            self.ask(key, &request, now);
        }
    }

    /// Answers a request of the server, such as a keep-alive.
    fn answer(&mut self, key: usize, request: &Asked<'_>, now: Nanos) {
        let status = match request.method {
            Method::Options | Method::GetParameter | Method::SetParameter => Status::Ok,
            _ => Status::NotImplemented,
        };
        if self.table.viewers[key].output.len() < OUTPUT_BYTES_MAX {
            write::response(&mut self.table.viewers[key].output, status, request.sequence()).end();
            self.flush(key, now);
        }
    }

    pub(crate) fn ask(&mut self, key: usize, request: &Request, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        viewer.asked = now;
        request.write(&mut viewer.output);
        self.flush(key, now);
    }

    /// Sends what is to be sent, as far as the kernel takes it.
    pub(crate) fn flush(&mut self, key: usize, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        let mut sent = 0;
        while sent < viewer.output.len() {
            match send(&viewer.socket, &viewer.output[sent..], SendFlags::NOSIGNAL) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) if viewer.hls.is_some() => return self.on_http_closed(key, Failure::Reset, now),
                Err(_) => {
                    viewer.output.clear();
                    return self.fail(key, Failure::Reset, now);
                }
            }
        }
        viewer.output.drain(..sent);
        self.listen(key);
    }

    /// Asks the kernel for what matters now: room where something is to be sent, bytes unless they are left alone.
    fn listen(&mut self, key: usize) {
        let viewer = &self.table.viewers[key];
        let mut flags = EventFlags::empty();
        if !viewer.output.is_empty() {
            flags |= EventFlags::OUT;
        }
        if !viewer.reader.as_ref().is_some_and(|reader| reader.waiting) {
            flags |= EventFlags::IN;
        }
        self.wakeups.watch_for(&viewer.socket, viewer.connection_source(key), flags);
    }

    /// The server closed the connection.
    fn on_closed(&mut self, key: usize, now: Nanos) {
        let viewer = &self.table.viewers[key];
        let is_over = viewer.is_near_end(now) && viewer.last_packet.is_some();
        match viewer.phase {
            Phase::Leaving => self.remove(key, true),
            _ if is_over => self.end(key, Ending::FilmOver, now),
            _ => self.fail(key, Failure::Closed, now),
        }
    }
}

fn sign_of_life_every(timeout_seconds: u32) -> Nanos {
    Nanos::from_seconds((f64::from(timeout_seconds) / 2.0).min(SIGN_OF_LIFE_SECONDS_MAX))
}

fn local_address(socket: impl AsFd) -> Option<std::net::IpAddr> {
    let address: SocketAddr = getsockname(socket).ok()?.try_into().ok()?;
    Some(address.ip())
}
