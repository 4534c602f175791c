//! `proxy --config FILE`: as for `serve`, and read again by the successor.

mod engine;
#[path = "proxy/upstream.rs"]
mod upstream;

use std::path::Path;
use std::process::Command;

use engine::successor::Successor;
use engine::{ENGINE, Server, get};
use upstream::Upstream;

const FIRST: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst";
const SECOND: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond";

fn run(directory: &Path, text: &str) -> Command {
    let file = directory.join("proxy.toml");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(ENGINE);
    command.arg("proxy").arg("--config").arg(file);
    command
}

#[test]
fn a_file_configures_the_command_line_wins_and_a_successor_reads_it_again() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (Upstream::answering(FIRST), Upstream::answering(SECOND));
    let text = |upstream: &Upstream| {
        format!(
            "listen = \"127.0.0.1:0\"\nupstream = [\"http://{}\"]\nvia = \"filed\"\nupstream-idle-max = 3\n",
            upstream.address
        )
    };
    let mut server = Server::run(&mut run(directory.path(), &text(&first)));
    let answer = server.get("/");
    assert!(answer.ends_with("first") && answer.contains("\r\nVia: 1.1 filed\r\n"), "{answer}");
    let other = Server::run(run(directory.path(), &text(&first)).args(["--via", "said"]));
    assert!(other.get("/").contains("\r\nVia: 1.1 said\r\n"));
    drop(other);
    std::fs::write(directory.path().join("proxy.toml"), text(&second)).unwrap();
    let successor = Successor::of(&mut server);
    assert!(get(server.address, "/").ends_with("second"));
    successor.stop();
}

fn check(text: &str, expected: &str) {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), text).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{text:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = format!("error: {}:{expected}", directory.path().join("proxy.toml").display());
    assert!(said.starts_with(&expected) && said.contains("\nhint: "), "{text:?}: {said}, not {expected}");
}

#[test]
fn mistakes_are_named_with_their_line() {
    check("forward = true\nclent = \"::1\"", "2: there is no option `clent`\nhint: did you mean `client`?");
    check("upstream = \"ftp://h\"", "1: invalid value 'ftp://h' for '--upstream <URL[,weight=N]>'");
    check(
        "forward = true\n\nclient = [\"10.1.0.0/8\"]",
        "3: invalid value '10.1.0.0/8' for '--client <NETWORK>'",
    );
    check("forward = \"yes\"", "1: unexpected value 'yes' for '--forward' found");
    check("root = \".\"", "1: there is no option `root`");
    check("config = \"x\"", "1: `config` belongs on the command line");
    check("listen = ", "1: ");
}
