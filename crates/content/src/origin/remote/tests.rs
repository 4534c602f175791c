//! Objects of a scripted store: what is asked for, what is remembered, and what happens if the store fails.

use std::sync::Arc;
use std::time::Duration;

use sojourn_http::SitePath;
use sojourn_s3::Source;
use sojourn_testing::object_store::{Fault, KEY, ObjectStore, REGION};
use sojourn_testing::until;
use sojourn_testing::upstream::Upstream;

use super::client::{Client, Timeouts};
use super::*;
use crate::resource::HostId;

const CHUNK: u64 = 64 << 10;

const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_millis(200),
    head: Duration::from_millis(200),
    part: Duration::from_millis(400),
};

fn credentials() -> Source {
    Source::Environment(sojourn_s3::Credentials::new(KEY.0, KEY.1, None).unwrap())
}

fn signer(source: Source) -> Result<Signer, String> {
    Signer::new(REGION.to_owned(), Provider { source, files: SharedFiles::default(), tls: None })
}

fn store_of(store: &ObjectStore) -> Box<HttpStore> {
    let client = Client::new(&store.url(), None, TIMEOUTS, 4).unwrap();
    let signer = signer(credentials()).unwrap();
    Box::new(HttpStore::new(client, "/bucket/".to_owned(), Some(Arc::new(signer))))
}

fn origin(store: &ObjectStore, limits: RemoteLimits) -> Remote {
    Remote::new(store_of(store), Rules::default(), limits, |_| {})
}

fn limits() -> RemoteLimits {
    RemoteLimits { chunk_bytes: CHUNK, ..RemoteLimits::default() }
}

/// What is known is never fresh.
fn forgetful() -> RemoteLimits {
    RemoteLimits { attributes_min: Duration::ZERO, attributes_max: Duration::ZERO, ..limits() }
}

fn resource(target: &str) -> Resource<'static> {
    Resource { host: HostId::default(), path: SitePath::decode(target.as_bytes()).unwrap().into_owned() }
}

fn document(origin: &Remote, target: &str) -> Arc<Document> {
    match origin.open(&resource(target)) {
        Ok(Found::Document(document) | Found::Loaded(document, _)) => document,
        other => panic!("{target}: {other:?}"),
    }
}

fn ranges(store: &ObjectStore) -> Vec<String> {
    let range = |head: &String| head.lines().find_map(|line| line.strip_prefix("range: ").map(str::to_owned));
    store.heads().iter().filter_map(range).collect()
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|index| (index * 7 / 3) as u8).collect()
}

#[test]
fn a_small_object_is_one_exchange_and_then_trusted() {
    let store = ObjectStore::start();
    store.put(
        "/bucket/dir/a.html",
        "hello",
        "Content-Type: text/html; charset=x\r\nCache-Control: max-age=5\r\n",
    );
    let origin = origin(&store, limits());
    let Ok(Found::Loaded(document, start)) = origin.open(&resource("/dir/a.html")) else {
        panic!("it comes with its bytes")
    };
    assert_eq!((&*start, document.size, &*document.media_type), (&b"hello"[..], 5, "text/html; charset=x"));
    assert_eq!(
        (document.cache_control.as_deref(), document.modified.seconds()),
        (Some("max-age=5"), 784_111_777)
    );
    assert!(document.entity_tag.starts_with("\"v"), "{}", document.entity_tag);
    assert!(origin.is_current(&resource("/dir/a.html"), &document));
    let Some(Ok(Found::Document(again))) = origin.open_now(&resource("/dir/a.html")) else {
        panic!("it is known")
    };
    assert_eq!(again.id, document.id);
    assert_eq!(ranges(&store), ["bytes=0-65535"]);
}

