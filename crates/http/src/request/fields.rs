//! The request fields that the server itself uses.

use super::{Body, RequestError, Version};
use crate::condition::{Conditions, Tags};
use crate::token::{content_length, is_token};

/// The fields, collected in one pass.
#[derive(Default)]
pub(super) struct Fields<'b> {
    pub host: Option<&'b [u8]>,
    pub has_connection: bool,
    pub has_via: bool,
    pub close: bool,
    pub keep_alive: bool,
    content_length: Option<u64>,
    transfer_coding: Option<&'b [u8]>,
    pub expects_continue: bool,
    pub expects_other: bool,
    content_type: Option<()>,
    pub conditions: Conditions<'b>,
    pub range: Option<&'b [u8]>,
    pub accept: Option<&'b [u8]>,
    pub accept_encoding: Option<&'b [u8]>,
    pub referer: Option<&'b [u8]>,
    pub user_agent: Option<&'b [u8]>,
}

impl<'b> Fields<'b> {
    /// Reads all fields of `section`, which ends with the empty line; `None` if there are more than `COUNT`.
    pub fn take_all<const COUNT: usize>(&mut self, section: &'b [u8]) -> Option<Result<(), RequestError>> {
        let mut slots = [httparse::EMPTY_HEADER; COUNT];
        match httparse::parse_headers(section, &mut slots) {
            Ok(httparse::Status::Complete((_, parsed))) => {
                Some(parsed.iter().try_for_each(|field| self.take(field, section)))
            }
            Err(httparse::Error::TooManyHeaders) => None,
            Ok(httparse::Status::Partial) | Err(_) => Some(Err(RequestError::Field)),
        }
    }

    fn take(&mut self, field: &httparse::Header<'b>, section: &'b [u8]) -> Result<(), RequestError> {
        let (name, value) = (field.name, field.value);
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        match name.len() {
            3 if is("via") => self.has_via = true,
            4 if is("host") => single(&mut self.host, value).ok_or(RequestError::Host)?,
            5 if is("range") => only(&mut self.range, value),
            6 if is("expect") && value.eq_ignore_ascii_case(b"100-continue") => self.expects_continue = true,
            6 if is("expect") => self.expects_other |= !value.is_empty(),
            6 if is("accept") => only(&mut self.accept, value),
            7 if is("referer") => first(&mut self.referer, value),
            10 if is("connection") => self.connection(value),
            10 if is("user-agent") => first(&mut self.user_agent, value),
            8 if is("if-match") => list(&mut self.conditions.if_match, value, section, "if-match"),
            8 if is("if-range") => only(&mut self.conditions.if_range, value),
            12 if is("content-type") => {
                single(&mut self.content_type, ()).ok_or(RequestError::ContentType)?;
            }
            13 if is("if-none-match") => {
                list(&mut self.conditions.if_none_match, value, section, "if-none-match");
            }
            14 if is("content-length") => {
                let length = content_length(value).ok_or(RequestError::ContentLength)?;
                single(&mut self.content_length, length).ok_or(RequestError::ContentLength)?;
            }
            // A list split over several fields is not joined: no compression is always a valid answer.
            15 if is("accept-encoding") => only(&mut self.accept_encoding, value),
            17 if is("transfer-encoding") => {
                single(&mut self.transfer_coding, value).ok_or(RequestError::Framing)?;
            }
            17 if is("if-modified-since") => only(&mut self.conditions.if_modified_since, value),
            19 if is("if-unmodified-since") => only(&mut self.conditions.if_unmodified_since, value),
            _ => {}
        }
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) {
        self.has_connection = true;
        for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// The framing by RFC 9112, 6.1 and 6.3, always the strict way.
    pub fn body(&self, version: Version) -> Result<Body, RequestError> {
        match (self.transfer_coding, self.content_length) {
            (None, length) => Ok(Body::Length(length.unwrap_or(0))),
            (Some(_), Some(_)) => Err(RequestError::Framing),
            (Some(_), None) if version == Version::Http10 => Err(RequestError::Framing),
            (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Body::Chunked),
            (Some(codings), None) => Err(refusal_of(codings)),
        }
    }
}

/// The error for transfer codings other than a single `chunked`: 400 if `chunked` is not last or is repeated, because
/// the end of the body is then unknown (RFC 9112, 6.3); 501 for an unknown coding (6.1).
fn refusal_of(codings: &[u8]) -> RequestError {
    let mut codings = codings.rsplit(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    let is_coding = |coding: &[u8]| !coding.is_empty() && coding.iter().all(|byte| is_token(*byte));
    let ends_chunked = codings.next().is_some_and(is_chunked);
    if ends_chunked && codings.all(|coding| is_coding(coding) && !is_chunked(coding)) {
        RequestError::TransferCoding
    } else {
        RequestError::Framing
    }
}

/// For fields that should not be repeated but do no harm if they are: the first counts.
fn first<'b>(slot: &mut Option<&'b [u8]>, value: &'b [u8]) {
    slot.get_or_insert(value);
}

/// For fields with one value: a repeated or empty field counts as invalid (RFC 9110, 13.1.3).
fn only<'b>(slot: &mut Option<&'b [u8]>, value: &'b [u8]) {
    *slot = Some(if slot.is_none() { value } else { b"" });
}

/// For lists, which may be split over several fields (RFC 9110, 5.3).
fn list<'b>(slot: &mut Option<Tags<'b>>, value: &'b [u8], section: &'b [u8], name: &'static str) {
    *slot = Some(if slot.is_none() { Tags::Field(value) } else { Tags::Fields { section, name } });
}

/// Sets `slot`; `None` if it was set before.
fn single<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.is_none().then(|| *slot = Some(value))
}
