//! Which responses are stored, and which of their fields (RFC 9111, 3).

use sojourn_http::request::Version;

use super::*;

const SENT: &str = "Host: example.org\r\nAccept: */*\r\n";
const MINUTE: &str = "Cache-Control: max-age=60\r\n";
const MOMENTS: Moments = Moments { request: 784_111_777, response: 784_111_777 };

const VIA: Via<'_> = Via { received: Version::Http11, pseudonym: "edge-1" };

fn stored_of(method: &str, sent: &str, status: u16, received: &str) -> Result<Box<[u8]>, NotStorable> {
    let request = Request {
        method: method.as_bytes(),
        fields: Section(sent.as_bytes()),
        directives: RequestDirectives::read(sent.as_bytes()),
        has_body: false,
    };
    let response = Response { status, fields: Section(received.as_bytes()), moments: MOMENTS, via: VIA };
    storable(&request, &response, &Policy::default())
}

fn stored(status: u16, received: &str) -> Result<Box<[u8]>, NotStorable> {
    stored_of("GET", SENT, status, received)
}

fn refused(status: u16, received: &str, expected: NotStorable) {
    assert_eq!(stored(status, received), Err(expected), "{status} {received:?}");
}

fn kept(received: &str) -> String {
    let bytes = stored(200, received).unwrap();
    String::from_utf8(Metadata::read(&bytes).unwrap().fields.to_vec()).unwrap()
}

#[test]
fn methods_and_requests() {
    assert!(stored_of("GET", SENT, 200, MINUTE).is_ok());
    for method in ["HEAD", "POST", "PUT", "OPTIONS", "get"] {
        assert_eq!(stored_of(method, SENT, 200, MINUTE), Err(NotStorable::Method));
    }
    let refused = stored_of("GET", "Cache-Control: no-store\r\n", 200, MINUTE);
    assert_eq!(refused, Err(NotStorable::RequestNoStore));
    let directives = RequestDirectives::default();
    let request = Request { method: b"GET", fields: Section(b""), directives, has_body: true };
    let fields = Section(MINUTE.as_bytes());
    let response = Response { status: 200, fields, moments: MOMENTS, via: VIA };
    assert_eq!(storable(&request, &response, &Policy::default()), Err(NotStorable::RequestBody));
}

#[test]
fn statuses() {
    for status in
        [200, 201, 203, 204, 299, 301, 302, 303, 307, 308, 400, 403, 404, 410, 451, 500, 502, 503, 504, 599]
    {
        assert!(stored(status, MINUTE).is_ok(), "{status}");
    }
    for status in [100, 103, 206, 304, 407, 416] {
        refused(status, MINUTE, NotStorable::Status);
    }
    let modified = "Last-Modified: Sun, 06 Nov 1994 08:32:57 GMT\r\n";
    for status in [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501] {
        assert!(stored(status, modified).is_ok(), "{status}");
    }
    for status in [201, 202, 302, 307, 400, 403, 500, 502, 503, 504, 599] {
        refused(status, modified, NotStorable::NotCacheable);
        assert!(stored(status, &format!("{modified}Cache-Control: public\r\n")).is_ok(), "{status}");
    }
}

/// RFC 9111, 5.2.2: response directives.
#[test]
fn directives_of_responses() {
    refused(200, "Cache-Control: no-store\r\n", NotStorable::NoStore);
    refused(
        200,
        "Cache-Control: max-age=60, no-store\r\nExpires: Sun, 06 Nov 1994 09:49:37 GMT\r\n",
        NotStorable::NoStore,
    );
    refused(200, "Cache-Control: x=\"y, no-store\r\n", NotStorable::NoStore);
    refused(200, "Cache-Control: max-age=60, private\r\n", NotStorable::Private);
    refused(200, "Cache-Control: max-age=60, private=\"\"\r\n", NotStorable::Private);
    assert!(stored(200, "Cache-Control: max-age=60, no-store, must-understand\r\n").is_ok());
    refused(599, "Cache-Control: max-age=60, no-store, must-understand\r\n", NotStorable::NotUnderstood);
    refused(599, "Cache-Control: max-age=60, must-understand\r\n", NotStorable::NotUnderstood);
    refused(200, "Cache-Control: no-cache, max-age=60\r\n", NotStorable::NeverUsable);
    assert!(stored(200, "Cache-Control: no-cache, max-age=60\r\nETag: \"x\"\r\n").is_ok());
    assert!(stored(200, "CDN-Cache-Control: max-age=60\r\nCache-Control: private, no-store\r\n").is_ok());
    refused(200, "CDN-Cache-Control: no-store\r\nCache-Control: max-age=60\r\n", NotStorable::NoStore);
}

