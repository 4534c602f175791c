//! What must hold for any bytes given to the HTTP parsers. The fuzz targets and the replay of their corpora in
//! `crates/http/tests/corpora.rs` call the same functions.

use sojourn_http::SitePath;
use sojourn_http::condition::Validators;
use sojourn_http::date::HttpDate;
use sojourn_http::range::{Selection, select};
use sojourn_http::request::{Parsed, Parser};
use sojourn_http::response;

/// Arrived whole or in pieces, a request is read alike; what is read is framed within the bytes.
pub fn request(bytes: &[u8]) {
    let whole = outcome(&mut Parser::default(), bytes);
    for step in [1, 7, 64] {
        let mut parser = Parser::default();
        let mut pieces = None;
        for end in (0..bytes.len()).step_by(step).chain([bytes.len()]) {
            pieces = outcome(&mut parser, &bytes[..end]);
            if pieces.is_some() {
                break;
            }
        }
        assert_eq!(pieces, whole, "in pieces of {step}");
    }
    if let Ok(Parsed::Complete(request)) = Parser::default().parse(bytes) {
        assert!(request.head_len <= bytes.len());
        assert!(!request.line.contains(&b'\r') && !request.line.contains(&b'\n'));
        path(request.target);
        let current = Validators { entity_tag: b"\"x\"", modified: HttpDate::from_seconds(1) };
        request.conditions.verdict(current);
        request.conditions.range_counts(current);
        if let Some(wanted) = request.range {
            range(wanted);
        }
    }
}

/// What is selected lies within the body, and several parts are never more than the whole.
pub fn range(wanted: &[u8]) {
    for size in [0, 1, 10, 1 << 40, u64::MAX] {
        if let Selection::Parts(parts) = select(wanted, size) {
            assert!(!parts.is_empty());
            assert!(parts.iter().all(|part| part.first <= part.last && part.last < size));
            let selected = parts.iter().map(|part| u128::from(part.length())).sum::<u128>();
            assert!(parts.len() == 1 || selected <= u128::from(size));
        }
    }
}

/// The end of the head, or the status of the refusal; `None` while it is partial.
fn outcome(parser: &mut Parser, bytes: &[u8]) -> Option<Result<usize, u16>> {
    match parser.parse(bytes) {
        Ok(Parsed::Partial) => None,
        Ok(Parsed::Complete(request)) => Some(Ok(request.head_len)),
        Err(error) => Some(Err(error.status().code())),
    }
}

/// A response head ends where it ends, whatever follows, and not before.
pub fn response(bytes: &[u8]) {
    let Ok(response::Parsed::Complete(head)) = response::parse(bytes) else { return };
    assert!(head.head_len <= bytes.len() && (100..1000).contains(&head.status));
    let alone = response::parse(&bytes[..head.head_len]);
    assert_eq!(alone, Ok(response::Parsed::Complete(head)));
    for end in 0..head.head_len {
        assert_eq!(response::parse(&bytes[..end]), Ok(response::Parsed::Partial), "cut at {end}");
    }
}

/// A path never climbs, has no empty segment and no NUL, and its location leads back to it.
pub fn path(target: &[u8]) {
    let Ok(path) = SitePath::decode(target) else { return };
    let bytes = path.as_bytes();
    assert!(!bytes.starts_with(b"/") && !bytes.contains(&0));
    let inner = bytes.strip_suffix(b"/").unwrap_or(bytes);
    if !inner.is_empty() {
        assert!(inner.split(|byte| *byte == b'/').all(|segment| !matches!(segment, b"" | b"." | b"..")));
    }
    let location = path.directory_location();
    assert!(location.starts_with('/') && !location.starts_with("//") && location.is_ascii());
    let back = SitePath::decode(location.as_bytes()).expect("a location is a path");
    assert_eq!(back.as_bytes().strip_suffix(b"/").unwrap_or_default(), inner);
}
