//! Helper processes that are stopped and killed. A stopped process keeps its job, so every race can be produced on
//! demand.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::super::tests::{collect, open, opened, site};
use super::super::{HelperKind, Helpers, Pool, Refused};
use super::*;
use crate::document::Document;
use crate::job::Opened;

const DEADLINE: Duration = Duration::from_secs(10);

fn start(count: usize, queue_max: usize) -> (tempfile::TempDir, Helpers) {
    let (root, origin) = site();
    (root, Helpers::start(HelperKind::Processes, &origin, count, queue_max).unwrap())
}

fn fork_server(helpers: &Helpers) -> Pid {
    match &helpers.0 {
        Pool::Processes(pool) => pool.fork_server.pid(),
        Pool::Threads(_) => unreachable!("these tests are about processes"),
    }
}

/// Name, state and parent of a process, from its `stat`: `PID (NAME) STATE PPID ...`.
fn status(pid: i32) -> Option<(String, char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, rest) = stat.split_once('(')?.1.split_once(") ")?;
    let mut fields = rest.split(' ');
    Some((name.to_owned(), fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn alive(fork_server: Pid) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_helper = |pid: &i32| {
        let is_it = |(name, _, parent)| name == "sojourn-helper" && parent == fork_server.as_raw_pid();
        status(*pid).is_some_and(is_it)
    };
    processes.filter(is_helper).filter_map(Pid::from_raw).collect()
}

fn only_helper(helpers: &Helpers) -> Pid {
    let alive = alive(fork_server(helpers));
    assert_eq!(alive.len(), 1);
    alive[0]
}

/// Waits until `pid` has ended; it may still be a zombie.
fn await_end(pid: Pid) {
    let begun = Instant::now();
    while status(pid.as_raw_pid()).is_some_and(|(_, state, _)| state != 'Z') {
        assert!(begun.elapsed() < DEADLINE, "process {pid:?} is still there");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn one_job_for_all_who_ask_and_a_bound_on_the_queue() {
    let (_root, mut helpers) = start(1, 1);
    let helper = only_helper(&helpers);
    kill_process(helper, Signal::STOP).unwrap();
    helpers.submit(1, open("/a")).unwrap();
    helpers.submit(2, open("/a")).unwrap();
    helpers.submit(3, open("/none")).unwrap();
    assert_eq!(helpers.submit(4, open("/b")), Err(Refused));
    assert_eq!(helpers.counts().queue_length, 1);
    kill_process(helper, Signal::CONT).unwrap();
    let outcomes = collect(&mut helpers, 3);
    assert!(matches!(outcomes[1].1, Done::Opened(Ok(Opened::Document(..)))));
    assert!(matches!(outcomes[2].1, Done::Opened(Err(OpenError::NotFound))));
    let counts = helpers.counts();
    assert_eq!((counts.jobs, counts.coalesced, counts.refused), (2, 1, 1));
}

#[test]
fn a_job_outlives_its_helper() {
    let (_root, mut helpers) = start(1, 8);
    let helper = only_helper(&helpers);
    kill_process(helper, Signal::STOP).unwrap();
    helpers.submit(1, open("/a")).unwrap();
    kill_process(helper, Signal::KILL).unwrap();
    assert!(matches!(collect(&mut helpers, 1)[0].1, Done::Opened(Ok(Opened::Document(..)))));
    let counts = helpers.counts();
    assert_eq!((counts.jobs, counts.repeated, counts.helpers_lost), (1, 1, 1));
    assert_ne!(only_helper(&helpers), helper);
    // Killed while idle, which may be noticed only at the next job.
    kill_process(only_helper(&helpers), Signal::KILL).unwrap();
    assert_eq!(opened(&mut helpers, "/large").size, 300_000);
}

#[test]
fn a_job_outlives_the_fork_server() {
    let (_root, mut helpers) = start(1, 8);
    let (first, helper) = (fork_server(&helpers), only_helper(&helpers));
    kill_process(first, Signal::KILL).unwrap();
    assert_eq!(opened(&mut helpers, "/a").size, 5);
    kill_process(helper, Signal::KILL).unwrap();
    assert_eq!(opened(&mut helpers, "/a").size, 5);
    assert_ne!(fork_server(&helpers), first);
    assert_eq!(only_helper(&helpers), alive(fork_server(&helpers))[0]);
}

#[test]
fn a_job_that_loses_every_helper_fails() {
    let (_root, mut helpers) = start(1, 8);
    // Reading this never ends, so there is time to kill the helper.
    let file = fs::File::open("/dev/zero").unwrap();
    let stat = rustix::fs::fstat(&file).unwrap();
    let document = Arc::new(Document::new(file.into(), b"zero", &stat));
    let range = FileRange { document, offset: 0, length: 1 << 50, into_memory: false };
    helpers.submit(1, Job::Load(range)).unwrap();
    let mut outcomes = Vec::new();
    let begun = Instant::now();
    while outcomes.is_empty() {
        assert!(begun.elapsed() < DEADLINE, "it is tried for ever");
        for helper in alive(fork_server(&helpers)) {
            let _ = kill_process(helper, Signal::KILL);
        }
        helpers.collect(&mut outcomes);
    }
    assert!(matches!(outcomes[0], (1, Done::Loaded(Err(LoadError::Failed)))));
    let counts = helpers.counts();
    let lost = u64::from(LOST_HELPERS_MAX);
    assert_eq!((counts.jobs, counts.repeated, counts.helpers_lost), (1, lost - 1, lost));
    assert_eq!(opened(&mut helpers, "/a").size, 5);
}

#[test]
fn descriptors_of_the_server_stay_its_own() {
    let (_root, mut helpers) = start(1, 8);
    let document = opened(&mut helpers, "/large");
    let range = FileRange { document, offset: 0, length: 300_000, into_memory: false };
    helpers.submit(1, Job::Load(range)).unwrap();
    collect(&mut helpers, 1);
    for process in [fork_server(&helpers), only_helper(&helpers)] {
        let count = fs::read_dir(format!("/proc/{}/fd", process.as_raw_pid())).unwrap().count();
        assert_eq!(count, 2, "a socket and the root");
    }
}

#[test]
fn dropping_the_pool_ends_the_processes() {
    let (_root, mut helpers) = start(2, 8);
    opened(&mut helpers, "/a");
    let (fork_server, helper) = (fork_server(&helpers), only_helper(&helpers));
    // A SIGINT from the terminal does not stop helpers.
    kill_process(helper, Signal::INT).unwrap();
    kill_process(fork_server, Signal::TERM).unwrap();
    assert_eq!(opened(&mut helpers, "/a").size, 5);
    assert_eq!(helpers.counts().helpers_lost, 0);
    drop(helpers);
    await_end(fork_server);
    await_end(helper);
}