#[test]
fn what_could_never_be_used() {
    for useless in [
        "",
        "Cache-Control: max-age=0\r\n",
        "Expires: 0\r\n",
        "Cache-Control: max-age=60\r\nAge: 60\r\n",
        "Cache-Control: max-age=60, max-age=61\r\n",
        "ETag: x\r\n",
    ] {
        refused(200, useless, NotStorable::NeverUsable);
        assert!(stored(200, &format!("{useless}Last-Modified: Sun, 06 Nov 1994 08:32:57 GMT\r\n")).is_ok());
    }
    assert!(stored(200, "Cache-Control: max-age=0, stale-while-revalidate=5\r\n").is_ok());
    refused(200, "Cache-Control: s-maxage=0, stale-while-revalidate=5\r\n", NotStorable::NeverUsable);
}

/// RFC 9111, 3.5: authenticated requests.
#[test]
fn authorization() {
    let with = |received: &str| stored_of("GET", "Authorization: Basic eA==\r\n", 200, received);
    assert_eq!(with(MINUTE), Err(NotStorable::Authorization));
    for allowing in ["public", "must-revalidate", "s-maxage=60"] {
        assert!(with(&format!("Cache-Control: max-age=60, {allowing}\r\n")).is_ok(), "{allowing}");
    }
}

#[test]
fn cookies() {
    let cookie = "Set-Cookie: a=b\r\nSet-Cookie: c=d\r\n";
    for control in [
        "max-age=60",
        "public, max-age=60",
        "max-age=60, no-cache=\"set-cookie\"",
        "public, no-cache=\"set-cookie\"",
        "public, max-age=60, no-cache=\"x\"",
    ] {
        refused(200, &format!("Cache-Control: {control}\r\n{cookie}"), NotStorable::SetCookie);
    }
    for control in ["public, max-age=60, no-cache=\"set-cookie\"", "s-maxage=60, private=\"Set-Cookie\""] {
        let kept = kept(&format!("Cache-Control: {control}\r\n{cookie}"));
        assert!(!kept.to_lowercase().contains("set-cookie:"), "{kept}");
    }
}

#[test]
fn variants() {
    refused(200, &format!("{MINUTE}Vary: *\r\n"), NotStorable::Vary);
    refused(200, &format!("{MINUTE}Vary: X-Forwarded-Host\r\n"), NotStorable::Vary);
    let bytes = stored(200, &format!("{MINUTE}Vary: Accept, X-A\r\n")).unwrap();
    let metadata = Metadata::read(&bytes).unwrap();
    assert_eq!((metadata.vary, metadata.secondary_key), ("accept,x-a", b"accept:*/*\nx-a\n".as_slice()));
}

#[test]
fn what_is_kept() {
    let received = "Cache-Control: max-age=60, no-cache=\"X-A\"\r\nX-A: 1\r\nX-Unknown: 2\r\nAge: 5\r\nContent-Length: 9\r\n\
        Connection: X-B\r\nX-B: 3\r\nETag: W/\"x\"\r\nProxy-Authenticate: Basic\r\n";
    let bytes = stored(200, received).unwrap();
    let metadata = Metadata::read(&bytes).unwrap();
    let lines = Section(metadata.fields);
    let value = |name: &'static str| {
        lines.values(name).next().map(|value| String::from_utf8_lossy(value).into_owned())
    };
    assert_eq!(value("x-unknown").as_deref(), Some("2"));
    assert_eq!(value("via").as_deref(), Some("1.1 edge-1"));
    assert_eq!(value("date").as_deref(), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    for gone in ["x-a", "age", "content-length", "connection", "x-b", "proxy-authenticate"] {
        assert_eq!(value(gone), None, "{gone}");
    }
    assert_eq!(
        (metadata.entity_tag, metadata.initial_age, metadata.lifetime),
        (b"W/\"x\"".as_slice(), 5, 60)
    );
    assert_eq!(metadata.expires_at(), MOMENTS.response + 55);
}

#[test]
fn entity_tags() {
    let tag = |lines: &str| entity_tag(Section(lines.as_bytes())).map(<[u8]>::to_vec);
    for good in ["\"\"", "\"x\"", "W/\"x\"", "\"\u{e9}\""] {
        assert_eq!(tag(&format!("ETag: {good}\r\n")), Some(good.as_bytes().to_vec()));
    }
    for bad in ["x", "\"", "w/\"x\"", "\"a b\"", "\"a\"b\"", "\"a\", \"b\"", "\"a\"\r\nETag: \"a\""] {
        assert_eq!(tag(&format!("ETag: {bad}\r\n")), None, "{bad}");
    }
}
