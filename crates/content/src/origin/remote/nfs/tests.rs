//! Files of a scripted NFS server: what costs a call, links, changes, and a server that is slow, cut or started anew.

use std::sync::Arc;

use sojourn_http::SitePath;
use sojourn_testing::nfs_server::{Fault, NfsServer};

use super::*;
use crate::job::{self, Done, Job, Opening};
use crate::origin::remote::{Remote, RemoteLimits};
use crate::origin::{Found, OpenError, Origin};
use crate::resource::{HostId, Resource};
use crate::rules::Rules;

const CHUNK: u64 = 64 << 10;

const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_millis(300),
    head: Duration::from_millis(200),
    part: Duration::from_millis(600),
};

fn origin(server: &NfsServer, trusted: Duration) -> Remote {
    origin_with(server, trusted, true)
}

fn origin_with(server: &NfsServer, trusted: Duration, follows_links: bool) -> Remote {
    let port = Some(server.address.port());
    let export = Export {
        host: "127.0.0.1".to_owned(),
        path: "/".to_owned(),
        nfs_port: port,
        mount_port: port,
        uid: Some(0),
        gid: Some(0),
    };
    let limits = RemoteLimits {
        chunk_bytes: CHUNK,
        attributes_min: trusted,
        attributes_max: trusted,
        stale: Duration::ZERO,
    };
    let paths = Trusted { min: trusted, max: 2 * trusted };
    let store = NfsStore::new(export, TIMEOUTS, 4, follows_links, paths);
    Remote::new(Box::new(store), Rules::default(), limits, |_| {})
}

fn open(origin: &Remote, target: &str) -> Result<Found, OpenError> {
    let path = SitePath::decode(target.as_bytes()).unwrap();
    origin.open(&Resource { host: HostId::default(), path })
}

fn document(origin: &Remote, target: &str) -> Arc<crate::document::Document> {
    match open(origin, target) {
        Ok(Found::Document(document) | Found::Loaded(document, _)) => document,
        other => panic!("{target}: {other:?}"),
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|index| (index * 13 / 5) as u8).collect()
}

#[test]
fn files_directories_and_what_is_neither() {
    let server = NfsServer::start();
    server.put("dir/index.html", "<p>", 1000);
    server.put("dir/sub/a.txt", "hello", 784_111_777);
    server.put_fifo("fifo");
    let origin = origin(&server, Duration::from_secs(60));
    let Ok(Found::Loaded(text, start)) = open(&origin, "/dir/sub/a.txt") else { panic!("a file") };
    assert_eq!((&*start, text.modified.seconds()), (&b"hello"[..], 784_111_777));
    assert_eq!(&*text.media_type, "text/plain; charset=utf-8");
    assert!(matches!(open(&origin, "/dir"), Ok(Found::Directory)));
    assert_eq!(document(&origin, "/dir/").size, 3);
    for absent in ["/", "/none", "/dir/sub/", "/dir/sub/a.txt/x", "/dir/none/x"] {
        assert_eq!(open(&origin, absent).unwrap_err(), OpenError::NotFound, "{absent}");
    }
    assert_eq!(open(&origin, "/fifo").unwrap_err(), OpenError::Forbidden);
    assert_eq!(server.connections(), 2, "one to mount, one to read");
}

#[test]
fn directories_are_looked_up_once() {
    let server = NfsServer::start();
    for name in ["a", "b", "c"] {
        server.put(&format!("deep/er/and/deeper/{name}"), name, 1000);
    }
    let origin = origin(&server, Duration::from_secs(60));
    document(&origin, "/deep/er/and/deeper/a");
    assert_eq!(server.calls(), 4 + 2, "four directories, the file, and its content");
    document(&origin, "/deep/er/and/deeper/b");
    document(&origin, "/deep/er/and/deeper/c");
    assert_eq!(server.calls(), 4 + 3 * 2);
}

