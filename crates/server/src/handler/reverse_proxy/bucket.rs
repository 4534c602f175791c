//! A bucket as an upstream: turns a request to it into one for an object, signed.
//!
//! Only objects can be reached. The query is dropped, because it selects other resources of a bucket (`?acl`,
//! `?list-type=2`), and so are all fields but conditions and ranges: an object store obeys many others. A path that ends
//! in a slash stands for its index object, so a bucket cannot be listed, either. The bodies of a store's errors may repeat
//! the signed request, so they go to the log, and clients get a line of ours.

use std::sync::Arc;

use sojourn_content::remote::{Signer, unix_now};
use sojourn_http::path::percent_encode;
use sojourn_http::upstream::{Body, Head};
use sojourn_http::{SitePath, Status, head};
use sojourn_s3::xml;

use crate::stderr;

/// The fields that are passed on, and signed.
const PASSED_ON: [&str; 6] =
    ["range", "if-range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since"];

/// How much of an error's body is read; after that, the connection is closed.
const ERROR_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub struct Bucket {
    /// The Host that the store expects.
    pub authority: String,
    /// What precedes a key in a path, percent-encoded, with both slashes.
    pub path: String,
    /// `None` for public buckets.
    pub signer: Option<Arc<Signer>>,
    /// The name of index objects.
    pub index: Box<[u8]>,
}

impl Bucket {
    /// Appends the request for the object that the request with this head asks for.
    ///
    /// # Errors
    /// The status with which to answer instead.
    pub fn append_request(&self, text: &[u8], request: &mut Vec<u8>) -> Result<(), Status> {
        let line_end = memchr::memchr(b'\n', text).ok_or(Status::BadRequest)?;
        let mut words = text[..line_end].split(|byte| *byte == b' ');
        let method = match words.next() {
            Some(b"GET") => "GET",
            Some(b"HEAD") => "HEAD",
            _ => return Err(Status::MethodNotAllowed),
        };
        let target =
            words.next().and_then(|target| SitePath::decode(target).ok()).ok_or(Status::BadRequest)?;
        let mut path = self.path.clone();
        percent_encode(target.as_bytes(), &mut path);
        if target.is_directory() {
            percent_encode(&self.index, &mut path);
        }
        let mut fields: Vec<(&str, String)> = Vec::new();
        for (name, value) in head::field_lines(&text[line_end + 1..]) {
            let passed_on = PASSED_ON.iter().find(|own| name.eq_ignore_ascii_case(own.as_bytes()));
            let Some(&name) = passed_on else { continue };
            let value = std::str::from_utf8(value).map_err(|_| Status::BadRequest)?;
            match fields.iter_mut().find(|(own, _)| *own == name) {
                // Lines of one list are signed as one.
                Some((_, own)) => *own = format!("{own},{value}"),
                None => fields.push((name, value.to_owned())),
            }
        }
        for part in [method, " ", &path, " HTTP/1.1\r\n"] {
            request.extend_from_slice(part.as_bytes());
        }
        head::field(request, "Host", &self.authority);
        for (name, value) in &fields {
            head::field(request, name, value);
        }
        if let Some(signer) = &self.signer {
            let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, &**value)).collect();
            signer.sign((method, &path), &self.authority, &fields, unix_now(), request).map_err(|why| {
                stderr::write(&format!("upstream {}: {why}\n", self.authority));
                Status::BadGateway
            })?;
        }
        request.extend_from_slice(b"\r\n");
        Ok(())
    }
}

/// An error of a store whose body is withheld from clients.
#[derive(Debug)]
pub struct StoreError {
    status: u16,
    body: Vec<u8>,
}

/// What clients get instead of an error's body.
pub struct OwnBody {
    /// The field lines and the empty line.
    pub fields: Vec<u8>,
    pub text: String,
}

impl StoreError {
    /// The error that begins with `head`, if it is one and has a body.
    pub fn of(head: &Head<'_>) -> Option<(StoreError, OwnBody)> {
        if head.status < 300 || head.body == Body::None {
            return None;
        }
        let reason =
            http::StatusCode::from_u16(head.status).ok().and_then(|status| status.canonical_reason());
        let text = format!("{} {}\n", head.status, reason.unwrap_or("Refused"));
        let mut fields = Vec::new();
        for (name, value) in head::field_lines(head.fields) {
            let describes_body = name.len() > 8 && name[..8].eq_ignore_ascii_case(b"content-")
                || [&b"etag"[..], b"last-modified"].iter().any(|own| name.eq_ignore_ascii_case(own));
            if !describes_body {
                for part in [name, b": ", value, b"\r\n"] {
                    fields.extend_from_slice(part);
                }
            }
        }
        head::field(&mut fields, "Content-Type", "text/plain; charset=utf-8");
        fields.extend_from_slice(b"\r\n");
        Some((StoreError { status: head.status, body: Vec::new() }, OwnBody { fields, text }))
    }

