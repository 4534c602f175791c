//! A proxy's cache over real sockets, rule by rule (RFC 9111, 5861, 9110, 9211).
//!
//! Responses with `max-age=0` are stale when they are stored, so the tests need not wait.

use std::time::Duration;

use super::{over_sharing, proxy};
use sojourn_server::Counter;
use sojourn_server::handler::reverse_proxy::ForcedHits;
use sojourn_testing::client::{ask, get, get_with, status};
use sojourn_testing::upstream::{Peer, Upstream};
use sojourn_testing::{Client, DEADLINE};

/// How long an upstream delays a response that several clients wait for.
const THOUGHT: Duration = Duration::from_millis(500);

/// An upstream that answers every request by `answer`, which gets the head.
fn answering(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Upstream {
    Upstream::start(move |peer: &mut Peer| {
        while let Some(head) = peer.head() {
            match answer(&head) {
                nothing if nothing.is_empty() => return,
                answer => peer.send(answer.as_bytes()),
            }
        }
    })
}

fn ok(fields: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{fields}\r\n\r\n{body}", body.len())
}

fn not_modified(fields: &str) -> String {
    format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n\r\n")
}

fn is_conditional(head: &str) -> bool {
    head.contains("\r\nIf-")
}

/// The heads of the requests for `target` that reached the upstream.
fn heads(upstream: &Upstream, target: &str) -> Vec<String> {
    let line = format!(" {target} HTTP/1.1\r\n");
    upstream.heads().into_iter().filter(|head| head.contains(&line)).collect()
}

/// The Cache-Status of a response, with the time to live normalised for slow machines.
fn said(answer: &str) -> String {
    let line = answer.lines().find_map(|line| line.strip_prefix("Cache-Status: me; "));
    let line = line.unwrap_or_else(|| panic!("no Cache-Status: {answer}"));
    let parameters = line.split("; ").map(|parameter| match parameter.strip_prefix("ttl=").map(str::parse) {
        Some(Ok(1..=60)) => "ttl=60",
        Some(Ok(-60..=0)) => "ttl=0",
        _ => parameter,
    });
    parameters.collect::<Vec<_>>().join("; ")
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {answer}")).1
}

/// RFC 9111, 4.1 and 4.3.4: a variant selected by a 304.
#[test]
fn a_variant_that_a_304_chooses_is_stored_for_the_next_such_request() {
    let serve = |head: &str| match is_conditional(head) {
        true => not_modified("ETag: \"x\"\r\nCache-Control: max-age=60\r\nVary: X-A"),
        false => ok("ETag: \"x\"\r\nCache-Control: max-age=60\r\nVary: X-A", "hello"),
    };
    over_sharing(
        &[],
        || answering(serve),
        |server, upstream| {
            get_with(server, "/a", "X-A: 1\r\n");
            let other = get_with(server, "/a", "X-A: 2\r\n");
            assert_eq!(
                (said(&other).as_str(), body(&other)),
                ("fwd=vary-miss; fwd-status=304; ttl=60; stored", "hello")
            );
            for value in [2, 1] {
                let again = get_with(server, "/a", &format!("X-A: {value}\r\n"));
                assert_eq!((said(&again).as_str(), body(&again)), ("hit; ttl=60", "hello"));
            }
            assert_eq!(heads(upstream, "/a").len(), 2);
        },
    );
}

/// RFC 9111, 4.3.1, 4.3.3 and 4.3.4: revalidation.
#[test]
fn what_is_stale_is_validated() {
    let serve = |head: &str| match is_conditional(head) {
        true => not_modified("ETag: \"x\"\r\nCache-Control: max-age=60\r\nX-New: 2"),
        false => ok("ETag: \"x\"\r\nCache-Control: max-age=0\r\nX-Old: 1\r\nX-New: 1", "hello"),
    };
    over_sharing(
        &[],
        || answering(serve),
        |server, upstream| {
            let first = get(server, "/a");
            assert_eq!(said(&first), "fwd=uri-miss; ttl=0; stored", "{first}");
            let second = get(server, "/a");
            assert_eq!(said(&second), "fwd=stale; fwd-status=304; ttl=60; stored", "{second}");
            assert!(second.contains("X-Old: 1\r\n") && second.contains("X-New: 2\r\n"), "{second}");
            assert!(second.contains("\r\nContent-Length: 5\r\n") && body(&second) == "hello", "{second}");
            assert!(!second.contains("X-New: 1"), "{second}");
            let third = get(server, "/a");
            assert!(said(&third).starts_with("hit; ttl=") && third.contains("X-New: 2\r\n"), "{third}");
            let asked = heads(upstream, "/a");
            assert_eq!(asked.len(), 2);
            assert!(asked[1].contains("\r\nIf-None-Match: \"x\"\r\n"), "{}", asked[1]);
            // The client's own conditions are evaluated against the stored response; the upstream does not see them.
            get(server, "/b");
            let current = get_with(server, "/b", "If-None-Match: \"w\", \"x\"\r\n");
            assert!(status(&current) == "304" && said(&current) == "fwd=stale; ttl=60; stored", "{current}");
            let other = get_with(server, "/b", "Cache-Control: no-cache\r\nIf-None-Match: \"y\"\r\n");
            assert!(status(&other) == "200" && said(&other).starts_with("fwd=request; fwd-status=304"));
            assert!(
                heads(upstream, "/b").iter().all(|head| !head.contains("\"y\"") && !head.contains("\"w\""))
            );
            server.wait_until(Counter::CacheUnchanged, 3);
        },
    );
}

/// RFC 9111, 4.3.3: a new response replaces the stored one; 4.3.4: a 304 about something else does not count.
#[test]
fn what_is_outdated_is_replaced() {
    let serve = |head: &str| match (head.split(' ').nth(1).unwrap(), is_conditional(head)) {
        (_, false) if !head.contains("X-Second") => ok("ETag: \"1\"\r\nCache-Control: max-age=0", "old"),
        ("/new", _) => ok("ETag: \"2\"\r\nCache-Control: max-age=60", "new"),
        ("/other", true) => not_modified("ETag: \"3\"\r\nCache-Control: max-age=60"),
        ("/other", false) => ok("ETag: \"2\"\r\nCache-Control: max-age=60", "new"),
        ("/private", _) => ok("ETag: \"2\"\r\nCache-Control: private", "new"),
        ("/once", true) => not_modified("ETag: \"1\"\r\nCache-Control: no-store\r\nAge: 7"),
        ("/varies", true) => not_modified("ETag: \"1\"\r\nVary: Accept"),
        _ => ok("Cache-Control: max-age=60", "end"),
    };
    over_sharing(
        &[],
        || answering(serve),
        |server, upstream| {
            let again = |target: &str| get_with(server, target, "X-Second: yes\r\n");
            for target in ["/new", "/other", "/private", "/once", "/varies"] {
                assert_eq!(body(&get(server, target)), "old");
            }
            let new = again("/new");
            assert!(said(&new) == "fwd=stale; ttl=60; stored" && body(&new) == "new", "{new}");
            assert!(said(&again("/new")).starts_with("hit"));
            assert_eq!(body(&again("/other")), "new");
            let asked: Vec<_> = heads(upstream, "/other").iter().map(|head| is_conditional(head)).collect();
            assert_eq!(asked, [false, true, false], "a 304 about what is not stored");
            // The replacement is private, so there is nothing left to revalidate.
            assert_eq!((body(&again("/private")), body(&again("/private"))), ("new", "new"));
            assert!(!is_conditional(&heads(upstream, "/private")[2]));
            let once = again("/once");
            assert!(body(&once) == "old" && once.matches("Age: ").count() == 1, "{once}");
            assert!(
                once.contains("Cache-Control: no-store\r\n") && !said(&once).contains("stored"),
                "{once}"
            );
            assert_eq!(body(&again("/once")), "end");
            assert!(!is_conditional(&heads(upstream, "/once")[2]));
            assert_eq!(body(&again("/varies")), "end");
        },
    );
}

/// RFC 9111, 4: clients of a stale object revalidate once; 4.1 and 4.3.1: with the tags of all variants.
#[test]
fn validations_are_shared() {
    let serve = |head: &str| match is_conditional(head) {
        true => {
            std::thread::sleep(THOUGHT);
            not_modified("ETag: \"x\"\r\nCache-Control: max-age=60")
        }
        false if head.contains("/varies") => {
            ok("ETag: \"x\"\r\nCache-Control: max-age=60\r\nVary: Accept-Language", "hello")
        }
        false => ok("ETag: \"x\"\r\nCache-Control: max-age=0", "hello"),
    };
    over_sharing(
        &[&|options| options.site.limits.upstream.idle = Duration::from_secs(20)],
        || answering(serve),
        |server, upstream| {
            get(server, "/a");
            let mut clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
            for client in &mut clients {
                client.send(b"GET /a HTTP/1.0\r\nHost: h\r\n\r\n");
            }
            for client in &mut clients {
                assert!(client.rest().ends_with(b"\r\n\r\nhello"));
            }
            // Each loop asks for itself.
            let asked = heads(upstream, "/a");
            assert!((2..20).contains(&asked.len()), "{}", asked.len());
            assert!(asked[1..].iter().all(|head| is_conditional(head)));
            get_with(server, "/varies", "Accept-Language: de\r\n");
            let other = get_with(server, "/varies", "Accept-Language: en\r\n");
            assert!(
                body(&other) == "hello" && said(&other).starts_with("fwd=vary-miss; fwd-status=304"),
                "{other}"
            );
        },
    );
}

/// RFC 5861, 3: stale-while-revalidate.
#[test]
fn stale_answers_come_while_an_upstream_is_asked() {
    let serve = |head: &str| match is_conditional(head) {
        true => {
            std::thread::sleep(THOUGHT);
            not_modified("ETag: \"x\"\r\nCache-Control: max-age=60")
        }
        false => ok("ETag: \"x\"\r\nCache-Control: max-age=0, stale-while-revalidate=60", "hello"),
    };
    over_sharing(
        &[],
        || answering(serve),
        |server, upstream| {
            get(server, "/a");
            // RFC 9111, 5.2.1.7: the client wants no answer from elsewhere.
            let head = ask(server, "HEAD", "/a", "Cache-Control: only-if-cached\r\n");
            assert!(status(&head) == "200" && said(&head).starts_with("hit; ttl="), "{head}");
            assert_eq!(upstream.heads().len(), 1);
            let stale = get(server, "/a");
            assert!(said(&stale).starts_with("hit; ttl=") && body(&stale) == "hello", "{stale}");
            server.wait_until(Counter::CacheRevalidations, 1);
            server.wait_until(Counter::UpstreamRequests, 2);
            let begun = std::time::Instant::now();
            let fresh = loop {
                let answer = get(server, "/a");
                assert!(body(&answer) == "hello" && said(&answer).starts_with("hit"), "{answer}");
                if answer.contains("max-age=60") {
                    break answer;
                }
                assert!(begun.elapsed() < DEADLINE);
            };
            assert!(said(&fresh).starts_with("hit; ttl="));
            let asked = heads(upstream, "/a");
            assert!(asked.len() >= 2 && asked[1..].iter().all(|head| is_conditional(head)));
        },
    );
}

/// RFC 5861, 4 (stale-if-error); RFC 9111, 4.2.4, 4.3.3 and 5.2.2.2.
#[test]
fn stale_answers_come_when_an_upstream_fails() {
    let serve = |head: &str| {
        let may =
            |directives: &str| ok(&format!("ETag: \"x\"\r\nCache-Control: max-age=0{directives}"), "hello");
        match (head.split(' ').nth(1).unwrap(), is_conditional(head)) {
            ("/must", false) => may(", stale-if-error=60, must-revalidate"),
            ("/plain", false) => may(""),
            (_, false) => may(", stale-if-error=60"),
            (_, true) if head.contains("X-Close") => String::new(),
            (_, true) => "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nfail".to_owned(),
        }
    };
    over_sharing(
        &[&|options| options.site.limits.upstream.failures_max = 1000],
        || answering(serve),
        |server, upstream| {
            for target in ["/a", "/must", "/plain"] {
                get(server, target);
            }
            for _ in 0..2 {
                let stale = get(server, "/a");
                assert!(status(&stale) == "200" && body(&stale) == "hello", "{stale}");
                assert!(said(&stale).starts_with("fwd=stale; fwd-status=503; ttl="), "{stale}");
            }
            let stale = get_with(server, "/a", "X-Close: yes\r\n");
            assert!(status(&stale) == "200" && said(&stale).contains("detail=\"no-answer\""), "{stale}");
            server.wait_until(Counter::CacheStale, 3);
            assert_eq!(status(&get(server, "/must")), "503");
            let refused = get_with(server, "/must", "X-Close: yes\r\n");
            assert!(
                status(&refused) == "504" && said(&refused) == "fwd=stale; detail=\"no-answer\"",
                "{refused}"
            );
            assert_eq!(status(&get(server, "/plain")), "503");
            assert_eq!(status(&get_with(server, "/plain", "X-Close: yes\r\n")), "502");
            let willing = get_with(server, "/plain", "Cache-Control: stale-if-error=60\r\n");
            assert_eq!(status(&willing), "200", "the client may allow it too");
            assert!(upstream.connections() > 0);
        },
    );
}

/// RFC 9110, 14 and 15.3.7; RFC 9111, 3.3: ranges of stored objects.
#[test]
fn ranges_are_answered_from_the_whole() {
    let serve = |head: &str| match head.split(' ').nth(1).unwrap() {
        "/small" => ok("ETag: \"x\"\r\nCache-Control: max-age=60\r\nContent-Type: text/plain", "0123456789"),
        "/coded" => ok("Cache-Control: max-age=60\r\nContent-Encoding: gzip", "0123456789"),
        "/large" => ok("Cache-Control: max-age=60", &large()),
        _ => "HTTP/1.1 206 Partial Content\r\nContent-Length: 2\r\nContent-Range: bytes 0-1/9\r\n\r\nab"
            .to_owned(),
    };
    over_sharing(
        &[],
        || answering(serve),
        |server, upstream| {
            for target in ["/small", "/coded", "/large"] {
                get(server, target);
            }
            let part =
                |target: &str, range: &str| get_with(server, target, &format!("Range: bytes={range}\r\n"));
            for (range, expected, place) in [
                ("0-1", "01", "0-1/10"),
                ("8-", "89", "8-9/10"),
                ("-3", "789", "7-9/10"),
                ("5-99", "56789", "5-9/10"),
            ] {
                let answer = part("/small", range);
                assert!(status(&answer) == "206" && body(&answer) == expected, "{answer}");
                assert!(answer.contains(&format!("\r\nContent-Range: bytes {place}\r\n")), "{answer}");
                assert!(answer.contains(&format!("\r\nContent-Length: {}\r\n", expected.len())), "{answer}");
                assert!(
                    said(&answer).starts_with("hit") && answer.contains("\r\nETag: \"x\"\r\n"),
                    "{answer}"
                );
            }
            let none = part("/small", "10-");
            assert!(status(&none) == "416" && none.contains("Content-Range: bytes */10\r\n"), "{none}");
            assert!(said(&none).starts_with("hit"));
            let several = part("/small", "0-1,4-4");
            let boundary = several.split_once("multipart/byteranges; boundary=").unwrap().1;
            let boundary = boundary.lines().next().unwrap();
            let expected = ["0-1/10\r\n\r\n01", "4-4/10\r\n\r\n4"].map(|part| {
                format!("\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes {part}")
            });
            assert_eq!(body(&several), format!("{}\r\n--{boundary}--\r\n", expected.concat()));
            assert_eq!(several.matches("Content-Type: ").count(), 3, "{several}");
            assert_eq!(status(&part("/coded", "0-1,4-4")), "200");
            for (tag, expected) in [("\"x\"", "206"), ("\"y\"", "200"), ("W/\"x\"", "200")] {
                let lines = format!("Range: bytes=0-1\r\nIf-Range: {tag}\r\n");
                assert_eq!(status(&get_with(server, "/small", &lines)), expected, "{tag}");
            }
            let head = ask(server, "HEAD", "/small", "Range: bytes=0-1\r\n");
            assert!(status(&head) == "200" && head.contains("Content-Length: 10\r\n"), "{head}");
            let large = large();
            for (first, last) in [(0, 0), (70_000, 140_000), (1, 299_999), (299_999, 299_999)] {
                let answer = part("/large", &format!("{first}-{last}"));
                assert!(body(&answer) == &large[first..=last], "{first}-{last}");
            }
            let pieces = part("/large", "10-19,100000-100009");
            assert!(pieces.contains(&large[10..20]) && pieces.contains(&large[100_000..100_010]));
            assert_eq!(upstream.heads().len(), 3);
            // Missing parts are for the upstream to answer, one by one.
            let answer = part("/none", "0-1");
            assert!(status(&answer) == "206" && said(&answer) == "fwd=uri-miss", "{answer}");
            assert!(heads(upstream, "/none")[0].contains("\r\nRange: bytes=0-1\r\n"));
        },
    );
}

/// Bytes in which no two longer parts are equal.
fn large() -> String {
    (0..30_000).map(|number| format!("{number:09}\n")).collect()
}

/// RFC 9111, 3.5, 4.2.1, 4.4, 5.2.1.7 and 9.1; RFC 9110, 9.3.2: other responses from the cache.
#[test]
fn what_else_is_answered_from_the_cache() {
    let serve = |head: &str| {
        let mut words = head.split(' ');
        match (words.next().unwrap(), words.next().unwrap()) {
            ("POST", "/failing") => "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_owned(),
            ("POST" | "DELETE", _) => {
                "HTTP/1.1 204 No Content\r\nLocation: /named\r\nContent-Location: http://other/a\r\n\r\n"
                    .to_owned()
            }
            (_, "/missing") => {
                let page =
                    "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nCache-Control: max-age=60\r\n\r\nno";
                page.to_owned()
            }
            (_, "/public") => ok("Cache-Control: public, max-age=60", "hello"),
            _ => ok("Cache-Control: max-age=60", "hello"),
        }
    };
    over_sharing(
        &[],
        || answering(serve),
        |server, upstream| {
            // Negative answers.
            assert_eq!((status(&get(server, "/missing")), status(&get(server, "/missing"))), ("404", "404"));
            assert_eq!(heads(upstream, "/missing").len(), 1);
            // Authorization.
            for target in ["/secret", "/public"] {
                get_with(server, target, "Authorization: Basic x\r\n");
                get_with(server, target, "Authorization: Basic x\r\n");
            }
            assert_eq!((heads(upstream, "/secret").len(), heads(upstream, "/public").len()), (2, 1));
            // HEAD is answered from a stored GET, but not GET from HEAD.
            assert!(said(&ask(server, "HEAD", "/public", "")).starts_with("hit"));
            assert_eq!(said(&ask(server, "HEAD", "/head", "")), "fwd=uri-miss");
            assert_eq!(said(&get(server, "/head")), "fwd=uri-miss; ttl=60; stored");
            // Successful unsafe methods invalidate.
            for target in ["/changed", "/named", "/failing"] {
                get(server, target);
            }
            assert_eq!(said(&ask(server, "POST", "/failing", "Content-Length: 0\r\n")), "fwd=method");
            assert!(said(&get(server, "/failing")).starts_with("hit"));
            assert_eq!(status(&ask(server, "POST", "/changed", "Content-Length: 0\r\n")), "204");
            for target in ["/changed", "/named"] {
                assert!(said(&get(server, target)).starts_with("fwd=uri-miss"), "{target}");
            }
            // only-if-cached.
            assert_eq!(status(&get_with(server, "/absent", "Cache-Control: only-if-cached\r\n")), "504");
            assert_eq!(heads(upstream, "/absent").len(), 0);
            // Equivalent spellings share a key and a target at the upstream.
            get(server, "/%7euser%2f");
            assert!(said(&get(server, "/~user%2F")).starts_with("hit"));
            assert_eq!(heads(upstream, "/~user%2F").len(), 1);
        },
    );
}

/// RFC 9111, 4.2.2; RFC 9110, 15.1: lifetimes of errors.
#[test]
fn errors_are_kept_as_long_as_is_said() {
    let serve = |head: &str| match head.contains("/unavailable") {
        true => "HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno".to_owned(),
        false => "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno".to_owned(),
    };
    for (seconds, asked) in [(0, 2), (60, 1)] {
        let upstream = answering(serve);
        let server =
            proxy("amped", &[upstream.address], &[&|options| options.policy.error_seconds = seconds]);
        for target in ["/missing", "/missing", "/unavailable", "/unavailable"] {
            assert_eq!(body(&get(&server, target)), "no");
        }
        assert_eq!(heads(&upstream, "/missing").len(), asked);
        assert_eq!(heads(&upstream, "/unavailable").len(), 2);
    }
}

/// RFC 9111, 4.3.5: HEAD updates stored responses.
#[test]
fn heads_tell_of_what_is_stored() {
    let serve = |head: &str| {
        let is_head = head.starts_with("HEAD");
        if head.contains(" /gone ") {
            let (status, body) = if is_head { ("200 OK", "") } else { ("404 No", "no") };
            return format!(
                "HTTP/1.1 {status}\r\nContent-Length: 2\r\nCache-Control: max-age=60\r\n\r\n{body}"
            );
        }
        let body = if is_head && head.contains("/other") { "hello!" } else { "hello" };
        let answer = ok("ETag: \"x\"\r\nCache-Control: max-age=60", body);
        match (is_head, is_conditional(head)) {
            (true, _) => answer.replace("max-age=60\r\n", "max-age=60\r\nX-New: yes\r\n").replace(body, ""),
            (false, true) => not_modified("ETag: \"x\""),
            (false, false) => answer,
        }
    };
    over_sharing(
        &[],
        || answering(serve),
        |server, upstream| {
            for target in ["/same", "/other", "/gone"] {
                get(server, target);
                let head = ask(server, "HEAD", target, "Cache-Control: no-cache\r\n");
                assert_eq!(said(&head), "fwd=request", "{target}: {head}");
            }
            let updated = get(server, "/same");
            assert!(said(&updated).starts_with("hit") && updated.contains("X-New: yes\r\n"), "{updated}");
            assert!(said(&get(server, "/other")).starts_with("fwd=stale"));
            assert!(is_conditional(&heads(upstream, "/other")[2]));
            // A 200 to HEAD says nothing of a stored 404, but that it is outdated.
            assert!(said(&get(server, "/gone")).starts_with("fwd=stale"));
        },
    );
}

/// RFC 9111, 4.2.4: stale responses while disconnected.
#[test]
fn who_is_disconnected_answers_stale_if_that_is_wanted() {
    let serve = |head: &str| match (head.contains("X-Close"), head.contains("/must")) {
        (true, _) => String::new(),
        (false, true) => ok("ETag: \"x\"\r\nCache-Control: max-age=0, must-revalidate", "hello"),
        (false, false) => ok("ETag: \"x\"\r\nCache-Control: max-age=0", "hello"),
    };
    over_sharing(
        &[&|options| options.policy.disconnected_seconds = 60],
        || answering(serve),
        |server, _| {
            for (target, expected) in [("/may", "200"), ("/must", "504")] {
                get(server, target);
                assert_eq!(status(&get_with(server, target, "X-Close: yes\r\n")), expected, "{target}");
            }
        },
    );
}

#[test]
fn hits_by_chance() {
    const REQUESTS: usize = 200;
    let serve = |_: &str| ok("Cache-Control: max-age=0\r\nETag: \"x\"", "hello");
    over_sharing(
        &[&|options| options.forced_hits = Some(ForcedHits::new(0.4, 7))],
        || answering(serve),
        |server, upstream| {
            let mut client = server.connect();
            let request = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
            client.send(request.repeat(REQUESTS).as_bytes());
            client.send(b"GET /b HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
            let answers = String::from_utf8(client.rest()).unwrap();
            let sequence: Vec<bool> = answers
                .lines()
                .filter_map(|line| line.strip_prefix("Cache-Status: me; "))
                .map(|said| said.starts_with("hit"))
                .collect();
            assert_eq!(sequence.len(), REQUESTS + 1);
            let hits = sequence.iter().filter(|is_hit| **is_hit).count();
            // Six standard deviations.
            assert!((39..121).contains(&hits), "{hits}");
            let asked = heads(upstream, "/a");
            assert_eq!(asked.len() + 1, sequence.len() - hits);
            assert!(asked.iter().all(|head| !is_conditional(head)));
            server.wait_until(Counter::CacheForcedHits, hits as u64);
            server.wait_until(Counter::CacheForcedMisses, (sequence.len() - hits) as u64);
        },
    );
}
