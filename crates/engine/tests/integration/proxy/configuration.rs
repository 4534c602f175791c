//! Tests of `proxy --config FILE`: like `serve`, and read again by a successor.

use std::path::Path;
use std::process::Command;

use crate::engine::Successor;
use crate::engine::{ENGINE, Server, get};
use sojourn_testing::upstream::Upstream;

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

/// The response to a GET for `host` on its own connection.
fn get_from(server: &Server, host: &str) -> String {
    let mut client = server.connect();
    client.send(format!("GET /a HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes());
    String::from_utf8(client.rest()).unwrap()
}

#[test]
fn hosts_have_upstreams_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (Upstream::answering(FIRST), Upstream::answering(SECOND));
    let hosts = format!(
        "[[host]]\nnames = [\"a.example\", \"*.b.example\"]\nupstream = \"http://{}\"\n\
         [[host]]\nnames = [\"c.example\"]\nupstream = [\"http://{1}\", \"http://{1},weight=2\"]\n",
        first.address, second.address
    );
    for architecture in ["amped", "mt", "uring"] {
        let listening = format!("listen = \"127.0.0.1:0\"\narchitecture = \"{architecture}\"\n");
        let server = Server::run(&mut run(directory.path(), &format!("{listening}{hosts}")));
        for (host, body) in [("a.example", "first"), ("x.B.example:80", "first"), ("c.example", "second")] {
            assert!(get_from(&server, host).ends_with(body), "{host}");
        }
        assert!(get_from(&server, "d.example").starts_with("HTTP/1.1 421 "));
        drop(server);
        let general = format!("{listening}upstream = [\"http://{}\"]\n{hosts}", second.address);
        let server = Server::run(&mut run(directory.path(), &general));
        assert!(get_from(&server, "d.example").ends_with("second"));
        assert!(get_from(&server, "a.example").ends_with("first"));
        assert!(server.get("/a").ends_with("second"), "without a name");
    }
    check(
        "[[host]]\nnames = [\"a\"]\nupstream = [\"http://h\"]\nweight = 1\n",
        "1: invalid value '{ names = [\"a\"], upstream = [\"http://h\"], weight = 1 }' for '--host",
    );
}

#[test]
fn the_configuration_that_is_printed_gives_the_same_proxy() {
    let directory = tempfile::tempdir().unwrap();
    let printed = |command: &mut Command| {
        let output = command.arg("--print-config").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    for (flags, line) in [
        (&["--upstream", "http://127.0.0.1:9,weight=2", "--architecture", "mt"][..], "workers = 64"),
        (&["--forward", "--client", "10.0.0.0/8", "--cache-memory", "1MiB"], "cache-memory = \"1MiB\""),
        (&["--host", "a,b=http://127.0.0.1:9", "--via", "edge"], "via = \"edge\""),
        (
            &["--host", "{ names = [\"a\"], upstream = [\"http://127.0.0.1:9\"] }"],
            "upstream-idle-timeout = \"4s\"",
        ),
    ] {
        let text = printed(Command::new(ENGINE).arg("proxy").args(flags));
        assert!(text.contains(&format!("\n{line}\n")) && text.contains("\n# io_uring: "), "{line}: {text}");
        assert_eq!(printed(&mut run(directory.path(), &text)), text);
    }
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