#[test]
fn a_known_version_is_kept_as_long_as_the_store_confirms_it() {
    let store = ObjectStore::start();
    store.put("/bucket/a", "one", "");
    let origin = origin(&store, forgetful());
    let first = document(&origin, "/a");
    assert!(!origin.is_current(&resource("/a"), &first));
    assert!(origin.open_now(&resource("/a")).is_none(), "the store must be asked");
    assert_eq!(document(&origin, "/a").id, first.id);
    store.put("/bucket/a", "three", "");
    let second = document(&origin, "/a");
    assert!(second.id != first.id && second.size == 5 && second.entity_tag != first.entity_tag);
    store.remove("/bucket/a");
    assert_eq!(origin.open(&resource("/a")).unwrap_err(), OpenError::NotFound);
    let counts = origin.counts().unwrap();
    assert_eq!((counts.unchanged, counts.read_bytes), (1, 8));
}

#[test]
fn the_interval_between_checks_grows_while_nothing_changes() {
    let store = ObjectStore::start();
    store.put("/bucket/a", "one", "");
    let (min, max) = (Duration::from_millis(20), Duration::from_millis(200));
    let origin = origin(&store, RemoteLimits { attributes_min: min, attributes_max: max, ..limits() });
    let resource = resource("/a");
    let mut known = document(&origin, "/a");
    let begun = Instant::now();
    while begun.elapsed() < 2 * max {
        if !origin.is_current(&resource, &known) {
            known = document(&origin, "/a");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // 20 + 40 + 80 + 160 ms; without growth there would be 20.
    let checks = store.heads().len();
    assert!((3..=6).contains(&checks), "{checks} checks");
}

#[test]
fn only_the_parts_that_are_read_are_transferred() {
    let store = ObjectStore::start();
    let whole = bytes(40 * CHUNK as usize + 100);
    store.put("/bucket/film.mp4", whole.clone(), "");
    let origin = origin(&store, limits());
    let document = document(&origin, "/film.mp4");
    assert_eq!((document.size, &*document.media_type), (whole.len() as u64, "video/mp4"));
    for (offset, length) in [(39 * CHUNK, CHUNK as usize), (40 * CHUNK, 100), (7, 1)] {
        let mut part = vec![0; length];
        assert_eq!(origin.read(&document, offset, &mut part).unwrap(), length);
        assert!(part == whole[offset as usize..][..length], "{offset}");
    }
    // Beyond the end there is nothing.
    assert_eq!(origin.read(&document, whole.len() as u64 - 2, &mut [0; 5]).unwrap(), 2);
    assert_eq!(
        ranges(&store),
        [
            "bytes=0-65535",
            "bytes=2555904-2621439",
            "bytes=2621440-2621539",
            "bytes=7-7",
            "bytes=2621538-2621539"
        ]
    );
    let parts = 2 * CHUNK + 100 + 1 + 2;
    // The store counts what it has sent, perhaps after it was received.
    until("bytes that are counted", || (store.sent_bytes() >= parts).then_some(()));
    assert_eq!(store.sent_bytes(), parts);
}

#[test]
fn two_versions_are_never_mixed() {
    for fault in [None, Some(Fault::IgnoresConditions)] {
        let store = ObjectStore::start();
        store.put("/bucket/a", bytes(3 * CHUNK as usize), "");
        store.set_fault("/bucket/a", fault);
        let origin = origin(&store, limits());
        let first = document(&origin, "/a");
        // Another length, so that even a store without validators cannot hide it.
        store.put("/bucket/a", vec![0; 3 * CHUNK as usize + 1], "");
        let mut part = [7; 10];
        assert_eq!(origin.read(&first, CHUNK, &mut part).unwrap(), 0, "{fault:?}");
        assert_eq!(part, [7; 10]);
        assert!(!origin.is_current(&resource("/a"), &first), "it is known to be outdated");
        let second = document(&origin, "/a");
        assert_ne!(first.id, second.id);
        assert_eq!(origin.read(&second, CHUNK, &mut part).unwrap(), 10);
        assert_eq!(origin.counts().unwrap().changed, 1);
    }
}

#[test]
fn directories_are_what_has_an_index_object() {
    let store = ObjectStore::start();
    store.put("/bucket/index.html", "root", "");
    store.put("/bucket/dir/index.html", "dir", "");
    store.put("/bucket/.env", "secret", "");
    let origin = origin(&store, limits());
    assert_eq!((document(&origin, "/").size, document(&origin, "/dir/").size), (4, 3));
    assert!(matches!(origin.open(&resource("/dir")), Ok(Found::Directory)));
    assert!(matches!(origin.open_now(&resource("/dir")), Some(Ok(Found::Directory))));
    for absent in ["/none", "/none/", "/dir/none", "/.env"] {
        assert_eq!(origin.open(&resource(absent)).unwrap_err(), OpenError::NotFound, "{absent}");
        assert!(
            matches!(origin.open_now(&resource(absent)), Some(Err(OpenError::NotFound))),
            "it is remembered"
        );
    }
    assert!(store.heads().iter().all(|head| !head.contains("env")), "hidden objects are not asked for");
}

#[test]
fn keys_are_escaped_once() {
    let store = ObjectStore::start();
    store.put("/bucket/a%20b%2Bc%25%3F%22%C3%A9/%23", "odd", "");
    let origin = origin(&store, limits());
    assert_eq!(document(&origin, "/a%20b+c%25%3f%22%c3%a9/%23").size, 3);
}

#[test]
fn an_empty_object_has_no_range() {
    let store = ObjectStore::start();
    store.put("/bucket/empty.css", "", "");
    let origin = origin(&store, limits());
    let document = document(&origin, "/empty.css");
    assert_eq!((document.size, &*document.media_type), (0, "text/css; charset=utf-8"));
}

#[test]
fn a_store_without_ranges_is_not_asked_for_everything() {
    let store = ObjectStore::start();
    store.put("/bucket/small", "small", "");
    store.put("/bucket/large", bytes(512 * CHUNK as usize), "");
    for path in ["/bucket/small", "/bucket/large"] {
        store.set_fault(path, Some(Fault::IgnoresRanges));
    }
    let origin = origin(&store, limits());
    let (small, large) = (document(&origin, "/small"), document(&origin, "/large"));
    let mut part = [0; 5];
    assert_eq!((origin.read(&small, 0, &mut part).unwrap(), &part), (5, b"small"));
    assert_eq!(large.size, 512 * CHUNK);
    let error = origin.read(&large, CHUNK, &mut part).unwrap_err();
    assert_eq!(error.to_string(), "the server ignores Range");
    // The connection ends as soon as nothing more is wanted; some is in the sockets by then.
    assert!(store.sent_bytes() < 256 * CHUNK, "{}", store.sent_bytes());
}

#[test]
fn what_cannot_be_read_is_told_apart() {
    let store = ObjectStore::start();
    for key in ["hanging", "failing", "cut", "refused"] {
        store.put(&format!("/bucket/{key}"), bytes(2 * CHUNK as usize), "");
    }
    let origin = origin(&store, forgetful());
    let cut = document(&origin, "/cut");
    for (key, fault, expected) in [
        ("hanging", Fault::Hangs, OpenError::TimedOut),
        ("failing", Fault::Fails(503), OpenError::Unavailable),
        ("cut", Fault::Cuts(10), OpenError::Unavailable),
        ("refused", Fault::Fails(403), OpenError::Forbidden),
    ] {
        store.set_fault(&format!("/bucket/{key}"), Some(fault));
        if key != "cut" {
            assert_eq!(origin.open(&resource(&format!("/{key}"))).unwrap_err(), expected, "{key}");
        }
    }
    assert_eq!(store.heads().iter().filter(|head| head.contains("/failing")).count(), 3, "it is tried again");
    let error = origin.read(&cut, CHUNK, &mut [0; 100]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted, "{error}");
    let counts = origin.counts().unwrap();
    assert_eq!((counts.timeouts, counts.failures), (1, 3));
}

#[test]
fn a_known_object_outlives_a_failure_as_long_as_allowed() {
    let store = ObjectStore::start();
    store.put("/bucket/a", "known", "");
    let stale = Duration::from_secs(1);
    let origin = origin(&store, RemoteLimits { stale, ..forgetful() });
    let known = document(&origin, "/a");
    store.set_fault("/bucket/a", Some(Fault::Fails(500)));
    assert_eq!(document(&origin, "/a").id, known.id);
    let asked = store.heads().len();
    assert!(origin.is_current(&resource("/a"), &known), "for a second the store is left alone");
    assert_eq!((document(&origin, "/a").id, store.heads().len()), (known.id, asked));
    assert_eq!(origin.counts().unwrap().stale, 1);
    std::thread::sleep(ASK_AGAIN_AFTER + Duration::from_millis(50));
    assert_eq!(origin.open(&resource("/a")).unwrap_err(), OpenError::Unavailable);
}

#[test]
fn a_connection_that_was_closed_meanwhile_is_replaced() {
    let upstream = Upstream::start(|peer| {
        peer.head();
        peer.send(b"HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 2\r\n\r\nok");
    });
    let client = Client::new(&format!("http://{}", upstream.address), None, TIMEOUTS, 4).unwrap();
    let store = HttpStore::new(client, "/".to_owned(), None);
    for _ in 0..3 {
        assert!(matches!(store.open(b"a", None, CHUNK), Ok(Opened::Object(object)) if object.start == b"ok"));
    }
    assert_eq!(upstream.connections(), 3);
}

#[test]
fn chunked_and_unannounced_responses() {
    for (answer, expected) in [
        (
            &b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"[..],
            Ok(&b"abcde"[..]),
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc", Ok(b"abc")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", Err("the connection failed")),
        (
            b"HTTP/1.1 206 X\r\nContent-Range: bytes 1-2/3\r\nContent-Length: 2\r\n\r\nbc",
            Err("not asked for"),
        ),
        // Shorter than asked for: the rest of the first chunk would be missing.
        (
            b"HTTP/1.1 206 X\r\nContent-Range: bytes 0-1/5000\r\nContent-Length: 2\r\n\r\nab",
            Err("not asked for"),
        ),
        (b"HTTP/1.1 206 X\r\nContent-Range: bytes 0-1/2\r\nContent-Length: 2\r\n\r\nab", Ok(b"ab")),
        (b"HTTP/1.1 301 X\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n", Err("it redirects to /b")),
        (b"HTTP/1.1 304 X\r\n\r\n", Err("304")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", Err("bad Content-Length")),
    ] {
        let upstream = Upstream::start(move |peer| {
            peer.head();
            peer.send(answer);
        });
        let client = Client::new(&format!("http://{}", upstream.address), None, TIMEOUTS, 0).unwrap();
        let store = HttpStore::new(client, "/".to_owned(), None);
        match (store.open(b"a", None, CHUNK), expected) {
            (Ok(Opened::Object(object)), Ok(expected)) => assert_eq!(object.start, expected),
            (Err(error), Err(said)) => assert!(error.to_string().contains(said), "{error}"),
            (opened, _) => panic!("{opened:?} instead of {expected:?}"),
        }
    }
}

/// The signature that `signer` makes, with the access key in it.
fn key_of(signer: &Signer) -> String {
    let mut head = Vec::new();
    signer.sign(("GET", "/"), "h", &[], unix_now(), &mut head).unwrap();
    let head = String::from_utf8(head).unwrap();
    head.split("Credential=").nth(1).unwrap().split('/').next().unwrap().to_owned()
}

fn json(id: &str, seconds: i64) -> String {
    let expires = HttpDate::from_seconds(unix_now().seconds() as i64 + seconds).iso8601();
    format!(
        r#"{{"Code":"Success","AccessKeyId":"{id}","SecretAccessKey":"s","Token":"t","Expiration":"{expires}"}}"#
    )
}

fn answer(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[test]
fn an_instance_asks_for_a_session_token_first() {
    let metadata = Upstream::start(|peer| {
        while let Some(head) = peer.head() {
            let has_token = head.contains("X-aws-ec2-metadata-token: secret-token\r\n");
            let body = match head.split(' ').take(2).collect::<Vec<_>>()[..] {
                ["PUT", "/latest/api/token"] if head.contains("ttl-seconds: 21600\r\n") => {
                    "secret-token".to_owned()
                }
                ["GET", "/latest/meta-data/iam/security-credentials/"] if has_token => "role".to_owned(),
                ["GET", "/latest/meta-data/iam/security-credentials/role"] if has_token => {
                    json("INSTANCE", 3600)
                }
                _ => return peer.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"),
            };
            peer.send(&answer(&body));
        }
    });
    let signer = signer(Source::Instance { endpoint: format!("http://{}", metadata.address) }).unwrap();
    assert_eq!(key_of(&signer), "INSTANCE");
}

#[test]
fn credentials_are_renewed_before_they_expire() {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let container = Upstream::start(move |peer| {
        while let Some(head) = peer.head() {
            assert!(head.contains("Authorization: Bearer x\r\n"), "{head}");
            let number = counted.fetch_add(1, Ordering::SeqCst);
            peer.send(&answer(&json(&format!("KEY{number}"), 2)));
        }
    });
    let signer = signer(Source::Container {
        url: format!("http://{}/v2/credentials?x", container.address),
        authorization: Some("Bearer x".to_owned()),
        authorization_file: None,
    });
    let signer = signer.unwrap();
    assert_eq!(key_of(&signer), "KEY0");
    // They are valid for two seconds and renewed after one, in a thread: signing never waits.
    until("they are renewed", || (key_of(&signer) == "KEY1").then_some(()));
    assert!(container.heads()[0].starts_with("GET /v2/credentials?x HTTP/1.1\r\n"));
}

/// As EKS replaces the token of a pod.
#[test]
fn the_token_for_a_container_is_read_again_for_each_renewal() {
    let folder = tempfile::tempdir().unwrap();
    let (file, next) = (folder.path().join("token"), folder.path().join("next"));
    std::fs::write(&file, "first\n").unwrap();
    std::fs::write(&next, "second\n").unwrap();
    let container = Upstream::start(|peer| {
        while let Some(head) = peer.head() {
            let token = head.lines().find_map(|line| line.strip_prefix("Authorization: ")).unwrap();
            peer.send(&answer(&json(token, 2)));
        }
    });
    let source = |file: &str| Source::Container {
        url: format!("http://{}/", container.address),
        authorization: Some("from the environment".to_owned()),
        authorization_file: Some(file.to_owned()),
    };
    let renewed = signer(source(file.to_str().unwrap())).unwrap();
    assert_eq!(key_of(&renewed), "first");
    std::fs::rename(next, &file).unwrap();
    until("they are renewed", || (key_of(&renewed) == "second").then_some(()));
    let error = signer(source("/none")).unwrap_err();
    assert!(error.starts_with("no credentials from the container") && error.contains("/none"), "{error}");
}

/// Without waiting for the minute after which they are read anyway.
#[test]
fn keys_of_a_file_are_read_again_once_the_store_refuses_them() {
    let folder = tempfile::tempdir().unwrap();
    let files =
        SharedFiles { config: folder.path().join("config"), credentials: folder.path().join("credentials") };
    let write = |(id, secret): (&str, &str)| {
        let text = format!("[mine]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n");
        std::fs::write(&files.credentials, text).unwrap();
    };
    write(("AKIDOLD", "old"));
    let provider = Provider { source: Source::Profile("mine".to_owned()), files: files.clone(), tls: None };
    let signer = Arc::new(Signer::new(REGION.to_owned(), provider).unwrap());
    let objects = ObjectStore::start();
    objects.put("/bucket/a", "hello", "");
    let client = Client::new(&objects.url(), None, TIMEOUTS, 4).unwrap();
    let store = HttpStore::new(client, "/bucket/".to_owned(), Some(Arc::clone(&signer)));
    let error = store.open(b"a", None, CHUNK).unwrap_err();
    assert!(error.to_string().contains("InvalidAccessKeyId"), "{error}");
    write(KEY);
    until("the new ones", || store.open(b"a", None, CHUNK).is_ok().then_some(()));
    assert_eq!(key_of(&signer), KEY.0);
    // They are gone: the last ones are used on.
    std::fs::remove_file(&files.credentials).unwrap();
    assert!(signer.renew_if_refused("ExpiredToken"));
    assert!(store.open(b"a", None, CHUNK).is_ok());
}

#[test]
fn a_role_is_assumed_with_the_token_of_a_file() {
    let sts = Upstream::start(|peer| {
        let head = peer.head().unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
        let body = peer.take(length.parse().unwrap()).unwrap();
        let body = String::from_utf8(body).unwrap();
        assert!(
            body.contains("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&")
                && body.ends_with("WebIdentityToken=a.b%2Bc"),
            "{body}"
        );
        peer.send(&answer("<A><AccessKeyId>ROLE</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration></A>"));
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "a.b+c\n").unwrap();
    let source = |token_file: &str| Source::WebIdentity {
        token_file: token_file.to_owned(),
        role: "arn:aws:iam::1:role/r".to_owned(),
        session: "sojourn".to_owned(),
        endpoint: format!("http://{}", sts.address),
    };
    assert_eq!(key_of(&signer(source(file.path().to_str().unwrap())).unwrap()), "ROLE");
    let error = signer(source("/none")).unwrap_err();
    assert!(error.starts_with("no credentials from the token service") && error.contains("/none"), "{error}");
}

#[test]
fn expired_credentials_are_not_used() {
    let container = Upstream::answering(answer(&json("OLD", -10)));
    let source = Source::Container {
        url: format!("http://{}/", container.address),
        authorization: None,
        authorization_file: None,
    };
    let error = signer(source).unwrap().sign(("GET", "/"), "h", &[], unix_now(), &mut Vec::new());
    assert!(error.unwrap_err().starts_with("the credentials have expired"));
}

/// As in a process that was forked after they had expired, for one connection.
#[test]
fn whoever_may_wait_gets_new_credentials_for_expired_ones() {
    let count = Arc::new(AtomicU64::new(0));
    let container = Upstream::start(move |peer| {
        while peer.head().is_some() {
            let seconds = if count.fetch_add(1, Ordering::SeqCst) == 0 { -10 } else { 3600 };
            std::thread::sleep(Duration::from_millis(50));
            peer.send(&answer(&json(KEY.0, seconds).replace("\"s\"", &format!("{:?}", KEY.1))));
        }
    });
    let source = Source::Container {
        url: format!("http://{}/", container.address),
        authorization: None,
        authorization_file: None,
    };
    let objects = ObjectStore::public();
    objects.put("/bucket/a", "hello", "");
    let client = Client::new(&objects.url(), None, TIMEOUTS, 4).unwrap();
    let signer = signer(source).unwrap();
    // New ones are due.
    std::thread::sleep(Duration::from_millis(1100));
    let store = HttpStore::new(client, "/bucket/".to_owned(), Some(Arc::new(signer)));
    assert!(matches!(store.open(b"a", None, CHUNK), Ok(Opened::Object(object)) if object.start == b"hello"));
    assert!(objects.heads()[0].contains(&format!("Credential={}/", KEY.0)));
}
