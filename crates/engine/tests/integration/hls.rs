//! Tests of films as HLS on every architecture: identical bytes, with the features of documents.

use crate::engine;
use std::fs;
use std::path::Path;

use crate::engine::{Client, Server, over_all};
use sojourn_media::hls::Film;
use sojourn_media::mp4::Index;

/// A film of two seconds, also in the fuzzer's corpus.
pub const FILM: &[u8] = include_bytes!("../../../../fuzz/corpus/mp4_film/two-seconds");

pub fn film() -> Film {
    let read_at = |offset: u64, into: &mut [u8]| {
        into.copy_from_slice(&FILM[offset as usize..][..into.len()]);
        Ok(into.len())
    };
    Film::new(Index::read(FILM.len() as u64, read_at).unwrap()).unwrap()
}

/// The whole segment.
pub fn segment() -> Vec<u8> {
    let segment = film().segment(0).unwrap();
    let ranges = segment.ranges.iter().flat_map(|range| &FILM[range.start as usize..range.end as usize]);
    segment.head.iter().chain(ranges).copied().collect()
}

/// The head and the body of the response to a request with these fields.
pub fn answer(server: &Server, path: &str, fields: &str) -> (String, Vec<u8>) {
    let mut client = Client::to(server.address);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n").as_bytes());
    let answer = client.rest();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a whole head") + 4;
    (String::from_utf8(answer[..end].to_vec()).unwrap(), answer[end..].to_vec())
}

fn lay_out(root: &Path) {
    fs::write(root.join("film.mp4"), FILM).unwrap();
}

#[test]
fn every_architecture_has_the_same_parts() {
    over_all(&["--hls"], |server, root| {
        lay_out(root);
        let parts = [
            ("index.m3u8", film().playlist().into_bytes(), "application/vnd.apple.mpegurl"),
            ("init.mp4", film().initialisation(), "video/mp4"),
            ("0.m4s", segment(), "video/iso.segment"),
            ("0.m4s", segment(), "video/iso.segment"),
        ];
        for (name, content, media_type) in parts {
            let (head, body) = answer(&server, &format!("/film.mp4/{name}"), "");
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            assert!(head.contains(&format!("Content-Type: {media_type}\r\n")), "{head}");
            assert!(body == content, "{name}: {} bytes in place of {}", body.len(), content.len());
        }
        assert!(answer(&server, "/film.mp4/1.m4s", "").0.starts_with("HTTP/1.1 404 "));
        assert!(answer(&server, "/film.mp4", "").1 == FILM);
    });
}

#[test]
fn parts_have_ranges_and_conditions() {
    over_all(&["--hls"], |server, root| {
        lay_out(root);
        let (head, body) = answer(&server, "/film.mp4/0.m4s", "Range: bytes=8-15\r\n");
        assert!(head.starts_with("HTTP/1.1 206 "), "{head}");
        assert_eq!(body, segment()[8..16]);
        let tag = head.lines().find_map(|line| line.strip_prefix("ETag: ")).expect("a tag");
        let (head, body) = answer(&server, "/film.mp4/0.m4s", &format!("If-None-Match: {tag}\r\n"));
        assert!(head.starts_with("HTTP/1.1 304 ") && body.is_empty(), "{head}");
    });
}

#[test]
fn films_of_one_host_alone() {
    let [with, without] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    lay_out(with.path());
    lay_out(without.path());
    let configuration = with.path().join("serve.toml");
    let [with_path, without_path] = [&with, &without].map(|folder| folder.path().to_str().unwrap());
    let text = format!(
        "root = \"{without_path}\"\n[[host]]\nnames = [\"films\"]\nroot = \"{with_path}\"\nhls = true\n"
    );
    fs::write(&configuration, text).unwrap();
    let mut command = std::process::Command::new(engine::ENGINE);
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(configuration);
    let server = Server::run(&mut command);
    for (host, status) in [("films", "200"), ("other", "404")] {
        let mut client = Client::to(server.address);
        let fields = format!("Host: {host}\r\nConnection: close\r\n\r\n");
        client.send(format!("GET /film.mp4/index.m3u8 HTTP/1.1\r\n{fields}").as_bytes());
        let answer = client.rest();
        assert!(answer.starts_with(format!("HTTP/1.1 {status} ").as_bytes()), "{host}");
    }
}
