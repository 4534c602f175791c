//! Stored parts of objects, over real sockets (RFC 9110, 13.1.5 and 15.3.7; RFC 9111, 3.3 and 3.4).

use std::time::{Duration, Instant};

use super::over_sharing;
use crate::server::Server;
use sojourn_testing::Client;
use sojourn_testing::client::{ask, get, get_with, status};
use sojourn_testing::upstream::{Peer, Upstream};

const LENGTH: usize = 200_000;

/// How long an upstream delays a response that several clients wait for.
const THOUGHT: Duration = Duration::from_millis(300);

/// How long a test waits for what happens after a response.
const DEADLINE: Duration = Duration::from_secs(30);

/// Version `version` of the object.
fn object(version: u8) -> Vec<u8> {
    (0..LENGTH).map(|at| b'a' + ((at / 7 + usize::from(version)) % 26) as u8).collect()
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// The range that the request selects.
fn selected(head: &str) -> Option<(usize, usize)> {
    let ranges = field(head, "Range")?.strip_prefix("bytes=")?;
    let (first, last) = ranges.split_once('-').filter(|_| !ranges.contains(','))?;
    Some(match (first.parse(), last.parse::<usize>()) {
        (Ok(first), last) => (first, last.map_or(LENGTH - 1, |last| last.min(LENGTH - 1))),
        (Err(_), last) => (LENGTH - last.ok()?, LENGTH - 1),
    })
}

/// The response of a correct origin: 206 for a range, unless If-Range names another version.
fn answer(head: &str, version: u8, tag: &str, fields: &str) -> Vec<u8> {
    let body = object(version);
    let fields = format!("ETag: {tag}\r\n{fields}");
    let is_same = field(head, "If-Range").is_none_or(|asked| asked == tag);
    let (line, body) = match selected(head).filter(|_| is_same) {
        Some((first, last)) => (
            format!("206 Partial Content\r\nContent-Range: bytes {first}-{last}/{LENGTH}"),
            &body[first..=last],
        ),
        None => ("200 OK".to_owned(), &body[..]),
    };
    let head = format!("HTTP/1.1 {line}\r\nContent-Length: {}\r\n{fields}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// An origin whose version is the last digit of the target once `X-Second` is sent.
fn origin() -> Upstream {
    Upstream::start(|peer: &mut Peer| {
        while let Some(head) = peer.head() {
            let target = head.split(' ').nth(1).unwrap().to_owned();
            let version = u8::from(target.starts_with("/changed") && head.contains("X-Second"));
            let tag = if target.starts_with("/weak") {
                format!("W/\"{version}\"")
            } else {
                format!("\"{version}\"")
            };
            let fields = match target.as_str() {
                "/private" => "Cache-Control: private",
                "/varies" => "Cache-Control: max-age=60\r\nVary: Accept-Language",
                "/stale" => "Cache-Control: max-age=0",
                _ => "Cache-Control: max-age=60",
            };
            let mut answer = answer(&head, version, &tag, fields);
            let is_cut = target.starts_with("/cut") && !head.contains("X-Second");
            if is_cut {
                answer.truncate(answer.len() - 50_000);
            }
            peer.send(&answer);
            if is_cut {
                return;
            }
        }
    })
}

fn range_of(server: &Server, target: &str, range: &str, lines: &str) -> String {
    get_with(server, target, &format!("Range: bytes={range}\r\n{lines}"))
}

fn said(answer: &str) -> &str {
    let line = answer.lines().find_map(|line| line.strip_prefix("Cache-Status: me; "));
    line.unwrap_or_else(|| panic!("no Cache-Status: {}", &answer[..answer.len().min(500)]))
}

fn body(answer: &str) -> &[u8] {
    answer.split_once("\r\n\r\n").expect("there is a head").1.as_bytes()
}

/// The ranges requested from the upstream for `target`; empty for the whole.
fn asked(upstream: &Upstream, target: &str) -> Vec<String> {
    let line = format!(" {target} HTTP/1.1\r\n");
    let heads = upstream.heads().into_iter().filter(|head| head.contains(&line));
    heads.map(|head| field(&head, "Range").unwrap_or_default().to_owned()).collect()
}

/// Checks for a 206 with these bytes of `version`.
fn assert_part(answer: &str, version: u8, first: usize, last: usize) {
    let head = &answer[..answer.len().min(600)];
    assert_eq!(status(answer), "206", "{head}");
    assert_eq!(field(answer, "Content-Range"), Some(&*format!("bytes {first}-{last}/{LENGTH}")), "{head}");
    assert_eq!(field(answer, "Content-Length"), Some(&*(last - first + 1).to_string()), "{head}");
    assert!(body(answer) == &object(version)[first..=last], "other bytes: {head}");
}

fn assert_whole(answer: &str, version: u8) {
    let head = &answer[..answer.len().min(600)];
    assert_eq!(status(answer), "200", "{head}");
    assert_eq!(field(answer, "Content-Length"), Some(&*LENGTH.to_string()), "{head}");
    assert_eq!(field(answer, "Content-Range"), None, "{head}");
    assert!(body(answer) == object(version), "other bytes: {head}");
}

/// Requests until there is a hit: an object is found a moment after its last byte was sent.
fn until_hit(ask: impl Fn() -> String) -> String {
    let start = Instant::now();
    loop {
        let answer = ask();
        if said(&answer).starts_with("hit") {
            return answer;
        }
        assert!(start.elapsed() < DEADLINE, "never a hit: {}", &answer[..answer.len().min(600)]);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// RFC 9111, 3.3: a part answers ranges within it; 3.4: parts with one strong validator are combined.
#[test]
fn parts_answer_ranges_and_are_completed() {
    over_sharing(&[], origin, |server, upstream| {
        let first = range_of(server, "/a", "1000-99999", "");
        assert_part(&first, 0, 1000, 99_999);
        assert!(
            said(&first).starts_with("fwd=uri-miss; ttl=") && said(&first).ends_with("; stored"),
            "{}",
            said(&first)
        );
        assert_part(&until_hit(|| range_of(server, "/a", "1000-1000", "")), 0, 1000, 1000);
        assert_part(&range_of(server, "/a", "2000-69999", "If-Range: \"0\"\r\n"), 0, 2000, 69_999);
        assert_eq!(asked(upstream, "/a"), ["bytes=1000-99999"], "the rest was held");
        let current = range_of(server, "/a", "5-7", "If-None-Match: \"0\"\r\n");
        assert!(status(&current) == "304" && said(&current).starts_with("hit"), "{current}");
        let beyond = range_of(server, "/a", "200000-", "");
        assert!(status(&beyond) == "416" && beyond.contains("Content-Range: bytes */200000"), "{beyond}");
        // The missing part of a range, between stored parts, is requested.
        let more = range_of(server, "/a", "50000-149999", "");
        assert_part(&more, 0, 50_000, 149_999);
        assert!(said(&more).starts_with("fwd=partial; ttl="), "{}", said(&more));
        assert_part(&until_hit(|| range_of(server, "/a", "1000-149999", "")), 0, 1000, 149_999);
        let last = range_of(server, "/a", "-1000", "");
        assert_part(&last, 0, 199_000, 199_999);
        until_hit(|| range_of(server, "/a", "-10", ""));
        // The smallest range that covers all gaps.
        let whole = get(server, "/a");
        assert_whole(&whole, 0);
        assert!(
            said(&whole).starts_with("fwd=partial; fwd-status=206; ttl=")
                && said(&whole).ends_with("; stored"),
            "{}",
            said(&whole)
        );
        let expected = ["bytes=1000-99999", "bytes=100000-149999", "bytes=-1000", "bytes=0-198999"];
        assert_eq!(asked(upstream, "/a"), expected);
        assert_whole(&until_hit(|| get(server, "/a")), 0);
        assert_part(&range_of(server, "/a", "3-5", ""), 0, 3, 5);
        assert_eq!(asked(upstream, "/a").len(), 4);
    });
}

/// The first request of many players: a range that covers everything is the whole.
#[test]
fn a_part_that_is_all_is_the_whole() {
    over_sharing(&[], origin, |server, upstream| {
        assert_part(&range_of(server, "/a", "0-", ""), 0, 0, LENGTH - 1);
        assert_whole(&until_hit(|| get(server, "/a")), 0);
        assert_part(&range_of(server, "/a", "7-8", ""), 0, 7, 8);
        assert_eq!(asked(upstream, "/a"), ["bytes=0-"]);
    });
}

/// RFC 9110, 13.1.5: the missing part is requested with If-Range.
#[test]
fn the_rest_is_asked_for_with_if_range() {
    over_sharing(&[], origin, |server, upstream| {
        range_of(server, "/rest", "0-99999", "");
        until_hit(|| range_of(server, "/rest", "0-0", ""));
        assert_whole(&get(server, "/rest"), 0);
        let heads = upstream.heads();
        assert!(heads[1].contains("\r\nRange: bytes=100000-\r\n"), "{}", heads[1]);
        assert!(heads[1].contains("\r\nIf-Range: \"0\"\r\n"), "{}", heads[1]);
        // Another version arrives whole and replaces the parts.
        range_of(server, "/changed", "0-99999", "");
        until_hit(|| range_of(server, "/changed", "0-0", ""));
        assert_whole(&get_with(server, "/changed", "X-Second: yes\r\n"), 1);
        assert_whole(&until_hit(|| get(server, "/changed")), 1);
        assert_part(&range_of(server, "/changed", "10-20", ""), 1, 10, 20);
        // So does a part of another version.
        range_of(server, "/changed2", "0-99999", "");
        until_hit(|| range_of(server, "/changed2", "0-0", ""));
        assert_part(&range_of(server, "/changed2", "150000-", "X-Second: yes\r\n"), 1, 150_000, 199_999);
        until_hit(|| range_of(server, "/changed2", "150000-150009", ""));
        assert_part(&range_of(server, "/changed2", "0-9", "X-Second: yes\r\n"), 1, 0, 9);
    });
}

/// An origin that ignores If-Range, or sends another range: nothing is combined.
#[test]
fn what_is_not_the_rest_is_not_joined() {
    let liar = || {
        Upstream::start(|peer: &mut Peer| {
            while let Some(head) = peer.head() {
                let target = head.split(' ').nth(1).unwrap().to_owned();
                let version = u8::from(head.contains("X-Second"));
                let fields = "Cache-Control: max-age=60";
                if field(&head, "If-Range").is_none() {
                    peer.send(&answer(&head, version, &format!("\"{version}\""), fields));
                    continue;
                }
                let head = head.replace("If-Range", "X-If-Range");
                peer.send(&match target.as_str() {
                    "/tag" => answer(&head, version, "\"1\"", fields),
                    "/weak" => answer(&head, version, "W/\"0\"", fields),
                    "/range" => {
                        answer(&head.replace("Range: bytes=100", "Range: bytes=101"), 0, "\"0\"", fields)
                    }
                    "/private" => answer(&head, version, "\"0\"", "Cache-Control: private"),
                    _ => b"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n".to_vec(),
                });
            }
        })
    };
    over_sharing(&[], liar, |server, upstream| {
        for target in ["/tag", "/weak", "/range", "/private", "/gone"] {
            range_of(server, target, "0-99999", "");
            until_hit(|| range_of(server, target, "0-0", ""));
            assert_whole(&get_with(server, target, "X-Second: yes\r\n"), 1);
            let asked = asked(upstream, target);
            assert_eq!((asked[1].as_str(), asked[2].as_str()), ("bytes=100000-", ""), "{target}: {asked:?}");
            assert_part(&range_of(server, target, "5-9", "X-Second: yes\r\n"), 1, 5, 9);
        }
    });
}

/// Parts with weak validators are never combined; private, stale or non-matching parts answer nobody.
#[test]
fn what_is_not_joined_or_not_used() {
    over_sharing(&[], origin, |server, upstream| {
        range_of(server, "/weak", "0-99999", "");
        assert_part(&until_hit(|| range_of(server, "/weak", "5-9", "")), 0, 5, 9);
        assert_whole(&get(server, "/weak"), 0);
        assert_eq!(asked(upstream, "/weak"), ["bytes=0-99999", ""]);
        for target in ["/private", "/stale"] {
            for count in 1..=2 {
                let answer = range_of(server, target, "0-9", "");
                assert!(said(&answer).starts_with("fwd="), "{answer}");
                assert_part(&answer, 0, 0, 9);
                assert_eq!(asked(upstream, target).len(), count);
            }
        }
        let varied =
            |language: &str| range_of(server, "/varies", "0-9", &format!("Accept-Language: {language}\r\n"));
        varied("de");
        until_hit(|| varied("de"));
        assert!(said(&varied("fr")).starts_with("fwd="));
        // Multiple ranges are forwarded, and the response is not stored.
        assert_whole(&range_of(server, "/several", "0-1,5-6", ""), 0);
        let held_back = range_of(server, "/only", "0-9", "Cache-Control: only-if-cached\r\n");
        assert_eq!(status(&held_back), "504");
    });
}

/// However many clients want the whole, the rest is requested once.
#[test]
fn the_rest_is_asked_for_once() {
    let slow = || {
        Upstream::start(|peer: &mut Peer| {
            while let Some(head) = peer.head() {
                if field(&head, "If-Range").is_some() {
                    std::thread::sleep(THOUGHT);
                }
                peer.send(&answer(&head, 0, "\"0\"", "Cache-Control: max-age=60"));
            }
        })
    };
    over_sharing(&[], slow, |server, upstream| {
        range_of(server, "/a", "0-99999", "");
        until_hit(|| range_of(server, "/a", "0-0", ""));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_whole(&get(server, "/a"), 0));
            }
        });
        assert_eq!(asked(upstream, "/a"), ["bytes=0-99999", "bytes=100000-"]);
    });
}

/// A truncated response with a strong validator is stored as a part and completed.
#[test]
fn what_breaks_off_is_completed() {
    over_sharing(&[], origin, |server, upstream| {
        let cut = get(server, "/cut");
        assert_eq!(body(&cut).len(), 150_000);
        until_hit(|| range_of(server, "/cut", "149999-149999", "X-Second: yes\r\n"));
        assert_whole(&get_with(server, "/cut", "X-Second: yes\r\n"), 0);
        assert_eq!(asked(upstream, "/cut").last().unwrap(), "bytes=150000-");
        assert_whole(&until_hit(|| get(server, "/cut")), 0);
    });
}

/// Unsafe requests and purges remove parts, too.
#[test]
fn parts_are_forgotten() {
    over_sharing(&[], origin, |server, upstream| {
        range_of(server, "/a", "0-9", "");
        until_hit(|| range_of(server, "/a", "0-9", ""));
        let mut admin = Client::to(server.admin);
        admin.send(b"GET /cache/object?url=http://h/a HTTP/1.1\r\nHost: a\r\n\r\n");
        let shown = String::from_utf8(admin.rest()).unwrap();
        assert!(shown.contains("\"parts\":[[0,9]]") && shown.contains("\"whole_bytes\":200000"), "{shown}");
        let count = asked(upstream, "/a").len();
        ask(server, "POST", "/a", "Content-Length: 0\r\n");
        assert!(said(&range_of(server, "/a", "0-9", "")).starts_with("fwd="));
        assert!(asked(upstream, "/a").len() > count);
    });
}
