//! The client side of an RTSP 1.0 session (RFC 2326), without sockets and clock.
//!
//! OPTIONS, DESCRIBE, SETUP per track, PLAY; then keep-alives; TEARDOWN. The caller sends the request of [`Next::Ask`],
//! opens a track's transport for [`Next::Open`], and passes every reply to [`RtspClient::on_reply`].

use std::time::Duration;

use sojourn_media::rtsp::{Method, NptRange, Response, Start, Transport, write};

use crate::{
    playout::{START_WITHIN, USER_AGENT},
    rtsp::{
        authentication::{Challenge, Credentials},
        description::{Description, TrackDescription, is_name, joined},
    },
};

/// The session timeout if the server gives none (RFC 2326, section 12.37).
const SESSION_TIMEOUT_SECONDS: u32 = 60;
const SESSION_TIMEOUT_SECONDS_MAX: u32 = 86_400;
/// How many challenges in a row are answered, in case a server calls every nonce stale.
const AUTHORIZATIONS_MAX: u32 = 4;
/// The longest accepted session ID.
const SESSION_BYTES_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: Method,
    pub url: String,
    pub sequence: u32,
    pub fields: Vec<(&'static str, String)>,
}

impl Request {
    /// Appends the request's bytes.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        let mut writer =
            write::request(bytes, self.method, &self.url, self.sequence).field("User-Agent", USER_AGENT);
        for (name, value) in &self.fields {
            writer = writer.field(name, value);
        }
        writer.end();
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    Ask(Request),
    /// Open the transport of this track, then call [`RtspClient::set_up`].
    Open(usize),
    Playing,
    /// The session has ended normally.
    Over,
    Wait,
    Refused(u16),
    /// The server's reply is invalid.
    Broken(&'static str),
}

/// One client's session for one film.
#[derive(Clone, Debug)]
pub struct RtspClient {
    url: String,
    credentials: Option<Credentials>,
    challenge: Option<Challenge>,
    /// The start position as a share of the positions allowed; `None` starts at the beginning.
    start: Option<f64>,
    sequence: u32,
    asked: Option<Request>,
    state: State,
    base: String,
    description: Description,
    granted: Vec<Option<Transport>>,
    session: Option<String>,
    timeout_seconds: u32,
    has_get_parameter: bool,
    /// How often a request was repeated with credentials since the last success.
    authorizations: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Greeting,
    Describing,
    SettingUp(usize),
    Starting,
    Playing,
    Ending,
    Over,
}

impl RtspClient {
    /// A client that will play the film at a URL.
    pub fn new(url: &str, credentials: Option<Credentials>, start: Option<f64>) -> RtspClient {
        RtspClient {
            url: url.to_owned(),
            credentials,
            challenge: None,
            start,
            sequence: 0,
            asked: None,
            state: State::Greeting,
            base: url.to_owned(),
            description: Description::default(),
            granted: Vec::new(),
            session: None,
            timeout_seconds: SESSION_TIMEOUT_SECONDS,
            has_get_parameter: true,
            authorizations: 0,
        }
    }

    pub fn begin(&mut self) -> Request {
        self.ask(Method::Options, self.url.clone(), Vec::new())
    }

    pub fn tracks(&self) -> &[TrackDescription] {
        &self.description.tracks
    }

    /// The transport of each track that the server has granted.
    pub fn granted(&self) -> &[Option<Transport>] {
        &self.granted
    }

    /// The start position in seconds; `None` if the film's length is unknown.
    pub fn start_seconds(&self) -> Option<f64> {
        Some(self.start? * START_WITHIN * self.description.length_seconds?)
    }

    /// The length of the film from the start position, if it is known.
    pub fn left_seconds(&self) -> Option<f64> {
        Some(self.description.length_seconds? - self.start_seconds().unwrap_or(0.0))
    }

    /// The session timeout.
    pub fn timeout_seconds(&self) -> u32 {
        self.timeout_seconds
    }

    pub fn is_waiting(&self) -> bool {
        self.asked.is_some()
    }

    /// The SETUP request for a track whose transport is open.
    pub fn set_up(&mut self, track: usize, transport: &Transport) -> Request {
        let url = joined(&self.base, &self.description.tracks[track].control);
        self.ask(Method::Setup, url, vec![("Transport", transport.to_string())])
    }

    /// A keep-alive request; `None` while another request is pending.
    pub fn keep_alive(&mut self) -> Option<Request> {
        if self.state != State::Playing || self.is_waiting() {
            return None;
        }
        let method = if self.has_get_parameter { Method::GetParameter } else { Method::Options };
        Some(self.ask(method, self.film_url(), Vec::new()))
    }

    /// The TEARDOWN request; `None` without a session.
    pub fn tear_down(&mut self) -> Option<Request> {
        self.session.as_ref()?;
        if matches!(self.state, State::Ending | State::Over) {
            return None;
        }
        self.state = State::Ending;
        Some(self.ask(Method::Teardown, self.film_url(), Vec::new()))
    }

    pub fn on_reply(&mut self, reply: &Response<'_>) -> Next {
        let Some(request) = self.asked.take() else { return Next::Wait };
        // Some servers omit CSeq in error replies.
        if reply.sequence().is_some_and(|number| number != request.sequence) {
            // A reply to an earlier or unknown request is ignored.
            self.asked = Some(request);
            return Next::Wait;
        }
        match reply.status {
            100..=199 => {
                self.asked = Some(request);
                Next::Wait
            }
            401 => self.authorize(reply, &request),
            200..=299 => {
                self.authorizations = 0;
                self.on_success(reply)
            }
            status => self.on_refusal(status),
        }
    }

