//! The dynamic part of a SPECweb99-like load, whole: generator, server, application by FastCGI and as a script, log of forms.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use sojourn_workload::web99::{self, requests::Kind};

use super::{body, configured};
use crate::engine::ENGINE;

const CLIENTS: u32 = 2;
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/web99/application.py");

/// A file set of this load, whose files have no blocks, and the script.
fn site(load: u32) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for file in web99::files(load) {
        let path = root.path().join(file.path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::File::create(path).unwrap().set_len(file.size_bytes).unwrap();
    }
    let script = root.path().join("scripts/web99");
    fs::create_dir(script.parent().unwrap()).unwrap();
    fs::write(&script, format!("#!/bin/sh\nexec {ENGINE} web99 {}\n", root.path().display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    root
}

#[test]
fn all_kinds_of_requests_are_answered_and_every_form_is_logged() {
    let root = site(CLIENTS);
    let text = format!(
        "app = \"{ENGINE} web99 {{}} --post-log {{}}/posts\"\napp-workers = 2\n\
         [[route]]\npath = \"/web99/\"\napp = true\n[[route]]\npath = \"/cgi-bin/\"\ncgi = \"{{}}/scripts\"\n"
    );
    let server = configured("amped", root.path(), &text);
    let mut load = Command::new(ENGINE);
    load.args(["load", &format!("http://{}/", server.address), "--preset", "web99", "--think-time", "0s"]);
    load.args([
        "--clients",
        &CLIENTS.to_string(),
        "--requests",
        "4000",
        "--warm-up",
        "0s",
        "--format",
        "json",
    ]);
    let output = load.stderr(Stdio::inherit()).output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["requests"], &result["errors"]), (&4000.into(), &0.into()), "{result}");
    let counts: BTreeMap<&str, u64> = result["by_name"]
        .as_array()
        .unwrap()
        .iter()
        .map(|named| (named["name"].as_str().unwrap(), named["requests"].as_u64().unwrap()))
        .collect();
    for (kind, share) in Kind::SHARES {
        let expected = 4000.0 * share;
        let count = counts.get(kind.name()).copied().unwrap_or(0) as f64;
        assert!((count - expected).abs() < 5.0 * expected.sqrt(), "{kind:?}: {counts:?}");
    }
    // The log has as many records as the clients count.
    let posts = fs::read_to_string(root.path().join("posts")).unwrap();
    assert_eq!(posts.lines().count() as u64, counts[Kind::Post.name()]);
    let visitors = posts
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .collect::<std::collections::BTreeSet<_>>();
    assert_eq!(visitors.len(), CLIENTS as usize, "each client is a visitor");
    assert_eq!(body(&server.get("/web99/page?command/Fetch")).len(), posts.len());
}

#[test]
fn a_file_set_that_is_too_small_is_named() {
    let load = 200;
    assert!(web99::files(load).count() > web99::files(CLIENTS).count());
    let root = site(CLIENTS);
    let server = configured("amped", root.path(), "");
    let output = Command::new(ENGINE)
        .args([
            "load",
            &format!("http://{}/", server.address),
            "--web99",
            &load.to_string(),
            "--clients",
            "1",
        ])
        .args(["--requests", "200", "--warm-up", "0s"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("responses were 404"), "{said}");
    assert!(said.contains("sojourn fileset web99 --load 200"), "{said}");
}

/// The answer of a program that is a script, but for the numbers of its process.
fn answer(
    program: &mut Command,
    root: &Path,
    variables: &[(&str, &str)],
    form: &str,
) -> (Vec<String>, Vec<u8>) {
    let mut script = program
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("GATEWAY_INTERFACE", "CGI/1.1")
        .env("CONTENT_LENGTH", form.len().to_string())
        .env("SERVER_NAME", "h")
        .env("SERVER_PORT", "80")
        .env("WEB99_SITE", root)
        .env("WEB99_POST_LOG", root.join("posts"))
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut script.stdin.take().unwrap(), form.as_bytes()).unwrap();
    let output = script.wait_with_output().unwrap().stdout;
    let end = output.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8(output[..end].to_vec()).unwrap();
    let mut fields: Vec<String> = head
        .lines()
        .filter(|line| !line.is_empty() && *line != "Status: 200 OK")
        .map(str::to_owned)
        .collect();
    fields.sort_unstable();
    (fields, output[end..].to_vec())
}

#[test]
fn the_example_in_python_says_the_same() {
    let root = site(CLIENTS);
    let path = "/file_set/dir00003/class1_4";
    for (variables, form) in [
        (vec![("REQUEST_METHOD", "GET"), ("QUERY_STRING", path)], ""),
        (
            vec![
                ("REQUEST_METHOD", "GET"),
                ("QUERY_STRING", path),
                ("HTTP_COOKIE", "visitor=user=10017&last=045"),
            ],
            "",
        ),
        (
            vec![
                ("REQUEST_METHOD", "GET"),
                ("QUERY_STRING", path),
                ("HTTP_COOKIE", "visitor=user=99999&last=359"),
            ],
            "",
        ),
        (
            vec![("REQUEST_METHOD", "POST"), ("HTTP_COOKIE", "visitor=user=10017&last=045")],
            "urlroot=/file_set&dir=00003&class=1&num=4&client=0000017",
        ),
    ] {
        let mut engine = Command::new(ENGINE);
        engine.arg("web99").arg(root.path()).arg("--post-log").arg(root.path().join("posts"));
        let ours = answer(&mut engine, root.path(), &variables, form);
        let theirs = answer(Command::new("python3").arg(EXAMPLE), root.path(), &variables, form);
        assert_eq!(ours, theirs, "{variables:?}");
    }
    let posts = fs::read_to_string(root.path().join("posts")).unwrap();
    let numbers: Vec<&str> = posts.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(numbers, ["1", "2"]);
    assert!(posts.lines().all(|line| line.len() == web99::page::RECORD_BYTES - 1), "{posts}");
}
