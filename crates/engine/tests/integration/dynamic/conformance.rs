//! What HTTP demands of any server, with applications and scripts behind it: messages that could be read differently
//! reach none, and each version of HTTP gets its own framing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use sojourn_testing::client::status;
use sojourn_testing::smuggling::{AFTER, PASSED, REFUSED};
use sojourn_testing::upstream::Upstream;

use super::configured;
use crate::engine::Server;
use crate::proxy::fastcgi::{answer, asked};

/// A request line and a body as they arrived.
type Arrived = (String, String);

const ANSWER: &str = "Content-Type: text/plain\n\nok";

/// Appends its request to a file, each ended by the character RS.
const SCRIPT: &str = "#!/bin/sh\n\
    printf '%s %s %s\\n' \"$REQUEST_METHOD\" \"$REQUEST_URI\" \"$SERVER_PROTOCOL\" >>../arrived\n\
    [ \"${CONTENT_LENGTH:-0}\" = 0 ] || head -c \"$CONTENT_LENGTH\" >>../arrived\n\
    printf '\\036' >>../arrived\n\
    printf 'Content-Type: text/plain\\n\\nok'\n";

/// Runs `test` on a server whose requests all go to a FastCGI application, and on one where they go to scripts. The second
/// argument takes what has arrived since the last call.
fn over_both(test: impl Fn(&Server, &dyn Fn() -> Vec<Arrived>)) {
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&arrived);
    let application = Upstream::start(move |peer| {
        while let Some(asked) = asked(peer) {
            let line =
                ["REQUEST_METHOD", "REQUEST_URI", "SERVER_PROTOCOL"].map(|name| &*asked.variables[name]);
            theirs.lock().unwrap().push((line.join(" "), String::from_utf8_lossy(&asked.body).into_owned()));
            peer.send(&answer(ANSWER.as_bytes()));
        }
    });
    let root = tempfile::tempdir().unwrap();
    let route = format!("[[route]]\npath = \"/\"\nupstream = \"fcgi://{}\"\n", application.address);
    let server = configured("amped", root.path(), &route);
    test(&server, &|| std::mem::take(&mut *arrived.lock().unwrap()));
    server.stop();

    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("scripts")).unwrap();
    for name in ["index.cgi", "a", "b", "after"] {
        let file = root.path().join("scripts").join(name);
        fs::write(&file, SCRIPT).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let server = configured("amped", root.path(), "[[route]]\npath = \"/\"\ncgi = \"{}/scripts\"\n");
    test(&server, &|| by_scripts(root.path()));
    server.stop();
}

fn by_scripts(root: &Path) -> Vec<Arrived> {
    let Ok(bytes) = fs::read(root.join("arrived")) else { return Vec::new() };
    fs::remove_file(root.join("arrived")).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let requests = text.split_terminator('\x1e');
    requests
        .map(|request| request.split_once('\n').map(|(line, body)| (line.into(), body.into())).unwrap())
        .collect()
}

fn exchange(server: &Server, sent: &[&str]) -> String {
    let mut client = server.connect();
    sent.iter().for_each(|part| client.send(part.as_bytes()));
    String::from_utf8_lossy(&client.rest()).into_owned()
}

#[test]
fn what_arrives_at_an_application_is_one_request_or_nothing() {
    over_both(|server, arrived| {
        for request in REFUSED {
            let answer = exchange(server, &[request, AFTER]);
            assert_eq!(arrived(), [], "{request:?}: {answer}");
            assert!(matches!(&status(&answer)[..1], "4" | "5"), "{request:?}: {answer}");
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{request:?}: {answer}");
        }
        for (request, line, body) in PASSED {
            let answer = exchange(server, &[request, AFTER]);
            let expected = [(*line, *body), ("GET /after HTTP/1.1", "")];
            let arrived = arrived();
            let arrived: Vec<_> = arrived.iter().map(|(line, body)| (&line[..], &body[..])).collect();
            assert_eq!(arrived, expected, "{request:?}: {answer}");
            assert_eq!(answer.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{request:?}: {answer}");
        }
    });
}

#[test]
fn each_version_and_method_gets_its_own_framing() {
    over_both(|server, arrived| {
        let close = "Host: h\r\nConnection: close\r\n\r\n";
        let old = exchange(server, &["GET /a HTTP/1.0\r\n\r\n"]);
        assert!(old.ends_with("\r\n\r\nok") && !old.contains("Transfer-Encoding"), "{old}");
        let new = exchange(server, &["GET /a HTTP/1.1\r\n", close]);
        let is_chunked =
            new.contains("\r\nTransfer-Encoding: chunked\r\n") && new.ends_with("2\r\nok\r\n0\r\n\r\n");
        assert!(is_chunked, "{new}");
        let head = exchange(server, &["HEAD /a HTTP/1.1\r\n", close]);
        assert!(
            status(&head) == "200" && head.ends_with("\r\n\r\n") && head.matches("\r\n\r\n").count() == 1,
            "{head}"
        );
        let lines: Vec<String> = arrived().into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, ["GET /a HTTP/1.0", "GET /a HTTP/1.1", "HEAD /a HTTP/1.1"]);
        // Several at once are answered in their order.
        let all = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n".repeat(3);
        assert_eq!(exchange(server, &[&all, AFTER]).matches("HTTP/1.1 200 OK\r\n").count(), 4);
        assert_eq!(arrived().len(), 4);
        // The server itself answers these.
        for (request, expected) in [("TRACE /a", "45"), ("CONNECT h:1", "45"), ("OPTIONS *", "2")] {
            let answer = exchange(server, &[request, " HTTP/1.1\r\n", close]);
            assert!(expected.contains(&status(&answer)[..1]), "{request}: {answer}");
        }
        assert_eq!(arrived(), []);
    });
}
