//! Following requests: what is asked becomes films, sessions and answers.

use std::cmp::Reverse;
use std::net::IpAddr;

use rustix::rand::{GetRandomFlags, getrandom};
use sojourn_http::SitePath;

use super::connection::{Reading, Waiting};
use super::counters::Counter;
use super::library::{NoFilm, OpenFilm};
use super::log::Ending;
use super::stream::{Sender, Stream};
use super::{Connection, Server};
use crate::rtsp::{
    Ask, Interleaved, Lower, Message, Method, NptRange, Parsed, Refusal, Request, Session, SessionId, Start,
    Status, Target, Track, TrackInfo, Transport, write,
};
use crate::sdp;

/// Sessions set up by one connection.
const SESSIONS_PER_CONNECTION_MAX: usize = 32;

/// The name of an agent that is kept for the log.
const AGENT_BYTES_MAX: usize = 200;

/// What a request is answered, beside its status.
#[derive(Default)]
struct Answer {
    fields: Vec<(&'static str, String)>,
    body: Option<String>,
}

impl Answer {
    fn with(fields: impl IntoIterator<Item = (&'static str, String)>) -> Answer {
        Answer { fields: fields.into_iter().collect(), body: None }
    }
}

impl Server<'_> {
    /// Reads what a connection sends, follows it, and sends what is to be said.
    pub(super) fn serve(&mut self, token: u64) {
        loop {
            let Some(connection) = self.connections.find(token) else { return };
            let was_empty = connection.received.is_empty();
            if connection.read() == Reading::Broken {
                return self.close(token);
            }
            if was_empty && !connection.received.is_empty() {
                connection.since = self.now;
            }
            let understood = self.understand(token);
            let Some(connection) = self.connections.find(token) else { return };
            match connection.write(self.now) {
                Err(_) => return self.close(token),
                Ok(sent) => self.counts.add(Counter::SentBytes, sent as u64),
            }
            let is_over =
                connection.is_closing || connection.has_ended && !matches!(connection.film, Waiting::Yes);
            if is_over && (connection.waiting_bytes() == 0 || connection.has_ended) {
                return self.close(token);
            }
            if !connection.is_readable() || understood == 0 {
                return;
            }
        }
    }

    /// Follows the messages that are there, up to one that has to wait; returns their bytes.
    fn understand(&mut self, token: u64) -> usize {
        let Some(connection) = self.connections.find(token) else { return 0 };
        if connection.is_closing {
            connection.received.clear();
            return 0;
        }
        let received = std::mem::take(&mut connection.received);
        let mut parser = std::mem::take(&mut connection.parser);
        let mut start = 0;
        while start < received.len() {
            match parser.parse(&received[start..]) {
                Ok(Parsed::Partial) => break,
                Ok(Parsed::Complete(message, length)) => {
                    match message {
                        Message::Request(request) if !self.request(token, &request) => break,
                        Message::Interleaved(data) => self.interleaved(token, &data),
                        // A server asks nothing, so it is answered nothing.
                        Message::Request(_) | Message::Response(_) => {}
                    }
                    start += length;
                }
                Err(error) => {
                    self.answer(token, None, Err(error.status().into()));
                    if let Some(connection) = self.connections.find(token) {
                        connection.is_closing = true;
                    }
                    start = received.len();
                }
            }
        }
        if let Some(connection) = self.connections.find(token) {
            connection.parser = parser;
            connection.received = received;
            connection.received.drain(..start);
            if start > 0 {
                connection.since = self.now;
            }
        }
        start
    }

    /// Follows a request; returns whether it is answered, or has to wait for a film.
    fn request(&mut self, token: u64, request: &Request<'_>) -> bool {
        let outcome = self.follow(token, request);
        if matches!(outcome, Ok(None)) {
            return false;
        }
        self.counts.count(Counter::Requests);
        self.answer(token, request.sequence(), outcome.map(Option::unwrap_or_default));
        let closes = request.fields.value("Connection").is_some_and(|it| it.eq_ignore_ascii_case("close"));
        if let Some(connection) = self.connections.find(token).filter(|_| closes) {
            connection.is_closing = true;
        }
        true
    }

    fn answer(&mut self, token: u64, sequence: Option<u32>, outcome: Result<Answer, Refusal>) {
        let Some(connection) = self.connections.find(token) else { return };
        let (status, answer) = match outcome {
            Ok(answer) => (Status::Ok, answer),
            Err(Refusal { status, field }) => {
                self.counts.count(Counter::Refusals);
                (status, Answer::with(field))
            }
        };
        let mut writer = write::response(connection.outgoing(), status, sequence);
        for (name, value) in &answer.fields {
            writer = writer.field(name, value);
        }
        match answer.body {
            None => writer.end(),
            Some(body) => writer.body(body.as_bytes()),
        }
    }

