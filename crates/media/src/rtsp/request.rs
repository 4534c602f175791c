//! Interprets a request: which command for which film, or the status code that refuses it.
//!
//! This module decides what depends on the request alone. [`Session`] and the server decide what depends on the session
//! and the film.
//!
//! [`Session`]: super::Session

use super::message::{Method, Request, Status, Version};
use super::range::{NptRange, RangeError};
use super::session::SessionId;
use super::transport::{Transport, TransportError};
use crate::sdp::CONTROL;

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Options,
    Describe,
    /// The transports that the client offers, most wanted first.
    Setup(Vec<Transport>),
    Play {
        /// The part to play; without one, from the current position.
        range: Option<NptRange>,
        /// The playing speed; 1 is the film's own.
        scale: Option<f64>,
    },
    /// Stop sending for now.
    Pause,
    Teardown,
    KeepAlive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'b> {
    /// The URL as sent, without the track's part.
    pub url: &'b str,
    /// The path, still percent-encoded: begins with a slash, or is `*`.
    pub path: &'b str,
    /// The track's control name, if any.
    pub track: Option<&'b str>,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: Status,
    pub fields: Vec<(&'static str, String)>,
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Refusal {
        Refusal { status, fields: Vec::new() }
    }
}

impl Command {
    /// Interprets `request`.
    ///
    /// # Errors
    /// If the request is wrong for any film and session.
    pub fn parse(request: &Request<'_>) -> Result<Command, Refusal> {
        if request.version != Version::Rtsp10 {
            return Err(Status::VersionNotSupported.into());
        }
        if request.sequence().is_none() {
            return Err(Status::BadRequest.into());
        }
        if let Some(options) = request.fields.value("Require") {
            // RFC 2326, 12.32: Require names an option, and we support none.
            return Err(Refusal {
                status: Status::OptionNotSupported,
                fields: vec![("Unsupported", options.to_owned())],
            });
        }
        let fields = request.fields;
        match request.method {
            Method::Options => Ok(Command::Options),
            Method::Describe if accepts_descriptions(fields.value("Accept")) => Ok(Command::Describe),
            Method::Describe => Err(Status::NotAcceptable.into()),
            Method::Setup => {
                let offered = fields.value("Transport").ok_or(Status::BadRequest)?;
                Transport::parse_all(offered).map(Command::Setup).map_err(|error| match error {
                    TransportError::Malformed => Status::BadRequest.into(),
                    TransportError::Unsupported => Status::UnsupportedTransport.into(),
                })
            }
            Method::Play => {
                let range = fields.value("Range").map(NptRange::parse).transpose();
                let range = range.map_err(|error| match error {
                    // RFC 2326, 12.29: an unknown unit gets 501.
                    RangeError::Unit => Status::NotImplemented,
                    RangeError::Malformed => Status::BadRequest,
                })?;
                let scale =
                    fields.value("Scale").map(|text| scale(text).ok_or(Status::BadRequest)).transpose()?;
                Ok(Command::Play { range, scale })
            }
            Method::Pause => Ok(Command::Pause),
            Method::Teardown => Ok(Command::Teardown),
            // An empty GET_PARAMETER or SET_PARAMETER is a keep-alive (RFC 2326, 10.8).
            Method::GetParameter | Method::SetParameter if request.body.is_empty() => Ok(Command::KeepAlive),
            Method::GetParameter | Method::SetParameter => Err(Status::ParameterNotUnderstood.into()),
            Method::Announce | Method::Record | Method::Redirect => Err(Refusal {
                status: Status::MethodNotAllowed,
                fields: vec![("Allow", Method::PUBLIC.to_owned())],
            }),
            Method::Unknown => Err(Refusal {
                status: Status::NotImplemented,
                fields: vec![("Public", Method::PUBLIC.to_owned())],
            }),
        }
    }
}

impl Request<'_> {
    /// The session ID in the request.
    ///
    /// # Errors
    /// If it cannot be one of ours.
    pub fn session(&self) -> Result<Option<SessionId>, Refusal> {
        let Some(field) = self.fields.value("Session") else { return Ok(None) };
        let name = field.split(';').next().unwrap_or_default().trim();
        SessionId::parse(name).map(Some).ok_or_else(|| Status::SessionNotFound.into())
    }
}

