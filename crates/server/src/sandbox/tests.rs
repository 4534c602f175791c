//! Tests of forbidden operations. A child process enters, so that this one stays outside.

use std::fs::{self, File};
use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;

use rustix::process::{WaitOptions, waitpid};

use super::*;

/// Runs `checks` in a confined child process; returns the number of the first that fails, 0 if none does.
fn inside(needs: &Needs, checks: &[&dyn Fn() -> bool]) -> i32 {
    // SAFETY: the child calls nothing but what the checks do, and ends without running destructors.
    match unsafe { libc::fork() } {
        0 => {
            let missing = enter(needs).len();
            let failed = checks.iter().position(|check| !check()).map_or(0, |index| index as i32 + 1);
            // SAFETY: it ends the process.
            unsafe { libc::_exit(if missing > 0 { 100 } else { failed }) }
        }
        child => {
            let child = rustix::process::Pid::from_raw(child).expect("a child");
            waitpid(Some(child), WaitOptions::empty()).unwrap().unwrap().1.exit_status().unwrap_or(-1)
        }
    }
}

fn is_denied<T>(outcome: io::Result<T>) -> bool {
    outcome.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

fn can_be_tested() -> bool {
    let is_here = offered().iter().all(|(_, outcome)| outcome.is_ok());
    if !is_here {
        eprintln!("skipped: {:?}", offered());
    }
    is_here
}

#[test]
fn files_that_are_not_needed_cannot_be_opened() {
    if !can_be_tested() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    for directory in ["site", "cache", "other"] {
        fs::create_dir(path(directory)).unwrap();
        fs::write(path(directory).join("a"), "a").unwrap();
    }
    let needs = Needs { read: vec![path("site")], write: vec![path("cache")], ..Needs::default() };
    let failed = inside(
        &needs,
        &[
            &|| fs::read(path("site").join("a")).is_ok(),
            &|| is_denied(fs::write(path("site").join("a"), "b")),
            &|| is_denied(fs::remove_file(path("site").join("a"))),
            &|| is_denied(fs::read(path("other").join("a"))),
            &|| is_denied(fs::read_dir("/etc")),
            &|| is_denied(File::open("/etc/passwd")),
            &|| fs::write(path("cache").join("b"), "b").is_ok(),
            &|| fs::rename(path("cache").join("b"), path("cache").join("c")).is_ok(),
            &|| fs::remove_file(path("cache").join("a")).is_ok(),
            &|| File::open("/dev/null").is_ok(),
            &|| fs::read(Path::new("/proc/self/statm")).is_ok(),
        ],
    );
    assert_eq!(failed, 0);
}

#[test]
fn connections_lead_where_they_may() {
    if !can_be_tested() {
        return;
    }
    let (upstream, other) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (upstream, other) = (upstream.local_addr().unwrap(), other.local_addr().unwrap());
    let to_upstream = Needs { connections: Connections::To(vec![upstream.port()]), ..Needs::default() };
    let can = || TcpStream::connect(upstream).is_ok();
    let cannot = || is_denied(TcpStream::connect(other));
    let bind = || is_denied(TcpListener::bind("127.0.0.1:0"));
    assert_eq!(inside(&to_upstream, &[&can, &cannot, &bind]), 0);
    let anywhere = Needs { connections: Connections::Any, ..Needs::default() };
    assert_eq!(inside(&anywhere, &[&can, &|| TcpStream::connect(other).is_ok()]), 0);
    let datagrams = Needs { datagrams: true, ..Needs::default() };
    assert_eq!(inside(&datagrams, &[&cannot, &bind, &|| UdpSocket::bind("127.0.0.1:0").is_ok()]), 0);
    assert_eq!(inside(&Needs::default(), &[&cannot, &|| is_denied(TcpStream::connect(upstream))]), 0);
}

#[test]
fn programs_namespaces_and_privileges_are_out_of_reach() {
    if !can_be_tested() {
        return;
    }
    let is_forbidden = |call: libc::c_long, arguments: [libc::c_int; 3]| {
        let [first, second, third] = arguments;
        // SAFETY: none of these calls reads memory, and each fails.
        let outcome = unsafe { libc::syscall(call, first, second, third, 0, 0) };
        outcome == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
    };
    let failed = inside(
        &Needs { read: vec!["/".into()], ..Needs::default() },
        &[
            &|| is_denied(std::process::Command::new("/bin/true").status()),
            &|| std::thread::Builder::new().spawn(|| ()).is_ok_and(|thread| thread.join().is_ok()),
            &|| is_forbidden(libc::SYS_unshare, [libc::CLONE_NEWUSER, 0, 0]),
            &|| is_forbidden(libc::SYS_clone, [libc::CLONE_NEWUSER | libc::SIGCHLD, 0, 0]),
            &|| is_forbidden(libc::SYS_ptrace, [libc::PTRACE_TRACEME as libc::c_int, 0, 0]),
            &|| is_forbidden(libc::SYS_socket, [libc::AF_PACKET, libc::SOCK_RAW, 0]),
            &|| is_forbidden(libc::SYS_socket, [libc::AF_INET, libc::SOCK_STREAM, 0]),
            &|| is_forbidden(libc::SYS_setuid, [0, 0, 0]),
            &|| is_forbidden(libc::SYS_io_uring_setup, [0, 0, 0]),
            &|| {
                fs::read_to_string("/proc/self/status").is_ok_and(|status| {
                    let value = |name: &str| {
                        status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next())
                    };
                    // Only root's privileges for reading and writing files remain.
                    let left = |name: &str| {
                        value(name)
                            .and_then(|bits| u64::from_str_radix(bits, 16).ok())
                            .is_some_and(|bits| bits & !0b110 == 0)
                    };
                    value("NoNewPrivs:") == Some("1")
                        && value("Seccomp:") == Some("2")
                        && ["CapPrm:", "CapEff:", "CapAmb:"].iter().all(|name| left(name))
                })
            },
        ],
    );
    assert_eq!(failed, 0);
}

#[test]
fn a_server_that_uses_io_uring_may() {
    if !can_be_tested() {
        return;
    }
    let is_allowed = || {
        // SAFETY: it fails, because a ring has at least one entry.
        let outcome = unsafe { libc::syscall(libc::SYS_io_uring_setup, 0, 0) };
        // Whatever the kernel says to it; a host that forbids it answers like the filter.
        outcome == -1 && io::Error::last_os_error().raw_os_error() != Some(libc::EPERM)
    };
    if is_allowed() {
        assert_eq!(inside(&Needs { io_uring: true, ..Needs::default() }, &[&is_allowed]), 0);
        assert_eq!(inside(&Needs::default(), &[&|| !is_allowed()]), 0);
    }
}