    fn on_success(&mut self, reply: &Response<'_>) -> Next {
        match self.state {
            State::Greeting => {
                if let Some(methods) = reply.fields.value("Public") {
                    self.has_get_parameter = methods.split(',').any(|name| name.trim() == "GET_PARAMETER");
                }
                self.state = State::Describing;
                let accept = vec![("Accept", "application/sdp".to_owned())];
                Next::Ask(self.ask(Method::Describe, self.url.clone(), accept))
            }
            State::Describing => self.on_description(reply),
            State::SettingUp(track) => self.on_setup(reply, track),
            State::Starting => {
                self.state = State::Playing;
                Next::Playing
            }
            State::Ending => {
                self.state = State::Over;
                Next::Over
            }
            State::Playing | State::Over => Next::Wait,
        }
    }

    fn on_description(&mut self, reply: &Response<'_>) -> Next {
        let text = String::from_utf8_lossy(reply.body);
        self.description = Description::read(&text);
        if self.description.tracks.is_empty() {
            return Next::Broken("the description has no playable track");
        }
        let base = reply.fields.value("Content-Base").or_else(|| reply.fields.value("Content-Location"));
        if let Some(base) = base.map(str::trim).filter(|base| is_url(base)) {
            self.base = base.to_owned();
        }
        self.granted = vec![None; self.description.tracks.len()];
        self.state = State::SettingUp(0);
        Next::Open(0)
    }

    fn on_setup(&mut self, reply: &Response<'_>, track: usize) -> Next {
        let Some((name, timeout)) = reply.session() else {
            return Next::Broken("the response to SETUP has no session");
        };
        if name.len() > SESSION_BYTES_MAX || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Next::Broken("the session ID is too long or contains invalid characters");
        }
        self.session = Some(name.to_owned());
        let timeout = timeout.filter(|seconds| (1..=SESSION_TIMEOUT_SECONDS_MAX).contains(seconds));
        self.timeout_seconds = timeout.unwrap_or(self.timeout_seconds);
        let transport = reply.fields.value("Transport").map(Transport::parse_all);
        let Some(transport) = transport.and_then(|all| all.ok()?.into_iter().next()) else {
            return Next::Broken("the response to SETUP has no supported transport");
        };
        self.granted[track] = Some(transport);
        if track + 1 < self.description.tracks.len() {
            self.state = State::SettingUp(track + 1);
            return Next::Open(track + 1);
        }
        self.state = State::Starting;
        let start = Duration::from_secs_f64(self.start_seconds().unwrap_or(0.0));
        let range = NptRange { start: Start::At(start), end: None };
        Next::Ask(self.ask(Method::Play, self.film_url(), vec![("Range", range.to_string())]))
    }

    fn on_refusal(&mut self, status: u16) -> Next {
        match self.state {
            // If the server does not know GET_PARAMETER, OPTIONS is the next keep-alive.
            State::Playing
                if matches!(status, 400 | 404 | 405 | 451 | 501 | 551) && self.has_get_parameter =>
            {
                self.has_get_parameter = false;
                Next::Wait
            }
            State::Ending | State::Over => {
                self.state = State::Over;
                Next::Over
            }
            _ => Next::Refused(status),
        }
    }

    /// Repeats the request with credentials, once per challenge.
    fn authorize(&mut self, reply: &Response<'_>, refused: &Request) -> Next {
        let was_authorized = refused.fields.iter().any(|(name, _)| *name == "Authorization");
        let challenge = reply.fields.value("WWW-Authenticate").and_then(Challenge::read);
        let Some(challenge) = challenge.filter(|challenge| !was_authorized || challenge.is_stale()) else {
            return self.on_refusal(401);
        };
        if self.credentials.is_none() || self.authorizations == AUTHORIZATIONS_MAX {
            return self.on_refusal(401);
        }
        self.authorizations += 1;
        self.challenge = Some(challenge);
        let fields = refused.fields.iter().filter(|(name, _)| !matches!(*name, "Session" | "Authorization"));
        let request = self.ask(refused.method, refused.url.clone(), fields.cloned().collect());
        Next::Ask(request)
    }

    fn ask(&mut self, method: Method, url: String, further: Vec<(&'static str, String)>) -> Request {
        self.sequence += 1;
        let mut fields = Vec::new();
        if let Some(session) = &self.session {
            fields.push(("Session", session.clone()));
        }
        if let (Some(challenge), Some(credentials)) = (&mut self.challenge, &self.credentials) {
            fields.push(("Authorization", challenge.answer(credentials, method.name(), &url)));
        }
        fields.extend(further);
        let request = Request { method, url, sequence: self.sequence, fields };
        self.asked = Some(request.clone());
        request
    }

    /// The URL for PLAY and TEARDOWN.
    fn film_url(&self) -> String {
        joined(&self.base, self.description.control.as_deref().unwrap_or("*"))
    }
}

fn is_url(text: &str) -> bool {
    text.starts_with("rtsp://") && is_name(text)
}

#[cfg(test)]
mod tests;
