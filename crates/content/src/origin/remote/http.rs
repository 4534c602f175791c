//! Objects of an HTTP server, or of an object store that speaks S3: GET with Range, and conditions on the version.
//!
//! The first part of an object comes together with what describes it, so a small object costs one exchange. Later parts
//! are requested for the version that was opened (If-Match), and their Content-Range and validators must fit it: two
//! versions are never mixed. Of a server that ignores Range, only objects of one part can be read, because the whole
//! object is never transferred for a part of it.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use sojourn_http::upstream::RequestKind;
use sojourn_http::{HttpDate, head};
use sojourn_s3::xml;

use super::client::{Client, ClientError, Exchange};
use super::signer::{Signer, unix_now};
use super::store::{Object, Opened, Store, StoreError, Version};

/// How much of an error's body is read.
const ERROR_BYTES_MAX: usize = 4096;

/// How often a request is sent if the server fails or is overloaded, and the pause before the next attempt, which
/// doubles.
const ATTEMPTS_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct HttpStore {
    client: Client,
    /// What precedes a key, percent-encoded, with both slashes.
    path: String,
    /// For a store that wants signatures.
    signer: Option<Arc<Signer>>,
}

/// The part of an object that is wanted, if any, and of which version.
struct Part<'a> {
    range: Option<(u64, u64)>,
    unless: Option<&'a Version>,
    only: Option<&'a Version>,
}

/// Content-Range: first and last byte, and the size.
#[derive(Debug, PartialEq, Eq)]
struct Span {
    first: u64,
    last: u64,
    size: u64,
}

impl HttpStore {
    /// The objects of `client`'s server below `path`, which is percent-encoded and has a slash at both ends.
    pub fn new(client: Client, path: String, signer: Option<Arc<Signer>>) -> HttpStore {
        HttpStore { client, path, signer }
    }

