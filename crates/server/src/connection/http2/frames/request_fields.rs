//! Validates the fields of requests and trailers (RFC 9113, 8.2 and 8.3).

use sojourn_http::token::{is_text, is_token};

use super::hpack::Field;

/// Connection-specific fields of HTTP/1 (RFC 9113, 8.2.2).
const OF_CONNECTION: [&[u8]; 5] =
    [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];

#[derive(Debug, Default)]
pub struct Section {
    is_malformed: bool,
    has_regular: bool,
    method: Option<Method>,
    has_scheme: bool,
    has_authority: bool,
    path: Option<Path>,
    content_length: Option<Box<[u8]>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Connect,
    Options,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Rooted,
    Asterisk,
}

impl Section {
    pub fn take(&mut self, field: &Field<'_>) {
        let is_sound = match field.name.split_first() {
            None => false,
            Some((b':', pseudo)) => !self.has_regular && self.take_pseudo(pseudo, field.value),
            Some(_) => {
                self.has_regular = true;
                self.take_regular(field)
            }
        };
        self.is_malformed |= !is_sound;
    }

    /// Returns true for a valid request (RFC 9113, 8.3.1 and 8.5).
    pub fn is_request(&self) -> bool {
        let is_complete = match (self.method, self.path) {
            (None, _) => false,
            (Some(Method::Connect), path) => self.has_authority && !self.has_scheme && path.is_none(),
            (_, None) => false,
            (Some(method), Some(Path::Asterisk)) => self.has_scheme && method == Method::Options,
            (_, Some(Path::Rooted)) => self.has_scheme,
        };
        is_complete && !self.is_malformed
    }

    /// Returns true for valid trailers: no pseudo-fields (RFC 9113, 8.1).
    pub fn is_trailers(&self) -> bool {
        let has_pseudo =
            self.method.is_some() || self.path.is_some() || self.has_scheme || self.has_authority;
        !has_pseudo && !self.is_malformed
    }

    fn take_pseudo(&mut self, name: &[u8], value: &[u8]) -> bool {
        if !value.iter().all(u8::is_ascii_graphic) {
            return false;
        }
        match name {
            b"method" => {
                let method = match value {
                    b"CONNECT" => Method::Connect,
                    b"OPTIONS" => Method::Options,
                    _ => Method::Other,
                };
                let is_token = !value.is_empty() && value.iter().copied().all(is_token);
                self.method.replace(method).is_none() && is_token
            }
            b"scheme" => {
                let is_scheme = value.first().is_some_and(u8::is_ascii_alphabetic)
                    && value
                        .iter()
                        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
                !std::mem::replace(&mut self.has_scheme, true) && is_scheme
            }
            b"authority" => !std::mem::replace(&mut self.has_authority, true),
            b"path" => {
                let path = match value {
                    b"*" => Path::Asterisk,
                    _ => Path::Rooted,
                };
                let is_path =
                    path == Path::Asterisk || value.first() == Some(&b'/') && !value.contains(&b'#');
                self.path.replace(path).is_none() && is_path
            }
            // Also :protocol, which is not enabled (RFC 8441, 3), and :status.
            _ => false,
        }
    }

    fn take_regular(&mut self, field: &Field<'_>) -> bool {
        let Field { name, value, .. } = *field;
        let is_name = |byte: &u8| is_token(*byte) && !byte.is_ascii_uppercase();
        let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        let is_sound = name.iter().all(is_name)
            && value.iter().copied().all(is_text)
            && !is_blank(value.first())
            && !is_blank(value.last());
        is_sound
            && match name {
                b"te" => value == b"trailers",
                b"content-length" => self.take_length(value),
                _ => !OF_CONNECTION.contains(&name),
            }
    }

    /// A length that is invalid or contradicts another cannot be the body's (RFC 9113, 8.1.1).
    fn take_length(&mut self, value: &[u8]) -> bool {
        let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let is_same = self.content_length.as_ref().is_none_or(|other| **other == *value);
        self.content_length = Some(value.into());
        is_number && is_same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: [(&str, &str); 4] =
        [(":method", "GET"), (":scheme", "http"), (":authority", "h"), (":path", "/")];

    fn section(fields: &[(&str, &str)]) -> Section {
        let mut section = Section::default();
        for (name, value) in fields {
            section.take(&Field { name: name.as_bytes(), value: value.as_bytes(), indexed: None });
        }
        section
    }

    fn is_request(fields: &[(&str, &str)]) -> bool {
        section(fields).is_request()
    }

    #[test]
    fn requests() {
        assert!(is_request(&GET));
        assert!(is_request(&[
            GET[0],
            GET[1],
            GET[3],
            ("te", "trailers"),
            ("x", ""),
            ("content-length", "0")
        ]));
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
        ] {
            assert!(!is_request(&[&GET[..], &[(name, value)]].concat()), "{name:?}: {value:?}");
            assert!(!section(&[(name, value)]).is_trailers(), "{name:?}: {value:?}");
        }
        assert!(!is_request(&[&GET[..], &[("content-length", "1"), ("content-length", "2")]].concat()));
        assert!(!is_request(&[("a", "b"), GET[0], GET[1], GET[2], GET[3]]), "a pseudo-field behind another");
        assert!(section(&[("a", "b")]).is_trailers() && section(&[]).is_trailers());
        assert!(!section(&[GET[0]]).is_trailers());
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
}