    /// What is asked, done; `None` if it has to wait for a film.
    fn follow(&mut self, token: u64, request: &Request<'_>) -> Result<Option<Answer>, Refusal> {
        let ask = Ask::of(request)?;
        let target = Target::parse(request.target)?;
        let session = self.session(token, request.session()?)?;
        match ask {
            Ask::Options => Ok(Some(Answer::with([("Public", Method::PUBLIC.to_owned())]))),
            Ask::Parameter => Ok(Some(Answer::with(self.session_field(session)))),
            Ask::Describe => self.describe(token, &target),
            Ask::Setup(offered) => self.set_up(token, request, &target, session, &offered),
            Ask::Play { range, scale } => {
                let stream = session.ok_or(Status::SessionNotFound)?;
                self.play(stream, &target, range, scale).map(Some)
            }
            Ask::Pause => {
                let stream = session.ok_or(Status::SessionNotFound)?;
                self.pause(stream, &target).map(Some)
            }
            Ask::Teardown => {
                let stream = session.ok_or(Status::SessionNotFound)?;
                self.tear_down(stream, &target).map(Some)
            }
        }
    }

    /// The session with this name, if it is this client's; it has given a sign of life.
    fn session(&mut self, token: u64, id: Option<SessionId>) -> Result<Option<u64>, Refusal> {
        let Some(id) = id else { return Ok(None) };
        let peer = self.connections.at(token).peer;
        let found = self.sessions.get(&id).copied().ok_or(Status::SessionNotFound)?;
        let stream = self.streams.at(found);
        let may_control = stream.client == peer && (stream.connection == token || !stream.is_interleaved());
        if !may_control {
            return Err(Status::SessionNotFound.into());
        }
        stream.session.hear(self.now);
        if stream.connection != token {
            // Another connection of the same client takes over.
            let before = std::mem::replace(&mut stream.connection, token);
            stream.is_orphan = false;
            self.detach(before, found);
            self.attach(token, found);
        }
        Ok(Some(found))
    }

    fn session_field(&mut self, stream: Option<u64>) -> Option<(&'static str, String)> {
        let id = self.streams.find(stream?)?.session.id;
        Some(("Session", format!("{id};timeout={}", self.site.settings.session_timeout.as_secs())))
    }

    /// The film that `target` names; `None` if it has yet to be opened.
    fn film(&mut self, token: u64, target: &Target<'_>) -> Result<Option<OpenFilm>, Refusal> {
        let connection = self.connections.at(token);
        let film = match std::mem::take(&mut connection.film) {
            Waiting::Over(film) => film,
            Waiting::Yes => {
                connection.film = Waiting::Yes;
                return Ok(None);
            }
            Waiting::No => {
                let path = SitePath::decode(target.path.as_bytes()).map_err(|_| Status::BadRequest)?;
                match self.library.film(&path, token, self.now) {
                    Some(film) => film,
                    None => {
                        self.connections.at(token).film = Waiting::Yes;
                        return Ok(None);
                    }
                }
            }
        };
        film.map(Some).map_err(|error| {
            Refusal::from(match error {
                NoFilm::NotFound => Status::NotFound,
                NoFilm::Forbidden => Status::Forbidden,
                NoFilm::Unsupported => Status::UnsupportedMediaType,
                NoFilm::Busy => Status::ServiceUnavailable,
                NoFilm::Failed => Status::InternalServerError,
            })
        })
    }

    fn describe(&mut self, token: u64, target: &Target<'_>) -> Result<Option<Answer>, Refusal> {
        let Some(OpenFilm { film, document }) = self.film(token, target)? else { return Ok(None) };
        let path = String::from_utf8_lossy(&document.file_path).into_owned();
        let title = path.rsplit('/').next().unwrap_or_default();
        let version = u64::try_from(document.identity.modified_seconds()).unwrap_or(0);
        let address = self.connections.at(token).local;
        let text = sdp::describe(film.index(), &sdp::Session { title, version, address });
        let fields =
            [("Content-Base", format!("{}/", target.url)), ("Content-Type", sdp::MEDIA_TYPE.to_owned())];
        Ok(Some(Answer { body: Some(text), ..Answer::with(fields) }))
    }