    fn send(&self, key: &[u8], part: &Part<'_>) -> Result<Exchange<'_>, StoreError> {
        let mut pause = PAUSE;
        for attempt in 1.. {
            let request = self.request(key, part)?;
            let failure = match self.client.send(&request, RequestKind::Other) {
                Ok(exchange) if matches!(exchange.status, 500 | 502..=504) => failure(exchange),
                Ok(exchange) => return Ok(exchange),
                // Waiting has cost as much as allowed.
                Err(error @ ClientError::Timeout(_)) => return Err(error.into()),
                Err(error) => error.into(),
            };
            if attempt == ATTEMPTS_MAX {
                return Err(failure);
            }
            sleep(pause);
            pause *= 2;
        }
        unreachable!("it returns after the last attempt")
    }

    fn request(&self, key: &[u8], part: &Part<'_>) -> Result<Vec<u8>, StoreError> {
        let mut path = self.path.clone();
        sojourn_http::path::percent_encode(key, &mut path);
        let authority = self.client.authority();
        let mut fields: Vec<(&str, String)> = Vec::new();
        if let Some((first, last)) = part.range {
            fields.push(("range", format!("bytes={first}-{last}")));
        }
        if let Some(version) = part.unless {
            match (&version.entity_tag, version.modified) {
                (Some(tag), _) => fields.push(("if-none-match", tag.to_string())),
                (None, Some(date)) => fields.push(("if-modified-since", text(date))),
                (None, None) => {}
            }
        }
        if let Some(version) = part.only {
            match (&version.entity_tag, version.modified) {
                // RFC 9110, 13.1.1: a weak tag never matches there.
                (Some(tag), _) if !tag.starts_with("W/") => fields.push(("if-match", tag.to_string())),
                (_, Some(date)) => fields.push(("if-unmodified-since", text(date))),
                _ => {}
            }
        }
        let mut request = format!("GET {path} HTTP/1.1\r\n").into_bytes();
        head::field(&mut request, "Host", authority);
        head::field(&mut request, "User-Agent", concat!("sojourn/", env!("CARGO_PKG_VERSION")));
        // Another representation would have other ranges.
        head::field(&mut request, "Accept-Encoding", "identity");
        for (name, value) in &fields {
            head::field(&mut request, name, value);
        }
        if let Some(signer) = &self.signer {
            // Only helpers read, or whoever lets its clients wait.
            signer.wait_until_valid();
            let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, &**value)).collect();
            signer
                .sign(("GET", &path), authority, &fields, unix_now(), &mut request)
                .map_err(StoreError::Failed)?;
        }
        request.extend_from_slice(b"\r\n");
        Ok(request)
    }

    /// Why a response is not an object.
    fn refusal(&self, exchange: Exchange<'_>) -> StoreError {
        let status = exchange.status;
        let moved = exchange.text("x-amz-bucket-region").map(str::to_owned);
        let location = exchange.text("location").map(str::to_owned);
        match status {
            404 | 410 => StoreError::NotFound,
            412 => StoreError::Changed,
            300..=399 => {
                let hint = match (moved, location) {
                    (Some(region), _) => format!("the bucket is in region {region}: set AWS_REGION"),
                    (_, Some(location)) => format!("it redirects to {location}"),
                    _ => "it redirects".to_owned(),
                };
                StoreError::Failed(format!("{status}: {hint}"))
            }
            401 | 403 => {
                let body = exchange.text_body(ERROR_BYTES_MAX).unwrap_or_default();
                let code = xml::text_of(&body, "Code").unwrap_or_default();
                let message = xml::text_of(&body, "Message").unwrap_or_default();
                if self.signer.as_ref().is_some_and(|signer| signer.renew_if_refused(&code)) {
                    return StoreError::Failed(format!("{code}: {message}"));
                }
                match &*code {
                    "RequestTimeTooSkewed" | "SignatureDoesNotMatch" => {
                        StoreError::Failed(format!("{code}: {message}"))
                    }
                    _ => StoreError::Forbidden(format!("{status} {code}")),
                }
            }
            _ => failure(exchange),
        }
    }

    fn object(exchange: Exchange<'_>, size: u64, length: u64) -> Result<Object, StoreError> {
        let own = |name: &str| exchange.text(name).filter(|value| !value.is_empty()).map(Box::from);
        let modified = exchange.field("last-modified").and_then(HttpDate::parse);
        let version = Version { size, entity_tag: own("etag"), modified };
        let (media_type, cache_control) = (own("content-type"), own("cache-control"));
        let content_encoding = own("content-encoding");
        let mut start = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        let read = exchange.read(&mut start)?;
        if read < start.len() {
            return Err(StoreError::Failed("the response ended too early".to_owned()));
        }
        Ok(Object { version, media_type, content_encoding, cache_control, start })
    }
}

impl Store for HttpStore {
    fn open(&self, key: &[u8], known: Option<&Version>, bytes_max: u64) -> Result<Opened, StoreError> {
        let known = known.filter(|known| !known.is_anonymous());
        let mut range = Some((0, bytes_max - 1));
        loop {
            let exchange = self.send(key, &Part { range, unless: known, only: None })?;
            let (size, length) = match exchange.status {
                304 if known.is_some() => return Ok(Opened::Unchanged),
                206 => {
                    // A shorter part would be taken for the whole chunk.
                    let is_asked_for =
                        |span: &Span| span.first == 0 && span.last + 1 == span.size.min(bytes_max);
                    let span = Span::of(&exchange).filter(is_asked_for);
                    let span = span.ok_or_else(|| {
                        StoreError::Failed("a Content-Range that was not asked for".to_owned())
                    })?;
                    (span.size, span.last + 1)
                }
                200 => match exchange.content_length {
                    Some(size) => (size, size.min(bytes_max)),
                    None => return unannounced(exchange, bytes_max).map(Opened::Object),
                },
                // An empty object has no first byte.
                416 if range.is_some() => {
                    range = None;
                    continue;
                }
                _ => return Err(self.refusal(exchange)),
            };
            return HttpStore::object(exchange, size, length).map(Opened::Object);
        }
    }

