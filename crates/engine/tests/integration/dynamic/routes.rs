//! Tests of the route table: identical on every architecture, its errors, and a changed table in a successor.

use std::path::Path;
use std::process::Command;

use sojourn_server::ALL;
use sojourn_testing::fixture;
use sojourn_testing::upstream::Upstream;

use super::{ask, body, configured};
use crate::engine::Successor;
use crate::engine::{ENGINE, get};

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[test]
fn a_table_decides_on_every_architecture() {
    for architecture in ALL {
        let name = architecture.name();
        let (root, upstream) = (fixture::site(), Upstream::answering(HELLO));
        let text = format!(
            "[[route]]\npath = \"/api/files/\"\nfiles = true\n\
             [[route]]\npath = \"/api/\"\nupstream = \"http://{}\"\n\
             [[route]]\npath = \"/old/\"\nredirect = \"/new/\"\nstatus = 308\n\
             [[route]]\npath = \"/health\"\nanswer = \"well\\n\"\n",
            upstream.address
        );
        let server = configured(name, root.path(), &text);
        let hello = server.get("/hello.txt");
        assert!(hello.starts_with("HTTP/1.1 200 ") && !hello.contains("\r\nVia:"), "{name}: {hello}");
        assert_eq!(body(&server.get("/api/x")), "hello", "{name}");
        // The decoded path counts, whatever its spelling.
        assert_eq!(body(&server.get("/x/../%61pi/x")), "hello", "{name}");
        assert!(server.get("/api/files/none").starts_with("HTTP/1.1 404 "), "{name}");
        let moved = server.get("/old/a?b");
        assert!(
            moved.starts_with("HTTP/1.1 308 ") && moved.contains("\r\nLocation: /new/a?b\r\n"),
            "{name}: {moved}"
        );
        assert_eq!(body(&server.get("/health")), "well\n", "{name}");
        assert!(
            ask(&server, "POST /health HTTP/1.1\r\nContent-Length: 1", b"x").starts_with("HTTP/1.1 405 "),
            "{name}"
        );
        assert!(
            ask(&server, "POST /hello.txt HTTP/1.1\r\nContent-Length: 1", b"x").starts_with("HTTP/1.1 405 "),
            "{name}"
        );
        // Both kinds on one connection, one after the other.
        let mut client = server.connect();
        client.send(
            b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\nGET /api/ HTTP/1.1\r\nHost: h\r\n\r\n\
              GET /health HTTP/1.1\r\nHost: h\r\n\r\nGET /hello.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
        );
        let all = String::from_utf8(client.rest()).unwrap();
        assert_eq!(all.matches("HTTP/1.1 200 OK\r\n").count(), 4, "{name}: {all}");
        assert!(all.find("\r\nVia:") < all.find("well\n"), "{name}: {all}");
    }
}

fn check(text: &str, expected: &str) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("serve.toml");
    std::fs::write(&file, text).unwrap();
    let output = Command::new(ENGINE).args(["serve", "--config"]).arg(&file).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = format!("error: {}:{expected}", file.display());
    assert!(said.starts_with(&expected) && said.contains("\nhint: "), "{text:?}: {said}, not {expected}");
    assert_eq!(output.status.code(), Some(2), "{text:?}");
}

#[test]
fn mistakes_are_named_with_their_line() {
    let good = "root = \".\"\n[[route]]\npath = \"/a\"\nanswer = \"\"\n";
    check(
        &format!("{good}[[route]]\npath = \"/b\"\n"),
        "5: invalid value '{ path = \"/b\" }' for '--route <TABLE>': route \"/b\": the route has no answer",
    );
    check(&format!("{good}\n[[route]]\npath = \"/b\"\nfils = true\n"), "6: invalid value");
    check(&format!("{good}[[route]]\npath = \"/b\"\nupstream = \"h\"\n"), "5: invalid value");
    check("root = \".\"\nroute = 3\n", "2: ");
    check("root = \".\"\nlisten = [\n\"a\",\n3.5\n]\nworkers = \"x\"\n", "6: invalid value 'x'");
}

#[test]
fn what_cannot_be_opened_is_said_before_the_server_listens() {
    let check = |flags: &[&str], expected: &str| {
        let output = Command::new(ENGINE)
            .args(["serve", ".", "--listen", "127.0.0.1:0"])
            .args(flags)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with(expected) && said.contains("\nhint: "), "{flags:?}: {said}");
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
    };
    check(&["--route", "{ path = \"/a\", app = true }"], "error: a route leads to the application");
    check(&["--app", "/nowhere/app"], "error: cannot start /nowhere/app: No such file");
    check(
        &["--route", "{ path = \"/c/\", cgi = \"/nowhere\" }"],
        "error: cannot run the scripts of /nowhere: ",
    );
    check(&["--app", "true", "--handler", "echo"], "error: routes lead to files");
}

#[test]
fn a_successor_reads_the_table_again() {
    let root = fixture::site();
    let text = |word: &str| format!("[[route]]\npath = \"/word\"\nanswer = \"{word}\"\n");
    let mut server = configured("amped", root.path(), &text("first"));
    assert_eq!(body(&server.get("/word")), "first");
    std::fs::write(Path::new(root.path()).join("serve.toml"), text("second")).unwrap();
    let successor = Successor::of(&mut server);
    assert_eq!(body(&get(server.address, "/word")), "second");
    successor.stop();
}
