//! What goes over an RTSP connection; the slices point into the bytes that were parsed.

use super::fields::Fields;
use super::method::Method;

/// One message, of either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'b> {
    /// A request.
    Request(Request<'b>),
    /// The answer to one.
    Response(Response<'b>),
    /// Binary data between them.
    Interleaved(Interleaved<'b>),
}

/// The protocol's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RTSP/1.0.
    Rtsp10,
    /// Another of RTSP: to be answered 505.
    Other,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'b> {
    /// What is asked for.
    pub method: Method,
    /// Of what: a URL, or `*`.
    pub target: &'b str,
    /// The version.
    pub version: Version,
    /// The fields.
    pub fields: Fields<'b>,
    /// What follows the head.
    pub body: &'b [u8],
}

/// A response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'b> {
    /// The version.
    pub version: Version,
    /// The three digits.
    pub status: u16,
    /// What they mean, in words.
    pub reason: &'b str,
    /// The fields.
    pub fields: Fields<'b>,
    /// What follows the head.
    pub body: &'b [u8],
}

/// A packet of RTP or RTCP in the connection (RFC 2326, 10.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interleaved<'b> {
    /// What it belongs to, as agreed at SETUP.
    pub channel: u8,
    /// The packet.
    pub payload: &'b [u8],
}

/// The number in CSeq, if there is exactly one.
fn sequence(fields: Fields<'_>) -> Option<u32> {
    let mut numbers = fields.all("CSeq");
    let number = numbers.next().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    number.parse().ok().filter(|_| numbers.next().is_none())
}

impl Request<'_> {
    /// CSeq, which the response repeats; `None` if it is missing, no number, or there are two.
    pub fn sequence(&self) -> Option<u32> {
        sequence(self.fields)
    }
}

impl Response<'_> {
    /// CSeq: which request it answers.
    pub fn sequence(&self) -> Option<u32> {
        sequence(self.fields)
    }

    /// The session's name and, where it is said, after how many seconds of silence it ends.
    pub fn session(&self) -> Option<(&str, Option<u32>)> {
        let mut parts = self.fields.value("Session")?.split(';').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty())?;
        let timeout = parts.find_map(|part| part.strip_prefix("timeout=")?.trim().parse().ok());
        Some((name, timeout))
    }
}
