//! Which upstream responses a proxy's clients share, over real sockets.

use std::sync::{Arc, Barrier};

use super::over_sharing;
use sojourn_testing::client::{ask, get, get_with, status};
use sojourn_testing::upstream::{Peer, Upstream};

/// Concurrent clients.
const CLIENTS: usize = 4;

fn ok(fields: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{fields}\r\n\r\n{body}", body.len())
}

fn is_hit(answer: &str) -> bool {
    answer.contains("\r\nCache-Status: me; hit")
}

/// Requests for objects that were recently not storable, or not to be used without revalidation, are not coalesced: the
/// upstream answers once it has all of them.
#[test]
fn clients_of_what_is_not_shared_do_not_wait_in_a_row() {
    let serve = || {
        let all_there = Arc::new(Barrier::new(CLIENTS));
        Upstream::start(move |peer: &mut Peer| {
            while let Some(head) = peer.head() {
                if head.contains("X-Together") {
                    all_there.wait();
                }
                let fields = match head.contains("X-Now-Storable") {
                    true => "max-age=60",
                    false if head.contains(" /private ") => "private",
                    false => "no-cache\r\nETag: \"x\"",
                };
                peer.send(ok(&format!("Cache-Control: {fields}"), "hello").as_bytes());
            }
        })
    };
    over_sharing(&[], serve, |server, upstream| {
        for (number, target) in ["/private", "/no-cache"].into_iter().enumerate() {
            get(server, target);
            std::thread::scope(|scope| {
                for _ in 0..CLIENTS {
                    scope.spawn(|| {
                        let answer = get_with(server, target, "X-Together: yes\r\n");
                        assert!(status(&answer) == "200" && answer.ends_with("hello"), "{answer}");
                    });
                }
            });
            assert_eq!(upstream.heads().len(), number * (2 + CLIENTS) + 1 + CLIENTS);
            // It is stored as soon as that is allowed.
            get_with(server, target, "X-Now-Storable: yes\r\n");
            assert!(is_hit(&get(server, target)));
        }
    });
}

/// RFC 9111, 3.2 and 7.3: the cookie of a 304 is only for the client that it answers; the stored response stays without
/// it.
#[test]
fn the_cookie_of_a_304() {
    let serve = || {
        Upstream::start(|peer: &mut Peer| {
            while let Some(head) = peer.head() {
                // Whether or not the origin says so.
                let named = if head.contains(" /named ") { ", public, no-cache=\"set-cookie\"" } else { "" };
                peer.send(
                    match head.contains("\r\nIf-None-Match: ") {
                        true => format!(
                            "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nSet-Cookie: a=b\r\n\
                             Cache-Control: max-age=60{named}\r\nX-New: 2\r\n\r\n"
                        ),
                        false => ok("ETag: \"x\"\r\nCache-Control: max-age=0", "hello"),
                    }
                    .as_bytes(),
                );
            }
        })
    };
    over_sharing(&[], serve, |server, upstream| {
        for target in ["/a", "/named"] {
            get(server, target);
            let own = get(server, target);
            assert!(own.contains("\r\nSet-Cookie: a=b\r\n") && own.ends_with("hello"), "{own}");
            let other = get(server, target);
            assert!(is_hit(&other) && other.contains("\r\nX-New: 2\r\n"), "{other}");
            assert!(!other.contains("Set-Cookie") && other.ends_with("hello"), "{other}");
        }
        assert_eq!(upstream.heads().len(), 4);
    });
}

/// RFC 9110, 9.3.3: a POST whose response has Content-Location and a lifetime.
#[test]
fn what_a_post_brings() {
    let serve = || {
        Upstream::start(|peer: &mut Peer| {
            while let Some(head) = peer.head() {
                let own = match head.split(' ').nth(1).unwrap() {
                    "/own" => "Cache-Control: max-age=60\r\nContent-Location: /own",
                    "/other" => "Cache-Control: max-age=60\r\nContent-Location: /own",
                    "/guessed" => {
                        "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Location: /guessed"
                    }
                    _ => "Cache-Control: max-age=60",
                };
                peer.send(ok(own, "hello").as_bytes());
            }
        })
    };
    over_sharing(&[], serve, |server, _| {
        for (target, is_kept) in [("/own", true), ("/other", false), ("/guessed", false), ("/none", false)] {
            let answer = ask(server, "POST", target, "Content-Length: 0\r\n");
            assert!(answer.ends_with("hello") && answer.contains("fwd=method"), "{answer}");
            assert_eq!(is_hit(&get(server, target)), is_kept, "{target}");
        }
        // It does not answer another POST.
        assert!(!is_hit(&ask(server, "POST", "/own", "Content-Length: 0\r\n")));
        // RFC 9110, 13.2.1: nor do the conditions of a POST apply to it.
        let answer = ask(server, "POST", "/own", "Content-Length: 0\r\nIf-None-Match: *\r\n");
        assert!(status(&answer) == "200" && answer.ends_with("hello"), "{answer}");
    });
}

/// Surrogate-Control (W3C, Edge Architecture Specification 1.0).
#[test]
fn what_the_origin_tells_its_surrogate() {
    let serve = || {
        Upstream::start(|peer: &mut Peer| {
            while let Some(head) = peer.head() {
                let fields = match head.split(' ').nth(1).unwrap() {
                    "/kept" => "Cache-Control: no-store\r\nSurrogate-Control: max-age=60;me",
                    "/others" => "Cache-Control: no-store\r\nSurrogate-Control: max-age=60;you",
                    _ => "Cache-Control: max-age=60\r\nSurrogate-Control: no-store",
                };
                peer.send(ok(fields, "hello").as_bytes());
            }
        })
    };
    over_sharing(&[], serve, |server, upstream| {
        for (target, is_kept) in [("/kept", true), ("/others", false), ("/forbidden", false)] {
            get_with(server, target, "Surrogate-Capability: mine=\"Surrogate/1.0\"\r\n");
            assert_eq!(is_hit(&get(server, target)), is_kept, "{target}");
        }
        for head in upstream.heads() {
            let said: Vec<_> =
                head.lines().filter(|line| line.starts_with("Surrogate-Capability: ")).collect();
            assert_eq!(said, ["Surrogate-Capability: me=\"Surrogate/1.0\""]);
        }
    });
}
