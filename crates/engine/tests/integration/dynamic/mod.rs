//! Tests of routes and their targets: scripts, applications, upstreams, redirects, fixed responses.

mod applications;
mod conformance;
mod failures;
mod routes;
mod scripts;
mod web99;

use std::path::Path;
use std::process::Command;

use crate::engine::{ENGINE, Server};

/// A server of `directory` with the configuration `text`, where `{}` stands for the directory.
pub fn configured(architecture: &str, directory: &Path, text: &str) -> Server {
    let file = directory.join("serve.toml");
    std::fs::write(&file, text.replace("{}", directory.to_str().unwrap())).unwrap();
    let mut command = Command::new(ENGINE);
    command.args(["serve", "--listen", "127.0.0.1:0", "--architecture", architecture, "--config"]);
    Server::run(command.arg(file).arg(directory))
}

/// The response to `head` with `body`, on a connection of its own.
fn ask(server: &Server, head: &str, body: &[u8]) -> String {
    let mut client = server.connect();
    client.send(format!("{head}\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes());
    client.send(body);
    String::from_utf8_lossy(&client.rest()).into_owned()
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {answer:?}")).1
}
