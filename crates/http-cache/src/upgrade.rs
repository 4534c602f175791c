//! Upgrades to other protocols, such as WebSocket (RFC 9110, 7.8; RFC 6455): which of a request and of its 101 are passed on.
//!
//! Upgrade is a hop-by-hop field, so the proxy writes its own towards each side. `h2c` is never passed on: through a tunnel of
//! HTTP/2, requests would reach the origin that no proxy has seen.

use sojourn_http::token::is_token;

use super::fields::{Section, append_line};
use super::forward::{Via, append_passing, append_via};

/// The protocols that a request with these fields asks to switch to, as a list; `None` if there are none to pass on.
pub fn offered(received: Section<'_>) -> Option<Vec<u8>> {
    passed_on(received).filter(|_| has_option(received))
}

/// Appends the field lines of a 426 that say which protocols the origin asks for (RFC 9110, 15.5.22).
pub fn append_required(text: &mut Vec<u8>, received: Section<'_>) {
    if let Some(protocols) = passed_on(received) {
        append_upgrade(text, &protocols);
    }
}

/// The protocols to which a 101 with these fields switches; `None` if there are none, or others than `offered`.
pub fn accepted(offered: &[u8], received: Section<'_>) -> Option<Vec<u8>> {
    let protocols: Vec<_> = protocols(received).collect();
    let is_offered = |protocol: &&[u8]| {
        offered.split(|byte| *byte == b',').any(|other| other.trim_ascii().eq_ignore_ascii_case(protocol))
    };
    let are_offered = !protocols.is_empty() && protocols.iter().all(is_offered);
    (has_option(received) && are_offered).then(|| protocols.join(b", ".as_slice()))
}

/// Appends the field lines that ask for these protocols, or switch to them.
pub fn append_upgrade(text: &mut Vec<u8>, protocols: &[u8]) {
    append_line(text, b"Connection", &[b"Upgrade"]);
    append_line(text, b"Upgrade", &[protocols]);
}

/// Appends the field lines of a 101 that switches to these protocols. Like every 1xx it has no body.
pub fn append_switch(text: &mut Vec<u8>, received: Section<'_>, via: Via<'_>, protocols: &[u8]) {
    append_upgrade(text, protocols);
    append_passing(text, received, |_| true);
    append_via(text, via);
}

fn protocols(received: Section<'_>) -> impl Iterator<Item = &[u8]> {
    received.members("upgrade")
}

/// Those of them that are passed on, as a list; `None` if there are none.
fn passed_on(received: Section<'_>) -> Option<Vec<u8>> {
    let protocols: Vec<_> = protocols(received).filter(|protocol| is_passed_on(protocol)).collect();
    (!protocols.is_empty()).then(|| protocols.join(b", ".as_slice()))
}

fn has_option(received: Section<'_>) -> bool {
    received.members("connection").any(|option| option.eq_ignore_ascii_case(b"upgrade"))
}

fn is_passed_on(protocol: &[u8]) -> bool {
    let is_name = |part: &[u8]| !part.is_empty() && part.iter().all(|byte| is_token(*byte));
    let name = protocol.split(|byte| *byte == b'/').next().unwrap_or_default();
    let is_http = name.eq_ignore_ascii_case(b"h2c")
        || name.eq_ignore_ascii_case(b"h2")
        || name.eq_ignore_ascii_case(b"http");
    protocol.splitn(2, |byte| *byte == b'/').all(is_name) && !is_http
}

#[cfg(test)]
mod tests {
    use sojourn_http::request::Version;

    use super::*;

    fn check_offered(fields: &str, expected: Option<&str>) {
        let offered = offered(Section(fields.as_bytes()));
        assert_eq!(offered.as_deref(), expected.map(str::as_bytes), "{fields}");
    }

    #[test]
    fn what_is_asked_for() {
        check_offered("Connection: keep-alive, upgrade\r\nUPGRADE: websocket\r\n", Some("websocket"));
        check_offered("Connection: Upgrade\r\nUpgrade: a/1.0, ,b\r\nUpgrade: c\r\n", Some("a/1.0, b, c"));
        check_offered("Upgrade: websocket\r\n", None);
        check_offered("Connection: close\r\nUpgrade: websocket\r\n", None);
        check_offered("Connection: Upgrade\r\n", None);
        check_offered("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: H2C\r\n", None);
        check_offered(
            "Connection: Upgrade\r\nUpgrade: h2c/1, websocket, HTTP/2.0, h2\r\n",
            Some("websocket"),
        );
        check_offered("Connection: Upgrade\r\nUpgrade: a b, a/, /b, a/b/c, \"x\"\r\n", None);
    }

    fn check_accepted(fields: &str, expected: Option<&str>) {
        let accepted = accepted(b"websocket, a/1.0", Section(fields.as_bytes()));
        assert_eq!(accepted.as_deref(), expected.map(str::as_bytes), "{fields}");
    }

    #[test]
    fn what_is_switched_to() {
        check_accepted("Connection: upgrade\r\nUpgrade: WebSocket\r\n", Some("WebSocket"));
        check_accepted("Connection: Upgrade\r\nUpgrade: a/1.0, websocket\r\n", Some("a/1.0, websocket"));
        check_accepted("Connection: Upgrade\r\nUpgrade: websocket, b\r\n", None);
        check_accepted("Connection: Upgrade\r\nUpgrade: a\r\n", None);
        check_accepted("Connection: Upgrade\r\n", None);
        check_accepted("Upgrade: websocket\r\n", None);
    }

    #[test]
    fn what_a_426_asks_for() {
        let mut text = Vec::new();
        append_required(&mut text, Section(b"Upgrade: h2c\r\nUpgrade: websocket, TLS/1.3\r\n"));
        assert_eq!(text, b"Connection: Upgrade\r\nUpgrade: websocket, TLS/1.3\r\n");
        text.clear();
        append_required(&mut text, Section(b"Upgrade: HTTP/2.0\r\n"));
        assert!(text.is_empty());
    }

    #[test]
    fn a_switch_has_end_to_end_fields_and_no_framing() {
        let received = "Upgrade: websocket\r\nConnection: Upgrade, X-A\r\nX-A: 1\r\nSec-WebSocket-Accept: x=\r\n\
            Content-Length: 5\r\nKeep-Alive: 5\r\n\r\n";
        let mut text = Vec::new();
        let via = Via { received: Version::Http11, pseudonym: "me" };
        append_switch(&mut text, Section(received.as_bytes()), via, b"websocket");
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x=\r\nVia: 1.1 me\r\n"
        );
    }
}