impl<'b> Target<'b> {
    /// Parses a target: `*`, a path, or an RTSP URL.
    ///
    /// # Errors
    /// 400 for anything else.
    pub fn parse(target: &'b str) -> Result<Target<'b>, Refusal> {
        if target == "*" {
            return Ok(Target { url: target, path: target, track: None });
        }
        let authority = match target.split_once("://") {
            Some((scheme, rest)) if ["rtsp", "rtspu"].iter().any(|it| scheme.eq_ignore_ascii_case(it)) => {
                rest
            }
            Some(_) => return Err(Status::BadRequest.into()),
            None if target.starts_with('/') => target,
            None => return Err(Status::BadRequest.into()),
        };
        let path = authority.find('/').map_or("", |slash| &authority[slash..]);
        let (film, track) = split_track(path);
        let url = &target[..target.len() - (path.len() - film.len())];
        Ok(Target { url, path: if film.is_empty() { "/" } else { film }, track })
    }
}

/// Splits a path into the film's part, without trailing slashes, and the track's name.
fn split_track(path: &str) -> (&str, Option<&str>) {
    match path.rsplit_once('/') {
        Some((film, track)) if track.starts_with(CONTROL) => (film.trim_end_matches('/'), Some(track)),
        // Some players use the description's base URL as the film's.
        _ => (path.trim_end_matches('/'), None),
    }
}

/// Returns true if a client with this Accept field takes session descriptions (SDP).
fn accepts_descriptions(field: Option<&str>) -> bool {
    let Some(field) = field else { return true };
    let mut types = field.split(',').map(|part| part.split(';').next().unwrap_or_default().trim());
    types.any(|it| {
        ["application/sdp", "application/*", "*/*"].iter().any(|ours| it.eq_ignore_ascii_case(ours))
    })
}

/// Parses a decimal number as in RFC 2326, 12.34: no exponent, no infinity, not zero.
fn scale(text: &str) -> Option<f64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = digits.starts_with(|first: char| first.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|scale: &f64| is_number && scale.is_finite() && *scale != 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtsp::{Message, Parsed, Parser};

    fn ask(head: &str) -> Result<Command, Refusal> {
        let bytes = format!("{head}\r\n\r\n");
        let Ok(Parsed::Complete(Message::Request(request), _)) = Parser::default().parse(bytes.as_bytes())
        else {
            panic!("{head}")
        };
        Command::parse(&request)
    }

    fn check(head: &str, status: Status) {
        assert_eq!(ask(head).unwrap_err().status, status, "{head}");
    }

    #[test]
    fn what_is_asked() {
        assert_eq!(ask("OPTIONS * RTSP/1.0\r\nCSeq: 1"), Ok(Command::Options));
        assert_eq!(
            ask("DESCRIBE /f RTSP/1.0\r\nCSeq: 1\r\nAccept: text/plain, application/sdp;q=1"),
            Ok(Command::Describe)
        );
        let played = ask("PLAY /f RTSP/1.0\r\nCSeq: 1\r\nRange: npt=5-\r\nScale: -2.0");
        let Ok(Command::Play { range: Some(range), scale: Some(-2.0) }) = played else {
            panic!("{played:?}")
        };
        assert_eq!(range.to_string(), "npt=5-");
        assert_eq!(ask("GET_PARAMETER /f RTSP/1.0\r\nCSeq: 1\r\nSession: 0"), Ok(Command::KeepAlive));
    }

    #[test]
    fn refusals() {
        check("OPTIONS * RTSP/1.0", Status::BadRequest);
        check("OPTIONS * RTSP/1.0\r\nCSeq: x", Status::BadRequest);
        check("OPTIONS * RTSP/2.0\r\nCSeq: 1", Status::VersionNotSupported);
        check("SETUP /f RTSP/1.0\r\nCSeq: 1\r\nRequire: funky", Status::OptionNotSupported);
        check("DESCRIBE /f RTSP/1.0\r\nCSeq: 1\r\nAccept: text/html", Status::NotAcceptable);
        check("SETUP /f RTSP/1.0\r\nCSeq: 1", Status::BadRequest);
        check("SETUP /f RTSP/1.0\r\nCSeq: 1\r\nTransport: RTP/SAVP;unicast", Status::UnsupportedTransport);
        check("PLAY /f RTSP/1.0\r\nCSeq: 1\r\nRange: smpte=0-", Status::NotImplemented);
        check("PLAY /f RTSP/1.0\r\nCSeq: 1\r\nRange: npt=x-", Status::BadRequest);
        for scale in ["0", "inf", "nan", "1e3", "", "+2", "-.5"] {
            check(&format!("PLAY /f RTSP/1.0\r\nCSeq: 1\r\nScale: {scale}"), Status::BadRequest);
        }
        check("ANNOUNCE /f RTSP/1.0\r\nCSeq: 1", Status::MethodNotAllowed);
        check("SING /f RTSP/1.0\r\nCSeq: 1", Status::NotImplemented);
        let asked = ask("SETUP /f RTSP/1.0\r\nCSeq: 1\r\nRequire: funky").unwrap_err();
        assert_eq!(asked.fields, [("Unsupported", "funky".to_owned())]);
    }

    #[test]
    fn targets() {
        let check = |target: &str, url: &str, path: &str, track| {
            assert_eq!(Target::parse(target), Ok(Target { url, path, track }), "{target}");
        };
        check("*", "*", "*", None);
        check("rtsp://h:8554/a/b.mp4", "rtsp://h:8554/a/b.mp4", "/a/b.mp4", None);
        check("RTSP://h/a.mp4/", "RTSP://h/a.mp4", "/a.mp4", None);
        check("rtsp://h/a.mp4/trackID=2", "rtsp://h/a.mp4", "/a.mp4", Some("trackID=2"));
        check("rtsp://h/a.mp4//trackID=2", "rtsp://h/a.mp4", "/a.mp4", Some("trackID=2"));
        check("/a.mp4/trackID=0", "/a.mp4", "/a.mp4", Some("trackID=0"));
        check("rtsp://h", "rtsp://h", "/", None);
        for bad in ["http://h/a", "a.mp4", ""] {
            assert_eq!(Target::parse(bad).unwrap_err().status, Status::BadRequest, "{bad}");
        }
    }
}