    fn set_up(
        &mut self,
        token: u64,
        request: &Request<'_>,
        target: &Target<'_>,
        known: Option<u64>,
        offered: &[Transport],
    ) -> Result<Option<Answer>, Refusal> {
        let open = match known {
            // RFC 2326, 9.2: a session is about one film.
            Some(stream) if self.streams.at(stream).url != target.url => {
                return Err(Status::AggregateNotAllowed.into());
            }
            Some(stream) => {
                let stream = self.streams.at(stream);
                OpenFilm { film: stream.film.clone(), document: stream.document.clone() }
            }
            None => match self.film(token, target)? {
                Some(open) => open,
                None => return Ok(None),
            },
        };
        let number = match target.track {
            Some(name) => sdp::controlled(open.film.index(), name).ok_or(Status::NotFound)?,
            None if open.film.index().tracks().len() == 1 => 0,
            None => return Err(Status::AggregateNotAllowed.into()),
        };
        let transport = self.choose(token, offered)?;
        let bits = open.film.bits_per_second(number);
        let is_new = known.is_none_or(|stream| self.streams.at(stream).position(number).is_none());
        if is_new {
            self.check_room(token, known, bits)?;
        }
        let track = track(number, transport)?;
        let stream = match known {
            Some(stream) => stream,
            None => self.begin(token, request, target, open)?,
        };
        let transport = track.transport.clone();
        self.forget_ports(stream);
        let outcome = self.streams.at(stream).session.set_up(track);
        if is_new && outcome.is_ok() {
            self.reserved += bits;
            let served = self.streams.at(stream);
            served.bits_per_second += bits;
            served.senders.push(Sender::default());
        }
        self.remember_ports(stream);
        outcome?;
        let fields =
            [("Transport", transport.to_string())].into_iter().chain(self.session_field(Some(stream)));
        Ok(Some(Answer::with(fields)))
    }

    /// The first of the ways that are `offered` which can be gone.
    fn choose(&mut self, token: u64, offered: &[Transport]) -> Result<Transport, Refusal> {
        let connection = self.connections.at(token);
        let elsewhere = |transport: &Transport| {
            let destination = transport.destination.as_deref().filter(|it| !it.is_empty());
            destination
                .is_some_and(|it| it.parse::<IpAddr>().map(|it| it.to_canonical()) != Ok(connection.peer))
        };
        // Sending to whom a client names would make the server a weapon (RFC 2326, 16).
        if offered.iter().any(elsewhere) {
            return Err(Status::Forbidden.into());
        }
        let is_possible = |transport: &&Transport| {
            let has_ports = transport.client_ports.is_some_and(|(rtp, rtcp)| rtp > 0 && rtcp > 0);
            !transport.is_multicast && transport.plays && (transport.lower == Lower::Tcp || has_ports)
        };
        let offer = offered.iter().find(is_possible).ok_or(Status::UnsupportedTransport)?;
        let mut transport = match (offer.lower, offer.client_ports) {
            (Lower::Udp, Some(ports)) => Transport::udp(ports),
            _ => {
                let taken = self.channels(token);
                let is_free =
                    |(rtp, rtcp): &(u8, u8)| rtp != rtcp && !taken.contains(rtp) && !taken.contains(rtcp);
                let channels = offer.channels.filter(is_free);
                let free = || (0..=127).map(|pair| (2 * pair, 2 * pair + 1)).find(is_free);
                Transport::interleaved(channels.or_else(free).ok_or(Status::UnsupportedTransport)?)
            }
        };
        if transport.lower == Lower::Udp {
            let ports = self.connections.at(token).ports;
            transport.server_ports = self.ports.get(ports).map(super::Ports::numbers);
        }
        Ok(transport)
    }

    /// The channels of a connection that are in use.
    fn channels(&mut self, token: u64) -> Vec<u8> {
        let mut taken = Vec::new();
        for session in self.connections.at(token).sessions.clone() {
            if let Some(stream) = self.streams.find(session) {
                let channels = stream.session.tracks.iter().filter_map(|track| track.transport.channels);
                taken.extend(channels.flat_map(|(rtp, rtcp)| [rtp, rtcp]));
            }
        }
        taken
    }

    /// Whether one more track of so many bits per second can be promised, perhaps for a new session.
    fn check_room(&mut self, token: u64, known: Option<u64>, bits: u64) -> Result<(), Refusal> {
        if known.is_none() {
            let here = self.connections.at(token).sessions.len();
            if self.streams.len() >= self.site.settings.sessions_max || here >= SESSIONS_PER_CONNECTION_MAX {
                self.counts.count(Counter::LimitSessions);
                return Err(Status::ServiceUnavailable.into());
            }
        }
        let bandwidth = self.site.settings.bandwidth_bits_per_second;
        if bandwidth.is_some_and(|bandwidth| self.reserved + bits > bandwidth) {
            self.counts.count(Counter::RefusedBandwidth);
            return Err(Status::NotEnoughBandwidth.into());
        }
        Ok(())
    }

