//! Cache operations on the admin listener: purging and inspection.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::proxy;
use crate::server::Server;
use serde_json::Value;
use sojourn_cache_store::VARIANTS_MAX;
use sojourn_server::Counter;
use sojourn_testing::client::{get_with, status};
use sojourn_testing::upstream::Upstream;
use sojourn_testing::{Client, DEADLINE, until};

/// Answers everything, tagged with the words of its path, in a language if one is requested.
fn origin() -> Upstream {
    Upstream::start(|peer| {
        while let Some(head) = peer.head() {
            let target = head.split(' ').nth(1).unwrap();
            let vary = if target.contains("vary") { "Vary: Accept-Language\r\n" } else { "" };
            let tags = target.trim_start_matches('/').replace('-', " ");
            let fields = format!("Cache-Control: max-age=600\r\n{vary}Surrogate-Key: {tags}\r\nETag: \"x\"");
            peer.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: 5\r\n\r\nhello").as_bytes());
        }
    })
}

/// The status and JSON of a response of the admin listener.
fn admin(server: &Server, request: &str) -> (u16, Value) {
    let mut client = Client::to(server.admin);
    client.send(format!("{request} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    let answer = String::from_utf8(client.rest()).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null))
}

fn is_hit(server: &Server, target: &str, language: &str) -> bool {
    let mut client = server.connect();
    let fields = format!("Host: h\r\nConnection: close\r\nAccept-Language: {language}");
    client.send(format!("GET {target} HTTP/1.1\r\n{fields}\r\n\r\n").as_bytes());
    let answer = String::from_utf8(client.rest()).unwrap();
    assert!(answer.ends_with("hello"), "{answer}");
    answer.contains("Cache-Status: me; hit")
}

/// Requests it twice, so that it is stored.
fn store(server: &Server, target: &str, language: &str) {
    is_hit(server, target, language);
    assert!(is_hit(server, target, language), "{target}");
}

#[test]
fn urls_are_forgotten_with_their_variants() {
    let upstream = origin();
    let server = proxy("ncopy", &[upstream.address], &[]);
    for request in [
        "POST /purge?url=http://h/vary?a%20b=c&d",
        "POST /purge?url=http%3A%2F%2Fh%3A80%2Fvary%3Fa%2520b%3Dc%26d",
        "PURGE http://H/vary?a%20b=c&d",
    ] {
        for language in ["de", "en"] {
            store(&server, "/vary?a%20b=c&d", language);
        }
        let (status, value) = admin(&server, request);
        assert_eq!((status, &value["was_stored"]), (200, &Value::Bool(true)), "{request}: {value}");
        for language in ["de", "en"] {
            assert!(!is_hit(&server, "/vary?a%20b=c&d", language), "{request}");
        }
    }
    let (status, value) = admin(&server, "PURGE http://h/never");
    assert_eq!((status, &value["was_stored"]), (200, &Value::Bool(false)));
    for request in
        ["PURGE /", "POST /purge", "POST /purge?url=/a", "POST /purge?key=", "GET /cache/object?url=x"]
    {
        let (status, value) = admin(&server, request);
        assert!(status == 400 && value["error"].is_string(), "{request}: {status} {value}");
    }
    let mut client = Client::to(server.admin);
    client.send(b"POST /purge?key=a HTTP/1.1\r\nHost: a\r\nOrigin: http://elsewhere\r\n\r\n");
    assert!(client.rest().starts_with(b"HTTP/1.1 403"), "a page in a browser has no business here");
    assert_eq!(server.counters().value(Counter::CachePurges), 4);
}

/// However many have been stored: the list of variants is limited.
#[test]
fn no_variant_survives_a_purge() {
    let (upstream, directory) = (origin(), tempfile::tempdir().unwrap());
    let language = |number: usize| format!("x-{number}");
    for server in [proxy("amped", &[upstream.address], &[]), stored_on_disk(&upstream, directory.path())] {
        for number in 0..=VARIANTS_MAX {
            store(&server, "/vary", &language(number));
        }
        let (status, value) = admin(&server, "PURGE http://h/vary");
        assert_eq!((status, &value["was_stored"]), (200, &Value::Bool(true)), "{value}");
        // The first one begins a new list.
        for number in (0..=VARIANTS_MAX).rev() {
            assert!(!is_hit(&server, "/vary", &language(number)), "{number}");
        }
        assert!(is_hit(&server, "/vary", &language(0)));
    }
}

fn stored_on_disk(upstream: &Upstream, directory: &Path) -> Server {
    proxy("amped", &[upstream.address], &[&|options| options.keep_in(directory)])
}

#[test]
fn keys_are_forgotten_in_memory_and_on_disk() {
    let (upstream, directory) = (origin(), tempfile::tempdir().unwrap());
    let server = stored_on_disk(&upstream, directory.path());
    for target in ["/a-b", "/b-c", "/c-d"] {
        store(&server, target, "en");
    }
    server.wait_until(Counter::CacheDiskWritten, 3);
    server.stop();
    // None of them is in memory, and the restart comes after the purge.
    let server = stored_on_disk(&upstream, directory.path());
    let (status, value) = admin(&server, "POST /purge?key=b+x");
    assert_eq!((status, value["keys"].to_string()), (200, r#"["b","x"]"#.to_owned()));
    server.stop();
    let server = stored_on_disk(&upstream, directory.path());
    assert!(
        !is_hit(&server, "/a-b", "en") && !is_hit(&server, "/b-c", "en") && is_hit(&server, "/c-d", "en")
    );
    // Objects in memory too; later ones stay.
    admin(&server, "POST /purge?key=d");
    assert!(!is_hit(&server, "/c-d", "en"));
    std::thread::sleep(Duration::from_millis(1100));
    store(&server, "/a-b", "en");
    store(&server, "/c-d", "en");
}

/// Whatever was requested before a purge is not stored after it, whether others could have waited for it or not.
#[test]
fn what_arrives_after_a_purge_is_not_stored() {
    for is_by_key in [false, true] {
        let is_purged = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&is_purged);
        let upstream = Upstream::start(move |peer| {
            while let Some(head) = peer.head() {
                if head.contains("X-Early") {
                    until("the purge", || theirs.load(Ordering::SeqCst).then_some(()));
                }
                let (line, body) = match &head {
                    head if head.contains("\r\nIf-None-Match: ") => ("304 Not Modified", ""),
                    head if head.contains("\r\nRange: ") => {
                        ("206 Partial Content\r\nContent-Length: 2\r\nContent-Range: bytes 0-1/5", "he")
                    }
                    _ => ("200 OK\r\nContent-Length: 5", "hello"),
                };
                let is_stale = head.contains(" /stale ") && !body.is_empty();
                let fields = format!(
                    "Cache-Control: public, max-age={}\r\nSurrogate-Key: tag\r\nETag: \"x\"",
                    if is_stale { 0 } else { 600 }
                );
                peer.send(format!("HTTP/1.1 {line}\r\n{fields}\r\n\r\n{body}").as_bytes());
            }
        });
        let server = &proxy("amped", &[upstream.address], &[]);
        let requests = [
            ("/plain", ""),
            ("/stale", ""),
            ("/directive", "Cache-Control: no-cache\r\n"),
            ("/secret", "Authorization: Basic x\r\n"),
            ("/part", "Range: bytes=0-1\r\n"),
        ];
        get_with(server, "/stale", "");
        std::thread::scope(|scope| {
            let ask = |(target, lines): (&'static str, &'static str)| {
                scope.spawn(move || get_with(server, target, &format!("X-Early: yes\r\n{lines}")))
            };
            let early = requests.map(ask);
            until("the requests", || (upstream.heads().len() == 1 + requests.len()).then_some(()));
            if is_by_key {
                assert_eq!(admin(server, "POST /purge?key=tag").0, 200);
                // What arrives in the second of the purge is not used anyway.
                std::thread::sleep(Duration::from_millis(1100));
            } else {
                for (target, _) in requests {
                    assert_eq!(admin(server, &format!("PURGE http://h{target}")).0, 200);
                }
            }
            is_purged.store(true, Ordering::SeqCst);
            for early in early {
                let answer = early.join().unwrap();
                assert!(["200", "206"].contains(&status(&answer)), "{answer}");
            }
        });
        for (target, lines) in requests {
            let again = || get_with(server, target, if target == "/part" { lines } else { "" });
            let is_hit = |answer: &str| answer.contains("Cache-Status: me; hit");
            let late = again();
            assert!(!is_hit(&late), "{target}, {is_by_key}: {late}");
            let next = again();
            assert_eq!(is_hit(&next), target != "/stale", "{target}, {is_by_key}: {next}");
        }
    }
}

#[test]
fn what_is_stored_can_be_looked_at() {
    let (upstream, directory) = (origin(), tempfile::tempdir().unwrap());
    let server = stored_on_disk(&upstream, directory.path());
    store(&server, "/a-vary", "de");
    store(&server, "/a-vary", "en");
    let look = || admin(&server, "GET /cache/object?url=http://h/a-vary");
    let begun = Instant::now();
    while look().1["variants"][0]["is_on_disk"] != true {
        assert!(begun.elapsed() < DEADLINE, "it was not written: {}", look().1);
        std::thread::sleep(Duration::from_millis(10));
    }
    let (status, value) = look();
    assert_eq!((status, value["variants"].as_array().unwrap().len()), (200, 2), "{value}");
    let variant = &value["variants"][0];
    assert_eq!((variant["status"].as_u64(), variant["body_bytes"].as_u64()), (Some(200), Some(5)));
    assert_eq!((&variant["is_in_memory"], &variant["is_on_disk"]), (&true.into(), &true.into()), "{variant}");
    let left = variant["fresh_seconds_left"].as_i64().unwrap();
    assert!((500..=600).contains(&left) && variant["age_seconds"].as_i64().unwrap() <= 100);
    assert_eq!((&variant["entity_tag"], &variant["varies_by"]), (&"\"x\"".into(), &"accept-language".into()));
    let tags =
        variant["fields"].as_array().unwrap().iter().find(|field| field[0] == "Surrogate-Key").unwrap();
    assert_eq!(tags[1], "a vary");
    assert_eq!((&variant["parts"], &variant["whole_bytes"]), (&Value::Null, &5.into()), "all of it");
    assert_eq!(variant["is_purged"], false);
    admin(&server, "POST /purge?key=vary");
    assert_eq!(look().1["variants"][0]["is_purged"], true);
    assert_eq!(admin(&server, "GET /cache/object?url=http://h/none").0, 404);
}

#[test]
fn a_server_without_a_cache_has_none_of_it() {
    let upstream = origin();
    let server = proxy("amped", &[upstream.address], &[&|options| options.memory.memory_bytes = 0]);
    assert_eq!(admin(&server, "GET /cache/object?url=http://h/").0, 404);
    assert_eq!(admin(&server, "POST /purge?key=a").0, 405);
}
