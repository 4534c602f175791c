//! What coalesced requests may get of the response to one of them (RFC 9111, 4).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sojourn_testing::client::{ask, get, get_with, status};
use sojourn_testing::until;
use sojourn_testing::upstream::{Peer, Upstream};

use super::{over_sharing, proxy};
use crate::server::Server;

/// Concurrent clients.
const CLIENTS: usize = 4;

/// How long an upstream delays a response while other clients ask for it.
const THOUGHT: Duration = Duration::from_millis(500);

fn ok(fields: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{fields}\r\n\r\n{body}", body.len())
}

fn get_as(server: &Server, user: usize, target: &str) -> String {
    get_with(server, target, &format!("Cookie: user={user}\r\n"))
}

/// The number of the client that sent this head.
fn user(head: &str) -> usize {
    head.split_once("\r\nCookie: user=").unwrap().1[..1].parse().unwrap()
}

/// The responses to a client, and to others that ask while the upstream thinks about its request.
fn together(server: &Server, upstream: &Upstream, target: &str) -> Vec<String> {
    let before = upstream.heads().len();
    std::thread::scope(|scope| {
        let ask = |user: usize| scope.spawn(move || get_as(server, user, target));
        let first = ask(0);
        until("the first request", || (upstream.heads().len() > before).then_some(()));
        let others: Vec<_> = (1..CLIENTS).map(ask).collect();
        std::iter::once(first).chain(others).map(|asked| asked.join().unwrap()).collect()
    })
}

/// RFC 9111, 5.2.2.4: a 304 that adds `no-cache` answers only the client whose request it is the response to.
#[test]
fn a_revalidation_that_must_be_repeated_is_not_shared() {
    let serve = || {
        Upstream::start(|peer: &mut Peer| {
            while let Some(head) = peer.head() {
                std::thread::sleep(THOUGHT);
                let answer = match head.contains("\r\nIf-None-Match: ") {
                    true => "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nCache-Control: no-cache\r\n\r\n"
                        .to_owned(),
                    false => ok("ETag: \"x\"\r\nCache-Control: max-age=0", "hello"),
                };
                peer.send(answer.as_bytes());
            }
        })
    };
    over_sharing(&[], serve, |server, upstream| {
        get_as(server, 0, "/a");
        let answers = together(server, upstream, "/a");
        assert!(answers.iter().all(|answer| answer.ends_with("hello")), "{answers:?}");
        let mut asked: Vec<_> = upstream.heads()[1..].iter().map(|head| user(head)).collect();
        asked.sort_unstable();
        assert_eq!(asked, (0..CLIENTS).collect::<Vec<_>>());
    });
}

/// RFC 9111, 4.2.4 and 5.2.2.10: a body arrives so slowly that the response becomes stale meanwhile. The architectures
/// coalesce in one loop, and between threads.
#[test]
fn late_clients_do_not_get_what_has_become_stale() {
    for architecture in ["amped", "mt"] {
        let upstream = Upstream::start(|peer: &mut Peer| {
            while let Some(head) = peer.head() {
                let answer =
                    ok("ETag: \"x\"\r\nCache-Control: s-maxage=1", &format!("hello {}", user(&head)));
                let (start, end) = answer.split_at(answer.len() - 1);
                peer.send(start.as_bytes());
                if user(&head) == 0 {
                    std::thread::sleep(Duration::from_millis(2500));
                }
                peer.send(end.as_bytes());
            }
        });
        let server = proxy(architecture, &[upstream.address], &[]);
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(get_as(&server, 0, "/a").ends_with("hello 0")));
            until("the first request", || (upstream.heads().len() == 1).then_some(()));
            std::thread::sleep(Duration::from_millis(1500));
            let late = get_as(&server, 1, "/a");
            assert!(late.ends_with("hello 1"), "{architecture}: {late}");
        });
    }
}

/// RFC 9111, 4.4: whoever asks after a change gets no response that was requested before it.
#[test]
fn who_asks_after_a_change_follows_nobody_from_before_it() {
    let serve = || {
        let asked = AtomicUsize::new(0);
        Upstream::start(move |peer: &mut Peer| {
            while let Some(head) = peer.head() {
                if head.starts_with("POST ") {
                    peer.send(b"HTTP/1.1 204 No Content\r\n\r\n");
                    continue;
                }
                let number = asked.fetch_add(1, Ordering::SeqCst);
                if number == 0 {
                    until("the next request", || (asked.load(Ordering::SeqCst) > 1).then_some(()));
                }
                peer.send(ok("Cache-Control: max-age=60", &format!("hello {number}")).as_bytes());
            }
        })
    };
    over_sharing(&[], serve, |server, upstream| {
        std::thread::scope(|scope| {
            let before = scope.spawn(|| get(server, "/a"));
            until("the first request", || (upstream.heads().len() == 1).then_some(()));
            assert_eq!(status(&ask(server, "POST", "/a", "Content-Length: 0\r\n")), "204");
            let after = get(server, "/a");
            assert!(after.ends_with("hello 1"), "{after}");
            let before = before.join().unwrap();
            assert!(before.ends_with("hello 0"), "{before}");
        });
        assert!(get(server, "/a").ends_with("hello 1"));
    });
}

/// RFC 9111, 5.2.2.4 and 5.2.2.7: fields that Cache-Control names are for the client whose request was forwarded.
#[test]
fn withheld_fields_are_for_the_first_client() {
    let serve = || {
        Upstream::start(|peer: &mut Peer| {
            while let Some(head) = peer.head() {
                std::thread::sleep(THOUGHT);
                let user = user(&head);
                let fields = format!(
                    "Cache-Control: public, max-age=60, no-cache=\"set-cookie\", private=\"X-User\"\r\n\
                     Set-Cookie: sid={user}\r\nX-User: {user}\r\nX-All: yes"
                );
                peer.send(ok(&fields, "hello").as_bytes());
            }
        })
    };
    over_sharing(&[], serve, |server, upstream| {
        let answers = together(server, upstream, "/a");
        assert_eq!(upstream.heads().len(), 1);
        for (user, answer) in answers.iter().enumerate() {
            assert!(answer.ends_with("\r\n\r\nhello") && answer.contains("\r\nX-All: yes\r\n"), "{answer}");
            for own in ["\r\nSet-Cookie: sid=0\r\n", "\r\nX-User: 0\r\n"] {
                assert_eq!(answer.contains(own), user == 0, "{answer}");
            }
            if user > 0 {
                assert!(
                    answer.contains("; collapsed") && answer.matches("\r\nAge: ").count() == 1,
                    "{answer}"
                );
            }
        }
    });
}
