//! Tests of `serve --config FILE`: keys are the long options, the command line takes precedence, and errors name their
//! line.

use std::path::Path;
use std::process::Command;

use crate::engine::{ENGINE, Server};
use sojourn_server::Counter;
use sojourn_testing::fixture;

fn run(directory: &Path, text: &str) -> Command {
    let file = directory.join("serve.toml");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(ENGINE);
    command.arg("serve").arg("--config").arg(file);
    command
}

#[test]
fn a_file_configures_and_the_command_line_wins() {
    let root = fixture::site();
    let elsewhere = tempfile::tempdir().unwrap();
    let text = format!(
        "root = {:?}\nlisten = \"127.0.0.1:0\"\narchitecture = \"mp\"\nworkers = 3\nserve-hidden = true\n",
        root.path()
    );
    let server = Server::run(&mut run(elsewhere.path(), &text));
    server.wait_until(Counter::Children, 3);
    assert!(server.get("/.git/config").ends_with("secret"));
    let server = Server::run(run(elsewhere.path(), &text).args(["--workers", "2"]).arg(elsewhere.path()));
    server.wait_until(Counter::Children, 2);
    assert!(server.get("/hello.txt").starts_with("HTTP/1.1 404 "));
}

fn check(text: &str, expected: &str) {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), text).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{text:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = format!("error: {}:{expected}", directory.path().join("serve.toml").display());
    assert!(said.starts_with(&expected) && said.contains("\nhint: "), "{text:?}: {said}, not {expected}");
}

#[test]
fn mistakes_are_named_with_their_line() {
    check("root = \".\"\nwrkers = 3", "2: there is no option `wrkers`\nhint: did you mean `workers`?");
    check("\n\nworkers = \"x\"", "3: invalid value 'x' for '--workers <N>'");
    check("workers = 9999", "1: invalid value '9999' for '--workers <N>'");
    check("idle-timeout = 5", "1: invalid value '5' for '--idle-timeout <TIME>'");
    check("serve-hidden = \"yes\"", "1: invalid value 'yes' for '--serve-hidden[=<BOOL>]'");
    check("config = \"x\"", "1: `config` belongs on the command line");
    check("root = [1]", "1: `root` has a value of the wrong kind");
    check("root = \".\"\nlisten = ", "2: ");
}

#[test]
fn a_file_that_is_not_there() {
    let output = Command::new(ENGINE).args(["serve", "--config", "/nowhere/serve.toml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.starts_with("error: cannot read the configuration /nowhere/serve.toml: ")
            && said.contains("\nhint: ")
    );
}
