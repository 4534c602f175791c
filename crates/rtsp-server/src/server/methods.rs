//! Handles the RTSP methods: requests lead to films, sessions and responses.

use std::cmp::Reverse;
use std::time::Duration;

use sojourn_http::SitePath;

use super::requests::Answer;
use super::{Connection, Server};
use crate::access_log::Ending;
use crate::control_connection::Waiting;
use crate::film_cache::{FilmError, OpenFilm};
use crate::stream::Stream;
use sojourn_media::rtsp::{
    Command, Interleaved, Method, NptRange, Refusal, Request, SessionId, Start, Status, Target, TrackInfo,
};
use sojourn_media::sdp;

/// The minimum time between two starts of playing in a session, which limits seeking.
const SEEK_PERIOD: Duration = Duration::from_millis(100);

impl Server<'_> {
    /// Performs the request; `None` if it must wait for a film.
    pub(super) fn perform(&mut self, token: u64, request: &Request<'_>) -> Result<Option<Answer>, Refusal> {
        let ask = Command::parse(request)?;
        let target = Target::parse(request.target)?;
        let session = self.session(token, request.session()?)?;
        match ask {
            Command::Options => Ok(Some(Answer::with([("Public", Method::PUBLIC.to_owned())]))),
            Command::KeepAlive => Ok(Some(Answer::with(self.session_field(session)))),
            Command::Describe => self.describe(token, &target),
            Command::Setup(offered) => self.set_up(token, request, &target, session, &offered),
            Command::Play { range, scale } => {
                let stream = session.ok_or(Status::SessionNotFound)?;
                self.play(stream, &target, range, scale).map(Some)
            }
            Command::Pause => {
                let stream = session.ok_or(Status::SessionNotFound)?;
                self.pause(stream, &target).map(Some)
            }
            Command::Teardown => {
                let stream = session.ok_or(Status::SessionNotFound)?;
                self.tear_down(stream, &target).map(Some)
            }
        }
    }

    /// The session with this ID, if it belongs to this client; marks it as alive.
    fn session(&mut self, token: u64, id: Option<SessionId>) -> Result<Option<u64>, Refusal> {
        let Some(id) = id else { return Ok(None) };
        let connection = self.connections.at(token);
        let (peer, user) = (connection.peer, connection.identity.user.clone());
        let found = self.sessions.get(&id).copied().ok_or(Status::SessionNotFound)?;
        let stream = self.streams.at(found);
        let may_control = stream.client == peer
            && stream.user == user
            && (stream.connection == token || !stream.is_interleaved());
        if !may_control {
            return Err(Status::SessionNotFound.into());
        }
        stream.session.keep_alive(self.now);
        if stream.connection != token {
            // Another connection of the same client takes over.
            let before = std::mem::replace(&mut stream.connection, token);
            stream.is_orphan = false;
            self.detach(before, found);
            self.attach(token, found);
        }
        Ok(Some(found))
    }

    pub(super) fn session_field(&mut self, stream: Option<u64>) -> Option<(&'static str, String)> {
        let id = self.streams.find(stream?)?.session.id;
        Some(("Session", format!("{id};timeout={}", self.site.settings.session_timeout.as_secs())))
    }

    /// The film that `target` names; `None` if it is not open yet.
    pub(super) fn film(&mut self, token: u64, target: &Target<'_>) -> Result<Option<OpenFilm>, Refusal> {
        let connection = self.connections.at(token);
        let film = match std::mem::take(&mut connection.film) {
            Waiting::Over(film) => film,
            Waiting::Yes => {
                connection.film = Waiting::Yes;
                return Ok(None);
            }
            Waiting::Expired => {
                // Stays expired, so that this connection is closed after the answer.
                connection.film = Waiting::Expired;
                return Err(Status::ServiceUnavailable.into());
            }
            Waiting::No => {
                self.admission.check_disk().map_err(|full| self.refuse_full(full))?;
                let path = SitePath::decode(target.path.as_bytes()).map_err(|_| Status::BadRequest)?;
                match self.film_cache.film(&path, token, self.now) {
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
                FilmError::NotFound => Status::NotFound,
                FilmError::Forbidden => Status::Forbidden,
                FilmError::Unsupported => Status::UnsupportedMediaType,
                FilmError::Busy => Status::ServiceUnavailable,
                FilmError::Failed => Status::InternalServerError,
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

    fn play(
        &mut self,
        token: u64,
        target: &Target<'_>,
        range: Option<NptRange>,
        scale: Option<f64>,
    ) -> Result<Answer, Refusal> {
        let stream = self.streams.at(token);
        let track = stream.named(target)?;
        if range.is_none() && scale.is_none() && stream.session.playing().is_some() {
            // RFC 2326, 10.5: nothing changes; the client only tests whether the server lives.
            stream.session.check_aggregate(track)?;
            return Ok(Answer::with(self.session_field(Some(token))));
        }
        let film = stream.film.clone();
        let mut timeline = film.timeline();
        // Sound is sent at normal speed only.
        let is_video = |number| film.track(number).is_some_and(|track| track.codec().is_video());
        timeline.supports_scale &= stream.session.tracks.iter().any(|track| is_video(track.number));
        let (client, bits, is_first) =
            (stream.client, stream.bits_per_second(), !stream.session.has_played());
        if is_first && let Err(full) = self.admission.check(client, bits) {
            return Err(self.refuse_full(full));
        }
        let stream = self.streams.at(token);
        let begin = |time| film.beginning(time);
        // Each start sends a keyframe; many in a row would exceed the reserved bandwidth.
        let begins = self.now.max(stream.began + SEEK_PERIOD);
        let playing = stream.session.play(track, (range, scale), timeline, begin, begins)?;
        if is_first {
            self.unplayed.release(token);
            self.admission.enter(client, bits);
        }
        let first_due = stream.start(playing);
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
        let track = match stream.named(target)? {
            Some(number) => Some((number, stream.position(number).ok_or(Status::NotFound)?)),
            None => None,
        };
        let Some((number, position)) = track.filter(|_| stream.session.tracks.len() > 1) else {
            self.end(token, Ending::Teardown);
            return Ok(Answer::default());
        };
        self.forget_ports(token);
        let stream = self.streams.at(token);
        stream.session.tear_down(Some(number))?;
        if stream.session.has_played() {
            self.admission.shrink(stream.film.bits_per_second(number));
        }
        stream.senders.remove(position);
        stream.schedule = stream.schedule.take().map(|schedule| schedule.without(number));
        self.remember_ports(token);
        Ok(Answer::with(self.session_field(Some(token))))
    }

    /// Handles an interleaved packet from the client: a report, or a sign of life.
    pub(super) fn interleaved(&mut self, token: u64, data: &Interleaved<'_>) {
        let Connection { sessions, .. } = self.connections.at(token);
        for session in sessions.clone() {
            let Some(stream) = self.streams.find(session) else { continue };
            let channels = stream.session.tracks.iter().filter_map(|track| track.transport.channels);
            if channels.into_iter().any(|(rtp, rtcp)| data.channel == rtp || data.channel == rtcp) {
                stream.session.keep_alive(self.now);
                self.handle_report(session, data.payload);
            }
        }
    }
}

impl Stream {
    /// The index of the track that `target` names, which must be of this film.
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
