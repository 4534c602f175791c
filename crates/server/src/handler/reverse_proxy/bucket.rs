//! A bucket as an upstream: turns a request to it into one for an object, signed.
//!
//! Only objects can be reached. The query is dropped, because it selects other resources of a bucket (`?acl`,
//! `?list-type=2`), and so are all fields but conditions and ranges: an object store obeys many others. A path that ends
//! in a slash stands for its index object, so a bucket cannot be listed, either.

use std::sync::Arc;

use sojourn_content::remote::{Signer, unix_now};
use sojourn_http::path::percent_encode;
use sojourn_http::{SitePath, Status, head};

use crate::stderr;

/// The fields that are passed on, and signed.
const PASSED_ON: [&str; 6] =
    ["range", "if-range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since"];

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

#[cfg(test)]
mod tests {
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
}
