//! Tests of the load generator against the server, both as programs: a stopped server must show in the results.

use crate::engine;
use std::{
    fs,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

#[test]
fn a_server_stopped_for_two_seconds_shows_from_the_intended_start() {
    let site = tempfile::tempdir().unwrap();
    fs::write(site.path().join("page"), [b'x'; 500]).unwrap();
    let server = engine::Server::start("sped", site.path(), &[]);
    let mut command = Command::new(engine::ENGINE);
    let url = format!("http://{}/page", server.address);
    command.args(["load", &url, "--rate", "200", "--arrivals", "constant", "--duration", "5s"]);
    command.args(["--warm-up", "0s", "--drain", "5s", "--format", "json"]);
    let load = command.stdout(Stdio::piped()).spawn().unwrap();
    let pid = server.pid();
    thread::sleep(Duration::from_millis(1500));
    kill_process(pid, Signal::STOP).unwrap();
    thread::sleep(Duration::from_secs(2));
    kill_process(pid, Signal::CONT).unwrap();
    let output = load.wait_with_output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Requests in flight at the end of the five seconds are not results, but none is lost.
    let counted = |key: &str| result[key].as_u64().unwrap();
    assert!((counted("requests") + counted("unfinished")).abs_diff(1000) <= 2, "{result}");
    assert_eq!(result["errors"], 0, "{result}");
    // 400 of 1000 arrivals came while it stood still, and waited for 0 to 2 s: 10 % of all for 1.5 s or more.
    let seconds = |key: &str, figure: &str| result[key][figure].as_f64().unwrap();
    assert!((1.9..3.0).contains(&seconds("response_time_seconds", "max")), "{result}");
    assert!((1.4..2.5).contains(&seconds("response_time_seconds", "p90")), "{result}");
    assert!(seconds("response_time_seconds", "p50") < 0.5, "{result}");
    assert!(seconds("response_time_sent_seconds", "p90") <= seconds("response_time_seconds", "p90"));
    assert_eq!(result["skipped"], 0);
}

#[test]
fn either_version_says_how_long_answers_waited_for_the_generator() {
    let site = tempfile::tempdir().unwrap();
    fs::write(site.path().join("page"), [b'x'; 500]).unwrap();
    let server = engine::Server::start("sped", site.path(), &[]);
    let lag = |version: &str| {
        let mut command = Command::new(engine::ENGINE);
        let url = format!("http://{}/page", server.address);
        command.args(["load", &url, "--http", version, "--clients", "2", "--requests", "50"]);
        let output = command.args(["--warm-up", "0s", "--timestamps", "--format", "json"]).output().unwrap();
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        result["receive_lag_seconds"].clone()
    };
    let known = lag("1.1");
    // Some kernels and sandboxes give no timestamps.
    if known.get("unavailable").is_none() {
        assert_eq!((&known["count"], &lag("2")["count"]), (&Value::from(50), &Value::from(50)));
    }
}

#[test]
fn a_signal_reports_what_was_measured() {
    let site = tempfile::tempdir().unwrap();
    fs::write(site.path().join("page"), [b'x'; 500]).unwrap();
    let server = engine::Server::start("sped", site.path(), &[]);
    let mut command = Command::new(engine::ENGINE);
    let url = format!("http://{}/page", server.address);
    command.args([
        "load",
        &url,
        "--clients",
        "4",
        "--duration",
        "60s",
        "--warm-up",
        "0s",
        "--format",
        "json",
    ]);
    let load = command.stdout(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(1500));
    kill_process(Pid::from_raw(load.id() as i32).unwrap(), Signal::TERM).unwrap();
    let output = load.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["interrupted"], &result["complete"]), (&Value::Bool(true), &Value::Bool(false)));
    assert!(result["requests"].as_u64().unwrap() > 10, "{result}");
}

#[test]
fn a_full_disk_takes_a_file_and_not_the_result() {
    let site = tempfile::tempdir().unwrap();
    fs::write(site.path().join("page"), [b'x'; 500]).unwrap();
    let server = engine::Server::start("sped", site.path(), &[]);
    let kept = site.path().join("latencies.hlog");
    let mut command = Command::new(engine::ENGINE);
    let url = format!("http://{}/page", server.address);
    command.args(["load", &url, "--clients", "1", "--requests", "20", "--warm-up", "0s", "--format", "json"]);
    // A device that is always full.
    command.args(["--timeline", "/dev/full", "--histograms"]).arg(&kept);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["requests"], &result["complete"]), (&Value::from(20), &Value::Bool(true)));
    assert!(fs::read_to_string(kept).unwrap().lines().count() > 1);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cannot write /dev/full: No space left on device"), "{said}");
}
