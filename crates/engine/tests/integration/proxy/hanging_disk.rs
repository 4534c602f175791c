//! Tests of a cache on a hanging disk, simulated by stopping its disk threads.

use std::fs;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use super::proxy;
use crate::engine::{DEADLINE, Server};
use sojourn_server::Counter;
use sojourn_testing::client::get;
use sojourn_testing::upstream::Upstream;

/// The number of disk threads.
const DISK_THREADS: usize = 4;

/// A body too large for memory and socket buffers.
const LONG_BODY_BYTES: usize = 12 << 20;

const FRESH: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: max-age=3600\r\n\r\nhello";

/// Stopped disk threads, which continue when this is dropped.
struct Stopped(Vec<libc::pid_t>);

impl Stopped {
    /// Stops the disk threads of `server` while they wait for jobs, so that they hold no locks; `None` if the system
    /// forbids it.
    fn of(server: &Server) -> Option<Stopped> {
        let threads = disk_threads(server);
        let begun = Instant::now();
        loop {
            let mut stopped = Stopped(Vec::new());
            for thread in &threads {
                if !trace(libc::PTRACE_SEIZE, *thread) {
                    return None;
                }
                assert!(trace(libc::PTRACE_INTERRUPT, *thread));
                // SAFETY: waits for a thread that is traced from here; the status is not wanted.
                assert_eq!(unsafe { libc::waitpid(*thread, null_mut(), libc::__WALL) }, *thread);
                stopped.0.push(*thread);
            }
            if threads.iter().all(|thread| waits(server, *thread)) {
                return Some(stopped);
            }
            drop(stopped);
            assert!(begun.elapsed() < DEADLINE, "its threads never wait");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The disk threads, once all have started and have their names.
fn disk_threads(server: &Server) -> Vec<libc::pid_t> {
    let begun = Instant::now();
    loop {
        let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
        let paths = tasks.map(|entry| entry.unwrap().path());
        let ours = paths.filter(|path| {
            let name = fs::read_to_string(path.join("comm"));
            name.unwrap().starts_with("cache-disk-")
        });
        let threads: Vec<_> =
            ours.map(|path| path.file_name().unwrap().to_str().unwrap().parse().unwrap()).collect();
        if threads.len() == DISK_THREADS {
            return threads;
        }
        assert!(begun.elapsed() < DEADLINE, "{} threads, not {DISK_THREADS}", threads.len());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns true if the thread was stopped in a system call that waits for other threads.
fn waits(server: &Server, thread: libc::pid_t) -> bool {
    let call = fs::read_to_string(format!("/proc/{}/task/{thread}/syscall", server.pid())).unwrap();
    call.split(' ').next() == Some(&libc::SYS_futex.to_string())
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

/// Waits until `text` has appeared in this many lines.
fn wait_until_said(server: &Server, text: &str, times: usize) {
    let begun = Instant::now();
    while server.said().iter().filter(|line| line.contains(text)).count() < times {
        assert!(begun.elapsed() < DEADLINE, "it said {:?}, not {text}", server.said());
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
        wait_until_said(&server, "does not respond", 1);
        assert!(get(&server, "/1").contains("; hit"), "from memory");
        drop(stopped);
        wait_until_said(&server, "responds again", 1);
        assert!(get(&server, "/3").contains("; hit"), "from disk");
        assert_eq!(server.stop().value(Counter::CacheDiskHits), 1);
    }
}

#[test]
fn long_bodies_do_not_wait_for_it() {
    std::thread::scope(|scope| {
        for architecture in ["amped", "mt", "uring"] {
            scope.spawn(move || check_long_bodies(architecture));
        }
    });
}

fn check_long_bodies(architecture: &str) {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {LONG_BODY_BYTES}\r\nCache-Control: max-age=3600\r\n\r\n"
    );
    let answer = [head.into_bytes(), vec![b'x'; LONG_BODY_BYTES]].concat();
    let (upstream, directory) = (Upstream::answering(answer), tempfile::tempdir().unwrap());
    let cache = ["--cache-dir", directory.path().to_str().unwrap(), "--cache-disk-timeout"];
    // A busy machine must not count as a hanging disk.
    let first = proxy(architecture, &[upstream.address], &[&cache[..], &["60s"]].concat());
    assert!(get(&first, "/1").len() > LONG_BODY_BYTES);
    first.wait_until(Counter::CacheDiskWritten, 1);
    first.stop();
    let server = proxy(architecture, &[upstream.address], &[&cache[..], &["2s"]].concat());
    server.wait_until(Counter::CacheDiskIndexed, 1);

    let mut client = server.connect();
    rustix::net::sockopt::set_socket_recv_buffer_size(&client.stream, 64 * 1024).unwrap();
    client.send(b"GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");
    client.take(1024);
    let Some(stopped) = Stopped::of(&server) else {
        eprintln!("skipped: this system does not let threads be traced");
        return;
    };
    assert!(client.rest().len() < LONG_BODY_BYTES, "{architecture}: read, it breaks off");
    server.wait_until(Counter::CacheDiskReadFailures, 1);
    wait_until_said(&server, "does not respond", 1);
    drop(stopped);
    wait_until_said(&server, "responds again", 1);

    let stopped = Stopped::of(&server);
    assert!(get(&server, "/2").len() > LONG_BODY_BYTES, "{architecture}: written, it goes on without");
    server.wait_until(Counter::CacheDiskWriteFailures, 1);
    wait_until_said(&server, "does not respond", 2);
    drop(stopped);
    wait_until_said(&server, "responds again", 2);
    assert!(get(&server, "/1").contains("; hit"), "{architecture}: it can still be read");
    server.stop();
}
