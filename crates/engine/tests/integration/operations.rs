//! Tests of operations: the effective configuration, the admin listener, and children that die at once.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::engine::{ENGINE, Server, get, over_all};
use rustix::process::{Pid, Signal, kill_process};
use sojourn_server::{ALL, Counter};
use sojourn_testing::fixture;

fn printed(command: &mut Command) -> String {
    let output = command.arg("--print-config").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_configuration_that_is_printed_gives_the_same_server() {
    let (root, folder) = (fixture::site(), tempfile::tempdir().unwrap());
    let file = folder.path().join("serve.toml");
    let flags = ["--listen", "127.0.0.1:0", "--listen", "[::1]:0", "--idle-timeout", "7s", "--serve-hidden"];
    for architecture in ALL {
        let mut command = Command::new(ENGINE);
        command.arg("serve").arg(root.path()).args(flags).args(["--architecture", architecture.name()]);
        let text = printed(&mut command);
        let head = format!("head-timeout = \"{}s\"", architecture.defaults().head.as_secs());
        for line in ["idle-timeout = \"7s\"", &head, "# io_uring: ", "# Landlock: ", "# seccomp: "] {
            assert!(text.contains(&format!("\n{line}")), "{line} is not in {text}");
        }
        assert_eq!(text.contains("\nworkers = "), architecture.defaults().workers.is_some(), "{text}");
        std::fs::write(&file, &text).unwrap();
        assert_eq!(printed(Command::new(ENGINE).args(["serve", "--config"]).arg(&file)), text);
        let server = Server::run(Command::new(ENGINE).args(["serve", "--config"]).arg(&file));
        assert!(server.get("/.git/config").ends_with("secret"));
    }
}

/// The line `name` in /proc/PID/status.
fn status(process: Pid, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn privileges_are_given_up_by_every_process() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become somebody else");
        return;
    }
    let logs = tempfile::tempdir().unwrap();
    let allow = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let log = logs.path().join("log");
    std::fs::write(&log, "").unwrap();
    allow(logs.path(), 0o777);
    for architecture in ["amped", "mp", "helper", "fork", "uring", "ncopy"] {
        let root = fixture::site();
        allow(root.path(), 0o700);
        let flags = ["--user", "nobody", "--access-log", log.to_str().unwrap(), "--helper-kind", "processes"];
        let mut refused = Command::new(ENGINE);
        refused.args(["serve", "--listen", "127.0.0.1:0"]).arg(root.path()).args(flags);
        let said = String::from_utf8(refused.output().unwrap().stderr).unwrap();
        assert!(said.starts_with("error: nobody cannot read "), "{said}");
        allow(root.path(), 0o755);
        let server = Server::start(architecture, root.path(), &flags);
        let mut kept = server.connect();
        kept.send(b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n");
        kept.take(100);
        for process in server.children().into_iter().chain([server.pid()]) {
            let ids = status(process, "Uid:");
            assert!(!ids.split(' ').any(|id| id == "0") && !status(process, "Gid:").contains(" 0"), "{ids}");
            assert!(!status(process, "Groups:").split(' ').any(|id| id == "0"), "{architecture}");
            assert_eq!(status(process, "NoNewPrivs:"), "1");
            assert_eq!(status(process, "CapEff:").trim_start_matches('0'), "");
        }
        // Lets the server reopen its log.
        std::fs::rename(&log, logs.path().join("log.1")).unwrap();
        kill_process(server.pid(), Signal::USR1).unwrap();
        server.get("/hello.txt");
        drop(kept);
        server.stop();
        assert!(std::fs::read_to_string(&log).unwrap().contains("GET /hello.txt HTTP/1.0"), "{architecture}");
    }
}

#[test]
fn workers_where_there_are_none_are_refused() {
    for architecture in ["sped", "amped", "amped-nowait", "fork", "inetd"] {
        let output = Command::new(ENGINE)
            .args(["serve", ".", "--workers", "2", "--architecture", architecture])
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let expected = format!("error: {architecture} does not use --workers\nhint: ");
        assert!(output.status.code() == Some(2) && said.starts_with(&expected), "{said}");
    }
}

#[test]
fn the_admin_listener_answers() {
    over_all(&[], |server, _| {
        assert!(get(server.admin, "/health").ends_with("\r\n\r\nok\n"));
        server.get("/hello.txt");
        server.wait_until(Counter::Requests, 1);
        let json = get(server.admin, "/metrics.json");
        assert!(
            json.contains("\r\nContent-Type: application/json\r\n") && json.contains("\"requests\":1,"),
            "{json}"
        );
        let page = server.metrics();
        assert!(page.contains("\nsojourn_build_info{version=\""), "{page}");
        assert!(page.contains("\nsojourn_start_time_seconds 1"), "{page}");
        assert!(page.contains("\nsojourn_limit_hits_total{limit=\"head-timeout\"} 0\n"), "{page}");
    });
}

/// The sockets that `process` has open, by inode.
fn sockets(process: Pid) -> Vec<String> {
    // It may have ended.
    let links = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten();
    let names = links
        .filter_map(|link| std::fs::read_link(link.ok()?.path()).ok()?.into_os_string().into_string().ok());
    names.filter_map(|name| Some(name.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect()
}

/// A child may outlive its server, as the one that writes the log does if the file system does not answer.
#[test]
fn no_child_keeps_the_admin_listener() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    over_all(&["--access-log", log.to_str().unwrap()], |server, _| {
        let mut client = server.connect();
        client.send(b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n");
        client.take(100);
        let port = format!(":{:04X}", server.admin.port());
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let rows = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
        let mut listening = rows.filter(|row| row[1].ends_with(&port) && row[3] == "0A");
        let admin = listening.next().expect("it listens")[9].to_owned();
        assert!(sockets(server.pid()).contains(&admin));
        for child in server.children() {
            assert!(!sockets(child).contains(&admin), "{child}");
        }
    });
}

#[test]
fn children_that_cannot_live_are_not_started_again_and_again() {
    for architecture in ["mp", "helper", "standard"] {
        let root = fixture::site();
        let server = Server::start(architecture, root.path(), &["--workers", "2"]);
        server.wait_until(Counter::Children, 2);
        let until = std::time::Instant::now() + Duration::from_secs(4);
        while std::time::Instant::now() < until {
            for child in server.children() {
                // It may have ended by itself.
                let _ = kill_process(child, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // At once, after a second, and after two more: at most two each time.
        let started = server.counters().value(Counter::ChildrenStarted);
        assert!((4..=8).contains(&started), "{architecture}: {started}");
        let said = server.said();
        assert!(said.iter().any(|line| line.contains("the next one starts in 2 s")), "{said:?}");
        // The next ones may live.
        while !server.get("/hello.txt").ends_with("hello") {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
