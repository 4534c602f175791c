//! Partial responses (206), and how they combine into a whole (RFC 9111, 3.4; RFC 9110, 14.4 and 15.3.7.3).

use sojourn_http::range::ByteRange;
use sojourn_http::token::decimal;

use super::fields::{Section, append_line};
use super::metadata::Metadata;
use super::policy::Policy;
use super::storable::{NotStorable, Request, Response, entity_tag, storable};
use super::validation::{Freshened, freshen};

/// The Content-Range of a 206: which part, and of what length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    pub part: ByteRange,
    /// The length of the whole representation, if the origin knows it.
    pub complete: Option<u64>,
}

impl ContentRange {
    /// Reads the Content-Range of a 206 with a single part; `None` if it is invalid. A 206 without Content-Range, such
    /// as a multipart one, must not be combined.
    pub fn of(received: Section<'_>) -> Option<ContentRange> {
        let mut values = received.values("content-range");
        let value = values.next().filter(|_| values.next().is_none())?;
        let (unit, range) = value.split_at_checked(b"bytes ".len())?;
        let slash = range.iter().position(|byte| *byte == b'/')?;
        let dash = range[..slash].iter().position(|byte| *byte == b'-')?;
        let part = ByteRange { first: decimal(&range[..dash])?, last: decimal(&range[dash + 1..slash])? };
        let complete = match &range[slash + 1..] {
            b"*" => None,
            length => Some(decimal(length)?),
        };
        let is_within = part.first <= part.last && complete.is_none_or(|length| part.last < length);
        (unit.eq_ignore_ascii_case(b"bytes ") && is_within).then_some(ContentRange { part, complete })
    }
}

/// The strong entity tag of a representation, empty if there is none. Only parts with equal tags are combined (RFC
/// 9110, 15.3.7.3). Dates could serve too, but they miss a second change within the same second.
pub fn strong_tag<'b>(received: Section<'b>) -> &'b [u8] {
    entity_tag(received).filter(|tag| !tag.starts_with(b"W/")).unwrap_or_default()
}

/// What to store of a 206 with a single part: its range and the metadata of the whole (RFC 9111, 3.3), or why it must
/// not be stored. `stored` are the parts already stored with the same strong validator; the new response updates their
/// fields (RFC 9111, 3.4).
pub fn storable_part(
    request: &Request<'_>,
    response: &Response<'_>,
    stored: Option<&Metadata<'_>>,
    policy: &Policy,
) -> Result<(ContentRange, Box<[u8]>), NotStorable> {
    let range = ContentRange::of(response.fields).filter(|range| range.complete.is_some());
    let range = range.filter(|_| response.status == 206).ok_or(NotStorable::Status)?;
    let mut lines = Vec::with_capacity(response.fields.0.len());
    for (name, value) in
        response.fields.lines().filter(|(name, _)| !name.eq_ignore_ascii_case(b"content-range"))
    {
        append_line(&mut lines, name, &[value]);
    }
    let whole = Response { status: 200, fields: Section(&lines), ..*response };
    let metadata = match stored {
        None => storable(request, &whole, policy)?,
        Some(stored) => match freshen(stored, request, whole.fields, whole.moments, whole.via, policy) {
            Freshened::Stored(metadata) => metadata,
            // Stored if the part itself says which fields are not for others.
            Freshened::Apart(metadata, _) => storable(request, &whole, policy).map(|_| metadata)?,
            Freshened::Once(_, reason) => return Err(reason),
            Freshened::Changed => return Err(NotStorable::Vary),
        },
    };
    Ok((range, metadata))
}

#[cfg(test)]
mod tests {
    use super::super::forward::Via;
    use super::super::{Moments, RequestDirectives};
    use super::*;
    use sojourn_http::request::Version;

    fn range(value: &str) -> Option<(u64, u64, Option<u64>)> {
        let lines = format!("Content-Range: {value}\r\n");
        ContentRange::of(Section(lines.as_bytes()))
            .map(|range| (range.part.first, range.part.last, range.complete))
    }