/// Ten files in each of three directories, opened again and again by a server that may have forgotten them.
#[test]
fn what_is_trusted_costs_no_call_and_what_is_checked_one() {
    let trusted = Duration::from_millis(500);
    let server = NfsServer::start();
    for number in 0..30 {
        server.put(&format!("{}/{number}", number % 3), "hello", 1000);
    }
    let origin = origin(&server, trusted);
    let pass = || {
        let before = server.calls();
        let mut read = 0;
        for number in 0..30 {
            let target = format!("/{}/{number}", number % 3);
            let path = SitePath::decode(target.as_bytes()).unwrap();
            let resource = Resource { host: HostId::default(), path }.into_owned();
            let opening = Opening { resource, known: None, body_bytes_max: CHUNK };
            let Done::Opened(Ok(job::Opened::Document(_, body))) =
                Job::Open(opening).perform(&origin, &mut Vec::new())
            else {
                panic!("{number} is a file")
            };
            read += body.map_or(0, |body| body.len());
        }
        (server.calls() - before, read)
    };
    assert_eq!(pass(), (3 + 2 * 30, 5 * 30), "directories, names and bodies");
    assert_eq!(pass(), (0, 0));
    std::thread::sleep(trusted);
    assert_eq!(pass(), (3 + 30, 0), "what is unchanged is not read again");
    assert_eq!(pass(), (0, 0));
    // What was found unchanged is trusted for twice as long.
    std::thread::sleep(trusted);
    assert_eq!(pass(), (30, 0), "directories are not looked up");
}

#[test]
fn parts_are_of_the_version_that_was_opened() {
    let server = NfsServer::start();
    let whole = bytes(3 << 20);
    server.put("film.mp4", whole.clone(), 1000);
    let origin = origin(&server, Duration::from_secs(60));
    let first = document(&origin, "/film.mp4");
    let mut part = vec![0; CHUNK as usize];
    assert_eq!(origin.read(&first, 2 << 20, &mut part).unwrap(), part.len());
    assert!(part == whole[2 << 20..][..part.len()]);
    for is_replaced in [false, true] {
        let before = document(&origin, "/film.mp4");
        let modified = 1000 + server.calls() as u32;
        if is_replaced {
            server.put("film.mp4", vec![9; 3 << 20], modified);
        } else {
            server.overwrite("film.mp4", vec![9; 3 << 20], modified);
        }
        assert_eq!(origin.read(&before, 2 << 20, &mut part).unwrap(), 0, "another version");
        let after = document(&origin, "/film.mp4");
        assert_ne!(after.id, before.id);
        assert_eq!(origin.read(&after, 2 << 20, &mut part).unwrap(), part.len());
        assert!(part.iter().all(|byte| *byte == 9));
    }
}

#[test]
fn links_lead_anywhere_inside() {
    let server = NfsServer::start();
    server.put("releases/2/site/index.html", "two", 1000);
    server.put("releases/2/a.txt", "a", 1000);
    server.put("b.txt", "b", 1000);
    for (path, target) in [
        ("current", "releases/2"),
        ("releases/2/site/up", "../a.txt"),
        ("releases/2/site/top", "./../../..//b.txt"),
        ("releases/2/site/out", "../../../../b.txt"),
        ("out", ".."),
        ("absolute", "/b.txt"),
        ("loop", "loop"),
        ("one", "two/x"),
        ("two", "one"),
        ("empty", ""),
        ("dangling", "none"),
    ] {
        server.put_link(path, target);
    }
    let links = origin(&server, Duration::from_secs(60));
    for (path, size) in [
        ("/current/site/", 3),
        ("/current/site/index.html", 3),
        ("/current/site/up", 1),
        ("/current/site/top", 1),
    ] {
        assert_eq!(document(&links, path).size, size, "{path}");
    }
    for path in
        ["/current/site/out", "/out/b.txt", "/absolute", "/loop", "/one", "/empty", "/dangling", "/b.txt/x"]
    {
        assert_eq!(open(&links, path).unwrap_err(), OpenError::NotFound, "{path}");
    }
    assert!(matches!(open(&links, "/current/site"), Ok(Found::Directory)));
    let none = origin_with(&server, Duration::from_secs(60), false);
    assert_eq!(open(&none, "/current/site/").unwrap_err(), OpenError::NotFound);
    assert_eq!(document(&none, "/releases/2/a.txt").size, 1);
}

