//! Reads RTSP messages of both directions, strictly and incrementally.
//!
//! A message is parsed once it has arrived completely. Until then the parser remembers how far it has scanned, so that
//! a slowly arriving message costs one pass. Whatever two implementations could read differently (bare line feeds,
//! folded fields, two lengths) is refused and closes the connection, because the start of the next message is then
//! unknown.
//!
//! `rtsp-types` 0.1.3 does not serve: it has no limits (10 MB without the end of a head are "incomplete"), accepts two
//! different Content-Lengths, NUL and line feeds in values, refuses targets without a scheme, and needs 5 ms for a head
//! of 1.6 kB that arrives byte by byte, because it starts over with each byte.

use sojourn_http::token::{all_graphic, all_text, is_token};

use super::message::{
    BODY_BYTES_MAX, FIELDS_MAX, Fields, HEAD_BYTES_MAX, Interleaved, LINE_ENDS_MAX, Message, Method, Request,
    Response, Status, TARGET_BYTES_MAX, Version,
};

const CRLF: &str = "\r\n";
const HEAD_END: &[u8] = b"\r\n\r\n";

/// The first byte of interleaved data; channel and length follow.
const DOLLAR: u8 = b'$';
const INTERLEAVED_HEAD_BYTES: usize = 4;

/// The state after the bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'b> {
    /// The message is incomplete: call again with the same bytes and more behind them.
    Partial,
    /// A message, and its length including line ends before it.
    Complete(Message<'b>, usize),
}

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The line is neither a request line nor a status line.
    #[error("this is not an RTSP message")]
    StartLine,
    /// A line without CRLF or colon, a folded line, or an invalid character.
    #[error("a line of the message's head is malformed")]
    FieldLine,
    /// The head exceeds a limit.
    #[error("the message's head is too long")]
    HeadTooLong,
    /// The target exceeds its limit.
    #[error("the request's target is too long")]
    TargetTooLong,
    #[error("the length of the message's body is malformed")]
    Length,
    /// The body exceeds its limit.
    #[error("the message's body is too long")]
    BodyTooLong,
}

impl ParseError {
    /// The status code that refuses the request.
    pub fn status(self) -> Status {
        match self {
            ParseError::StartLine | ParseError::FieldLine | ParseError::Length | ParseError::HeadTooLong => {
                Status::BadRequest
            }
            ParseError::TargetTooLong => Status::RequestUriTooLarge,
            ParseError::BodyTooLong => Status::RequestEntityTooLarge,
        }
    }
}

/// Parses a message incrementally: how far the start of the buffer has been scanned.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parser {
    /// The head does not end before this offset.
    scanned: usize,
    /// The message's minimum length, as far as it is known.
    needed: usize,
}

impl Parser {
    /// Parses the message at the start of `bytes`. After a partial result, call again with the same bytes and more
    /// behind them. A complete message resets the parser.
    ///
    /// # Errors
    /// If the bytes cannot start a message, or exceed a limit.
    pub fn parse<'b>(&mut self, bytes: &'b [u8]) -> Result<Parsed<'b>, ParseError> {
        if bytes.len() < self.needed {
            return Ok(Parsed::Partial);
        }
        let start = skip_line_ends(bytes)?;
        let message = &bytes[start..];
        let outcome = match message.first() {
            None => Ok(None),
            Some(&DOLLAR) => Ok(self.interleaved(message)),
            Some(first) if !is_token(*first) => Err(ParseError::StartLine),
            Some(_) => self.text(message),
        };
        match outcome? {
            None => {
                // So far counted from the start of the message.
                self.needed += if self.needed == 0 { 0 } else { start };
                Ok(Parsed::Partial)
            }
            Some((message, length)) => {
                *self = Parser::default();
                Ok(Parsed::Complete(message, start + length))
            }
        }
    }

    fn interleaved<'b>(&mut self, bytes: &'b [u8]) -> Option<(Message<'b>, usize)> {
        let [_, channel, high, low, rest @ ..] = bytes else { return None };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let all = INTERLEAVED_HEAD_BYTES + length;
        let Some(payload) = rest.get(..length) else {
            self.needed = all;
            return None;
        };
        Some((Message::Interleaved(Interleaved { channel: *channel, payload }), all))
    }

    /// A request or a response.
    fn text<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<(Message<'b>, usize)>, ParseError> {
        let window = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
        let from = self.scanned.min(window.len());
        let Some(end) = memchr::memmem::find(&window[from..], HEAD_END) else {
            if bytes.len() >= HEAD_BYTES_MAX {
                let line = memchr::memchr(b'\n', window).unwrap_or(window.len());
                return Err(if line > TARGET_BYTES_MAX {
                    ParseError::TargetTooLong
                } else {
                    ParseError::HeadTooLong
                });
            }
            self.scanned = window.len().saturating_sub(HEAD_END.len() - 1);
            return Ok(None);
        };
        let head_end = from + end;
        let head = std::str::from_utf8(&bytes[..head_end + CRLF.len()]).map_err(|_| ParseError::FieldLine)?;
        let body_start = head_end + HEAD_END.len();
        let (line, fields) = head.split_once(CRLF).ok_or(ParseError::StartLine)?;
        let fields = check_fields(fields)?;
        let all = body_start + body_length(fields)?;
        let Some(body) = bytes.get(body_start..all) else {
            self.scanned = head_end;
            self.needed = all;
            return Ok(None);
        };
        Ok(Some((start_line(line, fields, body)?, all)))
    }
}

