//! A cache whose disk hangs: its threads are stopped, as they are while a disk does not answer.

mod engine;
#[path = "proxy/exchange.rs"]
mod exchange;
#[path = "proxy/upstream.rs"]
mod upstream;

use std::fs;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use engine::{PATIENCE, Server};
use exchange::get;
use sojourn_server::Counter;
use upstream::{Upstream, proxy};

const FRESH: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: max-age=3600\r\n\r\nhello";

/// The threads that wait for the disk, stopped until they are dropped.
struct Stopped(Vec<libc::pid_t>);

impl Stopped {
    /// Stops those of `server`; `None` if the system does not let us.
    fn of(server: &Server) -> Option<Stopped> {
        let mut stopped = Stopped(Vec::new());
        for entry in fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap() {
            let path = entry.unwrap().path();
            if !fs::read_to_string(path.join("comm")).unwrap().starts_with("storekeeper") {
                continue;
            }
            let thread = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            if !trace(libc::PTRACE_SEIZE, thread) {
                return None;
            }
            assert!(trace(libc::PTRACE_INTERRUPT, thread));
            // SAFETY: waits for a thread that is traced from here; the status is not wanted.
            assert_eq!(unsafe { libc::waitpid(thread, null_mut(), libc::__WALL) }, thread);
            stopped.0.push(thread);
        }
        assert!(!stopped.0.is_empty());
        Some(stopped)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for thread in &self.0 {
            trace(libc::PTRACE_DETACH, *thread);
        }
    }
}

fn trace(request: libc::c_uint, thread: libc::pid_t) -> bool {
    // SAFETY: these requests take no address and no data.
    unsafe { libc::ptrace(request, thread, null_mut::<libc::c_void>(), null_mut::<libc::c_void>()) == 0 }
}

fn wait_until_said(server: &Server, text: &str) {
    let begun = Instant::now();
    while !server.said().iter().any(|line| line.contains(text)) {
        assert!(begun.elapsed() < PATIENCE, "it said {:?}, not {text}", server.said());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn clients_go_on_without_it() {
    for architecture in ["amped", "mt", "uring"] {
        let (upstream, directory) = (Upstream::answering(FRESH), tempfile::tempdir().unwrap());
        let flags = ["--cache-dir", directory.path().to_str().unwrap(), "--cache-disk-timeout", "300ms"];
        let first = proxy(architecture, &[upstream.address], &flags);
        for target in ["/1", "/2", "/3"] {
            assert!(get(&first, target).ends_with("hello"));
        }
        first.wait_until(Counter::CacheDiskWritten, 3);
        first.stop();
        let server = proxy(architecture, &[upstream.address], &flags);
        server.wait_until(Counter::CacheDiskIndexed, 1);
        let Some(stopped) = Stopped::of(&server) else {
            eprintln!("skipped: this system does not let threads be traced");
            return;
        };
        for target in ["/1", "/2"] {
            let answer = get(&server, target);
            assert!(answer.ends_with("hello") && !answer.contains("; hit"), "{architecture}: {answer}");
        }
        server.wait_until(Counter::CacheDiskReadFailures, 1);
        wait_until_said(&server, "does not answer");
        assert!(get(&server, "/1").contains("; hit"), "from memory");
        drop(stopped);
        wait_until_said(&server, "answers again");
        assert!(get(&server, "/3").contains("; hit"), "from disk");
        assert_eq!(server.stop().value(Counter::CacheDiskHits), 1);
    }
}
