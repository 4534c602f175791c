//! Tests of remote content as users configure it: by URL and environment, over TLS, as films, and objects of many times
//! the memory.

use std::process::Command;
use std::sync::Arc;

use rustls::{ServerConnection, StreamOwned};
use sojourn_media::hls::Film;
use sojourn_server::{ALL, CacheScope, Counter};
use sojourn_testing::client::with_deadline;
use sojourn_testing::fixture;
use sojourn_testing::object_store::{Fault, KEY, ObjectStore, REGION};
use sojourn_testing::upstream::Upstream;

use crate::engine::tls::Identity;
use crate::engine::{Client, ENGINE, Server};
use crate::hls;

/// `serve` of what is at `url`.
fn serve(architecture: &str, url: &str, flags: &[&str]) -> Command {
    let mut command = Command::new(ENGINE);
    command.args(["serve", url, "--listen", "127.0.0.1:0", "--architecture", architecture]).args(flags);
    command
}

/// The variables with which a bucket of `store` is reached.
fn environment(command: &mut Command, endpoint: &str) {
    command.env_remove("AWS_PROFILE").env_remove("AWS_SESSION_TOKEN").envs([
        ("AWS_ACCESS_KEY_ID", KEY.0),
        ("AWS_SECRET_ACCESS_KEY", KEY.1),
        ("AWS_REGION", REGION),
        ("AWS_CONFIG_FILE", "/none"),
        ("AWS_SHARED_CREDENTIALS_FILE", "/none"),
        ("AWS_ENDPOINT_URL_S3", endpoint),
    ]);
}

#[test]
fn content_of_a_server_with_tls() {
    let (identity, other, root) = (Identity::new(), Identity::new(), fixture::site());
    let origin = Server::start("amped", root.path(), &identity.flags());
    let url = format!("https://localhost:{}/", origin.another_address(0).port());
    let [right, wrong] = [&identity, &other].map(|each| each.certificate().to_str().unwrap().to_owned());
    for architecture in ALL.iter().filter(|each| each.cache_scope() == Some(CacheScope::Server)) {
        let name = architecture.name();
        let server = Server::run(&mut serve(name, &url, &["--upstream-ca", &right]));
        assert!(server.get("/hello.txt").ends_with("\r\n\r\nhello"), "{name}");
        let mut client = server.connect();
        client.send(b"GET /large.bin HTTP/1.0\r\n\r\n");
        assert!(client.rest().ends_with(&fixture::large()), "{name}");
        assert!(server.get("/none").starts_with("HTTP/1.1 404 "), "{name}");
    }
    let before = origin.counters().value(Counter::Responses2xx);
    let server = Server::run(&mut serve("amped", &url, &["--upstream-ca", &wrong]));
    let answer = server.get("/hello.txt");
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(server.stop().value(Counter::OriginFailures) > 0);
    assert_eq!(origin.counters().value(Counter::Responses2xx), before, "who is not trusted is asked nothing");
    let server = Server::run(&mut serve("amped", &url, &["--upstream-insecure"]));
    assert!(server.get("/hello.txt").ends_with("\r\n\r\nhello"));
}

/// The store itself knows nothing of TLS.
#[test]
fn objects_of_a_bucket_with_tls() {
    let (identity, store) = (Identity::new(), Arc::new(ObjectStore::start()));
    store.put("/bucket/a", "an object", "");
    let (config, address) = (identity.server_config(), store.address());
    // One exchange for each connection.
    let front = Upstream::start(move |peer| {
        let session = ServerConnection::new(Arc::clone(&config)).unwrap();
        let stream = with_deadline(peer.stream.try_clone().unwrap());
        let mut client = Client::over(StreamOwned::new(session, stream));
        let mut store = Client::to(address);
        store.send(&client.until(b"\r\n\r\n"));
        let head = store.until(b"\r\n\r\n");
        let text = String::from_utf8(head.clone()).unwrap();
        let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
        client.send(&[head, store.take(length.parse().unwrap())].concat());
    });
    let (certificate, port) = (identity.certificate(), front.address.port());
    let endpoint = format!("https://localhost:{port}");
    let mut command = serve("amped", "s3://bucket", &["--upstream-ca", certificate.to_str().unwrap()]);
    environment(&mut command, &endpoint);
    let server = Server::run(&mut command);
    assert!(server.get("/a").ends_with("an object"));
    assert!(store.heads()[0].contains(&format!("ost: localhost:{port}\r\n")), "{:?}", store.heads());
}

