//! One request to a proxy, and all of its answer.

#![allow(dead_code, reason = "each test file uses its part")]

use crate::engine::{Client, Server};

/// Sends `request`, which ends the connection, and takes all that comes.
pub fn exchange(client: &mut Client, request: &str) -> String {
    client.send(request.as_bytes());
    String::from_utf8_lossy(&client.rest()).into_owned()
}

/// GET on a connection of its own.
pub fn get(server: &Server, target: &str) -> String {
    get_with(server, target, "")
}

/// The same with more field lines.
pub fn get_with(server: &Server, target: &str, lines: &str) -> String {
    ask(server, "GET", target, lines)
}

/// A request without body on a connection of its own.
pub fn ask(server: &Server, method: &str, target: &str, lines: &str) -> String {
    let request = format!("{method} {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{lines}\r\n");
    exchange(&mut server.connect(), &request)
}

/// The status code of an answer.
pub fn status(answer: &str) -> &str {
    answer.get(9..12).unwrap_or(answer)
}
