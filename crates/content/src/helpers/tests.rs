//! Properties that every kind of helpers and their queue must have.

use std::sync::{Arc, Condvar, Mutex};
use std::{fs, io};

use rustix::event::{PollFd, PollFlags, poll};
use sojourn_http::SitePath;

use super::{HelperKind, Helpers, Refused};
use crate::document::Document;
use crate::job::{Done, FileRange, Job, LoadError, Opened, Opening};
use crate::origin::{Directory, Found, OpenError, Origin};
use crate::resource::{HostId, Resource};
use crate::rules::Rules;

/// An origin whose reads wait until the test releases them.
struct Gated {
    directory: Directory,
    gate: Mutex<bool>,
    opened: Condvar,
}

impl Gated {
    fn open_gate(&self) {
        *self.gate.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

impl Origin for Gated {
    fn open(&self, resource: &Resource<'_>) -> Result<Found, OpenError> {
        let gate = self.opened.wait_while(self.gate.lock().unwrap(), |open| !*open).unwrap();
        drop(gate);
        self.directory.open(resource)
    }
    fn is_current(&self, resource: &Resource<'_>, document: &Document) -> bool {
        self.directory.is_current(resource, document)
    }
    fn read(&self, document: &Document, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.directory.read(document, offset, into)
    }
}

pub fn open(target: &str) -> Job {
    let path = SitePath::decode(target.as_bytes()).unwrap().into_owned();
    let resource = Resource { host: HostId::default(), path };
    Job::Open(Opening { resource, known: None, body_bytes_max: 64 * 1024 })
}

/// Collects `count` outcomes, by token.
pub fn collect(helpers: &mut Helpers, count: usize) -> Vec<(u64, Done)> {
    let mut outcomes = Vec::new();
    while outcomes.len() < count {
        let timeout = rustix::time::Timespec { tv_sec: 10, tv_nsec: 0 };
        let fd = helpers.completion_fd();
        assert_eq!(poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)), Ok(1), "no outcome in 10 s");
        helpers.collect(&mut outcomes);
    }
    outcomes.sort_by_key(|(token, _)| *token);
    outcomes
}

/// A site with a small file `a` and a large one.
pub fn site() -> (tempfile::TempDir, Arc<dyn Origin>) {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a"), "hello").unwrap();
    fs::write(root.path().join("large"), vec![7; 300_000]).unwrap();
    fs::create_dir(root.path().join("dir")).unwrap();
    let origin = Arc::new(Directory::new(root.path(), Rules::default()).unwrap());
    (root, origin)
}

pub fn opened(helpers: &mut Helpers, target: &str) -> Arc<Document> {
    helpers.submit(0, open(target)).unwrap();
    match collect(helpers, 1).pop() {
        Some((0, Done::Opened(Ok(Opened::Document(document, _))))) => document,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_kind_opens_and_reads() {
    for kind in HelperKind::ALL {
        let (root, origin) = site();
        let mut helpers = Helpers::start(*kind, &origin, 2, 16).unwrap();
        let load = |helpers: &mut Helpers, document: &Arc<Document>, offset, length, into_memory| {
            let range = FileRange { document: Arc::clone(document), offset, length, into_memory };
            helpers.submit(7, Job::Load(range)).unwrap();
            match collect(helpers, 1).pop() {
                Some((7, Done::Loaded(loaded))) => loaded.map(|bytes| bytes.map(|bytes| bytes.to_vec())),
                other => panic!("{other:?}"),
            }
        };
        let small = opened(&mut helpers, "/a");
        assert_eq!((small.size, &*small.file_path), (5, b"a".as_slice()));
        assert_eq!(load(&mut helpers, &small, 0, 5, true), Ok(Some(b"hello".to_vec())));
        let large = opened(&mut helpers, "/large");
        assert_eq!(load(&mut helpers, &large, 100_000, 200_000, false), Ok(None));
        assert_eq!(load(&mut helpers, &large, 100_000, 200_000, true), Ok(Some(vec![7; 200_000])));

        fs::File::options().write(true).open(root.path().join("large")).unwrap().set_len(1000).unwrap();
        assert_eq!(load(&mut helpers, &large, 0, 300_000, false), Err(LoadError::Truncated));
        assert_eq!(load(&mut helpers, &large, 0, 300_000, true), Err(LoadError::Truncated));

        for target in
            ["/none", "/.hidden", &format!("/{}", "a/".repeat(2100)), &format!("/{}", "a".repeat(300))]
        {
            helpers.submit(1, open(target)).unwrap();
            let outcomes = collect(&mut helpers, 1);
            assert!(
                matches!(outcomes[0].1, Done::Opened(Err(OpenError::NotFound))),
                "{target}: {outcomes:?}"
            );
        }
        helpers.submit(1, open("/dir")).unwrap();
        assert!(matches!(collect(&mut helpers, 1)[0].1, Done::Opened(Ok(Opened::Directory))));
        assert_eq!(helpers.counts().jobs, 12);
        assert_eq!(helpers.counts().helpers_lost, 0);
    }
}

#[test]
fn one_job_for_all_who_ask_and_a_bound_on_the_queue() {
    let (_root, _) = site();
    let directory = Directory::new(_root.path(), Rules::default()).unwrap();
    let gated = Arc::new(Gated { directory, gate: Mutex::new(false), opened: Condvar::new() });
    let origin: Arc<dyn Origin> = Arc::<Gated>::clone(&gated);
    let mut helpers = Helpers::start(HelperKind::Threads, &origin, 1, 1).unwrap();

    helpers.submit(1, open("/a")).unwrap();
    while helpers.counts().queue_length > 0 {
        std::thread::yield_now();
    }
    helpers.submit(2, open("/a")).unwrap();
    helpers.submit(3, open("/none")).unwrap();
    helpers.submit(4, open("/none")).unwrap();
    assert_eq!(helpers.submit(5, open("/b")), Err(Refused));
    gated.open_gate();

    let outcomes = collect(&mut helpers, 4);
    for (_, done) in &outcomes[..2] {
        assert!(matches!(done, Done::Opened(Ok(Opened::Document(_, Some(body)))) if **body == *b"hello"));
    }
    for (_, done) in &outcomes[2..] {
        assert!(matches!(done, Done::Opened(Err(OpenError::NotFound))));
    }
    let counts = helpers.counts();
    assert_eq!((counts.jobs, counts.coalesced, counts.refused, counts.queue_length), (2, 2, 1, 0));
}

#[test]
fn processes_need_a_local_directory() {
    let (root, _) = site();
    let directory = Directory::new(root.path(), Rules::default()).unwrap();
    let origin: Arc<dyn Origin> =
        Arc::new(Gated { directory, gate: Mutex::new(true), opened: Condvar::new() });
    let error = Helpers::start(HelperKind::Processes, &origin, 1, 1).map(drop).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
}

#[test]
fn dropping_the_pool_ends_the_threads() {
    let (_root, origin) = site();
    let mut helpers = Helpers::start(HelperKind::Threads, &origin, 3, 8).unwrap();
    helpers.submit(1, open("/none")).unwrap();
    drop(helpers);
    assert_eq!(Arc::strong_count(&origin), 1);
}
