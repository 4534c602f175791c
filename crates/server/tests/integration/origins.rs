//! Content of a remote origin: served like a directory's, and what its failures and its slowness do to clients.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sojourn_content::remote::client::{Client, Timeouts};
use sojourn_content::remote::nfs::{Export, NfsStore, Trusted};
use sojourn_content::remote::{HttpStore, Provider, Remote, RemoteLimits, SharedFiles, Signer, Store};
use sojourn_content::{Directory, Rules};
use sojourn_s3::{Credentials, Source};
use sojourn_server::{ALL, CacheScope, Counter, Site, architecture};
use sojourn_testing::nfs_server::{self, NfsServer};
use sojourn_testing::object_store::{Fault, KEY, ObjectStore, REGION};

use crate::server::Server;

const CHUNK: u64 = 64 << 10;

const LARGE_BYTES: usize = 5 * CHUNK as usize + 123;

/// How long the store waits where it is slow.
const SLOW: Duration = Duration::from_millis(300);

const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(1),
    head: Duration::from_millis(500),
    part: Duration::from_secs(1),
};

fn signer() -> Arc<Signer> {
    let source = Source::Environment(Credentials::new(KEY.0, KEY.1, None).unwrap());
    let provider = Provider { source, files: SharedFiles::default(), tls: None };
    Arc::new(Signer::new(REGION.to_owned(), provider).unwrap())
}

/// A site with the objects of `store` below `bucket`, whose attributes are trusted for `trusted`.
fn site(store: &ObjectStore, signer: Option<Arc<Signer>>, trusted: Duration) -> Site {
    let client = Client::new(&store.url(), None, TIMEOUTS, 4).unwrap();
    remote(Box::new(HttpStore::new(client, "/bucket/".to_owned(), signer)), trusted)
}

/// The same with the files of an NFS server.
fn nfs_site(server: &NfsServer, trusted: Duration) -> Site {
    let port = Some(server.address.port());
    let export = Export {
        host: server.address.ip().to_string(),
        path: "/".to_owned(),
        nfs_port: port,
        mount_port: port,
        uid: Some(0),
        gid: Some(0),
    };
    remote(
        Box::new(NfsStore::new(export, TIMEOUTS, 4, true, Trusted { min: trusted, max: trusted })),
        trusted,
    )
}

fn remote(store: Box<dyn Store>, trusted: Duration) -> Site {
    let limits = RemoteLimits {
        chunk_bytes: CHUNK,
        attributes_min: trusted,
        attributes_max: trusted,
        stale: Duration::ZERO,
    };
    Site::new(Arc::new(Remote::new(store, Rules::default(), limits, |_| {})))
}

fn serve(name: &str, mut site: Site) -> Server {
    let architecture = architecture::by_name(name).unwrap();
    site.workers = architecture.defaults().workers.unwrap_or(1);
    site.budgets.recheck_after = Duration::ZERO;
    Server::with(architecture, site)
}

fn large() -> Vec<u8> {
    (0..LARGE_BYTES).map(|index| (index * 31 / 7) as u8).collect()
}

/// The answer without fields that differ between origins.
fn comparable(answer: &[u8]) -> (Vec<String>, Vec<u8>) {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let differs =
        |line: &&str| ["Date", "ETag", "Last-Modified", "Server"].iter().any(|name| line.starts_with(name));
    (head.lines().filter(|line| !differs(line)).map(str::to_owned).collect(), answer[end..].to_vec())
}

