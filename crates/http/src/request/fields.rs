//! The fields of a request that matter to a static site.

use memchr::memchr;

use super::{Body, RequestError, Version};
use crate::condition::Conditions;
use crate::response::decimal;

/// The fields, picked out in one pass.
#[derive(Default)]
pub(super) struct Fields<'b> {
    pub host: Option<&'b [u8]>,
    pub close: bool,
    pub keep_alive: bool,
    content_length: Option<u64>,
    transfer_coding: Option<&'b [u8]>,
    pub expects_continue: bool,
    pub conditions: Conditions<'b>,
    pub range: Option<&'b [u8]>,
    pub referer: Option<&'b [u8]>,
    pub user_agent: Option<&'b [u8]>,
}

impl<'b> Fields<'b> {
    /// Takes all fields of `section`, which ends with its empty line; `None` if there are more than `COUNT`.
    pub fn take_all<const COUNT: usize>(&mut self, section: &'b [u8]) -> Option<Result<(), RequestError>> {
        let mut slots = [httparse::EMPTY_HEADER; COUNT];
        match httparse::parse_headers(section, &mut slots) {
            Ok(httparse::Status::Complete((_, parsed))) => {
                Some(parsed.iter().try_for_each(|field| self.take(field)))
            }
            Err(httparse::Error::TooManyHeaders) => None,
            Ok(httparse::Status::Partial) | Err(_) => Some(Err(RequestError::Field)),
        }
    }

    fn take(&mut self, field: &httparse::Header<'b>) -> Result<(), RequestError> {
        let (name, value) = (field.name, field.value);
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        match name.len() {
            4 if is("host") => single(&mut self.host, value).ok_or(RequestError::Host)?,
            5 if is("range") => single(&mut self.range, value).unwrap_or_else(|| self.range = Some(b"")),
            6 if is("expect") => {
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(RequestError::Expectation);
                }
                self.expects_continue = true;
            }
            7 if is("referer") => first(&mut self.referer, value),
            10 if is("connection") => self.connection(value),
            10 if is("user-agent") => first(&mut self.user_agent, value),
            8 if is("if-match") => first(&mut self.conditions.if_match, value),
            8 if is("if-range") => first(&mut self.conditions.if_range, value),
            13 if is("if-none-match") => first(&mut self.conditions.if_none_match, value),
            14 if is("content-length") => {
                let length = decimal(value).ok_or(RequestError::ContentLength)?;
                single(&mut self.content_length, length).ok_or(RequestError::ContentLength)?;
            }
            17 if is("transfer-encoding") => {
                single(&mut self.transfer_coding, value).ok_or(RequestError::Framing)?;
            }
            17 if is("if-modified-since") => first(&mut self.conditions.if_modified_since, value),
            19 if is("if-unmodified-since") => first(&mut self.conditions.if_unmodified_since, value),
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
    pub fn body(&self, version: Version) -> Result<Body, RequestError> {
        match (self.transfer_coding, self.content_length) {
            (None, length) => Ok(Body::Length(length.unwrap_or(0))),
            (Some(_), Some(_)) => Err(RequestError::Framing),
            (Some(_), None) if version == Version::Http10 => Err(RequestError::Framing),
            (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Body::Chunked),
            (Some(_), None) => Err(RequestError::TransferCoding),
        }
    }
}

/// Of a field that is repeated although it must not be, where that does no harm, the first counts.
fn first<'b>(slot: &mut Option<&'b [u8]>, value: &'b [u8]) {
    slot.get_or_insert(value);
}

/// Sets `slot` unless it is set already.
fn single<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.is_none().then(|| *slot = Some(value))
}

/// The characters of a name (RFC 3986, 3.2.2) and, for an address in brackets, the colon.
const IS_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let others = b"-._~%!$&'()*+;=:";
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut index = 0;
    while index < others.len() {
        table[others[index] as usize] = true;
        index += 1;
    }
    table
};

/// Whether `host` is a name or address with an optional port: no user, no list, no empty name.
pub(super) fn is_host(host: &[u8]) -> bool {
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
    let is_name = |byte: &u8| IS_NAME[usize::from(*byte)];
    let is_port = |digits: &[u8]| digits.is_empty() || decimal(digits).is_some_and(|port| port <= 65535);
    !name.is_empty()
        && name.iter().all(is_name)
        && (port.is_empty() || port.strip_prefix(b":").is_some_and(is_port))
}
