//! RTSP on a viewer's connection: requests and replies, and packets interleaved with them.

use std::{
    mem,
    net::{IpAddr, SocketAddr},
    os::fd::AsFd,
};

use rand::RngExt;
use rustix::{
    event::epoll::EventFlags,
    io::Errno,
    net::{SendFlags, getsockname, send},
};
use sojourn_measure::{Nanos, clock};
use sojourn_media::rtsp::{self, Message, Method, Parsed, Response, Status, Transport, write};

use crate::{
    http::cause::cause,
    playout::track::Playout,
    rtsp::client::{Next, Request},
    runtime::{connector::socket_error, read_rate::ReadRate, timestamps},
    viewers::{
        Run, plan,
        rtsp_session::{OUTPUT_BYTES_MAX, RtspSession, TrackReceiver},
        verdict::{Ending, Failure},
        viewer::{Behaviour, Phase},
        wakeups::EventSource,
    },
};

/// The mean time between receiver reports (RFC 3550, section 6.2).
pub(crate) const REPORTS_EVERY: Nanos = Nanos(5_000_000_000);
/// The longest time between keep-alives; a session timeout may require shorter ones.
const KEEP_ALIVE_SECONDS_MAX: f64 = 30.0;

impl Run {
    /// Handles the result of the TCP handshake.
    pub(crate) fn on_rtsp_connected(&mut self, key: usize, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        let Some(session) = viewer.rtsp_mut() else { return };
        if let Some(error) = socket_error(&session.socket) {
            return self.end(key, Ending::Failed(Failure::of(cause(error))), now);
        }
        session.local = local_address(&session.socket);
        let request = session.client.begin();
        viewer.phase = Phase::Preparing;
        self.send_rtsp(key, &request, now);
    }

