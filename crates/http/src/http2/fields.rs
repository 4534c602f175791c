//! The fields of a message: validated (RFC 9113, 8.2 and 8.3), and written as the head of HTTP/1.
//!
//! Names, values and targets are validated, so they cannot contain line ends. All heads of a connection are written
//! into the same memory.

use std::ops::Range;

use memchr::memchr;

use super::hpack::{ENTRY_OVERHEAD_BYTES, Field};
use super::priority::Priority;
use crate::request::{Outline, OutlineWriter};
use crate::token::{all_graphic, all_text, decimal, is_target, is_token};

/// Names up to this length are converted to lower case without an allocation.
const NAME_BYTES_USUAL: usize = 64;

/// Connection-specific fields of HTTP/1 (RFC 9113, 8.2.2).
fn is_of_connection(name: &[u8]) -> bool {
    matches!(name, b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade")
}

/// Checks the fields of HTTP/1 in `section`. Returns the Content-Length; `None` if a field is malformed, or the body has
/// a transfer coding.
pub fn checked_fields(section: &[u8]) -> Option<Option<u64>> {
    let mut content_length = None;
    for line in lines(section) {
        let (name, value) = line?;
        let is_sound = !name.is_empty() && name.iter().copied().all(is_token) && all_text(value);
        if !is_sound || name.eq_ignore_ascii_case(b"transfer-encoding") {
            return None;
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            content_length = Some(decimal(value)?);
        }
    }
    Some(content_length)
}

/// Calls `take` with the fields of HTTP/1 in `section`, which have been checked, but for those of the connection. Names
/// are in lower case.
pub fn for_each_field(section: &[u8], mut take: impl FnMut(&[u8], &[u8])) {
    for (name, value) in lines(section).flatten() {
        let (mut usual, long);
        let lower: &[u8] = if name.len() <= NAME_BYTES_USUAL {
            usual = [0; NAME_BYTES_USUAL];
            usual[..name.len()].copy_from_slice(name);
            usual[..name.len()].make_ascii_lowercase();
            &usual[..name.len()]
        } else {
            long = name.to_ascii_lowercase();
            &long
        };
        // RFC 9113, 8.2.2 and 8.3.1; responses have no Host.
        if !is_of_connection(lower) && lower != b"host" {
            take(lower, value);
        }
    }
}

/// The names and values of field lines; `None` for a line that has no name.
pub fn lines(mut section: &[u8]) -> impl Iterator<Item = Option<(&[u8], &[u8])>> {
    std::iter::from_fn(move || {
        if section.is_empty() {
            return None;
        }
        let end = memchr(b'\n', section).unwrap_or(section.len());
        let line = &section[..end];
        section = section.get(end + 1..).unwrap_or_default();
        let colon = memchr(b':', line);
        Some(colon.map(|colon| (&line[..colon], line[colon + 1..].trim_ascii())))
    })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Request,
    Response,
    Trailers,
}

#[derive(Debug, Default)]
pub struct Section {
    kind: Kind,
    /// The size of the list so far, and its limit (RFC 9113, 6.5.2).
    bytes: usize,
    bytes_max: usize,
    is_malformed: bool,
    has_regular: bool,
    /// The values of pseudo-fields, which may come in any order.
    values: Vec<u8>,
    method: Option<Range<usize>>,
    authority: Option<Range<usize>>,
    path: Option<Range<usize>>,
    has_scheme: bool,
    status: Option<u16>,
    text: Vec<u8>,
    /// Of a request's text, as far as that is simple.
    outline: Option<OutlineWriter>,
    cookies: Vec<u8>,
    content_length: Option<u64>,
    expects_continue: bool,
    priority: Option<Priority>,
}

impl Section {
    pub fn begin(&mut self, kind: Kind, bytes_max: usize) {
        let (mut values, mut text, mut cookies) = (
            std::mem::take(&mut self.values),
            std::mem::take(&mut self.text),
            std::mem::take(&mut self.cookies),
        );
        [&mut values, &mut text, &mut cookies].into_iter().for_each(Vec::clear);
        *self = Section { kind, bytes_max, values, text, cookies, ..Section::default() };
    }

    /// Gives back memory that a long head needed; returns true if there was some.
    pub fn trim(&mut self, bytes_max: usize) -> bool {
        let mut was_long = false;
        for memory in [&mut self.values, &mut self.text, &mut self.cookies] {
            if memory.capacity() > bytes_max {
                *memory = Vec::new();
                was_long = true;
            }
        }
        was_long
    }

    pub fn take(&mut self, field: Field<'_>) {
        self.bytes += field.name.len() + field.value.len() + ENTRY_OVERHEAD_BYTES;
        if self.bytes > self.bytes_max {
            return;
        }
        let is_sound = match field.name.split_first() {
            None => false,
            Some((b':', pseudo)) => !self.has_regular && self.take_pseudo(pseudo, field.value),
            Some(_) => {
                if !std::mem::replace(&mut self.has_regular, true) {
                    self.append_start_line();
                }
                self.take_regular(field)
            }
        };
        self.is_malformed |= !is_sound;
    }

    /// Ends the section; returns true if it is valid.
    pub fn end(&mut self) -> bool {
        if !self.has_regular {
            self.append_start_line();
        }
        if !self.cookies.is_empty() {
            // RFC 9113, 8.2.3.
            let cookies = std::mem::take(&mut self.cookies);
            self.append(b"cookie", &cookies);
            self.cookies = cookies;
        }
        let is_complete = match self.kind {
            Kind::Request => self.is_request(),
            Kind::Response => self.status.is_some(),
            Kind::Trailers => true,
        };
        is_complete && !self.is_malformed
    }

    pub fn is_too_large(&self) -> bool {
        self.bytes > self.bytes_max
    }

    /// The head as HTTP/1 has it, without the empty line. Content-Length of a request, and its expectation of 100, are
    /// left out: how the body is framed is decided by whoever passes it on.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The outline of the text with the empty line behind it, if the request is simple enough.
    pub fn outline(&self) -> Option<Outline> {
        self.outline.clone()?.end(&self.text)
    }

    pub fn status(&self) -> Option<u16> {
        self.status
    }

    pub fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    pub fn expects_continue(&self) -> bool {
        self.expects_continue
    }

    pub fn priority(&self) -> Option<Priority> {
        self.priority
    }

    pub fn is_head_request(&self) -> bool {
        self.value(&self.method) == Some(b"HEAD")
    }

    /// Returns true if a request has all that it needs and nothing else (RFC 9113, 8.3.1 and 8.5).
    fn is_request(&self) -> bool {
        let Some(method) = self.value(&self.method) else { return false };
        match self.value(&self.path) {
            path if method == b"CONNECT" => self.authority.is_some() && !self.has_scheme && path.is_none(),
            None => false,
            Some(b"*") => self.has_scheme && method == b"OPTIONS",
            Some(_) => self.has_scheme,
        }
    }

    fn value(&self, range: &Option<Range<usize>>) -> Option<&[u8]> {
        range.clone().map(|range| &self.values[range])
    }

    /// The pseudo-fields are complete: writes the line that they make.
    fn append_start_line(&mut self) {
        let mut text = std::mem::take(&mut self.text);
        match self.kind {
            Kind::Request => {
                let method = self.value(&self.method).unwrap_or_default();
                let authority = self.value(&self.authority);
                // RFC 9112, 3.2.3: the target of CONNECT is the authority.
                let target = self.value(&self.path).or(authority).unwrap_or_default();
                let mut outline = OutlineWriter::begin(&mut text, method, target);
                if let Some(authority) = authority {
                    append_field(&mut text, &mut outline, b"host", authority);
                }
                self.outline = outline;
            }
            Kind::Response => {
                text.extend_from_slice(b"HTTP/1.1 ");
                crate::head::decimal(&mut text, self.status.unwrap_or_default().into());
                text.extend_from_slice(b"\r\n");
            }
            Kind::Trailers => {}
        }
        self.text = text;
    }

    fn take_pseudo(&mut self, name: &[u8], value: &[u8]) -> bool {
        match (self.kind, name) {
            (Kind::Request, b"method") => {
                !value.is_empty()
                    && value.iter().copied().all(is_token)
                    && self.keep(value, |it| &mut it.method)
            }
            (Kind::Request, b"scheme") => {
                let is_scheme = value.first().is_some_and(u8::is_ascii_alphabetic)
                    && value
                        .iter()
                        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
                !std::mem::replace(&mut self.has_scheme, true) && is_scheme
            }
            (Kind::Request, b"authority") => all_graphic(value) && self.keep(value, |it| &mut it.authority),
            (Kind::Request, b"path") => {
                let is_path = value == b"*" || value.first() == Some(&b'/');
                is_path && is_target(value) && self.keep(value, |it| &mut it.path)
            }
            (Kind::Response, b"status") => match value {
                [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] => {
                    let status = decimal(value).map(|status| status as u16);
                    std::mem::replace(&mut self.status, status).is_none()
                }
                _ => false,
            },
            // Also :protocol, which is not enabled (RFC 8441, 3); none in trailers (RFC 9113, 8.1).
            _ => false,
        }
    }

    /// Keeps the value of a pseudo-field; returns false if it is there already.
    fn keep(&mut self, value: &[u8], slot: impl Fn(&mut Section) -> &mut Option<Range<usize>>) -> bool {
        let start = self.values.len();
        self.values.extend_from_slice(value);
        let range = start..self.values.len();
        slot(self).replace(range).is_none()
    }

    fn take_regular(&mut self, field: Field<'_>) -> bool {
        let Field { name, value } = field;
        let is_name = |byte: &u8| is_token(*byte) && !byte.is_ascii_uppercase();
        let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        let is_sound = name.iter().all(is_name)
            && all_text(value)
            && !is_blank(value.first())
            && !is_blank(value.last());
        if !is_sound || is_of_connection(name) {
            return false;
        }
        match (self.kind, name) {
            (_, b"te") if value != b"trailers" => return false,
            (Kind::Request | Kind::Response, b"content-length") => {
                if !self.take_length(value) {
                    return false;
                }
                if self.kind == Kind::Request {
                    return true;
                }
            }
            (Kind::Trailers, b"content-length") => return self.take_length(value),
            (Kind::Request, b"cookie") => {
                if !self.cookies.is_empty() {
                    self.cookies.extend_from_slice(b"; ");
                }
                self.cookies.extend_from_slice(value);
                return true;
            }
            (Kind::Request, b"expect") if value.eq_ignore_ascii_case(b"100-continue") => {
                self.expects_continue = true;
                return true;
            }
            // RFC 9113, 8.3.1: a Host that contradicts the authority is malformed; written as a second Host, it gets
            // refused.
            (Kind::Request, b"host")
                if self.value(&self.authority).is_some_and(|it| it.eq_ignore_ascii_case(value)) =>
            {
                return true;
            }
            (Kind::Request, b"priority") => self.priority = Some(Priority::parse(value)),
            _ => {}
        }
        self.append(name, value);
        true
    }

    fn append(&mut self, name: &[u8], value: &[u8]) {
        append_field(&mut self.text, &mut self.outline, name, value);
    }

    /// A length that is invalid or contradicts another cannot be the body's (RFC 9113, 8.1.1).
    fn take_length(&mut self, value: &[u8]) -> bool {
        let Some(length) = decimal(value) else { return false };
        self.content_length.replace(length).is_none_or(|other| other == length)
    }
}

fn append_field(text: &mut Vec<u8>, outline: &mut Option<OutlineWriter>, name: &[u8], value: &[u8]) {
    text.reserve(name.len() + value.len() + b": \r\n".len());
    for part in [name, b": ", value, b"\r\n"] {
        text.extend_from_slice(part);
    }
    if outline.as_mut().is_some_and(|outline| !outline.take(name, value, text)) {
        *outline = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{FIELDS_MAX, METHOD_BYTES_MAX, TARGET_BYTES_MAX};
    use crate::request::{Parsed, Parser};

    const GET: [(&str, &str); 4] =
        [(":method", "GET"), (":scheme", "http"), (":authority", "h"), (":path", "/")];

    fn section(kind: Kind, fields: &[(&str, &str)]) -> (Section, bool) {
        let mut section = Section::default();
        section.begin(kind, 1 << 14);
        for (name, value) in fields {
            section.take(Field { name: name.as_bytes(), value: value.as_bytes() });
        }
        let is_valid = section.end();
        (section, is_valid)
    }

    fn is_request(fields: &[(&str, &str)]) -> bool {
        section(Kind::Request, fields).1
    }

    fn is_trailers(fields: &[(&str, &str)]) -> bool {
        section(Kind::Trailers, fields).1
    }

    fn text(kind: Kind, fields: &[(&str, &str)]) -> String {
        let (section, is_valid) = section(kind, fields);
        assert!(is_valid, "{fields:?}");
        String::from_utf8(section.text().to_vec()).unwrap()
    }

    #[test]
    fn requests() {
        assert!(is_request(&GET));
        let more = [("te", "trailers"), ("x", ""), ("content-length", "0")];
        assert!(is_request(&[&[GET[0], GET[1], GET[3]], &more[..]].concat()));
        assert!(is_request(&[(":method", "CONNECT"), (":authority", "h:1")]));
        assert!(is_request(&[(":method", "OPTIONS"), GET[1], (":path", "*")]));
        for (missing, (name, _)) in GET.iter().enumerate() {
            let mut fields = GET.to_vec();
            fields.remove(missing);
            assert_eq!(is_request(&fields), missing == 2, "without {name}");
        }
        for repeated in GET {
            assert!(!is_request(&[&GET[..], &[repeated]].concat()));
        }
    }

    #[test]
    fn simple_requests_have_an_outline() {
        let check = |fields: &[(&str, &str)], has_outline: bool| {
            let (section, is_valid) = section(Kind::Request, &[&GET[..], fields].concat());
            assert!(is_valid, "{fields:?}");
            let text = [section.text(), b"\r\n"].concat();
            let outline = section.outline();
            assert_eq!(outline.is_some(), has_outline, "{fields:?}");
            if let Some(outline) = outline {
                assert_eq!(Parser::of_stream().parse(&text), Ok(Parsed::Complete(outline.over(&text))));
            }
        };
        check(&[], true);
        let browser = [
            ("user-agent", "Mozilla/5.0"),
            ("accept", "text/html,*/*;q=0.8"),
            ("accept-encoding", "gzip, br"),
            ("referer", "https://h/"),
            ("range", "bytes=0-9"),
            ("via", "2 p"),
            ("cookie", "a=b"),
            ("cookie", "c=d"),
            ("x", ""),
        ];
        check(&browser, true);
        for name in ["user-agent", "accept", "accept-encoding", "referer", "range"] {
            check(&[(name, "a"), (name, "b")], false);
        }
        for field in [
            ("if-none-match", "\"a\""),
            ("if-modified-since", "x"),
            ("if-range", "\"a\""),
            ("content-type", "a/b"),
            ("expect", "x"),
            ("host", "other"),
        ] {
            check(&[field], false);
        }
        let many = [("x", "y"); FIELDS_MAX];
        check(&many[1..], true);
        check(&many, false);
    }

    #[test]
    fn what_only_the_parser_can_judge_has_no_outline() {
        let with = |place: usize, value: &str| {
            let mut fields = GET.to_vec();
            fields[place].1 = value;
            section(Kind::Request, &fields).0.outline().is_some()
        };
        assert!(with(0, "PURGE") && with(2, "[::1]:80") && with(3, "/a?b"));
        let long = "/".repeat(TARGET_BYTES_MAX + 1);
        assert!(!with(0, &"X".repeat(METHOD_BYTES_MAX + 1)) && !with(2, "a..b") && !with(3, &long));
        let mut longer = Section::default();
        longer.begin(Kind::Request, 1 << 20);
        for (name, value) in [GET[0], GET[1], GET[2], (":path", "/".repeat(1 << 17).as_str())] {
            longer.take(Field { name: name.as_bytes(), value: value.as_bytes() });
        }
        assert!(longer.end() && longer.outline().is_none());
        assert!(longer.text().ends_with(b" HTTP/2.0\r\nhost: h\r\n"));
        let without_host = [&GET[..2], &GET[3..]].concat();
        assert_eq!(section(Kind::Request, &without_host).0.outline(), None);
        assert!(
            section(Kind::Request, &[&without_host[..], &[("host", "h")]].concat()).0.outline().is_some()
        );
    }

    #[test]
    fn requests_as_text() {
        let of = |fields: &[(&str, &str)]| text(Kind::Request, fields);
        assert_eq!(of(&GET), "GET / HTTP/2.0\r\nhost: h\r\n");
        let list = [GET[3], GET[1], GET[0], ("range", "bytes=0-1"), ("host", "b")];
        assert_eq!(of(&list), "GET / HTTP/2.0\r\nrange: bytes=0-1\r\nhost: b\r\n", "in any order");
        let more = [("cookie", "a=b"), ("host", "H"), ("cookie", "c=d"), ("x", "y")];
        assert_eq!(
            of(&[&GET[..], &more].concat()),
            "GET / HTTP/2.0\r\nhost: h\r\nx: y\r\ncookie: a=b; c=d\r\n"
        );
        assert_eq!(
            of(&[&GET[..], &[("host", "other")]].concat()),
            "GET / HTTP/2.0\r\nhost: h\r\nhost: other\r\n"
        );
        assert_eq!(
            of(&[(":method", "CONNECT"), (":authority", "h:443")]),
            "CONNECT h:443 HTTP/2.0\r\nhost: h:443\r\n"
        );
        let about = [("content-length", "7"), ("expect", "100-Continue"), ("priority", "u=1, i")];
        let (section, is_valid) = section(Kind::Request, &[&GET[..], &about].concat());
        assert!(is_valid && section.expects_continue() && !section.is_head_request());
        assert_eq!(section.content_length(), Some(7));
        assert_eq!(section.priority(), Some(Priority { urgency: 1, is_incremental: true }));
        assert_eq!(section.text(), b"GET / HTTP/2.0\r\nhost: h\r\npriority: u=1, i\r\n");
    }

    #[test]
    fn responses() {
        assert_eq!(
            text(Kind::Response, &[(":status", "200"), ("content-length", "5"), ("set-cookie", "a")]),
            "HTTP/1.1 200\r\ncontent-length: 5\r\nset-cookie: a\r\n"
        );
        for bad in [
            &[][..],
            &[("x", "y")],
            &[(":status", "20")],
            &[(":status", "2000")],
            &[(":status", "099")],
            &[(":status", "200"), (":status", "200")],
            &[(":status", "200"), (":path", "/")],
            &[(":status", "200"), ("connection", "close")],
            &[("x", "y"), (":status", "200")],
        ] {
            assert!(!section(Kind::Response, bad).1, "{bad:?}");
        }
    }

    #[test]
    fn malformed_fields() {
        for (name, value) in [
            ("X", "a"),
            ("", "a"),
            ("a b", "a"),
            ("a:", "a"),
            ("a", " b"),
            ("a", "b\t"),
            ("a", "b\nc"),
            ("a", "b\0"),
            ("a", "\x01"),
            (":path", "/x"),
            (":status", "200"),
            (":protocol", "websocket"),
            (":x", "a"),
            ("connection", "close"),
            ("keep-alive", "5"),
            ("proxy-connection", "close"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "gzip"),
            ("content-length", "x"),
            ("content-length", ""),
            ("content-length", "99999999999999999999"),
        ] {
            assert!(!is_request(&[&GET[..], &[(name, value)]].concat()), "{name:?}: {value:?}");
            assert!(!is_trailers(&[(name, value)]), "{name:?}: {value:?}");
        }
        assert!(!is_request(&[&GET[..], &[("content-length", "1"), ("content-length", "2")]].concat()));
        assert!(!is_request(&[("a", "b"), GET[0], GET[1], GET[2], GET[3]]), "a pseudo-field behind another");
        assert!(is_trailers(&[("a", "b")]) && is_trailers(&[]));
        assert!(!is_trailers(&[GET[0]]));
    }

    #[test]
    fn malformed_pseudo_fields() {
        for (place, value) in [
            (0, ""),
            (0, "G T"),
            (0, "G@T"),
            (1, ""),
            (1, "h ttp"),
            (1, "1http"),
            (2, "a b"),
            (3, ""),
            (3, "x"),
            (3, "/ x"),
            (3, "/#x"),
            (3, "*"),
            (3, "/\x7f"),
        ] {
            let mut fields = GET;
            fields[place].1 = value;
            assert!(!is_request(&fields), "{}: {value:?}", fields[place].0);
        }
        assert!(!is_request(&[(":method", "CONNECT"), (":authority", "h:1"), (":path", "/")]));
        assert!(!is_request(&[(":method", "CONNECT"), (":scheme", "http"), (":authority", "h:1")]));
        assert!(!is_request(&[(":method", "CONNECT")]));
    }

    #[test]
    fn too_large_lists_keep_no_more_than_the_limit() {
        let mut section = Section::default();
        section.begin(Kind::Request, 200);
        for (name, value) in GET {
            section.take(Field { name: name.as_bytes(), value: value.as_bytes() });
        }
        for _ in 0..100 {
            section.take(Field { name: b"x", value: b"y" });
        }
        assert!(section.is_too_large() && section.text().len() < 200);
    }
}
