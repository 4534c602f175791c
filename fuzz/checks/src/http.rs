//! What must hold for any bytes given to the HTTP parsers.

use std::collections::BTreeMap;

use sojourn_http::SitePath;
use sojourn_http::chunked::Chunked;
use sojourn_http::condition::{Conditions, Tags, Validators, Verdict};
use sojourn_http::date::HttpDate;
use sojourn_http::http2;
use sojourn_http::http2::hpack::{Decoder, Encoder, TABLE_BYTES};
use sojourn_http::range::{Selection, select};
use sojourn_http::request::{BodyReader, Parsed, Parser};
use sojourn_http::response;
use sojourn_http::token::{is_text, is_token};
use sojourn_http::upstream::{self, Body, RequestKind};

/// A request reads the same whether it arrives whole or in pieces, and its parts lie within the bytes.
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

/// The requests of a connection, with their bodies, read the same whether they arrive whole or in pieces, up to the
/// first refused one.
pub fn stream(bytes: &[u8]) {
    let whole = requests(bytes, bytes.len().max(1));
    for step in [1, 3, 100] {
        assert_eq!(requests(bytes, step), whole, "in pieces of {step}");
    }
}

/// Either side of HTTP/2 hears the same whether the bytes arrive whole or in pieces, whatever they are, and a field block
/// that is read is read again after it was encoded. The first byte selects the side.
pub fn http2_frames(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let whole = heard(choice & 1 > 0, bytes, bytes.len().max(1));
    for step in [1, 7, 100] {
        let pieces = heard(choice & 1 > 0, bytes, step);
        assert_eq!((&pieces.resets, pieces.is_over), (&whole.resets, whole.is_over), "in pieces of {step}");
        assert!(pieces.streams.keys().eq(whole.streams.keys()), "in pieces of {step}");
        for (stream, told) in &whole.streams {
            let is_reset = whole.resets.iter().any(|(reset, _)| reset == stream);
            let told_in_pieces = &pieces.streams[stream];
            // The last frame of a body shows that the body is too short: how much of it is told before is free.
            let is_same = told == told_in_pieces || is_reset && told_in_pieces.starts_with(told);
            assert!(is_same, "stream {stream} in pieces of {step}");
        }
    }
}

/// What one side hears.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    /// Streams with their heads and bodies.
    streams: BTreeMap<u32, Vec<u8>>,
    /// Those that were reset, and why.
    resets: Vec<(u32, u32)>,
    is_over: bool,
}

fn heard(is_server: bool, bytes: &[u8], step: usize) -> Heard {
    let limits = http2::Limits {
        streams_max: 10,
        field_bytes_max: 2000,
        block_bytes_max: 8000,
        continuations_max: 4,
        stream_window: http2::WINDOW_BYTES,
        connection_window: http2::WINDOW_BYTES,
        output_bytes_max: usize::MAX,
    };
    let mut side =
        if is_server { http2::Connection::server(limits) } else { http2::Connection::client(limits) };
    side.send_request(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "http");
    let Heard { mut streams, mut resets, .. } = Heard::default();
    let begin = if is_server {
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".as_slice()
    } else {
        b"\0\0\0\x04\0\0\0\0\0"
    };
    for mut piece in [begin].into_iter().chain(bytes.chunks(step)) {
        while let Some(event) = side.next(&mut piece) {
            match event {
                http2::Event::Head { stream, .. } => {
                    let text = side.head().text();
                    assert!(text.ends_with(b"\r\n") && !text.windows(2).any(|two| two == b"\n\r"));
                    if let Some(outline) = side.head().outline() {
                        let text = [text, b"\r\n"].concat();
                        assert_eq!(
                            Parser::of_stream().parse(&text),
                            Ok(Parsed::Complete(outline.over(&text)))
                        );
                    }
                    streams.entry(stream).or_default().extend_from_slice(text);
                }
                http2::Event::Data { stream, bytes, .. } => {
                    assert!(side.is_live(stream));
                    side.release(stream, bytes.len());
                    streams.entry(stream).or_default().extend_from_slice(bytes);
                }
                http2::Event::Rejected { stream, code, .. } | http2::Event::Reset { stream, code } => {
                    assert!(!side.is_live(stream));
                    resets.push((stream, code.0));
                }
                _ => {}
            }
            assert!(side.stream_count() <= 10);
        }
    }
    Heard { streams, resets, is_over: side.is_over() }
}

/// A field block is refused, or its fields are the same after they were encoded and decoded again.
pub fn http2_fields(bytes: &[u8]) {
    let mut decoder = Decoder::new(TABLE_BYTES);
    let mut fields = Vec::new();
    if decoder.read(bytes, |field| fields.push((field.name.to_vec(), field.value.to_vec()))).is_err() {
        return;
    }
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::new(TABLE_BYTES));
    for _ in 0..2 {
        let (mut block, mut again) = (Vec::new(), Vec::new());
        encoder.begin(&mut block);
        fields.iter().for_each(|(name, value)| encoder.field(&mut block, name, value));
        let read = decoder.read(&block, |field| again.push((field.name.to_vec(), field.value.to_vec())));
        assert_eq!((read, &again), (Ok(()), &fields));
    }
}

