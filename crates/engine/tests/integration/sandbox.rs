//! Tests of the sandbox: forbidden operations fail, and the server misses nothing.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use sojourn_http::HttpDate;
use sojourn_server::ALL;
use sojourn_testing::object_store::{KEY, ObjectStore, REGION};
use sojourn_testing::upstream::Upstream;
use sojourn_testing::{fixture, until};

use crate::engine::{ENGINE, Server, over_all};
use crate::proxy::proxy;

/// The fields of /proc/PID/status.
fn status(process: Pid) -> BTreeMap<String, String> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    text.lines()
        .filter_map(|line| line.split_once(":\t"))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn capabilities(status: &BTreeMap<String, String>, set: &str) -> u64 {
    u64::from_str_radix(&status[set], 16).unwrap()
}

/// The capabilities that root keeps: reading and writing any file.
const LEFT: u64 = 0b110;

/// Checks that a process is in the sandbox.
fn assert_confined(process: Pid) {
    let status = status(process);
    assert_eq!((&*status["Seccomp"], &*status["NoNewPrivs"]), ("2", "1"));
    for set in ["CapEff", "CapPrm"] {
        assert_eq!(capabilities(&status, set) & !LEFT, 0, "{set}");
    }
    // Only root has capabilities to give up.
    assert!(!rustix::process::geteuid().is_root() || capabilities(&status, "CapBnd") & !LEFT == 0);
}

#[test]
fn processes_that_meet_clients_are_confined() {
    over_all(&[], |server, _| {
        // Still connected, so that a process-per-connection architecture has a process.
        let mut client = server.connect();
        client.send(b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n");
        client.take(20);
        let is_inetd = std::thread::current().name() == Some("inetd");
        // inetd's first process executes programs that enter the sandbox, and serves no clients itself.
        let first = (!is_inetd).then(|| server.pid());
        for process in server.children().into_iter().chain(first) {
            assert_confined(process);
        }
        drop(client);
        server.stop();
    });
}

#[test]
fn so_are_proxies_and_streaming_servers() {
    let upstream = Upstream::answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec());
    for architecture in ALL.iter().filter(|architecture| architecture.cache_scope().is_some()) {
        let server = proxy(architecture.name(), &[upstream.address], &[]);
        // Still connected, as above.
        let mut client = server.connect();
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        client.until(b"\r\n\r\nhello");
        server.children().into_iter().chain([server.pid()]).for_each(assert_confined);
        drop(client);
        server.stop();
    }
    let films = tempfile::tempdir().unwrap();
    let mut command = Command::new(ENGINE);
    let server = Server::run(command.arg("stream").arg(films.path()).args(["--listen", "127.0.0.1:0"]));
    let mut client = server.connect();
    client.send(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n");
    assert!(client.until(b"\r\n\r\n").starts_with(b"RTSP/1.0 200 OK\r\n"));
    server.children().into_iter().chain([server.pid()]).for_each(assert_confined);
}

#[test]
fn it_can_be_turned_off() {
    let root = fixture::site();
    let server = Server::start("amped", root.path(), &["--sandbox", "off"]);
    assert_eq!(status(server.pid())["Seccomp"], "0");
    server.stop();
}

/// A different directory in the log's place is not allowed.
#[test]
fn other_files_are_out_of_reach() {
    let root = tempfile::tempdir().unwrap();
    let (logs, moved) = (root.path().join("logs"), root.path().join("moved"));
    fs::create_dir(&logs).unwrap();
    let log = logs.join("access.log");
    let site = fixture::site();
    let server = Server::start("amped", site.path(), &["--access-log", log.to_str().unwrap()]);
    let reopen = || {
        kill_process(server.pid(), Signal::USR1).unwrap();
        assert!(server.get("/hello.txt").ends_with("hello"));
    };
    fs::rename(&log, logs.join("access.log.1")).unwrap();
    reopen();
    until("a line in the new log", || fs::metadata(&log).ok().filter(|log| log.len() > 0));
    fs::rename(&logs, &moved).unwrap();
    fs::create_dir(&logs).unwrap();
    reopen();
    until("a denial", || server.said().into_iter().find(|line| line.contains("Permission denied")));
    server.stop();
}

/// The service that hands them out is at another port than the bucket.
#[test]
fn credentials_for_the_bucket_of_a_route_are_renewed() {
    let service = Upstream::start(|peer| {
        while peer.head().is_some() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
            let expires = HttpDate::from_seconds(now as i64 + 2).iso8601();
            let (id, secret) = KEY;
            let body = format!(
                r#"{{"AccessKeyId":"{id}","SecretAccessKey":"{secret}","Token":"t","Expiration":"{expires}"}}"#
            );
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            peer.send(format!("{head}{body}").as_bytes());
        }
    });
    let (store, site) = (ObjectStore::public(), fixture::site());
    store.put("/bucket/objects/a", "an object", "");
    let mut command = Command::new(ENGINE);
    command.arg("serve").arg(site.path()).args(["--listen", "127.0.0.1:0", "--architecture", "amped"]);
    command.args(["--route", "{ path = \"/objects/\", upstream = \"s3://bucket\" }"]);
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_PROFILE"] {
        command.env_remove(name);
    }
    command.envs([
        ("AWS_CONFIG_FILE", "/none"),
        ("AWS_SHARED_CREDENTIALS_FILE", "/none"),
        ("AWS_REGION", REGION),
    ]);
    command.env("AWS_ENDPOINT_URL_S3", store.url());
    command.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("http://{}/", service.address));
    let server = Server::run(&mut command);
    assert!(server.get("/objects/a").ends_with("an object"));
    until("new credentials", || {
        server.get("/objects/a");
        (service.heads().len() > 1).then_some(())
    });
    server.stop();
}
