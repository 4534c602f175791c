//! Requests to a server under test, each on a connection of its own, and their responses.

use std::net::SocketAddr;

use crate::Client;

/// A server under test, in the test's process or in one of its own.
pub trait Serving {
    fn address(&self) -> SocketAddr;
}

/// Sends `request`, which must end the connection, and returns everything received.
pub fn exchange(client: &mut Client, request: &str) -> String {
    client.send(request.as_bytes());
    String::from_utf8_lossy(&client.rest()).into_owned()
}

pub fn get(server: &impl Serving, target: &str) -> String {
    get_with(server, target, "")
}

/// A GET with additional field lines.
pub fn get_with(server: &impl Serving, target: &str, lines: &str) -> String {
    ask(server, "GET", target, lines)
}

/// A request without body on a connection of its own.
pub fn ask(server: &impl Serving, method: &str, target: &str, lines: &str) -> String {
    let request = format!("{method} {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{lines}\r\n");
    exchange(&mut Client::to(server.address()), &request)
}

pub fn status(answer: &str) -> &str {
    answer.get(9..12).unwrap_or(answer)
}
