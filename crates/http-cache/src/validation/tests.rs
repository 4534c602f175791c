//! Which conditions revalidation sends and what a 304 changes (RFC 9111, 4.3).

use sojourn_http::request::Version;

use super::super::RequestDirectives;
use super::*;
use crate::forward::append_conditions;

const VIA: Via<'_> = Via { received: Version::Http11, pseudonym: "edge-1" };
const THEN: Moments = Moments { request: 784_111_777, response: 784_111_777 };
const LATER: Moments = Moments { request: 784_111_877, response: 784_111_877 };
const MODIFIED: &str = "Sun, 06 Nov 1994 08:00:00 GMT";

fn stored(received: &str) -> Box<[u8]> {
    let response = Response { status: 200, fields: Section(received.as_bytes()), moments: THEN, via: VIA };
    storable(&asked("Accept: a\r\n"), &response, &Policy::default()).unwrap()
}

fn asked(sent: &str) -> Request<'_> {
    let directives = RequestDirectives::read(sent.as_bytes());
    Request { method: b"GET", fields: Section(sent.as_bytes()), directives, has_body: false }
}

fn read(bytes: &[u8]) -> Metadata<'_> {
    Metadata::read(bytes).unwrap()
}

fn conditions(stored: &[&str]) -> String {
    let bytes: Vec<_> = stored.iter().map(|received| self::stored(received)).collect();
    let all: Vec<_> = bytes.iter().map(|bytes| read(bytes)).collect();
    let mut text = Vec::new();
    append_conditions(&mut text, &all);
    String::from_utf8(text).unwrap()
}

#[test]
fn what_is_asked() {
    let modified = format!("Last-Modified: {MODIFIED}\r\n");
    assert_eq!(conditions(&["ETag: \"x\"\r\n"]), "If-None-Match: \"x\"\r\n");
    assert_eq!(conditions(&[&modified]), format!("If-Modified-Since: {MODIFIED}\r\n"));
    let both = format!("{modified}ETag: W/\"x\"\r\n");
    assert_eq!(conditions(&[&both]), format!("If-None-Match: W/\"x\"\r\nIf-Modified-Since: {MODIFIED}\r\n"));
    assert_eq!(conditions(&[&both, "ETag: \"y\"\r\n"]), "If-None-Match: \"y\", W/\"x\"\r\n");
    assert_eq!(conditions(&["Cache-Control: max-age=5\r\n"]), "", "nothing to ask by");
}

/// RFC 9111, 4.3.4: selecting the variant.
#[test]
fn which_is_meant() {
    let bytes = [
        stored("ETag: \"x\"\r\nDate: Sun, 06 Nov 1994 08:49:30 GMT\r\n"),
        stored("ETag: \"y\"\r\nDate: Sun, 06 Nov 1994 08:49:31 GMT\r\n"),
        stored(&format!(
            "ETag: W/\"x\"\r\nDate: Sun, 06 Nov 1994 08:49:32 GMT\r\nLast-Modified: {MODIFIED}\r\n"
        )),
    ];
    let all: Vec<_> = bytes.iter().map(|bytes| read(bytes)).collect();
    let meant = |received: &str| {
        validated(Section(received.as_bytes()), &all)
            .map(|one| all.iter().position(|other| other == one).unwrap())
    };
    assert_eq!(meant("ETag: \"x\"\r\n"), Some(0));
    assert_eq!(meant("ETag: W/\"x\"\r\n"), Some(2), "the latest of those that match weakly");
    assert_eq!(meant("ETag: \"z\"\r\n"), None);
    assert_eq!(meant(&format!("Last-Modified: {MODIFIED}\r\n")), Some(2));
    assert_eq!(meant("Last-Modified: Sun, 06 Nov 1994 08:00:01 GMT\r\n"), None);
    assert_eq!(meant("X: y\r\n"), None);
    let alone = |received: &'static str| validated(Section(received.as_bytes()), &all[..1]).is_some();
    assert!(alone("X: y\r\n") && !alone("ETag: \"z\"\r\n"));
}

fn freshened(stored: &Metadata<'_>, received: &str) -> Freshened {
    let policy = Policy::default();
    freshen(stored, &asked("Accept: b\r\n"), Section(received.as_bytes()), LATER, VIA, &policy)
}

