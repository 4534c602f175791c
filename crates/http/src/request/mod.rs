//! Reads request heads, strictly and incrementally.
//!
//! [`Parser`] first searches for the end of the head line by line and remembers its position, so that a slowly arriving
//! head costs one pass. Only a complete head is parsed. The request line is read here, the fields by `httparse`.
//! Whatever could be framed differently by another implementation (bare LF, folded fields, two lengths, a length beside
//! a transfer coding) is refused and the connection closed: RFC 9112, 11.2.

use memchr::memchr;

use crate::condition::Conditions;
use crate::head::find_field;
use crate::host::is_host;
use crate::limits::{EMPTY_LINES_MAX, FIELDS_MAX, HEAD_BYTES_MAX, REQUEST_LINE_BYTES_MAX, TARGET_BYTES_MAX};
use crate::status::Status;
use crate::token::is_token;

mod body;
mod fields;
mod line;
mod outline;

pub use body::{Body, BodyReader};
use fields::Fields;
use line::{Absolute, RequestLine, begins_with_method};
pub use outline::Outline;
pub(crate) use outline::OutlineWriter;

/// The request methods that the server distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    /// HEAD: the response has GET's head and no body.
    Head,
    /// OPTIONS: asks for the methods of the target, or of the server if the target is `*`.
    Options,
    /// CONNECT: opens a tunnel through a proxy. The client may send tunnel data before the response, so a refusal must
    /// close the connection.
    Connect,
    /// A registered method that no handler offers: 405.
    NotAllowed,
    /// Anything else: 501.
    Unknown,
}

/// The protocol version of a request; 1.2 and above are treated as 1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
    /// HTTP/2, whose requests the server itself passes on as text.
    Http2,
}

/// The scheme of a target in absolute form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

/// A request head; its slices point into the parsed bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'b> {
    pub method: Method,
    /// Path and query, without scheme and authority. It begins with `?` if the path is empty.
    pub target: &'b [u8],
    pub version: Version,
    /// The request line as received, for the access log.
    pub line: &'b [u8],
    pub scheme: Option<Scheme>,
    /// The requested host; an absolute target takes precedence over the Host field.
    pub host: Option<&'b [u8]>,
    /// True if the client wants to keep the connection.
    pub keep_alive: bool,
    pub body: Body,
    /// True if the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    pub conditions: Conditions<'b>,
    /// Every field line as received, for the access log.
    pub fields: &'b [u8],
    pub range: Option<&'b [u8]>,
    pub accept: Option<&'b [u8]>,
    /// Accept-Encoding; empty if it was split over several fields.
    pub accept_encoding: Option<&'b [u8]>,
    pub referer: Option<&'b [u8]>,
    pub user_agent: Option<&'b [u8]>,
    /// True if it has a Connection field; few have one.
    pub has_connection: bool,
    /// True if it has a Via field, as it has from a proxy.
    pub has_via: bool,
    /// Length of the head in bytes, including its empty line and any empty lines before it.
    pub head_len: usize,
}

impl<'b> Request<'b> {
    /// The value of the first field called `name`, in any case.
    pub fn field(&self, name: &str) -> Option<&'b [u8]> {
        find_field(self.fields, name)
    }
}