/// The offset at which the message starts, after line ends.
fn skip_line_ends(bytes: &[u8]) -> Result<usize, ParseError> {
    let mut start = 0;
    while bytes[start..].starts_with(CRLF.as_bytes()) {
        start += CRLF.len();
        if start > LINE_ENDS_MAX * CRLF.len() {
            return Err(ParseError::StartLine);
        }
    }
    // A lone CR may be half of a line end.
    if &bytes[start..] == b"\r" { Ok(bytes.len()) } else { Ok(start) }
}

/// Checks that every line has a name, a colon and a value, and ends in CRLF.
fn check_fields(fields: &str) -> Result<Fields<'_>, ParseError> {
    let lines = fields.split_terminator(CRLF);
    for (count, line) in lines.enumerate() {
        if count >= FIELDS_MAX {
            return Err(ParseError::HeadTooLong);
        }
        let (name, value) = line.split_once(':').ok_or(ParseError::FieldLine)?;
        if name.is_empty() || !name.bytes().all(is_token) || !all_text(value.as_bytes()) {
            return Err(ParseError::FieldLine);
        }
    }
    Ok(Fields(fields))
}

fn body_length(fields: Fields<'_>) -> Result<usize, ParseError> {
    let mut lengths = fields.all("Content-Length");
    let Some(length) = lengths.next() else { return Ok(0) };
    if lengths.next().is_some() || length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ParseError::Length);
    }
    length.parse().ok().filter(|length| *length <= BODY_BYTES_MAX).ok_or(ParseError::BodyTooLong)
}

fn start_line<'b>(line: &'b str, fields: Fields<'b>, body: &'b [u8]) -> Result<Message<'b>, ParseError> {
    let mut parts = line.splitn(3, ' ');
    let (Some(first), Some(second), Some(third)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(ParseError::StartLine);
    };
    if first.starts_with("RTSP/") {
        let version = version(first)?;
        let is_status = second.len() == 3 && second.bytes().all(|byte| byte.is_ascii_digit());
        let status = second.parse().ok().filter(|_| is_status).ok_or(ParseError::StartLine)?;
        if !all_text(third.as_bytes()) {
            return Err(ParseError::StartLine);
        }
        return Ok(Message::Response(Response { version, status, reason: third, fields, body }));
    }
    if !first.bytes().all(is_token) || second.is_empty() || !all_graphic(second.as_bytes()) {
        return Err(ParseError::StartLine);
    }
    let version = version(third)?;
    if second.len() > TARGET_BYTES_MAX {
        return Err(ParseError::TargetTooLong);
    }
    Ok(Message::Request(Request { method: Method::of(first), target: second, version, fields, body }))
}

