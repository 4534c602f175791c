//! Reads request heads, strictly and incrementally.
//!
//! [`Parser`] first looks for the end of the head line by line, remembering how far it came, so that a head that
//! trickles in costs one pass; only a whole head is taken apart. The request line is read here, the fields by
//! `httparse`. Whatever could be framed differently by another implementation (bare LF, folded fields, two
//! lengths, a length beside a transfer coding) is refused and the connection closed: RFC 9112, 11.2.

use memchr::memchr;

use crate::limits::{EMPTY_LINES_MAX, FIELDS_MAX, HEAD_BYTES_MAX, REQUEST_LINE_BYTES_MAX, TARGET_BYTES_MAX};
use crate::response::decimal;
use crate::status::Status;

/// The request methods told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD: the same head as GET, no body.
    Head,
    /// A registered method that a static site does not offer: 405.
    NotAllowed,
    /// Anything else: 501.
    Unknown,
}

/// The protocol version of a request; 1.2 and above are treated as 1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// The body that follows a request head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// So many bytes, often zero.
    Length(u64),
    /// The chunked coding.
    Chunked,
}

/// One request head; the slices point into the bytes that were parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'b> {
    /// The method.
    pub method: Method,
    /// Path and query; of an absolute target only these.
    pub target: &'b [u8],
    /// The version.
    pub version: Version,
    /// The request line as received, for the log.
    pub line: &'b [u8],
    /// The host asked for; an absolute target's wins over the field.
    pub host: Option<&'b [u8]>,
    /// Whether the client would keep the connection.
    pub keep_alive: bool,
    /// What follows the head.
    pub body: Body,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// If-None-Match.
    pub if_none_match: Option<&'b [u8]>,
    /// If-Modified-Since.
    pub if_modified_since: Option<&'b [u8]>,
    /// Referer, for the log.
    pub referer: Option<&'b [u8]>,
    /// User-Agent, for the log.
    pub user_agent: Option<&'b [u8]>,
    /// Bytes of the head, the empty line and any empty lines before it included.
    pub head_len: usize,
}

/// What the bytes seen so far amount to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "consumed at once, never stored")]
pub enum Parsed<'b> {
    /// The head has not ended yet: call again with more bytes after these.
    Partial,
    /// The head is whole.
    Complete(Request<'b>),
}

/// Why a head is refused. The connection cannot be used afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// A line that ends in LF alone.
    #[error("a line of the request ends without CR")]
    BareLineFeed,
    /// Not `METHOD SP TARGET SP HTTP/1.x`.
    #[error("the request line is malformed")]
    RequestLine,
    /// A major version other than 1.
    #[error("the protocol version is not supported")]
    Version,
    /// Over [`TARGET_BYTES_MAX`].
    #[error("the request target is longer than {TARGET_BYTES_MAX} bytes")]
    TargetTooLong,
    /// Over [`HEAD_BYTES_MAX`].
    #[error("the request head is longer than {HEAD_BYTES_MAX} bytes")]
    HeadTooLong,
    /// Over [`FIELDS_MAX`].
    #[error("the request has more than {FIELDS_MAX} fields")]
    TooManyFields,
    /// A malformed field line: bad name, control character, folding.
    #[error("a field of the request is malformed")]
    Field,
    /// None in HTTP/1.1, two, empty, or not a host.
    #[error("the request has no valid Host")]
    Host,
    /// Not a number, or more than one.
    #[error("the request has a bad Content-Length")]
    ContentLength,
    /// Beside a Content-Length, in HTTP/1.0, or more than once.
    #[error("the request's framing is ambiguous")]
    Framing,
    /// A transfer coding other than exactly `chunked`.
    #[error("the request's transfer coding is not supported")]
    TransferCoding,
    /// An expectation other than `100-continue`.
    #[error("the request's expectation cannot be met")]
    Expectation,
}

impl RequestError {
    /// The status that answers this refusal.
    pub fn status(self) -> Status {
        match self {
            RequestError::BareLineFeed
            | RequestError::RequestLine
            | RequestError::Field
            | RequestError::Host
            | RequestError::ContentLength
            | RequestError::Framing => Status::BadRequest,
            RequestError::Version => Status::VersionNotSupported,
            RequestError::TargetTooLong => Status::UriTooLong,
            RequestError::HeadTooLong | RequestError::TooManyFields => Status::FieldsTooLarge,
            RequestError::TransferCoding => Status::NotImplemented,
            RequestError::Expectation => Status::ExpectationFailed,
        }
    }
}

/// How far the head at the start of a buffer has been looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parser {
    /// The start of the first line not yet complete.
    line_start: u32,
    /// Where to look for its end.
    scanned: u32,
    /// The start of the request line, after empty lines.
    head_start: u32,
    empty_lines: u8,
}

