//! What a proxy stores in memory, and for which requests.

use std::time::Duration;

use sojourn_server::Counter;

use super::{over_sharing, proxy};
use sojourn_testing::Client;
use sojourn_testing::client::{exchange, get, status};
use sojourn_testing::upstream::Upstream;

const FRESH: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: max-age=60\r\nETag: \"x\"\r\n\r\nhello";

fn with(fields: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n{fields}\r\n\r\nhello").into_bytes()
}

#[test]
fn what_is_fresh_is_answered_from_memory() {
    over_sharing(
        &[],
        || Upstream::answering(FRESH),
        |server, upstream| {
            let first = get(server, "/a");
            assert!(first.ends_with("hello") && !first.contains("Age: "), "{first}");
            let second = get(server, "/a");
            assert!(second.ends_with("hello") && second.contains("Cache-Status: me; hit; ttl="), "{second}");
            assert!(second.contains("\r\nAge: ") && second.contains("\r\nETag: \"x\"\r\n"), "{second}");
            let request =
                |fields: &str| format!("GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n");
            let current = exchange(&mut server.connect(), &request("If-None-Match: \"x\"\r\n"));
            assert!(status(&current) == "304" && current.ends_with("\r\n\r\n"), "{current}");
            let head =
                exchange(&mut server.connect(), "HEAD /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
            assert!(head.contains("Content-Length: 5\r\n") && head.ends_with("\r\n\r\n"), "{head}");
            assert_eq!(upstream.heads().len(), 1);
            // Other hosts get other responses; refused or outdated responses are not used.
            exchange(&mut server.connect(), "GET /a HTTP/1.1\r\nHost: i\r\nConnection: close\r\n\r\n");
            assert_eq!(upstream.heads().len(), 2);
            exchange(&mut server.connect(), &request("Cache-Control: no-cache\r\n"));
            assert_eq!(upstream.heads().len(), 3);
            let delete = "DELETE /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
            assert_eq!(status(&exchange(&mut server.connect(), delete)), "200");
            assert!(!get(server, "/a").contains("Cache-Status: me; hit"));
            assert_eq!(upstream.heads().len(), 5);
            let only = exchange(
                &mut server.connect(),
                "GET /b HTTP/1.1\r\nHost: h\r\nConnection: close\r\nCache-Control: only-if-cached\r\n\r\n",
            );
            assert_eq!(status(&only), "504");
            server.wait_until(Counter::CacheHits, 3);
        },
    );
}

#[test]
fn what_is_not_for_all_is_kept_for_nobody() {
    for fields in [
        "Cache-Control: private, max-age=60",
        "Cache-Control: no-store",
        "Cache-Control: max-age=60\r\nSet-Cookie: a=b",
        "Cache-Control: max-age=60\r\nVary: *",
        "X: y",
    ] {
        let upstream = Upstream::answering(with(fields));
        let server = proxy("amped", &[upstream.address], &[]);
        for _ in 0..3 {
            assert!(get(&server, "/").ends_with("hello"));
        }
        assert_eq!(upstream.heads().len(), 3, "{fields}");
    }
}

#[test]
fn variants_are_told_apart() {
    let upstream = Upstream::start(|peer| {
        while let Some(head) = peer.head() {
            let body = if head.contains("Accept-Language: de") { "guten" } else { "hello" };
            let fields = "Content-Length: 5\r\nCache-Control: max-age=60\r\nVary: Accept-Language";
            peer.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{body}").as_bytes());
        }
    });
    let server = proxy("amped", &[upstream.address], &[]);
    let in_language = |language: &str| {
        let request =
            format!("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAccept-Language: {language}\r\n\r\n");
        exchange(&mut server.connect(), &request)
    };
    for _ in 0..2 {
        assert!(in_language("de").ends_with("guten"));
        assert!(in_language("en").ends_with("hello"));
    }
    assert_eq!(upstream.heads().len(), 2);
}

#[test]
fn a_truncated_answer_is_not_kept() {
    let upstream = Upstream::start(|peer| {
        peer.head();
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\nCache-Control: max-age=60\r\n\r\nhello");
    });
    let server = proxy("amped", &[upstream.address], &[]);
    for _ in 0..2 {
        assert!(get(&server, "/").ends_with("hello"));
    }
    assert_eq!(upstream.heads().len(), 2);
}

#[test]
fn many_clients_of_one_cold_object_ask_once() {
    const CLIENTS: usize = 1000;
    let body: Vec<u8> = (0..300_000u32).map(|number| number as u8).collect();
    let theirs = body.clone();
    let upstream = Upstream::start(move |peer| {
        while peer.head().is_some() {
            std::thread::sleep(Duration::from_millis(500));
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nCache-Control: max-age=60\r\n\r\n",
                theirs.len()
            );
            peer.send(head.as_bytes());
            peer.send(&theirs);
        }
    });
    for (asked, architecture) in [(1, "amped"), (2, "uring")] {
        let server = proxy(architecture, &[upstream.address], &[&|options| options.site.workers = 1]);
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(b"GET /cold HTTP/1.0\r\nHost: h\r\n\r\n");
        }
        // One client leaves before it has received anything, without effect on others.
        clients.remove(0);
        for client in &mut clients {
            assert!(client.rest().ends_with(&body));
        }
        assert_eq!(upstream.heads().len(), asked);
        let again = exchange(&mut server.connect(), "GET /cold HTTP/1.0\r\nHost: h\r\n\r\n");
        assert!(again.contains("Cache-Status: me; hit"), "{}", &again[..200]);
        assert_eq!(upstream.heads().len(), asked);
    }
}

/// An upstream that answers slowly with `fields` and a body in several pieces.
fn slow_origin(fields: &'static str) -> (Upstream, Vec<u8>) {
    let body: Vec<u8> = (0..200_000u32).map(|number| number as u8).collect();
    let theirs = body.clone();
    let upstream = Upstream::start(move |peer| {
        while peer.head().is_some() {
            std::thread::sleep(Duration::from_millis(300));
            peer.send(
                format!("HTTP/1.1 200 OK\r\n{fields}\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes(),
            );
            for piece in theirs.chunks(50_000) {
                peer.send(&[format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
                std::thread::sleep(Duration::from_millis(30));
            }
            peer.send(b"0\r\n\r\n");
        }
    });
    (upstream, body)
}

#[test]
fn loops_follow_each_other() {
    const CLIENTS: usize = 40;
    for architecture in ["ncopy", "uring"] {
        for (fields, asked) in [("Cache-Control: max-age=60", 1), ("Cache-Control: private", CLIENTS)] {
            let (upstream, body) = slow_origin(fields);
            let server = proxy(architecture, &[upstream.address], &[&|options| options.site.workers = 3]);
            let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
            for client in &mut clients {
                client.send(b"GET /cold HTTP/1.0\r\nHost: h\r\n\r\n");
            }
            for client in &mut clients {
                assert!(client.rest().ends_with(&body), "{architecture}: {fields}");
            }
            assert_eq!(upstream.heads().len(), asked, "{architecture}: {fields}");
            if asked == 1 {
                let counted = server.stop();
                // Later requests found it stored.
                let followed = counted.value(Counter::CacheCoalesced) + counted.value(Counter::CacheHits);
                assert_eq!(followed, CLIENTS as u64 - 1);
            }
        }
    }
}