    /// Takes a part of the body; false if there is too much.
    pub fn append(&mut self, part: &[u8]) -> bool {
        let room = ERROR_BYTES_MAX - self.body.len();
        self.body.extend_from_slice(&part[..part.len().min(room)]);
        part.len() < room
    }

    /// Reports the error of `bucket`, and has its credentials renewed if they are at fault.
    pub fn report(self, bucket: &Bucket) {
        let body = String::from_utf8_lossy(&self.body);
        let text = |name| xml::text_of(&body, name).unwrap_or_default();
        let (code, message) = (text("Code"), text("Message"));
        if let Some(signer) = &bucket.signer {
            signer.renew_if_refused(&code);
        }
        // Absent objects are no failure.
        if self.status != 404 {
            let what = format!("{} {code}: {message}", self.status);
            stderr::write(&format!("upstream {}: {}\n", bucket.authority, what.escape_debug()));
        }
    }
}

#[cfg(test)]
mod tests {
    use sojourn_http::request::Version;
    use sojourn_http::upstream::RequestKind;

    use super::*;

    fn of(text: &str) -> Result<String, Status> {
        let bucket = Bucket {
            authority: "store.example".to_owned(),
            path: "/site/p/".to_owned(),
            signer: None,
            index: b"index.html".as_slice().into(),
        };
        let mut request = Vec::new();
        bucket.append_request(text.as_bytes(), &mut request)?;
        Ok(String::from_utf8(request).unwrap())
    }

    #[test]
    fn only_objects_can_be_reached() {
        let expected = |path: &str| Ok(format!("GET {path} HTTP/1.1\r\nHost: store.example\r\n\r\n"));
        for (target, path) in [
            ("/a", "/site/p/a"),
            ("/", "/site/p/index.html"),
            ("/?list-type=2", "/site/p/index.html"),
            ("/d/?acl", "/site/p/d/index.html"),
            ("/a?versionId=1", "/site/p/a"),
            ("/a%20b%2f%3f+\"", "/site/p/a%20b/%3F%2B%22"),
            ("/x/../y", "/site/p/y"),
        ] {
            assert_eq!(of(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")), expected(path), "{target}");
        }
        assert_eq!(of("GET /../other/secret HTTP/1.1\r\n\r\n"), Err(Status::BadRequest));
        for method in ["PUT", "POST", "DELETE", "PURGE", "get"] {
            assert_eq!(of(&format!("{method} /a HTTP/1.1\r\n\r\n")), Err(Status::MethodNotAllowed));
        }
    }

    #[test]
    fn a_store_gets_conditions_and_ranges_alone() {
        let text = "HEAD /a HTTP/1.1\r\nHost: h\r\nX-Amz-Acl: public-read\r\nAuthorization: x\r\nCookie: y\r\n\
            Range: bytes=0-9\r\nIf-None-Match: \"a\"\r\nIf-None-Match: \"b\"\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n";
        let expected = "HEAD /site/p/a HTTP/1.1\r\nHost: store.example\r\nrange: bytes=0-9\r\n\
            if-none-match: \"a\",\"b\"\r\n\r\n";
        assert_eq!(of(text).as_deref(), Ok(expected));
    }

    #[test]
    fn errors_of_a_store_are_withheld() {
        let fields = b"Content-Type: application/xml\r\ncontent-length: 9\r\nETag: \"a\"\r\nX-Id: 7\r\n\r\n";
        let head = |status, asked| Head::of_fields(status, Version::Http11, b"", fields, asked).unwrap();
        let (mut error, own) = StoreError::of(&head(403, RequestKind::Other)).unwrap();
        assert_eq!(own.text, "403 Forbidden\n");
        assert_eq!(own.fields, b"X-Id: 7\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n");
        assert!(error.append(b"<Code>") && !error.append(&[0; ERROR_BYTES_MAX]));
        assert_eq!(error.body.len(), ERROR_BYTES_MAX);
        assert!(StoreError::of(&head(206, RequestKind::Other)).is_none());
        assert!(StoreError::of(&head(403, RequestKind::Head)).is_none());
    }
}