impl Parser {
    /// Parses the head at the start of `bytes`, which begin with the bytes of the last call if that was partial.
    /// The parser is as new after a complete head.
    pub fn parse<'b>(&mut self, bytes: &'b [u8]) -> Result<Parsed<'b>, RequestError> {
        match self.find_end(bytes)? {
            None => Ok(Parsed::Partial),
            Some(head_len) => {
                let head_start = self.head_start as usize;
                *self = Parser::default();
                take_apart(&bytes[head_start..head_len], head_len).map(Parsed::Complete)
            }
        }
    }

    /// Whether part of a head has been seen.
    pub fn is_partial(&self) -> bool {
        self.scanned > 0
    }

    /// The end of the head's empty line, once it is there. Refuses early what can be refused early.
    fn find_end(&mut self, bytes: &[u8]) -> Result<Option<usize>, RequestError> {
        loop {
            let line_start = self.line_start as usize;
            let in_request_line = self.line_start == self.head_start;
            if in_request_line
                && bytes.get(line_start).is_some_and(|first| !is_token(*first) && *first != b'\r')
            {
                // No request begins so: another protocol, and perhaps no line end ever.
                return Err(RequestError::RequestLine);
            }
            let Some(offset) = memchr(b'\n', &bytes[self.scanned as usize..]) else {
                self.scanned = bytes.len() as u32;
                self.check_lengths(bytes.len(), in_request_line)?;
                return Ok(None);
            };
            let end = self.scanned as usize + offset;
            self.check_lengths(end, in_request_line)?;
            let Some(line) = bytes[line_start..end].strip_suffix(b"\r") else {
                return Err(RequestError::BareLineFeed);
            };
            self.line_start = end as u32 + 1;
            self.scanned = self.line_start;
            match (line.is_empty(), in_request_line) {
                (true, false) => return Ok(Some(end + 1)),
                (true, true) if usize::from(self.empty_lines) == EMPTY_LINES_MAX => {
                    return Err(RequestError::RequestLine);
                }
                (true, true) => {
                    self.empty_lines += 1;
                    self.head_start = self.line_start;
                }
                (false, true) => {
                    RequestLine::parse(line)?;
                }
                (false, false) => {}
            }
        }
    }

    fn check_lengths(&self, seen: usize, in_request_line: bool) -> Result<(), RequestError> {
        if in_request_line && seen - self.line_start as usize > REQUEST_LINE_BYTES_MAX {
            return Err(RequestError::TargetTooLong);
        }
        if seen > HEAD_BYTES_MAX {
            return Err(RequestError::HeadTooLong);
        }
        Ok(())
    }
}

struct RequestLine<'b> {
    method: Method,
    target: &'b [u8],
    version: Version,
}

impl<'b> RequestLine<'b> {
    fn parse(line: &'b [u8]) -> Result<Self, RequestError> {
        let method_len = memchr(b' ', line).ok_or(RequestError::RequestLine)?;
        let (method, rest) = (&line[..method_len], &line[method_len + 1..]);
        let target_len = memchr(b' ', rest).ok_or(RequestError::RequestLine)?;
        let (target, version) = (&rest[..target_len], &rest[target_len + 1..]);
        let version = match version {
            b"HTTP/1.0" => Version::Http10,
            [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1'..=b'9'] => Version::Http11,
            [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
                return Err(RequestError::Version);
            }
            _ => return Err(RequestError::RequestLine),
        };
        if target.len() > TARGET_BYTES_MAX {
            return Err(RequestError::TargetTooLong);
        }
        // Bytes above 127 are no URI characters, but real clients send them and they do no harm.
        if target.is_empty() || target.iter().any(|byte| *byte <= b' ' || *byte == 0x7f || *byte == b'#') {
            return Err(RequestError::RequestLine);
        }
        let method = match method {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" | b"PUT" | b"DELETE" | b"OPTIONS" | b"TRACE" | b"CONNECT" | b"PATCH" => {
                Method::NotAllowed
            }
            other if !other.is_empty() && other.iter().all(|byte| is_token(*byte)) => Method::Unknown,
            _ => return Err(RequestError::RequestLine),
        };
        Ok(RequestLine { method, target, version })
    }
}

