//! What must hold for any bytes given to the rules of the caching proxy: messages, and stored metadata.

use sojourn_http::HttpDate;
use sojourn_http::request::{Parsed, Parser, Version};
use sojourn_http::upstream::{self, RequestKind};
use sojourn_http_cache::fields::Section;
use sojourn_http_cache::forward::{Hop, Originator, Purpose, Via, append_request, append_response};
use sojourn_http_cache::key::normalised_host;
use sojourn_http_cache::validation::{Freshened, freshen, validated};
use sojourn_http_cache::vary::secondary_key;
use sojourn_http_cache::{
    Answer, Metadata, Moments, Policy, Request, RequestDirectives, Response, Spelling, Target, Use,
    invalidated, lookup, storable,
};

const VIA: Via<'_> = Via { received: Version::Http11, pseudonym: "fuzz" };
const NOW: i64 = 784_111_777;

/// Stored metadata reads as it would be written, and no time of use makes it panic.
pub fn metadata(bytes: &[u8]) {
    let Ok(metadata) = Metadata::read(bytes) else { return };
    assert_eq!(Metadata::read(&metadata.write()), Ok(metadata));
    for now in [i64::MIN, 0, metadata.response_time, metadata.expires_at(), NOW, i64::MAX] {
        let verdict = lookup(&RequestDirectives::default(), Some(&metadata), now);
        assert!(verdict != Use::Fresh || now < metadata.expires_at() && !metadata.no_cache);
    }
    assert!(metadata.useful_until().is_none() || !metadata.has_validator());
}

/// The strict parser reads a forwarded response as the same response. Its stored form can be read, answers requests,
/// and stays the same after a revalidation without news.
pub fn response(bytes: &[u8]) {
    let Ok(Some(head)) = upstream::Parser::default().parse(bytes, RequestKind::Other) else { return };
    let received = Section(head.fields);
    let passed = passed_on(received);
    assert_eq!(passed_on(Section(&passed)), [&passed, b"Via: 1.1 fuzz\r\n".as_slice()].concat());
    let request = Request {
        method: b"GET",
        fields: Section(b"Accept: a\r\n"),
        directives: RequestDirectives::default(),
        has_body: false,
    };
    let moments = Moments { request: NOW, response: NOW };
    let response = Response { status: head.status, fields: received, moments, via: VIA };
    let policy = Policy::default();
    let spelling = Spelling::Normalised;
    let base = Target { scheme: "http", host: b"a", target: b"/b", spelling };
    assert!(
        invalidated(b"POST", &base, head.status, received).iter().all(|key| key.starts_with(b"http://a/"))
    );
    let Ok(stored) = storable(&request, &response, &policy) else { return };
    let stored = Metadata::read(&stored).expect("what is stored is read");
    assert_eq!(stored.secondary_key, secondary_key(stored.vary, request.fields));
    for name in ["age", "connection", "content-length", "transfer-encoding", "proxy-authenticate"] {
        assert!(!Section(stored.fields).has(name), "{name}");
    }
    Answer::of(&Default::default(), Some(b"bytes=1-"), &stored, 10);
    let empty = Section(b"");
    assert_eq!(validated(empty, &[stored]), Some(&stored));
    if let Freshened::Stored(again) = freshen(&stored, &request, empty, moments, VIA, &policy) {
        let again = Metadata::read(&again).expect("what is stored is read");
        assert!(again.age(NOW) <= stored.age(NOW));
        assert_eq!((again.entity_tag, again.vary), (stored.entity_tag, stored.vary));
    }
}

fn passed_on(received: Section<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    append_response(&mut text, received, VIA, || HttpDate::from_seconds(NOW).text(), |_| true);
    let head = [b"HTTP/1.1 200 OK\r\n".as_slice(), &text, b"\r\n"].concat();
    // It is longer than it came by what the proxy says.
    if head.len() <= sojourn_http::limits::HEAD_BYTES_MAX {
        match upstream::Parser::default().parse(&head, RequestKind::Other) {
            Ok(Some(read)) => assert_eq!(read.body, upstream::Body::UntilClose),
            Err(upstream::UpstreamError::TooManyFields) => {}
            other => panic!("{other:?}"),
        }
    }
    text
}

/// The strict parser reads a forwarded request as the same request, to the same host, without a body.
pub fn request(bytes: &[u8]) {
    let Ok(Parsed::Complete(request)) = Parser::default().parse(bytes) else { return };
    let received = Section(request.fields);
    RequestDirectives::read(request.fields);
    let host = request.host.unwrap_or(b"a");
    for spelling in [Spelling::Normalised, Spelling::Kept] {
        let target = Target { scheme: "http", host, target: request.target, spelling };
        let (sent, sent_host) = (spelling.of(request.target), normalised_host("http", host));
        let again = Target { target: &sent, host: &sent_host, ..target };
        assert_eq!(again.key(), target.key(), "what is sent on has the same key");
    }
    for purpose in [Purpose::Pass, Purpose::Fill, Purpose::Revalidate(&[])] {
        let client = [192, 0, 2, 1].into();
        let originator = Originator::Overwrite;
        let hop =
            Hop { via: Some(VIA), client, scheme: "http", host, originator, purpose, counts_hops: false };
        let mut text = b"GET / HTTP/1.1\r\n".to_vec();
        append_request(&mut text, received, &hop);
        text.extend_from_slice(b"\r\n");
        // It is longer than it came by what the proxy says.
        if text.len() > sojourn_http::limits::HEAD_BYTES_MAX {
            continue;
        }
        match Parser::default().parse(&text) {
            Ok(Parsed::Complete(sent)) => {
                assert_eq!((sent.host, sent.head_len), (Some(host), text.len()));
                assert_eq!(sent.body, sojourn_http::request::Body::Length(0));
                assert_eq!(Section(sent.fields).values("x-forwarded-for").count(), 1);
            }
            Err(sojourn_http::request::RequestError::TooManyFields) => {}
            other => panic!("{other:?}"),
        }
    }
}
