//! Tests of several listening sockets: each is served under every architecture, and all close when the server stops.

use std::net::TcpStream;
use std::process::Command;

use crate::engine::{ENGINE, Server, get, over_all};
use sojourn_server::Counter;
use sojourn_testing::fixture;

#[test]
fn every_listener_is_served() {
    over_all(&["--listen", "127.0.0.1:0", "--listen", "[::1]:0"], |server, _| {
        let addresses = [server.address, server.another_address(0), server.another_address(1)];
        assert!(addresses[2].is_ipv6(), "{addresses:?}");
        for _ in 0..4 {
            for address in addresses {
                assert!(get(address, "/hello.txt").ends_with("\r\n\r\nhello"), "{address}");
            }
        }
        assert_eq!(server.stop().value(Counter::Requests), 12);
        assert!(addresses.iter().all(|address| TcpStream::connect(address).is_err()), "{addresses:?}");
    });
}

#[test]
fn a_file_lists_them() {
    let root = fixture::site();
    let file = root.path().join("serve.toml");
    for architecture in ["amped", "inetd"] {
        let text = "listen = [\"127.0.0.1:0\", \"127.0.0.1:0\"]\n";
        std::fs::write(&file, format!("root = {:?}\n{text}", root.path())).unwrap();
        let mut command = Command::new(ENGINE);
        command.args(["serve", "--architecture", architecture, "--config"]).arg(&file);
        let server = Server::run(&mut command);
        for address in [server.address, server.another_address(0)] {
            assert!(get(address, "/hello.txt").ends_with("hello"));
        }
    }
}

#[test]
fn too_many_are_refused() {
    let mut command = Command::new(ENGINE);
    command.args(["serve", "."]).args(["--listen=127.0.0.1:0"].repeat(65));
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said.starts_with("error: 65 listening sockets are too many") && said.contains("\nhint: "),
        "{said}"
    );
}