fn take_apart(head: &[u8], head_len: usize) -> Result<Request<'_>, RequestError> {
    let line_len = memchr(b'\r', head).ok_or(RequestError::RequestLine)?;
    let line = &head[..line_len];
    let RequestLine { method, target, version } = RequestLine::parse(line)?;
    let (target, authority) = split_absolute(target);
    let mut fields = Fields::default();
    let mut slots = [httparse::EMPTY_HEADER; FIELDS_MAX];
    match httparse::parse_headers(&head[line_len + 2..], &mut slots) {
        Ok(httparse::Status::Complete((_, parsed))) => {
            parsed.iter().try_for_each(|field| fields.take(field))?
        }
        Ok(httparse::Status::Partial) => return Err(RequestError::Field),
        Err(httparse::Error::TooManyHeaders) => return Err(RequestError::TooManyFields),
        Err(_) => return Err(RequestError::Field),
    }
    // RFC 9112, 3.2: a 1.1 request without Host is refused; 3.2.2: an absolute target overrides the field.
    if version == Version::Http11 && fields.host.is_none() {
        return Err(RequestError::Host);
    }
    let host = authority.or(fields.host);
    if host.is_some_and(|host| !is_host(host)) || fields.host.is_some_and(|host| !is_host(host)) {
        return Err(RequestError::Host);
    }
    Ok(Request {
        method,
        target,
        version,
        line,
        host,
        keep_alive: !fields.close && (version == Version::Http11 || fields.keep_alive),
        body: fields.body(version)?,
        expects_continue: fields.expects_continue,
        if_none_match: fields.if_none_match,
        if_modified_since: fields.if_modified_since,
        referer: fields.referer,
        user_agent: fields.user_agent,
        head_len,
    })
}

/// The fields that matter to a static site, picked out in one pass.
#[derive(Default)]
struct Fields<'b> {
    host: Option<&'b [u8]>,
    close: bool,
    keep_alive: bool,
    content_length: Option<u64>,
    transfer_coding: Option<&'b [u8]>,
    expects_continue: bool,
    if_none_match: Option<&'b [u8]>,
    if_modified_since: Option<&'b [u8]>,
    referer: Option<&'b [u8]>,
    user_agent: Option<&'b [u8]>,
}

impl<'b> Fields<'b> {
    fn take(&mut self, field: &httparse::Header<'b>) -> Result<(), RequestError> {
        let (name, value) = (field.name, field.value);
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        match name.len() {
            4 if is("host") => single(&mut self.host, value).ok_or(RequestError::Host)?,
            6 if is("expect") => {
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(RequestError::Expectation);
                }
                self.expects_continue = true;
            }
            7 if is("referer") => self.referer = self.referer.or(Some(value)),
            10 if is("connection") => self.connection(value),
            10 if is("user-agent") => self.user_agent = self.user_agent.or(Some(value)),
            13 if is("if-none-match") => self.if_none_match = self.if_none_match.or(Some(value)),
            14 if is("content-length") => {
                let length = decimal(value).ok_or(RequestError::ContentLength)?;
                single(&mut self.content_length, length).ok_or(RequestError::ContentLength)?;
            }
            17 if is("transfer-encoding") => {
                single(&mut self.transfer_coding, value).ok_or(RequestError::Framing)?;
            }
            17 if is("if-modified-since") => self.if_modified_since = self.if_modified_since.or(Some(value)),
            _ => {}
        }
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// RFC 9112, 6.1 and 6.3, taking the strict side wherever there is one.
    fn body(&self, version: Version) -> Result<Body, RequestError> {
        match (self.transfer_coding, self.content_length) {
            (None, length) => Ok(Body::Length(length.unwrap_or(0))),
            (Some(_), Some(_)) => Err(RequestError::Framing),
            (Some(_), None) if version == Version::Http10 => Err(RequestError::Framing),
            (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Body::Chunked),
            (Some(_), None) => Err(RequestError::TransferCoding),
        }
    }
}

/// Sets `slot` unless it is set already.
fn single<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.is_none().then(|| *slot = Some(value))
}

/// Path and query, and the authority, of an absolute target (RFC 9112, 3.2.2); others pass as they are.
fn split_absolute(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    const SCHEME: &[u8] = b"http://";
    match target.split_at_checked(SCHEME.len()) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(SCHEME) => {
            let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
            let path = if rest.get(end) == Some(&b'/') { &rest[end..] } else { b"/" };
            (path, Some(&rest[..end]))
        }
        _ => (target, None),
    }
}

/// Whether `host` is a name or address with an optional port: no user, no list, no empty name.
fn is_host(host: &[u8]) -> bool {
    let (name, port) = match host.strip_prefix(b"[") {
        Some(rest) => {
            let Some(end) = memchr(b']', rest) else { return false };
            let address = &rest[..end];
            if !address.iter().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.')) {
                return false;
            }
            (address, &rest[end + 1..])
        }
        None => host.split_at(memchr(b':', host).unwrap_or(host.len())),
    };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=:".contains(byte);
    let is_port = |digits: &[u8]| digits.is_empty() || decimal(digits).is_some_and(|port| port <= 65535);
    !name.is_empty()
        && name.iter().all(is_name)
        && (port.is_empty() || port.strip_prefix(b":").is_some_and(is_port))
}

/// RFC 9110, 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
