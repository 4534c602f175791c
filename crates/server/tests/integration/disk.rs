//! Which requests wait for a slow disk: the difference between the architectures.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use sojourn_content::{
    Directory, Document, Found, HelperKind, OpenError, Origin, Precompressed, Resource, Rules,
};
use sojourn_server::{Counter, Site, Stop, architecture};
use sojourn_testing::fixture;

use crate::server::{Server, listener};

/// An origin on which `large.bin` cannot be opened until the gate opens.
struct SlowDisk {
    directory: Directory,
    gate: Mutex<bool>,
    opened: Condvar,
}

impl Origin for SlowDisk {
    fn open(&self, resource: &Resource<'_>) -> Result<Found, OpenError> {
        if resource.path.as_bytes() == b"large.bin" {
            let is_open = self.gate.lock().unwrap();
            drop(self.opened.wait_while(is_open, |is_open| !*is_open).unwrap());
        }
        self.directory.open(resource)
    }

    fn is_current(&self, resource: &Resource<'_>, document: &Document) -> bool {
        self.directory.is_current(resource, document)
    }

    fn read(&self, document: &Document, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.directory.read(document, offset, into)
    }
}

fn slow_server(name: &str, adjust: fn(&mut Site)) -> (tempfile::TempDir, Arc<SlowDisk>, Server) {
    let root = fixture::site();
    let directory = Directory::new(root.path(), Rules::default()).unwrap();
    let disk = Arc::new(SlowDisk { directory, gate: Mutex::new(false), opened: Condvar::new() });
    let mut site = Site::new(Arc::<SlowDisk>::clone(&disk));
    adjust(&mut site);
    (root, disk, Server::with(architecture::by_name(name).unwrap(), site))
}

fn open_gate(disk: &SlowDisk) {
    *disk.gate.lock().unwrap() = true;
    disk.opened.notify_all();
}

#[test]
fn amped_serves_others_meanwhile() {
    let (_root, disk, server) = slow_server("amped", |_| {});
    let mut waiting = server.connect();
    waiting.send(b"GET /large.bin HTTP/1.0\r\n\r\n");
    for _ in 0..10 {
        assert!(server.get("/hello.txt").ends_with("hello"));
    }
    open_gate(&disk);
    assert!(waiting.rest().len() > fixture::LARGE_BYTES);
    assert!(server.stop().value(Counter::HelperJobs) >= 2);
}

#[test]
fn sped_lets_everybody_wait() {
    let (_root, disk, server) = slow_server("sped", |_| {});
    let mut waiting = server.connect();
    waiting.send(b"GET /large.bin HTTP/1.0\r\n\r\n");
    let mut other = server.connect();
    // The loop is blocked before it can see this request, so there is nothing to wait for but its answer.
    std::thread::sleep(Duration::from_millis(100));
    other.send(b"GET /hello.txt HTTP/1.0\r\n\r\n");
    other.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let error = io::Read::read(&mut other.stream, &mut [0]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    open_gate(&disk);
    other.stream.set_read_timeout(Some(sojourn_testing::DEADLINE)).unwrap();
    assert!(other.rest().ends_with(b"hello"));
    assert!(waiting.rest().len() > fixture::LARGE_BYTES);
}

#[test]
fn amped_nowait_waits_only_for_names_that_the_kernel_does_not_remember() {
    let root = fixture::site();
    // Names of copies that nobody has requested yet.
    let rules = Rules { precompressed: Precompressed::Never, ..Rules::default() };
    let site = Site::new(Arc::new(Directory::new(root.path(), rules).unwrap()));
    let server = Server::with(architecture::by_name("amped-nowait").unwrap(), site);
    // The files were made a moment ago.
    assert!(server.get("/hello.txt").ends_with("hello"));
    assert!(server.get("/large.bin").len() > fixture::LARGE_BYTES);
    assert_eq!(server.site.counters().value(Counter::BlockingOpens), 0);
    assert!(server.get("/none").starts_with("HTTP/1.1 404 "));
    assert_eq!(server.stop().value(Counter::BlockingOpens), 1);
}

#[test]
fn helpers_that_cannot_start_say_why() {
    let root = fixture::site();
    let directory = Directory::new(root.path(), Rules::default()).unwrap();
    let disk = SlowDisk { directory, gate: Mutex::new(true), opened: Condvar::new() };
    let site = Site { helper_kind: HelperKind::Processes, ..Site::new(Arc::new(disk)) };
    let stop = Stop::new().unwrap();
    let error = architecture::by_name("amped").unwrap().serve(&site, vec![listener()], &stop).unwrap_err();
    assert_eq!(error.to_string(), "helper processes need a local directory to open files in");
}

#[test]
fn a_full_queue_sheds_requests_and_keeps_connections() {
    let (_root, disk, server) = slow_server("amped", |site| {
        site.helpers = 1;
        site.limits.helper_queue_max = 0;
    });
    let mut client = server.connect();
    client.send(b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\nGET /none HTTP/1.0\r\n\r\n");
    let answer = String::from_utf8(client.rest()).unwrap();
    assert_eq!(answer.matches("HTTP/1.1 503 Service Unavailable\r\n").count(), 2, "{answer}");
    assert_eq!(answer.matches("Retry-After: 1\r\n").count(), 2);
    open_gate(&disk);
    assert_eq!(server.stop().value(Counter::HelperRefused), 2);
}