/// RFC 9111, 3.2: updating stored fields.
#[test]
fn what_a_304_changes() {
    let bytes = stored(
        "ETag: \"x\"\r\nCache-Control: max-age=60\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\nX-A: 1\r\n\
         X-B: 1\r\nVary: Accept\r\nAge: 50\r\n",
    );
    let before = read(&bytes);
    let Freshened::Stored(bytes) = freshened(
        &before,
        "ETag: \"x\"\r\nContent-Type: text/html\r\nContent-Encoding: br\r\nContent-Length: 0\r\nx-a: 2\r\nX-A: 3\r\n\
         Vary: accept\r\nConnection: X-C\r\nX-C: 4\r\nSet-Cookie2: c\r\n",
    ) else {
        panic!("it stays stored")
    };
    let after = read(&bytes);
    let lines = Section(after.fields);
    let values =
        |name| lines.values(name).map(|value| std::str::from_utf8(value).unwrap()).collect::<Vec<_>>();
    assert_eq!(values("content-type"), ["text/html"]);
    assert_eq!(values("content-encoding"), ["gzip"]);
    assert_eq!((values("x-a"), values("x-b"), values("x-c")), (vec!["2", "3"], vec!["1"], vec![]));
    assert_eq!((values("etag"), values("via"), values("date").len()), (vec!["\"x\""], vec!["1.1 edge-1"], 1));
    assert_eq!((after.initial_age, after.lifetime, after.response_time), (0, 60, LATER.response));
    assert_eq!(after.secondary_key, before.secondary_key);
    assert_eq!(after.freshness(LATER.response), 60);
}

/// RFC 9111, 3.2: fields that other clients must not get.
#[test]
fn a_cookie_is_for_one_client() {
    let bytes = stored("ETag: \"x\"\r\nCache-Control: max-age=60\r\nX-A: 1\r\nVary: Accept\r\n");
    let before = read(&bytes);
    let received = "Set-Cookie: a=b\r\nX-A: 2\r\nCache-Control: max-age=90\r\n";
    let Freshened::Apart(bytes, lines) = freshened(&before, received) else { panic!("it stays stored") };
    let after = read(&bytes);
    assert_eq!((after.lifetime, after.secondary_key), (90, before.secondary_key));
    let has = |lines, name| Section(lines).values(name).next().map(<[u8]>::to_vec);
    assert_eq!((has(after.fields, "x-a"), has(after.fields, "set-cookie")), (Some(b"2".to_vec()), None));
    assert_eq!((has(&lines, "x-a"), has(&lines, "set-cookie")), (Some(b"2".to_vec()), Some(b"a=b".to_vec())));
    let private = freshened(&before, "Set-Cookie: a=b\r\nCache-Control: private\r\n");
    assert!(matches!(private, Freshened::Once(_, NotStorable::Private)), "{private:?}");
}

/// RFC 9111, 5.2.2.4 and 5.2.2.7: the same for fields that a directive names.
#[test]
fn withheld_fields_are_for_one_client() {
    let names = "public, max-age=60, no-cache=\"set-cookie\", private=\"x-user, etag\"";
    let bytes = stored(&format!("Last-Modified: {MODIFIED}\r\nCache-Control: {names}\r\nVary: Accept\r\n"));
    let before = read(&bytes);
    for received in ["Set-Cookie: a=b\r\nX-A: 2\r\n", "x-user: a=b\r\nX-A: 2\r\n"] {
        let name = received.split(':').next().unwrap();
        let Freshened::Apart(bytes, lines) = freshened(&before, received) else { panic!("{received}") };
        let after = read(&bytes);
        assert_eq!(Section(&lines).values(name).collect::<Vec<_>>(), [b"a=b"], "{received}");
        assert!(!Section(after.fields).has(name) && Section(after.fields).has("x-a"), "{received}");
        assert_eq!((after.lifetime, after.secondary_key), (60, before.secondary_key));
    }
    for received in ["X-A: 2\r\n", "ETag: \"x\"\r\n"] {
        assert!(matches!(freshened(&before, received), Freshened::Stored(_)), "{received}");
    }
}

#[test]
fn what_ends_it() {
    let bytes = stored("ETag: \"x\"\r\nCache-Control: max-age=60\r\nVary: Accept\r\n");
    let before = read(&bytes);
    let once = freshened(&before, "Cache-Control: no-store\r\nX-A: 1\r\n");
    let Freshened::Once(lines, NotStorable::NoStore) = once else { panic!("{once:?}") };
    assert!(Section(&lines).has("x-a") && Section(&lines).has("etag"));
    assert_eq!(freshened(&before, "Vary: Accept, X-A\r\n"), Freshened::Changed);
    assert_eq!(freshened(&before, "Vary: *\r\n"), Freshened::Changed);
}

/// RFC 9111, 4.3.5: a HEAD updates or invalidates.
#[test]
fn heads() {
    let bytes = stored(&format!("ETag: \"x\"\r\nLast-Modified: {MODIFIED}\r\n"));
    let matches = |received: &str, told| matches_head(Section(received.as_bytes()), &read(&bytes), 5, told);
    assert!(matches("", None) && matches("ETag: \"x\"\r\n", Some(5)));
    assert!(!matches("ETag: \"y\"\r\n", Some(5)) && !matches("ETag: \"x\"\r\n", Some(6)));
    assert!(!matches("Last-Modified: Sun, 06 Nov 1994 08:00:01 GMT\r\n", None));
}