    /// A new session of the client behind `token`.
    fn begin(
        &mut self,
        token: u64,
        request: &Request<'_>,
        target: &Target<'_>,
        open: OpenFilm,
    ) -> Result<u64, Refusal> {
        let id = SessionId(random()?);
        let connection = self.connections.at(token);
        let mut stream = Stream::new(Session::new(id, self.now), open, target.url.to_owned(), token);
        stream.client = connection.peer;
        stream.peer = self.ports[connection.ports].reachable(connection.peer);
        stream.ports = connection.ports;
        let agent = request.fields.value("User-Agent").unwrap_or_default();
        stream.agent = agent.chars().take(AGENT_BYTES_MAX).collect();
        let session = self.streams.vacant();
        self.attach(token, session);
        self.streams.insert(stream);
        self.sessions.insert(id, session);
        self.counts.count(Counter::SessionsBegun);
        Ok(session)
    }

    fn play(
        &mut self,
        token: u64,
        target: &Target<'_>,
        range: Option<NptRange>,
        scale: Option<f64>,
    ) -> Result<Answer, Refusal> {
        let stream = self.streams.at(token);
        let track = stream.named(target)?;
        let film = stream.film.clone();
        let begin = |time| film.beginning(time);
        let playing = stream.session.play(track, (range, scale), film.length(), begin, self.now)?;
        let first_due = stream.start(playing, self.now);
        if let Some(due) = first_due {
            self.due.push(Reverse((due, token, stream.serial)));
        }
        let infos = stream.session.tracks.iter().zip(&stream.senders).map(|(track, sender)| {
            let name = film.track(track.number).map(sdp::control).unwrap_or_default();
            let url = format!("{}/{name}", stream.url);
            let (sequence, timestamp) = (Some(track.sequence), Some(sender.anchor));
            TrackInfo { url: &url, sequence, timestamp }.to_string()
        });
        let infos = infos.collect::<Vec<_>>().join(",");
        let mut fields = vec![("Range", playing.range().to_string()), ("RTP-Info", infos)];
        if scale.is_some() {
            fields.push(("Scale", format!("{:?}", playing.scale)));
        }
        fields.extend(self.session_field(Some(token)));
        Ok(Answer::with(fields))
    }

    fn pause(&mut self, token: u64, target: &Target<'_>) -> Result<Answer, Refusal> {
        let stream = self.streams.at(token);
        let track = stream.named(target)?;
        let position = stream.session.playing().map(|playing| playing.position(self.now));
        stream.session.pause(track, self.now)?;
        stream.halt();
        let range = position.map(|at| ("Range", NptRange { start: Start::At(at), end: None }.to_string()));
        Ok(Answer::with(range.into_iter().chain(self.session_field(Some(token)))))
    }

    fn tear_down(&mut self, token: u64, target: &Target<'_>) -> Result<Answer, Refusal> {
        let stream = self.streams.at(token);
        let track = stream.named(target)?.filter(|_| stream.session.tracks.len() > 1);
        let Some(number) = track else {
            self.end(token, Ending::Teardown);
            return Ok(Answer::default());
        };
        let position = stream.position(number).ok_or(Status::NotFound)?;
        self.forget_ports(token);
        let stream = self.streams.at(token);
        stream.session.tear_down(Some(number))?;
        stream.senders.remove(position);
        stream.schedule = stream.schedule.take().map(|schedule| schedule.without(number));
        self.remember_ports(token);
        Ok(Answer::with(self.session_field(Some(token))))
    }

    /// A packet from the client within the connection: a report, or a sign of life.
    fn interleaved(&mut self, token: u64, data: &Interleaved<'_>) {
        let Connection { sessions, .. } = self.connections.at(token);
        for session in sessions.clone() {
            let Some(stream) = self.streams.find(session) else { continue };
            let channels = stream.session.tracks.iter().filter_map(|track| track.transport.channels);
            if channels.into_iter().any(|(rtp, rtcp)| data.channel == rtp || data.channel == rtcp) {
                stream.session.hear(self.now);
                self.hear_report(session, data.payload);
            }
        }
    }
}

impl Stream {
    /// The place in the film of the track that `target` names, which must be of this film.
    fn named(&self, target: &Target<'_>) -> Result<Option<usize>, Refusal> {
        match target.track {
            None => Ok(None),
            Some(name) => {
                let number = sdp::controlled(self.film.index(), name).ok_or(Status::NotFound)?;
                Ok(Some(number))
            }
        }
    }
}

/// A track whose packets begin with numbers that nobody can guess (RFC 3550, 5.1).
fn track(number: usize, mut transport: Transport) -> Result<Track, Refusal> {
    let numbers = random()?;
    let source = (numbers >> 32) as u32;
    transport.source = Some(source);
    let timestamp_base = random()? as u32;
    // The first half, so that it does not begin anew soon: some receivers take that for a loss.
    Ok(Track { number, transport, source, sequence: numbers as u16 >> 1, timestamp_base })
}

fn random() -> Result<u64, Refusal> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(|_| Status::InternalServerError)?;
    Ok(u64::from_ne_bytes(bytes))
}