#[test]
fn films_of_a_bucket() {
    let store = ObjectStore::start();
    store.put("/bucket/films/film.mp4", hls::FILM, "");
    for architecture in ALL.iter().filter(|each| each.cache_scope() == Some(CacheScope::Server)) {
        let name = architecture.name();
        let mut command = serve(name, "s3://bucket/films", &["--hls", "--origin-chunk", "64KiB"]);
        environment(&mut command, &store.url());
        let server = Server::run(&mut command);
        let parts: [(&str, Vec<u8>); 3] = [
            ("index.m3u8", Film::playlist(&hls::film()).into_bytes()),
            ("init.mp4", hls::film().initialisation()),
            ("0.m4s", hls::segment()),
        ];
        for (part, content) in parts {
            let (head, body) = hls::answer(&server, &format!("/film.mp4/{part}"), "");
            assert!(head.starts_with("HTTP/1.1 200 ") && body == content, "{name}: {part}: {head}");
        }
        assert!(hls::answer(&server, "/film.mp4", "").1 == hls::FILM, "{name}");
        assert!(hls::answer(&server, "/none.mp4/index.m3u8", "").0.starts_with("HTTP/1.1 404 "), "{name}");
        server.stop();
    }
    store.set_fault("/bucket/films/film.mp4", Some(Fault::Fails(500)));
    let mut command = serve("amped", "s3://bucket/films", &["--hls"]);
    environment(&mut command, &store.url());
    let server = Server::run(&mut command);
    let (head, _) = hls::answer(&server, "/film.mp4/index.m3u8", "");
    assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
}

/// The size of the huge object.
const HUGE_BYTES: u64 = 5 << 30;

/// How much of it is asked for at once.
const PART_BYTES: u64 = 1 << 20;

/// The byte of the huge object at `offset`.
fn byte_at(offset: u64) -> u8 {
    (offset ^ offset >> 8 ^ offset >> 20) as u8
}

/// An HTTP server with an object of 5 GiB that is nowhere.
fn huge() -> Upstream {
    Upstream::start(|peer| {
        while let Some(head) = peer.head() {
            let range = head.lines().find_map(|line| line.strip_prefix("range: bytes="));
            let range = range.expect("only parts are asked for");
            let (first, last) = range.split_once('-').unwrap();
            let (first, last): (u64, u64) = (first.parse().unwrap(), last.parse().unwrap());
            let last = last.min(HUGE_BYTES - 1);
            let length = last + 1 - first;
            peer.send(
                format!(
                    "HTTP/1.1 206 Partial Content\r\nETag: \"huge\"\r\nContent-Length: {length}\r\n\
                    Content-Range: bytes {first}-{last}/{HUGE_BYTES}\r\n\r\n"
                )
                .as_bytes(),
            );
            let body: Vec<u8> = (first..=last).map(byte_at).collect();
            if !peer.try_send(&body) {
                return;
            }
        }
    })
}

#[test]
fn parts_of_an_object_of_5_gib_take_no_more_memory_than_allowed() {
    let origin = huge();
    let url = format!("http://{}/", origin.address);
    let flags = ["--body-cache", "8MiB", "--origin-chunk", "1MiB", "--helpers", "4"];
    let server = Server::run(&mut serve("amped", &url, &flags));
    let ask = |number: u64, parts: u64| {
        let first = HUGE_BYTES / parts * number + 12_345;
        let last = first + PART_BYTES - 1;
        let mut client = Client::to(server.address);
        client.send(format!("GET /huge HTTP/1.0\r\nRange: bytes={first}-{last}\r\n\r\n").as_bytes());
        let head = String::from_utf8(client.until(b"\r\n\r\n")).unwrap();
        assert!(head.contains(&format!("Content-Range: bytes {first}-{last}/{HUGE_BYTES}\r\n")), "{head}");
        let body = client.rest();
        assert!(
            body.len() as u64 == PART_BYTES && (first..).zip(&body).all(|(at, byte)| byte_at(at) == *byte)
        );
    };
    let pass = |parts: u64| {
        std::thread::scope(|scope| {
            for client in 0..4 {
                let ask = &ask;
                scope.spawn(move || (client..parts).step_by(4).for_each(|number| ask(number, parts)));
            }
        });
        server.memory_bytes()
    };
    // The cache is full after 16 parts.
    let (few, many) = (pass(16), pass(96));
    assert!(many < few + (8 << 20), "{few} bytes after 16 parts, {many} after 96 more");
    assert!(many < 96 << 20, "{many} bytes");
}
