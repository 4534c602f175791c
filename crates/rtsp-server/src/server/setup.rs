//! SETUP: chooses a transport, checks for room, and creates sessions.

use std::net::IpAddr;

use super::Server;
use super::requests::Answer;
use crate::admission::LimitReached;
use crate::authentication::random;
use crate::counters::Counter;
use crate::film_cache::OpenFilm;
use crate::stream::{Sender, Stream};
use sojourn_media::rtsp::{
    LowerTransport, Refusal, Request, Session, SessionId, Status, Target, Track, Transport,
};
use sojourn_media::sdp;

/// Sessions set up by one connection.
const SESSIONS_PER_CONNECTION_MAX: usize = 32;

/// How much of the User-Agent is kept for the log.
const AGENT_BYTES_MAX: usize = 200;

/// The least port of a client that datagrams are sent to: behind those below are services, which a player is none of
/// (RFC 6335, 6), and what is sent to them may be taken for requests.
const CLIENT_PORT_MIN: u16 = 1024;

impl Server<'_> {
    /// Sets up a track in a new or existing session.
    pub(super) fn set_up(
        &mut self,
        token: u64,
        request: &Request<'_>,
        target: &Target<'_>,
        known: Option<u64>,
        offered: &[Transport],
    ) -> Result<Option<Answer>, Refusal> {
        let open = match known {
            // RFC 2326, 9.2: a session has one film.
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
        self.forget_ports(stream);
        let served = self.streams.at(stream);
        let outcome = served.session.set_up(track).cloned();
        if is_new && outcome.is_ok() {
            served.senders.push(Sender::default());
            if served.session.has_played() {
                self.admission.grow(bits);
            }
        }
        self.remember_ports(stream);
        let fields =
            [("Transport", outcome?.to_string())].into_iter().chain(self.session_field(Some(stream)));
        Ok(Some(Answer::with(fields)))
    }

    /// The first of the `offered` transports that is possible.
    fn choose(&mut self, token: u64, offered: &[Transport]) -> Result<Transport, Refusal> {
        let connection = self.connections.at(token);
        let elsewhere = |transport: &Transport| {
            let destination = transport.destination.as_deref().filter(|it| !it.is_empty());
            destination
                .is_some_and(|it| it.parse::<IpAddr>().map(|it| it.to_canonical()) != Ok(connection.peer))
        };
        // Sending to an address that a client names would allow attacks on others (RFC 2326, 16).
        if offered.iter().any(elsewhere) {
            return Err(Status::Forbidden.into());
        }
        let is_possible = |transport: &&Transport| {
            let has_ports =
                transport.client_ports.is_some_and(|(rtp, rtcp)| rtp.min(rtcp) >= CLIENT_PORT_MIN);
            !transport.is_multicast
                && transport.plays
                && (transport.lower == LowerTransport::Tcp || has_ports)
        };
        let offer = offered.iter().find(is_possible).ok_or(Status::UnsupportedTransport)?;
        let mut transport = match (offer.lower, offer.client_ports) {
            (LowerTransport::Udp, Some(ports)) => Transport::udp(ports),
            _ => {
                let taken = self.channels(token);
                let is_free =
                    |(rtp, rtcp): &(u8, u8)| rtp != rtcp && !taken.contains(rtp) && !taken.contains(rtcp);
                let channels = offer.channels.filter(is_free);
                let free = || (0..=127).map(|pair| (2 * pair, 2 * pair + 1)).find(is_free);
                Transport::interleaved(channels.or_else(free).ok_or(Status::UnsupportedTransport)?)
            }
        };
        if transport.lower == LowerTransport::Udp {
            let ports = self.connections.at(token).ports;
            transport.server_ports = self.ports.get(ports).map(super::Ports::numbers);
        }
        Ok(transport)
    }

    /// The interleaved channels in use on a connection.
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

    /// Checks that one more track at this rate could be played now, possibly in a new session.
    fn check_room(&mut self, token: u64, known: Option<u64>, bits: u64) -> Result<(), Refusal> {
        let connection = self.connections.at(token);
        if known.is_none() && connection.sessions.len() >= SESSIONS_PER_CONNECTION_MAX {
            return Err(self.refuse_full(LimitReached::Sessions));
        }
        let room = match known.map(|known| self.streams.at(known)) {
            Some(stream) if stream.session.has_played() => self.admission.check_bandwidth(bits),
            Some(stream) => self.admission.check(stream.client, stream.bits_per_second() + bits),
            None => self.admission.check(connection.peer, bits),
        };
        room.map_err(|full| self.refuse_full(full))
    }

    /// The refusal of a session for lack of room.
    pub(super) fn refuse_full(&mut self, full: LimitReached) -> Refusal {
        let (counter, status) = match full {
            LimitReached::Sessions => (Counter::LimitSessions, Status::ServiceUnavailable),
            LimitReached::Address => (Counter::LimitSessionsPerAddress, Status::ServiceUnavailable),
            LimitReached::ReadDelay => (Counter::LimitReadDelay, Status::ServiceUnavailable),
            LimitReached::Bandwidth => (Counter::RefusedBandwidth, Status::NotEnoughBandwidth),
        };
        self.counts.count(counter);
        status.into()
    }

    /// A new session of the client of `token`.
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
        stream.user.clone_from(&connection.identity.user);
        let agent = request.fields.value("User-Agent").unwrap_or_default();
        stream.agent = agent.chars().take(AGENT_BYTES_MAX).collect();
        let session = self.streams.vacant();
        self.attach(token, session);
        self.unplayed.enter(stream.client, session);
        self.setups.push_back((self.now, session));
        self.streams.insert(stream);
        self.sessions.insert(id, session);
        self.counts.count(Counter::SessionsBegun);
        Ok(session)
    }
}

/// A track with random initial sequence number and timestamp (RFC 3550, 5.1).
fn track(number: usize, mut transport: Transport) -> Result<Track, Refusal> {
    let numbers = random()?;
    let source = (numbers >> 32) as u32;
    transport.source = Some(source);
    let timestamp_base = random()? as u32;
    // In the lower half, so that it does not wrap around soon, which some receivers mistake for loss.
    Ok(Track { number, transport, source, sequence: numbers as u16 >> 1, timestamp_base })
}