#[test]
fn it_is_served_as_from_a_directory() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("dir")).unwrap();
    let (store, files) = (ObjectStore::start(), NfsServer::start());
    for (name, bytes) in [
        ("a.txt", b"hello".to_vec()),
        ("large.bin", large()),
        ("dir/index.html", b"<p>".to_vec()),
        ("empty.txt", vec![]),
    ] {
        std::fs::write(root.path().join(name), &bytes).unwrap();
        files.put(name, bytes.clone(), 1000);
        store.put(&format!("/bucket/{name}"), bytes, "");
    }
    let local = serve("amped", Site::new(Arc::new(Directory::new(root.path(), Rules::default()).unwrap())));
    for architecture in ALL.iter().filter(|each| each.cache_scope() == Some(CacheScope::Server)) {
        let trusted = Duration::from_secs(60);
        let remotes = [site(&store, Some(signer()), trusted), nfs_site(&files, trusted)]
            .map(|site| serve(architecture.name(), site));
        for request in [
            "GET /a.txt HTTP/1.0\r\n\r\n",
            "HEAD /a.txt HTTP/1.0\r\n\r\n",
            "GET /a.txt HTTP/1.0\r\nRange: bytes=1-2\r\n\r\n",
            "GET /large.bin HTTP/1.0\r\n\r\n",
            "GET /large.bin HTTP/1.0\r\nRange: bytes=65530-65545\r\n\r\n",
            "GET /large.bin HTTP/1.0\r\nRange: bytes=-1\r\n\r\n",
            "GET /large.bin HTTP/1.0\r\nRange: bytes=70000-\r\n\r\n",
            "GET /large.bin HTTP/1.0\r\nRange: bytes=999999-\r\n\r\n",
            "HEAD /large.bin HTTP/1.0\r\n\r\n",
            "GET /dir/ HTTP/1.0\r\n\r\n",
            "GET /dir?a=b HTTP/1.0\r\n\r\n",
            "GET /empty.txt HTTP/1.0\r\n\r\n",
            "GET /none HTTP/1.0\r\n\r\n",
            "GET /none/ HTTP/1.0\r\n\r\n",
            "POST /a.txt HTTP/1.0\r\n\r\n",
        ] {
            let answer = |server: &Server| {
                let mut client = server.connect();
                client.send(request.as_bytes());
                comparable(&client.rest())
            };
            let expected = answer(&local);
            for (kind, remote) in ["S3", "NFS"].iter().zip(&remotes) {
                let found = answer(remote);
                let name = architecture.name();
                assert!(found == expected, "{name}, {kind}: {request}: {:?} {:?}", found.0, expected.0);
            }
        }
        for remote in remotes {
            remote.stop();
        }
    }
}

#[test]
fn parts_and_conditions() {
    let store = ObjectStore::start();
    store.put("/bucket/large.bin", large(), "Content-Encoding: x-own\r\nCache-Control: no-cache\r\n");
    let server = serve("amped", site(&store, Some(signer()), Duration::from_secs(60)));
    let mut client = server.connect();
    client.send(b"GET /large.bin HTTP/1.0\r\nRange: bytes=0-3,131070-131073\r\n\r\n");
    let answer = client.rest();
    for part in [&large()[..4], &large()[131_070..131_074]] {
        assert!(answer.windows(4).any(|four| four == part), "a range that spans two chunks");
    }
    let head = server.get("/large.bin");
    let tag = head.lines().find_map(|line| line.strip_prefix("ETag: ")).unwrap().to_owned();
    assert!(head.contains("Content-Encoding: x-own\r\n") && head.contains("Cache-Control: no-cache\r\n"));
    let mut client = server.connect();
    client.send(format!("GET /large.bin HTTP/1.0\r\nIf-None-Match: {tag}\r\n\r\n").as_bytes());
    assert!(client.rest().starts_with(b"HTTP/1.1 304 "));
    let served = server.stop();
    let received = served.value(Counter::OriginReceivedBytes);
    assert_eq!(received, LARGE_BYTES as u64, "each chunk was fetched once");
}

#[test]
fn failures_have_a_status() {
    std::thread::scope(|scope| {
        for name in ["amped", "sped", "mt", "uring"] {
            if architecture::by_name(name).unwrap().available().is_ok() {
                scope.spawn(move || failures(name));
            }
        }
    });
}