#[test]
fn a_link_that_is_switched_is_followed_anew() {
    let server = NfsServer::start();
    server.put("1/a", "one", 1000);
    server.put("2/a", "second", 1000);
    server.put_link("current", "1");
    let origin = origin(&server, Duration::ZERO);
    let before = document(&origin, "/current/a");
    server.put_link("current", "2");
    assert_eq!(document(&origin, "/current/a").size, 6);
    assert_eq!(origin.read(&before, 0, &mut [0; 3]).unwrap(), 0, "not of the other file");
}

#[test]
fn a_file_that_is_shortened_while_it_is_opened_is_opened_as_it_is() {
    let server = NfsServer::start();
    server.put("a", bytes(1000), 1000);
    server.set_fault(Fault::Empties);
    let origin = origin(&server, Duration::from_secs(60));
    let Ok(Found::Loaded(document, start)) = open(&origin, "/a") else { panic!("a file") };
    assert_eq!((document.size, start.len()), (0, 0));
}

#[test]
fn a_file_that_is_shortened_while_it_is_read_is_not_read_further() {
    let server = NfsServer::start();
    server.put("a", bytes(3 * CHUNK as usize), 1000);
    let origin = origin(&server, Duration::from_secs(60));
    let before = document(&origin, "/a");
    server.set_fault(Fault::Empties);
    assert_eq!(origin.read(&before, CHUNK, &mut [0; 100]).unwrap(), 0);
    assert_eq!(document(&origin, "/a").size, 0);
}

#[test]
fn stale_handles_are_looked_up_anew() {
    let server = NfsServer::start();
    server.put("dir/a", bytes(2 * CHUNK as usize), 1000);
    let origin = origin(&server, Duration::from_secs(60));
    let document = document(&origin, "/dir/a");
    server.forget_handles();
    let mut part = [0; 100];
    assert_eq!(origin.read(&document, CHUNK, &mut part).unwrap(), part.len());
    assert!(part == bytes(2 * CHUNK as usize)[CHUNK as usize..][..100]);
}

#[test]
fn a_server_that_asks_to_retry_later_is_asked_again() {
    let server = NfsServer::start();
    server.put("a", "x", 1000);
    server.set_fault(Fault::Delays);
    assert_eq!(document(&origin(&server, Duration::ZERO), "/a").size, 1);
}

#[test]
fn a_server_that_comes_back_is_used_again() {
    let server = NfsServer::start();
    server.put("a", "x", 1000);
    let origin = origin(&server, Duration::ZERO);
    document(&origin, "/a");
    server.set_fault(Fault::Absent);
    assert_eq!(open(&origin, "/a").unwrap_err(), OpenError::Unavailable);
    server.set_fault(Fault::None);
    assert_eq!(document(&origin, "/a").size, 1);
}

#[test]
fn a_connection_that_is_lost_is_replaced_without_a_wrong_byte() {
    let server = NfsServer::start();
    let whole = bytes(4 * CHUNK as usize);
    server.put("a", whole.clone(), 1000);
    let origin = origin(&server, Duration::from_secs(60));
    let document = document(&origin, "/a");
    for (number, fault) in
        [Fault::Closes, Fault::Cuts(40), Fault::Cuts(1000), Fault::None].into_iter().enumerate()
    {
        server.set_fault(fault);
        let mut part = vec![0; CHUNK as usize];
        let offset = number as u64 * CHUNK;
        assert_eq!(origin.read(&document, offset, &mut part).unwrap(), part.len(), "{fault:?}");
        assert!(part == whole[offset as usize..][..part.len()], "{fault:?}");
    }
    assert_eq!(server.connections(), 2 + 3, "each of three losses costs one more");
}

#[test]
fn a_server_that_hangs_is_not_waited_for() {
    let server = NfsServer::start();
    server.put("a", "x", 1000);
    let origin = origin(&server, Duration::ZERO);
    document(&origin, "/a");
    server.set_fault(Fault::Hangs);
    let begun = Instant::now();
    assert_eq!(open(&origin, "/a").unwrap_err(), OpenError::TimedOut);
    assert!(begun.elapsed() < Duration::from_secs(2));
    server.set_fault(Fault::None);
    assert_eq!(document(&origin, "/a").size, 1);
}