/// Why a request is refused. The connection cannot be used afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// A line ends in LF alone.
    #[error("a line of the request ends without CR")]
    BareLineFeed,
    /// The line is not `METHOD SP TARGET SP HTTP/1.x`.
    #[error("the request line is malformed")]
    RequestLine,
    /// A major version other than 1.
    #[error("the protocol version is not supported")]
    Version,
    /// The target is longer than [`TARGET_BYTES_MAX`].
    #[error("the request target is longer than {TARGET_BYTES_MAX} bytes")]
    TargetTooLong,
    /// The head is longer than [`HEAD_BYTES_MAX`].
    #[error("the request head is longer than {HEAD_BYTES_MAX} bytes")]
    HeadTooLong,
    /// The head has more fields than [`FIELDS_MAX`].
    #[error("the request has more than {FIELDS_MAX} fields")]
    TooManyFields,
    /// A field line is invalid: bad name, control character or folding.
    #[error("a field of the request is malformed")]
    Field,
    /// Host is missing in HTTP/1.1, repeated, empty, or not a host.
    #[error("the request has no valid Host")]
    Host,
    /// Content-Length is not a number, repeated, or has leading zeros, which some read as octal.
    #[error("the request has a bad Content-Length")]
    ContentLength,
    /// A Transfer-Encoding beside a Content-Length, in HTTP/1.0, more than once, or that does not end in `chunked`.
    #[error("the request's framing is ambiguous")]
    Framing,
    /// A transfer coding other than `chunked`.
    #[error("the request's transfer coding is not supported")]
    TransferCoding,
    /// The body violates the coding that the head announces.
    #[error("the request's body is malformed")]
    Body,
    /// Content-Type is repeated: two applications might choose differently.
    #[error("the request has more than one Content-Type")]
    ContentType,
    /// An expectation other than `100-continue`.
    #[error("the request's expectation cannot be met")]
    Expectation,
}

impl RequestError {
    /// The status code of the refusal.
    pub fn status(self) -> Status {
        match self {
            RequestError::BareLineFeed
            | RequestError::RequestLine
            | RequestError::Field
            | RequestError::Host
            | RequestError::ContentLength
            | RequestError::Framing
            | RequestError::Body
            | RequestError::ContentType => Status::BadRequest,
            RequestError::Version => Status::VersionNotSupported,
            RequestError::TargetTooLong => Status::UriTooLong,
            RequestError::HeadTooLong | RequestError::TooManyFields => Status::FieldsTooLarge,
            RequestError::TransferCoding => Status::NotImplemented,
            RequestError::Expectation => Status::ExpectationFailed,
        }
    }
}

/// The state after the bytes so far.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "consumed at once, never stored")]
pub enum Parsed<'b> {
    /// The head is incomplete: call again with the same bytes and more behind them.
    Partial,
    Complete(Request<'b>),
}

/// Initial room for fields: enough for most requests and cheap to clear.
const FIELDS_USUAL: usize = 16;

/// Parses a request head incrementally: how far the start of the buffer has been scanned.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parser {
    /// The offset of the first incomplete line.
    line_start: u32,
    /// Where to continue searching for the line's end.
    scanned: u32,
    /// Where the request line starts, after empty lines.
    head_start: u32,
    empty_lines: u8,
    /// True if the server itself wrote the heads, for the streams of an HTTP/2 connection.
    is_of_stream: bool,
}

impl Parser {
    /// A parser for requests of HTTP/2 streams, which the server writes as text with the version `HTTP/2.0`. From a
    /// client that version is refused.
    pub fn of_stream() -> Parser {
        Parser { is_of_stream: true, ..Parser::default() }
    }

