//! A bucket as an upstream: signed requests for objects, through the cache.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sojourn_content::remote::{Provider, SharedFiles, Signer};
use sojourn_s3::{Credentials, Source};
use sojourn_server::Counter;
use sojourn_server::handler::reverse_proxy::{Bucket, Protocol, Upstream};
use sojourn_testing::object_store::{Fault, KEY, ObjectStore, REGION};
use sojourn_testing::upstream;

use super::{Options, proxy_of};
use crate::server::Server;

fn bucket(address: SocketAddr) -> Upstream {
    let source = Source::Environment(Credentials::new(KEY.0, KEY.1, Some("token")).unwrap());
    let provider = Provider { source, files: SharedFiles::default(), tls: None };
    let signer = Signer::new(REGION.to_owned(), provider).unwrap();
    let bucket = Bucket {
        authority: address.to_string(),
        path: "/bucket/site/".to_owned(),
        signer: Some(Arc::new(signer)),
        index: b"index.html".as_slice().into(),
    };
    Upstream { protocol: Protocol::S3(Arc::new(bucket)), ..super::configured(address) }
}

fn proxy(architecture: &str, store: &ObjectStore, memory_bytes: usize) -> Server {
    let has_cache = move |options: &mut Options| options.memory.memory_bytes = memory_bytes;
    proxy_of(architecture, vec![bucket(store.address())], &[&has_cache])
}

#[test]
fn objects_are_fetched_signed_and_cached() {
    let store = ObjectStore::start();
    store.put("/bucket/site/a%20b", "hello", "Cache-Control: max-age=60\r\n");
    store.put("/bucket/site/index.html", "root", "Cache-Control: max-age=0\r\n");
    for architecture in ["amped", "mt"] {
        let server = proxy(architecture, &store, 1 << 20);
        let before = store.heads().len();
        for _ in 0..2 {
            let answer = server.get("/a%20b?version=7");
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("hello"), "{answer}");
            // The query is part of the cache key, but not of the object's.
        }
        assert_eq!(store.heads().len(), before + 1, "the second was a hit");
        assert!(server.get("/").ends_with("root"));
        assert!(server.get("/?list-type=2").ends_with("root"), "a bucket cannot be listed");
        assert!(server.get("/").ends_with("root"));
        assert!(server.get("/none").starts_with("HTTP/1.1 404 "));
        let served = server.stop();
        assert!(served.value(Counter::CacheUnchanged) >= 1, "a stale object is revalidated");
    }
}

#[test]
fn ranges_and_methods() {
    let store = ObjectStore::start();
    store.put("/bucket/site/film", "0123456789", "");
    let server = proxy("amped", &store, 0);
    let answer = |request: &str| {
        let mut client = server.connect();
        client.send(request.as_bytes());
        String::from_utf8(client.rest()).unwrap()
    };
    let part = answer("GET /film HTTP/1.0\r\nRange: bytes=2-4\r\n\r\n");
    assert!(part.starts_with("HTTP/1.1 206 ") && part.ends_with("234"), "{part}");
    assert!(answer("HEAD /film HTTP/1.0\r\n\r\n").contains("Content-Length: 10\r\n"));
    for request in [
        "PUT /film HTTP/1.0\r\nContent-Length: 1\r\n\r\nx",
        "DELETE /film HTTP/1.0\r\n\r\n",
        "POST /film HTTP/1.0\r\nContent-Length: 0\r\n\r\n",
        "GET /film HTTP/1.0\r\nContent-Length: 1\r\n\r\nx",
    ] {
        let refused = answer(request);
        assert!(
            refused.starts_with("HTTP/1.1 405 ") && refused.contains("\r\nAllow: GET, HEAD\r\n"),
            "{refused}"
        );
    }
    // What a client says of itself does not reach the store, nor does what would change the request's meaning.
    answer(
        "GET /film HTTP/1.0\r\nCookie: a=b\r\nX-Amz-Acl: public-read\r\nAuthorization: Basic eA==\r\n\r\n",
    );
    let heads = store.heads().concat().to_lowercase();
    assert!(!heads.contains("cookie") && !heads.contains("acl") && !heads.contains("basic"), "{heads}");
    assert!(!heads.contains("put ") && !heads.contains("x-forwarded-for"));
}

#[test]
fn a_store_that_fails_is_a_bad_gateway_or_a_stale_answer() {
    let store = ObjectStore::start();
    store.put("/bucket/site/a", "kept", "Cache-Control: max-age=0, stale-if-error=60\r\n");
    let server = proxy("amped", &store, 1 << 20);
    assert!(server.get("/a").ends_with("kept"));
    store.set_fault("/bucket/site/a", Some(Fault::Fails(503)));
    assert!(server.get("/a").ends_with("kept"));
    store.put("/bucket/site/b", "gone", "");
    store.set_fault("/bucket/site/b", Some(Fault::Cuts(0)));
    let answer = server.get("/b");
    assert!(!answer.ends_with("gone"), "{answer}");
}

#[test]
fn without_a_stale_answer_a_failure_has_a_status() {
    let store = ObjectStore::start();
    let faults = [(Fault::Hangs, "504"), (Fault::Fails(500), "500"), (Fault::Fails(503), "503")];
    for (number, (fault, _)) in faults.iter().enumerate() {
        let path = format!("/bucket/site/{number}");
        store.put(&path, "small", "Cache-Control: max-age=60\r\n");
        store.set_fault(&path, Some(*fault));
    }
    let settings = |options: &mut Options| {
        options.memory.memory_bytes = 1 << 20;
        options.site.limits.upstream.failures_max = 1000;
        options.site.limits.upstream.head = Duration::from_millis(300);
    };
    for architecture in ["amped", "sped", "mt", "uring"] {
        let server = proxy_of(architecture, vec![bucket(store.address())], &[&settings]);
        for (number, (fault, expected)) in faults.iter().enumerate() {
            let answer = server.get(&format!("/{number}"));
            let expected = format!("HTTP/1.1 {expected} ");
            assert!(answer.starts_with(&expected), "{architecture}: {fault:?}: {answer}");
            assert!(!answer.contains("as scripted"), "{architecture}: {answer}");
            store.set_fault(&format!("/bucket/site/{number}"), None);
            let answer = server.get(&format!("/{number}"));
            assert!(answer.ends_with("small"), "{architecture}: a failure was stored: {answer}");
            store.set_fault(&format!("/bucket/site/{number}"), Some(*fault));
        }
        let server = proxy_of(architecture, vec![bucket(upstream::Upstream::dead())], &[&settings]);
        let answer = server.get("/0");
        assert!(answer.starts_with("HTTP/1.1 502 "), "{architecture}: {answer}");
    }
}

#[test]
fn what_a_store_says_of_a_signed_request_is_not_passed_on() {
    let store = ObjectStore::start();
    store.put("/bucket/site/a", "a", "");
    store.set_fault("/bucket/site/a", Some(Fault::RefusesSignatures));
    for architecture in ["amped", "mt"] {
        let server = proxy(architecture, &store, 1 << 20);
        for (path, expected) in [("/a", "403 Forbidden\n"), ("/none", "404 Not Found\n")] {
            let answer = server.get(path);
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with(&format!("HTTP/1.1 {}", &expected[..4])), "{architecture}: {answer}");
            assert!(head.contains("\r\nContent-Type: text/plain; charset=utf-8"), "{answer}");
            assert_eq!(body, expected, "{architecture}");
        }
        // Under the others, each thread has its own.
        if architecture == "amped" {
            assert_eq!(store.connections(), 1, "the connection is kept after an error");
        }
    }
}