    #[test]
    fn content_ranges() {
        assert_eq!(range("bytes 0-4/10"), Some((0, 4, Some(10))));
        assert_eq!(range("Bytes 9-9/*"), Some((9, 9, None)));
        for bad in [
            "bytes */10",
            "bytes 5-4/10",
            "bytes 0-10/10",
            "bytes=0-4/10",
            "bytes 0-4",
            "lines 0-4/10",
            "bytes 0-4/x",
            "bytes -4/10",
            "bytes +0-4/10",
            "",
            "bytes 0-18446744073709551616/*",
            "bytes 0-4/10\r\nContent-Range: bytes 0-4/10",
        ] {
            assert_eq!(range(bad), None, "{bad}");
        }
    }

    /// RFC 9110, 15.3.7.3: only strong entity tags tell representations apart.
    #[test]
    fn what_tells_representations_apart() {
        let tag = |lines: &'static str| strong_tag(Section(lines.as_bytes()));
        assert_eq!(tag("ETag: \"x\"\r\n"), b"\"x\"");
        assert_eq!(tag("ETag: W/\"x\"\r\n"), b"");
        assert_eq!(tag("ETag: \"x\"\r\nETag: \"x\"\r\n"), b"");
        assert_eq!(tag("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"), b"");
    }

    fn part(lines: &str, stored: Option<&[u8]>) -> Result<(ContentRange, Box<[u8]>), NotStorable> {
        let directives = RequestDirectives::default();
        let request = Request { method: b"GET", fields: Section(b""), directives, has_body: false };
        let moments = Moments { request: 1000, response: 1000 };
        let via = Via { received: Version::Http11, pseudonym: "me" };
        let response = Response { status: 206, fields: Section(lines.as_bytes()), moments, via };
        let stored = stored.map(|bytes| Metadata::read(bytes).unwrap());
        storable_part(&request, &response, stored.as_ref(), &Policy::default())
    }

    /// RFC 9111, 3.3 and 3.4: range and updated fields of a stored part.
    #[test]
    fn what_is_stored_of_a_part() {
        let lines =
            "ETag: \"x\"\r\nCache-Control: max-age=60\r\nContent-Range: bytes 2-3/9\r\nA: 1\r\nB: 1\r\n";
        let (range, bytes) = part(lines, None).unwrap();
        assert_eq!((range.part, range.complete), (ByteRange { first: 2, last: 3 }, Some(9)));
        let stored = Metadata::read(&bytes).unwrap();
        assert_eq!((stored.status, stored.entity_tag, stored.lifetime), (200, b"\"x\"".as_slice(), 60));
        assert!(!Section(stored.fields).has("content-range"));
        let later = "ETag: \"x\"\r\nCache-Control: max-age=90\r\nContent-Range: bytes 4-8/9\r\nA: 2\r\n";
        let (_, both) = part(later, Some(&bytes)).unwrap();
        let both = Metadata::read(&both).unwrap();
        assert_eq!(both.lifetime, 90);
        let value = |name| Section(both.fields).values(name).collect::<Vec<_>>();
        assert_eq!((value("a"), value("b")), (vec![b"2".as_slice()], vec![b"1".as_slice()]));
        let cookie = "ETag: \"x\"\r\nContent-Range: bytes 4-8/9\r\nSet-Cookie: a=b\r\n";
        assert_eq!(part(cookie, Some(&bytes)).unwrap_err(), NotStorable::SetCookie);
        let named = format!("{cookie}Cache-Control: public, max-age=60, no-cache=\"set-cookie\"\r\n");
        let (_, both) = part(&named, Some(&bytes)).unwrap();
        assert!(!Section(Metadata::read(&both).unwrap().fields).has("set-cookie"));
        for (refused, why) in [
            ("Cache-Control: max-age=60\r\nContent-Range: bytes 2-3/*\r\n", NotStorable::Status),
            ("Cache-Control: max-age=60\r\nContent-Type: multipart/byteranges\r\n", NotStorable::Status),
            ("Cache-Control: no-store\r\nContent-Range: bytes 2-3/9\r\n", NotStorable::NoStore),
            ("Cache-Control: private\r\nContent-Range: bytes 2-3/9\r\n", NotStorable::Private),
        ] {
            assert_eq!(part(refused, None).unwrap_err(), why, "{refused}");
        }
    }
}