/// The ends of heads and bodies, and the status of the refusal that ends the connection.
fn requests(bytes: &[u8], step: usize) -> (Vec<usize>, Option<u16>) {
    let (mut ends, mut start) = (Vec::new(), 0);
    let (mut parser, mut body): (Parser, Option<BodyReader>) = Default::default();
    for end in (step..bytes.len()).step_by(step).chain([bytes.len()]) {
        loop {
            let arrived = &bytes[start..end];
            if let Some(reader) = &mut body {
                match reader.read(arrived, |_| {}) {
                    Ok(count) => start += count,
                    Err(error) => return (ends, Some(error.status().code())),
                }
                if !reader.is_done() {
                    break;
                }
                ends.push(start);
                body = None;
            } else {
                match parser.parse(arrived) {
                    Ok(Parsed::Partial) => break,
                    Ok(Parsed::Complete(request)) => {
                        body = Some(BodyReader::new(request.body));
                        start += request.head_len;
                        ends.push(start);
                    }
                    Err(error) => return (ends, Some(error.status().code())),
                }
            }
        }
    }
    (ends, None)
}

/// A chunked body reads the same whether it arrives whole or in pieces, and can be encoded and read again.
pub fn chunked(bytes: &[u8]) {
    let whole = decoded(bytes, bytes.len().max(1));
    for step in [1, 5] {
        assert_eq!(decoded(bytes, step), whole, "in pieces of {step}");
    }
    if let Ok((taken, is_done, body)) = whole {
        assert!(taken <= bytes.len() && body.len() <= taken && (is_done || taken == bytes.len()));
        let mut coded = format!("{:x}\r\n", body.len()).into_bytes();
        coded.extend_from_slice(&body);
        coded.extend_from_slice(if body.is_empty() { b"\r\n" } else { b"\r\n0\r\n\r\n" });
        assert_eq!(decoded(&coded, 7), Ok((coded.len(), true, body)));
    }
}

/// The consumed bytes, whether the body has ended, and its data; an error's position does not matter.
fn decoded(bytes: &[u8], step: usize) -> Result<(usize, bool, Vec<u8>), ()> {
    let (mut chunked, mut body, mut taken) = (Chunked::default(), Vec::new(), 0);
    for piece in bytes.chunks(step) {
        taken += chunked.decode(piece, |data| body.extend_from_slice(data)).map_err(|_| ())?;
    }
    assert_eq!(chunked.body_bytes(), body.len() as u64);
    Ok((taken, chunked.is_done(), body))
}

/// For any condition that a client sends: a strong match is also a weak match, and a list reads the same however many
/// fields it is spread over.
pub fn conditions(value: &[u8]) {
    let modified = HttpDate::from_seconds(784_111_777);
    for entity_tag in [b"\"a\"".as_slice(), b"\"\"", b"W/\"a\"", b"\",\""] {
        let current = Validators { entity_tag, modified };
        let verdict = |conditions: Conditions<'_>| conditions.verdict(current);
        let match_all = |tags| verdict(Conditions { if_match: Some(tags), ..Conditions::default() });
        let match_none = |tags| verdict(Conditions { if_none_match: Some(tags), ..Conditions::default() });
        let matches_strongly = match_all(Tags::Field(value)) == Verdict::Perform;
        let matches_weakly = match_none(Tags::Field(value)) == Verdict::NotModified;
        assert!(matches_weakly || !matches_strongly);
        if !value.contains(&b'\n') && !value.contains(&b'\r') {
            let section = [b"If-None-Match: \"z\"\r\nX: y\r\nif-none-match:", value, b"\r\n\r\n"].concat();
            let spread = match_none(Tags::Fields { section: &section, name: "if-none-match" });
            assert_eq!(spread == Verdict::NotModified, matches_weakly);
        }
        let counts = Conditions { if_range: Some(value), ..Conditions::default() }.range_counts(current);
        assert!(!counts || matches_strongly || HttpDate::parse(value.trim_ascii()) == Some(modified));
    }
}

/// A date that was read is written as one that reads the same.
pub fn date(value: &[u8]) {
    if let Some(date) = HttpDate::parse(value) {
        assert_eq!(HttpDate::parse(&date.text()), Some(date));
        assert_eq!(HttpDate::from_seconds(date.seconds() as i64), date);
    }
}

/// Selected ranges lie within the body, and several parts are never more than the whole.
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

/// A response head ends at the same place whatever follows, and not before.
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

/// A forwarded response reads the same whether it arrives whole or in pieces, and its framing is never ambiguous.
pub fn upstream(bytes: &[u8]) {
    for kind in [RequestKind::Other, RequestKind::Head, RequestKind::Connect] {
        let whole = upstream::Parser::default().parse(bytes, kind);
        for step in [1, 7, 64] {
            let mut parser = upstream::Parser::default();
            let ends = (0..bytes.len()).step_by(step).chain([bytes.len()]);
            let pieces = ends.map(|end| parser.parse(&bytes[..end], kind)).find(|part| *part != Ok(None));
            // If the bytes arrive in pieces, another of several errors may be found first.
            assert_eq!(pieces.unwrap_or(Ok(None)).ok(), whole.ok(), "in pieces of {step}");
        }
        let Ok(Some(head)) = whole else { continue };
        assert!(head.head_len <= bytes.len() && (100..1000).contains(&head.status));
        assert!(head.body != Body::Chunked || head.content_length.is_none());
        for (name, value) in head.fields() {
            assert!(!name.is_empty() && name.iter().all(|byte| is_token(*byte)));
            assert!(value.iter().all(|byte| is_text(*byte)));
        }
        if let Ok(response::Parsed::Complete(tolerant)) = response::parse(bytes) {
            assert_eq!((tolerant.head_len, tolerant.status), (head.head_len, head.status));
        }
    }
}