    /// Parses the head at the start of `bytes`. After a partial result, call again with the same bytes and more behind
    /// them. A complete head resets the parser.
    pub fn parse<'b>(&mut self, bytes: &'b [u8]) -> Result<Parsed<'b>, RequestError> {
        match self.find_end(bytes)? {
            None => Ok(Parsed::Partial),
            Some((head_len, line)) => {
                let head_start = self.head_start as usize;
                *self = Parser { is_of_stream: self.is_of_stream, ..Parser::default() };
                take_apart(&bytes[head_start..head_len], head_len, line).map(Parsed::Complete)
            }
        }
    }

    /// Returns true once part of a head has been seen.
    pub fn is_partial(&self) -> bool {
        self.scanned > 0
    }

    /// Finds the end of the head, and the request line if it was completed by these bytes. Errors in the part so far
    /// are reported at once.
    fn find_end<'b>(
        &mut self,
        bytes: &'b [u8],
    ) -> Result<Option<(usize, Option<RequestLine<'b>>)>, RequestError> {
        let mut request_line = None;
        loop {
            let line_start = self.line_start as usize;
            let in_request_line = self.line_start == self.head_start;
            if in_request_line
                && bytes.get(line_start).is_some_and(|first| !is_token(*first) && *first != b'\r')
            {
                // No request begins like this: another protocol, which may never send a line end.
                return Err(RequestError::RequestLine);
            }
            let Some(offset) = memchr(b'\n', &bytes[self.scanned as usize..]) else {
                self.scanned = bytes.len() as u32;
                self.check_lengths(bytes, bytes.len(), in_request_line)?;
                return Ok(None);
            };
            let end = self.scanned as usize + offset;
            self.check_lengths(bytes, end, in_request_line)?;
            let Some(line) = bytes[line_start..end].strip_suffix(b"\r") else {
                return Err(RequestError::BareLineFeed);
            };
            self.line_start = end as u32 + 1;
            self.scanned = self.line_start;
            match (line.is_empty(), in_request_line) {
                (true, false) => return Ok(Some((end + 1, request_line))),
                (true, true) if usize::from(self.empty_lines) == EMPTY_LINES_MAX => {
                    return Err(RequestError::RequestLine);
                }
                (true, true) => {
                    self.empty_lines += 1;
                    self.head_start = self.line_start;
                }
                (false, true) => {
                    let parsed = RequestLine::parse(line)?;
                    if (parsed.version == Version::Http2) != self.is_of_stream {
                        return Err(RequestError::Version);
                    }
                    request_line = Some(parsed);
                }
                (false, false) => {}
            }
        }
    }

    fn check_lengths(&self, bytes: &[u8], seen: usize, in_request_line: bool) -> Result<(), RequestError> {
        if in_request_line && seen - self.line_start as usize > REQUEST_LINE_BYTES_MAX {
            let is_request = begins_with_method(&bytes[self.line_start as usize..seen]);
            return Err(if is_request { RequestError::TargetTooLong } else { RequestError::RequestLine });
        }
        if seen > HEAD_BYTES_MAX {
            return Err(RequestError::HeadTooLong);
        }
        Ok(())
    }
}

fn take_apart<'b>(
    head: &'b [u8],
    head_len: usize,
    request_line: Option<RequestLine<'b>>,
) -> Result<Request<'b>, RequestError> {
    let RequestLine { line, method, target, version } = match request_line {
        Some(parsed) => parsed,
        None => {
            let line_len = memchr(b'\r', head).ok_or(RequestError::RequestLine)?;
            RequestLine::parse(&head[..line_len])?
        }
    };
    let section = &head[line.len() + 2..];
    let absolute = Absolute::split(target, method);
    let mut fields = Fields::default();
    fields.take_all::<FIELDS_USUAL>(section).unwrap_or_else(|| {
        fields = Fields::default();
        fields.take_all::<FIELDS_MAX>(section).unwrap_or(Err(RequestError::TooManyFields))
    })?;
    // RFC 9112, 3.2: a 1.1 request without Host is refused; 3.2.2: an absolute target overrides the field.
    if version != Version::Http10 && fields.host.is_none() {
        return Err(RequestError::Host);
    }
    let authority = absolute.as_ref().map(|absolute| absolute.authority);
    if [authority, fields.host].into_iter().flatten().any(|host| !is_host(host)) {
        return Err(RequestError::Host);
    }
    // RFC 9110, 10.1.1: HTTP/1.0 has no expectations, so the field is ignored.
    if fields.expects_other && version == Version::Http11 {
        return Err(RequestError::Expectation);
    }
    Ok(Request {
        method,
        target: absolute.as_ref().map_or(target, |absolute| absolute.path),
        version,
        line,
        scheme: absolute.as_ref().map(|absolute| absolute.scheme),
        host: authority.or(fields.host),
        keep_alive: !fields.close && (version != Version::Http10 || fields.keep_alive),
        body: fields.body(version)?,
        expects_continue: fields.expects_continue && version == Version::Http11,
        conditions: fields.conditions,
        fields: section,
        range: fields.range,
        accept: fields.accept,
        accept_encoding: fields.accept_encoding,
        referer: fields.referer,
        user_agent: fields.user_agent,
        has_connection: fields.has_connection,
        has_via: fields.has_via,
        head_len,
    })
}

#[cfg(test)]
mod tests;