    /// Reads messages, as much as one loop iteration or the read rate allows.
    pub(crate) fn read_messages(&mut self, key: usize, now: Nanos) {
        let Some(session) = self.table.viewers[key].rtsp_mut() else { return };
        let allowed = session.read_rate.as_ref().map_or(u64::MAX, |rate| rate.allowed(now));
        if allowed == 0 {
            return self.read_later_if_slow(key);
        }
        let most = self.sockets.buffer.len().min(usize::try_from(allowed).unwrap_or(usize::MAX));
        let buffer = &mut self.sockets.buffer[..most];
        match timestamps::receive(session.socket.as_fd(), buffer) {
            Ok((0, _)) => self.on_rtsp_closed(key, now),
            Ok((count, stamp)) => {
                if let Some(rate) = &mut session.read_rate {
                    rate.record(count as u64, now);
                }
                session.input.extend_from_slice(&buffer[..count]);
                let arrival = self.wakeups.arrivals.arrival(stamp);
                self.parse_messages(key, arrival);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.fail(key, Failure::Reset, now),
        }
    }

    fn parse_messages(&mut self, key: usize, arrival: Nanos) {
        let now = clock::now();
        let viewer = &mut self.table.viewers[key];
        let serial = viewer.serial;
        let Some(session) = viewer.rtsp_mut() else { return };
        let (mut input, mut parser) = (mem::take(&mut session.input), session.parser);
        let mut parsed = 0;
        loop {
            match parser.parse(&input[parsed..]) {
                Ok(Parsed::Complete(message, length)) => {
                    parsed += length;
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
        let viewer = self.table.viewers.get_mut(key).filter(|viewer| viewer.serial == serial);
        if let Some(session) = viewer.and_then(|viewer| viewer.rtsp_mut()) {
            input.drain(..parsed);
            (session.input, session.parser) = (input, parser);
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
        let is_preparing = viewer.phase == Phase::Preparing;
        let Some(session) = viewer.rtsp_mut() else { return };
        let next = session.client.on_reply(response);
        if is_preparing {
            session.note_transports();
        }
        self.handle_next(key, next, now);
    }

    fn handle_next(&mut self, key: usize, next: Next, now: Nanos) {
        let Some(session) = self.table.viewers[key].rtsp_mut() else { return };
        match next {
            Next::Wait => {}
            Next::Ask(request) => {
                if request.method == Method::Play {
                    session.play_requested = now;
                }
                self.send_rtsp(key, &request, now);
            }
            Next::Open(track) => match self.open_transport(key, track) {
                Ok(request) => self.send_rtsp(key, &request, now),
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

    /// Opens the transport of a track; returns its SETUP request.
    fn open_transport(&mut self, key: usize, track: usize) -> Result<Request, Failure> {
        let viewer = &mut self.table.viewers[key];
        let connection = viewer.connection_source(key);
        let session = viewer.rtsp_mut().ok_or(Failure::ConnectFailed)?;
        let description = &session.client.tracks()[track];
        let channel = (2 * track) as u8;
        let mut receiver = TrackReceiver {
            playout: Playout::new(description.track(), self.plan.quality.prebuffer),
            payload_type: description.payload_type,
            udp: None,
            channels: (channel, channel + 1),
            is_granted: false,
            server_ports: None,
            sender_report: None,
            is_over: false,
        };
        let mut transport = Transport::interleaved(receiver.channels);
        if self.plan.transport == plan::Transport::Udp {
            let local = session.local.ok_or(Failure::ConnectFailed)?;
            let pair = self.sockets.open_pair(local).map_err(|error| Failure::of(cause(error)))?;
            transport = Transport::udp((pair.port, pair.port + 1));
            receiver.udp = Some(pair);
        }
        session.tracks.push(receiver);
        if let Some(pair) = &session.tracks[track].udp {
            for (socket, slot) in [(&pair.media, 2 * track + 1), (&pair.reports, 2 * track + 2)] {
                let watched = self.wakeups.watch(socket, EventSource { slot, ..connection }, EventFlags::IN);
                watched.map_err(|_| Failure::Descriptors)?;
            }
        }
        Ok(session.client.set_up(track, &transport))
    }

    fn begin_playing(&mut self, key: usize, now: Nanos) {
        let phase: f64 = self.table.random.random();
        let viewer = &mut self.table.viewers[key];
        viewer.phase = Phase::Playing;
        self.measurements.playing(viewer, now);
        let is_slow = viewer.behaviour == Behaviour::Slow;
        let Some(session) = viewer.rtsp_mut() else { return };
        session.read_rate = is_slow.then(|| ReadRate::new(self.plan.slow_bytes_per_second));
        session.reports_due = now + Nanos((REPORTS_EVERY.0 as f64 * (0.5 + phase)) as u64);
        session.keep_alive_due = now + keep_alive_every(session);
    }

    pub(crate) fn send_keep_alive(&mut self, key: usize, now: Nanos) {
        let Some(session) = self.table.viewers[key].rtsp_mut() else { return };
        session.keep_alive_due = now + keep_alive_every(session);
        if let Some(request) = session.client.keep_alive() {
            self.send_rtsp(key, &request, now);
        }
    }

    /// Responds to a request of the server, such as a keep-alive.
    fn answer(&mut self, key: usize, request: &rtsp::Request<'_>, now: Nanos) {
        let status = match request.method {
            Method::Options | Method::GetParameter | Method::SetParameter => Status::Ok,
            _ => Status::NotImplemented,
        };
        let Some(session) = self.table.viewers[key].rtsp_mut() else { return };
        if session.output.len() < OUTPUT_BYTES_MAX {
            write::response(&mut session.output, status, request.sequence()).end();
            self.flush(key, now);
        }
    }

    pub(crate) fn send_rtsp(&mut self, key: usize, request: &Request, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        viewer.requested = now;
        let Some(session) = viewer.rtsp_mut() else { return };
        request.write(&mut session.output);
        self.flush(key, now);
    }

    /// Sends pending bytes, as far as the socket accepts them.
    pub(crate) fn flush(&mut self, key: usize, now: Nanos) {
        let Some(session) = self.table.viewers[key].rtsp_mut() else { return };
        match send(&session.socket, &session.output, SendFlags::NOSIGNAL) {
            Ok(sent) => drop(session.output.drain(..sent)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => {
                session.output.clear();
                return self.fail(key, Failure::Reset, now);
            }
        }
        self.watch(key);
    }

    /// The server closed the connection.
    fn on_rtsp_closed(&mut self, key: usize, now: Nanos) {
        let viewer = &self.table.viewers[key];
        let is_over = viewer.is_near_end(now) && viewer.last_packet.is_some();
        match viewer.phase {
            Phase::TearingDown { .. } => self.remove(key, true),
            _ if is_over => self.end(key, Ending::FilmOver, now),
            _ => self.fail(key, Failure::Closed, now),
        }
    }
}

fn keep_alive_every(session: &RtspSession) -> Nanos {
    let timeout_seconds = f64::from(session.client.timeout_seconds());
    Nanos::from_seconds((timeout_seconds / 2.0).min(KEEP_ALIVE_SECONDS_MAX))
}

fn local_address(socket: impl AsFd) -> Option<IpAddr> {
    let address: SocketAddr = getsockname(socket).ok()?.try_into().ok()?;
    Some(address.ip())
}
