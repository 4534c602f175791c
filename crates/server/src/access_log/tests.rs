use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sojourn_http::Status;
use sojourn_http::request::{Parsed, Parser};

use super::Outcome;
use super::*;
use crate::clock::Clock;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nbody";

fn line(log: &AccessLog, request: &str, status: Status) -> OpenLine {
    let Ok(Parsed::Complete(parsed)) = Parser::default().parse(request.as_bytes()) else {
        panic!("{request}")
    };
    let mut clock = Clock::new();
    clock.log_time = *b"[06/Nov/1994:08:49:37 +0000]";
    log.begin(&Entry {
        peer: [127, 0, 0, 1].into(),
        clock: &clock,
        request: Some(&parsed),
        status: status.code(),
        head: HEAD,
        began: now().saturating_sub(Duration::from_secs(2)),
        earlier_requests: 3,
        is_secure: false,
        outcome: Outcome::DiskHit,
        upstream: Upstream::Named("a:1"),
    })
}

fn open(path: &Path, format: &str, scoreboard: &Scoreboard) -> AccessLog {
    AccessLog::open(path, LogFormat::parse(format).unwrap(), scoreboard).unwrap()
}

/// Checks the line for `request`, answered with `status` and `bytes` of body, written by a thread and by the caller.
fn check(format: &str, request: &str, status: Status, bytes: u64, expected: &str) {
    let (folder, scoreboard) = (tempfile::tempdir().unwrap(), Scoreboard::new());
    let path = folder.path().join("log");
    let log = open(&path, format, &scoreboard);
    log.finish(&line(&log, request, status), bytes);
    drop(log);
    assert_eq!(fs::read_to_string(&path).unwrap(), expected, "{format}");

    fs::remove_file(&path).unwrap();
    let log = open(&path, format, &scoreboard).writing_in_caller();
    assert_eq!(log.due_in(), None);
    log.finish(&line(&log, request, status), bytes);
    assert!(log.due_in() <= Some(FLUSH_PERIOD) && log.due_in().is_some());
    log.write_out();
    assert_eq!(log.due_in(), None);
    assert_eq!(fs::read_to_string(&path).unwrap(), expected, "{format}");
}

#[test]
fn formats_with_names() {
    let request = "GET /a\"b HTTP/1.1\r\nHost: h\r\nUser-Agent: x \u{e9}\r\n\r\n";
    let common = "127.0.0.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /a\\\"b HTTP/1.1\" 200 42";
    check("common", request, Status::Ok, 42, &format!("{common}\n"));
    check("combined", request, Status::Ok, 42, &format!("{common} \"-\" \"x \\xc3\\xa9\"\n"));
}

#[test]
fn every_directive() {
    let request = "GET /p%20q?a=1&b HTTP/1.1\r\nHost: www.example.org:80\r\nReferer: r\tx\r\nX-Two: a\r\nx-two: b\r\n\r\n";
    let check = |format: &str, expected: &str| check(format, request, Status::Ok, 42, expected);
    check("%a %h %l %u %% %t", "127.0.0.1 127.0.0.1 - - % [06/Nov/1994:08:49:37 +0000]\n");
    check("%r|%m|%U|%q|%H", "GET /p%20q?a=1&b HTTP/1.1|GET|/p%20q|?a=1&b|HTTP/1.1\n");
    check("%v %V %s %>s %<s %k", "www.example.org:80 www.example.org:80 200 200 200 3\n");
    check("%b %B %O", &format!("42 42 {}\n", HEAD.len() - 4 + 42));
    check("%T %{s}T\\t\\\"x\\\"", "2 2\t\"x\"\n");
    check("%{referer}i %{x-two}i %{none}i %{content-type}o", "r\\tx a - text/plain\n");
    check("%200{X-Two}i %!200{X-Two}i %404,416b %!404,416b", "a - - 42\n");
    check("%P", &format!("{}\n", std::process::id()));
    let url = "http://www.example.org:80/p%20q?a=1&b";
    check("%{cache}x %{upstream}x %{url}x", &format!("TCP_HIT ROUNDROBIN_PARENT/a:1 {url}\n"));
}

#[test]
fn nothing_sent_is_a_dash_or_nothing() {
    let request = "HEAD / HTTP/1.0\r\n\r\n";
    check("%b %B %q. %V", request, Status::NotModified, 0, "- 0 . -\n");
}

#[test]
fn json_is_json() {
    let request = "GET /\"a\\?b HTTP/1.1\r\nHost: h\r\nUser-Agent: \u{e9}\t\"\u{9b}\u{202e}\r\n\r\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = open(&path, "json", &Scoreboard::new());
    log.finish(&line(&log, request, Status::NotFound), 7);
    drop(log);
    let line = fs::read_to_string(&path).unwrap();
    assert!(
        line.contains(r#""path":"/\"a\\","query":"?b","protocol":"HTTP/1.1","status":404,"body_bytes":7,"#),
        "{line}"
    );
    assert!(line.ends_with("\"referer\":\"\",\"user_agent\":\"é\\u0009\\\"\\u009b\\u202e\"}\n"), "{line}");
    let microseconds: u64 = line
        .split("\"duration_us\":")
        .nth(1)
        .and_then(|rest| rest.split(',').next())
        .unwrap()
        .parse()
        .unwrap();
    assert!((2_000_000..60_000_000).contains(&microseconds), "{line}");
}

#[test]
fn a_file_that_was_moved_is_opened_again_when_asked() {
    let (folder, scoreboard) = (tempfile::tempdir().unwrap(), Scoreboard::new());
    let (path, moved) = (folder.path().join("log"), folder.path().join("log.1"));
    let log = open(&path, "%U", &scoreboard).writing_in_caller();
    let write = |path: &str| {
        log.finish(&line(&log, &format!("GET {path} HTTP/1.0\r\n\r\n"), Status::Ok), 0);
        log.write_out();
    };
    write("/1");
    fs::rename(&path, &moved).unwrap();
    write("/2");
    scoreboard.request_reopening();
    write("/3");
    assert_eq!(fs::read_to_string(&moved).unwrap(), "/1\n/2\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), "/3\n");
    // Logging continues into the old file if no new one can be opened.
    fs::remove_dir_all(folder.path()).unwrap();
    scoreboard.request_reopening();
    write("/4");
    assert_eq!(log.dropped(), 0);
}

#[test]
fn a_full_disk_loses_lines_and_counts_them() {
    let log = open(Path::new("/dev/full"), "%U", &Scoreboard::new()).writing_in_caller();
    for _ in 0..3 {
        log.finish(&line(&log, "GET / HTTP/1.0\r\n\r\n", Status::Ok), 0);
    }
    log.write_out();
    assert_eq!(log.dropped(), 3);
}

/// A FIFO that nobody reads takes 64 KiB; then writing to it waits, as for a server of files that does not answer.
#[test]
fn a_file_that_hangs_loses_lines_and_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    let mut reader = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
    let log = open(&path, "%U", &Scoreboard::new());
    let (begun, lines) = (Instant::now(), 20_000);
    for _ in 0..lines {
        log.finish(&line(&log, "GET /a/path/of/some/length.html HTTP/1.0\r\n\r\n", Status::Ok), 0);
    }
    log.close(Duration::from_millis(300));
    let dropped = log.dropped();
    drop(log);
    assert!(begun.elapsed() < CLOSING_MAX, "{:?}", begun.elapsed());
    let mut written = vec![0; 1 << 20];
    let length = reader.read(&mut written).unwrap();
    let whole = count(&written[..length]);
    assert!(whole > 0 && dropped <= lines && whole + dropped >= lines, "{whole} and {dropped}");
}