    fn read(&self, key: &[u8], version: &Version, offset: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let Some(last) = (offset + into.len() as u64).checked_sub(1).filter(|_| !into.is_empty()) else {
            return Ok(());
        };
        let exchange =
            self.send(key, &Part { range: Some((offset, last)), unless: None, only: Some(version) })?;
        let is_whole = exchange.status == 200 && offset == 0 && exchange.content_length == Some(version.size);
        match exchange.status {
            206 => {}
            200 if is_whole && into.len() as u64 == version.size => {}
            200 => return Err(StoreError::Failed("the server ignores Range".to_owned())),
            416 => return Err(StoreError::Changed),
            _ => return Err(self.refusal(exchange)),
        }
        // A server may ignore the condition; the response still says which version it is of.
        let is_other = |own: Option<&[u8]>, known: Option<&str>| match (own, known) {
            (Some(own), Some(known)) => own != known.as_bytes(),
            _ => false,
        };
        let modified = exchange.field("last-modified").and_then(HttpDate::parse);
        if is_other(exchange.field("etag"), version.entity_tag.as_deref())
            || modified.zip(version.modified).is_some_and(|(own, known)| own != known)
        {
            return Err(StoreError::Changed);
        }
        if !is_whole {
            match Span::of(&exchange) {
                Some(span) if span.size != version.size => return Err(StoreError::Changed),
                Some(span) if (span.first, span.last) == (offset, last) => {}
                _ => return Err(StoreError::Failed("a Content-Range that was not asked for".to_owned())),
            }
        }
        match exchange.read(into)? {
            read if read == into.len() => Ok(()),
            _ => Err(StoreError::Failed("the response ended too early".to_owned())),
        }
    }
}

/// The object in a response that does not announce its length: only if it fits into one part.
fn unannounced(exchange: Exchange<'_>, bytes_max: u64) -> Result<Object, StoreError> {
    let own = |name: &str| exchange.text(name).filter(|value| !value.is_empty()).map(Box::from);
    let modified = exchange.field("last-modified").and_then(HttpDate::parse);
    let (entity_tag, media_type) = (own("etag"), own("content-type"));
    let (content_encoding, cache_control) = (own("content-encoding"), own("cache-control"));
    let mut start = vec![0; usize::try_from(bytes_max).unwrap_or(usize::MAX).saturating_add(1)];
    let length = exchange.read(&mut start)?;
    if length as u64 > bytes_max {
        return Err(StoreError::Failed("the server ignores Range and announces no length".to_owned()));
    }
    start.truncate(length);
    let version = Version { size: length as u64, entity_tag, modified };
    Ok(Object { version, media_type, content_encoding, cache_control, start })
}

fn failure(exchange: Exchange<'_>) -> StoreError {
    let status = exchange.status;
    let body = exchange.text_body(ERROR_BYTES_MAX).unwrap_or_default();
    let part = |name| xml::text_of(&body, name).map(|text| format!(" {text}")).unwrap_or_default();
    StoreError::Failed(format!("{status}{}{}", part("Code"), part("Message")))
}

fn text(date: HttpDate) -> String {
    String::from_utf8_lossy(&date.text()).into_owned()
}

impl Span {
    fn of(exchange: &Exchange<'_>) -> Option<Span> {
        Span::parse(exchange.text("content-range")?)
    }

    fn parse(text: &str) -> Option<Span> {
        let (range, size) = text.strip_prefix("bytes ")?.trim().split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let number =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        let span = Span { first: number(first)?, last: number(last)?, size: number(size)? };
        (span.first <= span.last && span.last < span.size).then_some(span)
    }
}

impl From<ClientError> for StoreError {
    fn from(error: ClientError) -> StoreError {
        match error {
            ClientError::Timeout(limit) => StoreError::Timeout(limit),
            error => StoreError::Failed(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        let span = |text| Span::parse(text).map(|span| (span.first, span.last, span.size));
        assert_eq!(span("bytes 0-9/10"), Some((0, 9, 10)));
        for bad in [
            "bytes 0-10/10",
            "bytes 5-4/10",
            "bytes */10",
            "bytes 0-9/*",
            "bytes +0-9/10",
            "items 0-9/10",
            "",
        ] {
            assert_eq!(span(bad), None, "{bad}");
        }
    }
}