fn version(text: &str) -> Result<Version, ParseError> {
    let digits = text.strip_prefix("RTSP/").and_then(|rest| rest.split_once('.'));
    let is_number =
        |text: &str| (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    match digits {
        Some(("1", "0")) => Ok(Version::Rtsp10),
        Some((major, minor)) if is_number(major) && is_number(minor) => Ok(Version::Other),
        _ => Err(ParseError::StartLine),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(bytes: &[u8]) -> Result<Parsed<'_>, ParseError> {
        Parser::default().parse(bytes)
    }

    fn request(bytes: &[u8]) -> Request<'_> {
        match parse(bytes) {
            Ok(Parsed::Complete(Message::Request(request), length)) if length == bytes.len() => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests() {
        let asked = request(
            b"\r\nDESCRIBE rtsp://h/film.mp4 RTSP/1.0\r\nCSeq: 2\r\naccept:  application/sdp \r\nX:\r\n\r\n",
        );
        assert_eq!((asked.method, asked.target), (Method::Describe, "rtsp://h/film.mp4"));
        assert_eq!((asked.version, asked.sequence()), (Version::Rtsp10, Some(2)));
        assert_eq!(asked.fields.value("Accept"), Some("application/sdp"));
        assert_eq!(asked.fields.value("x"), Some(""));
        let asked = request(b"SET_PARAMETER * RTSP/2.0\r\nContent-Length: 4\r\n\r\na: b");
        assert_eq!((asked.version, asked.body, asked.sequence()), (Version::Other, b"a: b".as_slice(), None));
        assert_eq!(request(b"SING * RTSP/1.0\r\nCSeq: 1\r\nCSeq: 1\r\n\r\n").method, Method::Unknown);
    }

    #[test]
    fn responses() {
        let bytes =
            b"RTSP/1.0 200 OK\r\nCSeq: 3\r\nSession: 12ab ;timeout=60\r\nContent-Length: 2\r\n\r\nv=RTSP";
        let Ok(Parsed::Complete(Message::Response(response), length)) = parse(bytes) else { panic!() };
        assert_eq!((response.status, response.reason, response.sequence()), (200, "OK", Some(3)));
        assert_eq!(response.session(), Some(("12ab", Some(60))));
        assert_eq!((response.body, &bytes[length..]), (b"v=".as_slice(), b"RTSP".as_slice()));
    }

    #[test]
    fn data_between() {
        let expected = Message::Interleaved(Interleaved { channel: 7, payload: b"abc" });
        assert_eq!(parse(b"$\x07\0\x03abcOPTIONS"), Ok(Parsed::Complete(expected, 7)));
        let empty = Message::Interleaved(Interleaved { channel: 0, payload: b"" });
        assert_eq!(parse(b"$\0\0\0"), Ok(Parsed::Complete(empty, 4)));
        for partial in [b"".as_slice(), b"\r", b"\r\n", b"$", b"$\0\0\x01", b"O", b"OPTIONS * RTSP/1.0\r\n"] {
            assert_eq!(parse(partial), Ok(Parsed::Partial), "{partial:?}");
        }
    }

    #[test]
    fn refusals() {
        let long = "x".repeat(HEAD_BYTES_MAX);
        let long_target = format!("OPTIONS rtsp://{long} RTSP/1.0\r\n\r\n");
        let long_field = format!("OPTIONS * RTSP/1.0\r\nX: {long}\r\n\r\n");
        let fields = format!("OPTIONS * RTSP/1.0\r\n{}\r\n", "X: y\r\n".repeat(FIELDS_MAX + 1));
        for (bytes, error) in [
            ("\r\n".repeat(LINE_ENDS_MAX + 1).as_str(), ParseError::StartLine),
            (" OPTIONS", ParseError::StartLine),
            ("\x16\x03\x01", ParseError::StartLine),
            ("GET / HTTP/1.1\r\n\r\n", ParseError::StartLine),
            ("OPTIONS RTSP/1.0\r\n\r\n", ParseError::StartLine),
            ("OPTIONS  RTSP/1.0\r\n\r\n", ParseError::StartLine),
            ("OPTIONS * RTSP/1\r\n\r\n", ParseError::StartLine),
            ("OPTIONS * RTSP/1.0 \r\n\r\n", ParseError::StartLine),
            ("OPTIONS a\u{e9} RTSP/1.0\r\n\r\n", ParseError::StartLine),
            ("RTSP/1.0 20 OK\r\n\r\n", ParseError::StartLine),
            ("RTSP/1.0 +20 OK\r\n\r\n", ParseError::StartLine),
            ("OPTIONS * RTSP/1.0\nCSeq: 1\r\n\r\n", ParseError::StartLine),
            ("OPTIONS * RTSP/1.0\r\nCSeq: 1\nX: y\r\n\r\n", ParseError::FieldLine),
            ("OPTIONS * RTSP/1.0\r\nCSeq : 1\r\n\r\n", ParseError::FieldLine),
            ("OPTIONS * RTSP/1.0\r\nX: y\r\n z\r\n\r\n", ParseError::FieldLine),
            ("OPTIONS * RTSP/1.0\r\nX: \0\r\n\r\n", ParseError::FieldLine),
            ("OPTIONS * RTSP/1.0\r\nCSeq\r\n\r\n", ParseError::FieldLine),
            ("OPTIONS * RTSP/1.0\r\nContent-Length: +1\r\n\r\n", ParseError::Length),
            ("OPTIONS * RTSP/1.0\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", ParseError::Length),
            ("OPTIONS * RTSP/1.0\r\nContent-Length: 65537\r\n\r\n", ParseError::BodyTooLong),
            (
                "OPTIONS * RTSP/1.0\r\nContent-Length: 99999999999999999999999\r\n\r\n",
                ParseError::BodyTooLong,
            ),
            (&long_target, ParseError::TargetTooLong),
            (&long_field, ParseError::HeadTooLong),
            (&fields, ParseError::HeadTooLong),
        ] {
            assert_eq!(parse(bytes.as_bytes()), Err(error), "{:.60}", bytes);
        }
        assert_eq!(ParseError::TargetTooLong.status().code(), 414);
    }

    proptest! {
        #[test]
        fn trickled_or_whole(bytes in "(\r\n)?(OPTIONS|RTSP/1.0|PLAY) (\\*|200|rtsp://h/f) (RTSP/1.0|OK)\r\n\
                                       (CSeq: 1\r\n)?(Content-Length: [0-9]\r\n)?\r\n.{0,9}") {
            let whole = parse(bytes.as_bytes());
            let mut parser = Parser::default();
            let mut outcome = Ok(Parsed::Partial);
            for end in 0..=bytes.len() {
                outcome = parser.parse(&bytes.as_bytes()[..end]);
                if outcome != Ok(Parsed::Partial) {
                    break;
                }
            }
            prop_assert_eq!(outcome, whole);
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Parsed::Complete(_, length)) = parse(&bytes) {
                prop_assert!(length <= bytes.len() && length > 0);
            }
        }
    }
}
