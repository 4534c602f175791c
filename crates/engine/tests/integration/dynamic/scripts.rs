//! Tests of CGI scripts: their environment, their responses, and their end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use sojourn_server::Counter;

use super::{ask, body, configured};
use crate::engine::{Server, side_by_side};

const ROUTES: &str =
    "[[route]]\npath = \"/cgi-bin/\"\ncgi = \"{}/scripts\"\nvariable = { SECRET = \"said\" }\n";

/// A directory with these scripts, for `/bin/sh`.
fn site(scripts: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("scripts")).unwrap();
    for (name, text) in scripts {
        script(root.path(), name, &format!("#!/bin/sh\n{text}\n"));
    }
    root
}

fn script(root: &Path, name: &str, text: &str) {
    let file = root.join("scripts").join(name);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

fn status(answer: &str) -> &str {
    answer.get(9..12).unwrap_or_else(|| panic!("no status: {answer:?}"))
}

#[test]
fn scripts_answer_on_every_architecture() {
    let environment = "printf 'Content-Type: text/plain\\n\\n'; env | sort; pwd";
    let echo =
        "count=$(wc -c); printf 'Status: 201 Made\\nX-A: b\\n\\n%s %s\\n' \"$CONTENT_LENGTH\" \"$count\"";
    side_by_side(|architecture| {
        let name = architecture.name();
        let root = site(&[("env", environment), ("echo", echo)]);
        let server = configured(name, root.path(), ROUTES);
        let mut client = server.connect();
        let port = client.stream.local_addr().unwrap().port();
        let head =
            "GET /cgi-bin/env/x%20y?q=1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\nProxy: evil\r\nX-Y: z";
        client.send(format!("{head}\r\n\r\n").as_bytes());
        let answer = String::from_utf8(client.rest()).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{name}: {answer}");
        let has = |line: &str| assert!(answer.contains(&format!("{line}\n")), "{name}: {line}: {answer}");
        let scripts = root.path().canonicalize().unwrap().join("scripts");
        for line in [
            "GATEWAY_INTERFACE=CGI/1.1",
            "SCRIPT_NAME=/cgi-bin/env",
            "PATH_INFO=/x y",
            "QUERY_STRING=q=1",
            "REMOTE_ADDR=127.0.0.1",
            "SERVER_ADDR=127.0.0.1",
            &format!("REMOTE_PORT={port}"),
            "SECRET=said",
            "HTTP_X_Y=z",
            &format!("SCRIPT_FILENAME={}/env", scripts.display()),
            &format!("PWD={}", scripts.display()),
        ] {
            has(line);
        }
        assert!(!answer.contains("HTTP_PROXY") && !answer.contains("CARGO"), "{name}: {answer}");
        let answer =
            ask(&server, "POST /cgi-bin/echo HTTP/1.1\r\nContent-Length: 300000", &vec![b'x'; 300_000]);
        assert!(answer.starts_with("HTTP/1.1 201 Made\r\nX-A: b\r\n"), "{name}: {answer}");
        assert!(answer.contains("300000 300000\n"), "{name}: {answer}");
    });
}

/// A script that copies its input answers each part of it before the next is sent.
#[test]
fn a_script_answers_while_it_reads() {
    side_by_side(|architecture| {
        let root = site(&[("copy", "printf 'Content-Type: text/plain\\n\\n'; exec cat")]);
        let server = configured(architecture.name(), root.path(), ROUTES);
        let mut client = server.connect();
        client.send(b"POST /cgi-bin/copy HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n");
        for part in ["one", "two", "six"] {
            client.send(part.as_bytes());
            client.until(part.as_bytes());
        }
        client.until(b"0\r\n\r\n");
    });
}

#[test]
fn what_is_no_answer() {
    let root = site(&[
        ("silent", "exit 3"),
        ("headless", "echo hello; echo; echo there"),
        ("short", "printf 'Content-Length: 10\\n\\nabc'"),
        ("long", "printf 'Content-Length: 3\\n\\nabcdef'"),
        ("unread", "printf 'X: y\\n\\nnot read'"),
        ("nph-raw", "printf 'HTTP/1.0 200 OK\\r\\n\\r\\n'"),
        ("split", "printf 'Content-Type: text/plain\\nX: a\\r b\\n\\n'"),
        ("loud", "while :; do echo '0123456789012345678901234567890123456789' >&2 || exit; done; "),
        ("leaves", "printf 'X: y\\n\\nleft'; sleep 30 &"),
        ("redirect", "printf 'Location: /there\\n\\n'"),
    ]);
    fs::write(root.path().join("scripts/plain"), "#!/bin/sh\n").unwrap();
    script(root.path(), "broken", "#!/nowhere/interpreter\n");
    let server = configured("amped", root.path(), ROUTES);
    for (path, expected) in [
        ("silent", "502"),
        ("headless", "502"),
        ("none", "404"),
        ("plain", "403"),
        ("broken", "500"),
        ("nph-raw", "501"),
        ("split", "502"),
        ("loud", "502"),
        ("redirect", "302"),
        ("../hello", "404"),
    ] {
        assert_eq!(status(&server.get(&format!("/cgi-bin/{path}"))), expected, "{path}");
    }
    // Shorter than it declared: the client can see that the response is incomplete.
    let answer = ask(&server, "GET /cgi-bin/short HTTP/1.1", b"");
    assert!(answer.contains("Content-Length: 10\r\n") && answer.ends_with("abc"), "{answer}");
    assert_eq!(body(&ask(&server, "GET /cgi-bin/long HTTP/1.1", b"")), "abc");
    // A child process that it started may live on, but the response ends.
    assert!(ask(&server, "GET /cgi-bin/leaves HTTP/1.1", b"").contains("left"));
    let upload = vec![b'x'; 1_000_000];
    let answer = ask(&server, "POST /cgi-bin/unread HTTP/1.1\r\nContent-Length: 1000000", &upload);
    assert!(answer.contains("not read"), "{answer}");
}

#[test]
fn a_script_ends_at_its_timeout_with_all_that_it_has_started() {
    let root = site(&[("hang", "echo $$ > \"$SCRIPT_FILENAME.pid\"; sleep 100 & wait; echo")]);
    let text = format!("cgi-timeout = \"300ms\"\n{ROUTES}");
    let server = configured("amped", root.path(), &text);
    let began = Instant::now();
    assert_eq!(status(&server.get("/cgi-bin/hang")), "504");
    assert!(began.elapsed() < Duration::from_secs(10));
    let group = fs::read_to_string(root.path().join("scripts/hang.pid")).unwrap();
    let group = rustix::process::Pid::from_raw(group.trim().parse().unwrap()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while rustix::process::test_kill_process_group(group).is_ok() {
        assert!(Instant::now() < deadline, "its group lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
    server.wait_until(Counter::LimitScriptTime, 1);
}

/// The end of the connection is all that ends such a body, so a script that did not end by itself has not finished it.
#[test]
fn a_body_that_its_script_did_not_finish_is_seen_to_be_cut() {
    let root = site(&[
        ("late", "printf 'X: y\\n\\nrows'; sleep 100"),
        ("dead", "printf 'X: y\\n\\nrows'; kill -SEGV $$; sleep 100"),
        ("done", "printf 'X: y\\n\\nrows'; exit 3"),
    ]);
    let server = configured("amped", root.path(), &format!("cgi-timeout = \"2s\"\n{ROUTES}"));
    for (path, is_whole) in [("late", false), ("dead", false), ("done", true)] {
        let answer = ask(&server, &format!("GET /cgi-bin/{path} HTTP/1.1"), b"");
        assert_eq!(status(&answer), "200", "{path}: {answer}");
        assert_eq!(answer.ends_with("\r\n0\r\n\r\n"), is_whole, "{path}: {answer}");
    }
}

#[test]
fn so_many_run_others_wait_and_more_are_refused() {
    let root = site(&[("slow", "sleep 0.3; printf 'X: y\\n\\ndone'")]);
    let text = format!("cgi-processes-max = 1\ncgi-queue-max = 1\n{ROUTES}");
    let server = configured("amped", root.path(), &text);
    let asked = |server: &Server| {
        let mut client = server.connect();
        client.send(b"GET /cgi-bin/slow HTTP/1.0\r\n\r\n");
        client
    };
    let mut clients: Vec<_> = (0..4).map(|_| asked(&server)).collect();
    let mut statuses: Vec<String> = clients
        .iter_mut()
        .map(|client| status(&String::from_utf8(client.rest()).unwrap()).to_owned())
        .collect();
    statuses.sort();
    assert_eq!(statuses, ["200", "200", "503", "503"]);
    server.wait_until(Counter::LimitScripts, 2);
}