fn failures(name: &str) {
    let store = ObjectStore::start();
    let faults = [
        (Fault::Hangs, "504"),
        (Fault::Fails(500), "502"),
        (Fault::Fails(403), "403"),
        (Fault::Cuts(2), "502"),
    ];
    for (number, (fault, _)) in faults.iter().enumerate() {
        for (key, bytes) in [("small", b"small".to_vec()), ("large", large())] {
            let path = format!("/bucket/{number}/{key}");
            store.put(&path, bytes, "");
            store.set_fault(&path, Some(*fault));
        }
    }
    let server = serve(name, site(&store, Some(signer()), Duration::ZERO));
    std::thread::scope(|scope| {
        for (number, (fault, expected)) in faults.iter().enumerate() {
            let (server, store) = (&server, &store);
            scope.spawn(move || {
                for key in ["small", "large"] {
                    let answer = server.get(&format!("/{number}/{key}"));
                    assert!(
                        answer.starts_with(&format!("HTTP/1.1 {expected} ")),
                        "{name}: {fault:?}: {answer}"
                    );
                }
                store.set_fault(&format!("/bucket/{number}/small"), None);
                assert!(server.get(&format!("/{number}/small")).ends_with("small"), "it is well again");
            });
        }
    });
    let served = server.stop();
    assert_eq!((served.value(Counter::OriginTimeouts), served.value(Counter::OriginFailures)), (2, 6));
}

#[test]
fn a_body_that_cannot_be_finished_is_cut_short() {
    let store = ObjectStore::start();
    store.put("/bucket/large.bin", large(), "");
    let server = serve("amped", site(&store, Some(signer()), Duration::from_secs(60)));
    // The first chunk arrives with the attributes; nothing after it does.
    let mut client = server.connect();
    client.send(b"HEAD /large.bin HTTP/1.0\r\n\r\n");
    client.rest();
    store.put("/bucket/large.bin", vec![0; LARGE_BYTES], "");
    let answer = server.get("/large.bin");
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    assert!(answer.starts_with("HTTP/1.1 200 ") && body.len() < LARGE_BYTES, "two versions are not mixed");
    // The loop counts after it has closed.
    server.wait_until(Counter::ConnectionErrors, 1);
    assert_eq!(server.counters().value(Counter::OriginChanged), 1);
    // The next client gets the new version.
    let mut client = server.connect();
    client.send(b"GET /large.bin HTTP/1.0\r\n\r\n");
    assert!(client.rest().ends_with(&[0; LARGE_BYTES]));
}

#[test]
fn failures_of_an_nfs_server_have_a_status() {
    let files = NfsServer::start();
    files.put("a", "known", 1000);
    let server = serve("amped", nfs_site(&files, Duration::ZERO));
    for (fault, expected) in [
        (nfs_server::Fault::Absent, "502"),
        (nfs_server::Fault::None, "200"),
        (nfs_server::Fault::Hangs, "504"),
        (nfs_server::Fault::None, "200"),
    ] {
        files.set_fault(fault);
        let answer = server.get("/a");
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected} ")), "{fault:?}: {answer}");
    }
    let served = server.stop();
    assert_eq!((served.value(Counter::OriginTimeouts), served.value(Counter::OriginFailures)), (1, 1));
}

/// What a store does from some time on.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// It answers after [`SLOW`].
    Slow,
    /// It never answers.
    Hangs,
}

/// A site whose store has two objects, `known` and `wanted`; how to bring the store into trouble with the latter; how
/// often it was asked.
struct Troubled {
    site: Site,
    begin: Box<dyn Fn(Trouble)>,
    asked: Box<dyn Fn() -> usize>,
}

fn troubled_objects(signer: Option<Arc<Signer>>) -> Troubled {
    let store = Arc::new(if signer.is_some() { ObjectStore::start() } else { ObjectStore::public() });
    store.put("/bucket/wanted", "wanted", "");
    store.put("/bucket/known", "known", "");
    let site = site(&store, signer, Duration::from_secs(60));
    let own = Arc::clone(&store);
    let begin = move |trouble| {
        let fault = match trouble {
            Trouble::Slow => Fault::Waits(SLOW),
            Trouble::Hangs => Fault::Hangs,
        };
        own.set_fault("/bucket/wanted", Some(fault));
    };
    Troubled { site, begin: Box::new(begin), asked: Box::new(move || store.heads().len()) }
}

fn troubled_files() -> Troubled {
    let server = NfsServer::start();
    server.put("wanted", "wanted", 1000);
    server.put("known", "known", 1000);
    let site = nfs_site(&server, Duration::from_secs(60));
    let own = server.clone();
    let begin = move |trouble| {
        own.set_fault(match trouble {
            Trouble::Slow => nfs_server::Fault::Waits(SLOW),
            Trouble::Hangs => nfs_server::Fault::Hangs,
        });
    };
    Troubled { site, begin: Box::new(begin), asked: Box::new(move || server.calls()) }
}

/// How long ten requests for a known object take while the store is in trouble with another.
fn others_wait(name: &str, troubled: Troubled, trouble: Trouble) -> Duration {
    let server = serve(name, troubled.site);
    assert!(server.get("/known").ends_with("known"));
    (troubled.begin)(trouble);
    let before = (troubled.asked)();
    let mut waiting = server.connect();
    waiting.send(b"GET /wanted HTTP/1.0\r\n\r\n");
    sojourn_testing::until("the store is asked", || ((troubled.asked)() > before).then_some(()));
    let begun = Instant::now();
    for _ in 0..10 {
        assert!(server.get("/known").ends_with("known"));
    }
    let others = begun.elapsed();
    let answer = String::from_utf8(waiting.rest()).unwrap();
    match trouble {
        Trouble::Slow => assert!(answer.ends_with("wanted"), "{answer}"),
        Trouble::Hangs => assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}"),
    }
    others
}

#[test]
fn an_origin_in_trouble_stalls_the_other_clients_of_sped_and_not_those_of_amped() {
    for kind in ["HTTP", "S3", "NFS"] {
        for trouble in [Trouble::Slow, Trouble::Hangs] {
            let troubled = || match kind {
                "HTTP" => troubled_objects(None),
                "S3" => troubled_objects(Some(signer())),
                _ => troubled_files(),
            };
            let [sped, amped] = ["sped", "amped"].map(|name| others_wait(name, troubled(), trouble));
            let ratio = sped.as_secs_f64() / amped.as_secs_f64();
            // A store that hangs is given up after 500 ms.
            assert!(sped > SLOW / 2 && ratio > 3.0, "{kind} {trouble:?}: SPED {sped:?}, AMPED {amped:?}");
        }
    }
}

#[test]
fn helpers_hung_by_an_origin_do_not_hang_the_loop() {
    let store = ObjectStore::start();
    store.put("/bucket/hangs", "x", "");
    store.put("/bucket/known", "known", "");
    let mut site = site(&store, Some(signer()), Duration::from_secs(60));
    (site.helpers, site.limits.helper_queue_max) = (1, 1);
    let server = serve("amped", site);
    assert!(server.get("/known").ends_with("known"));
    store.set_fault("/bucket/hangs", Some(Fault::Hangs));
    let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET /{} HTTP/1.0\r\n\r\n", ["hangs", "queued", "refused"][number]).as_bytes());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(server.get("/known").ends_with("known"), "what is known needs no helper");
    let answers: Vec<_> =
        clients.iter_mut().map(|client| String::from_utf8(client.rest()).unwrap()).collect();
    for (answer, status) in answers.iter().zip(["504", "404", "503"]) {
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
}

#[test]
fn an_object_that_is_never_what_was_opened_is_a_bad_gateway() {
    let store = ObjectStore::start();
    store.put("/bucket/large.bin", large(), "");
    store.set_fault("/bucket/large.bin", Some(Fault::Changes));
    for name in ["sped", "amped", "uring", "mt"] {
        let server = serve(name, site(&store, Some(signer()), Duration::from_secs(60)));
        let before = store.heads().len();
        let mut client = server.connect();
        client.send(b"GET /large.bin HTTP/1.0\r\nRange: bytes=200000-\r\n\r\n");
        let answer = String::from_utf8(client.rest()).unwrap();
        assert!(answer.starts_with("HTTP/1.1 502 "), "{name}: {answer}");
        assert_eq!(store.heads().len() - before, 4, "{name}: it is opened and read twice");
    }
}
