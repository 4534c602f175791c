//! Tests of sockets opened by other programs: a service manager's (LISTEN_FDS), and inetd's connections.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use crate::engine::{Client, DEADLINE, ENGINE, Server, get};
use sojourn_server::{ALL, Counter};
use sojourn_testing::fixture;

/// A shell that replaces itself with its arguments, with the listener from standard input as announced descriptor 3.
fn passing(listener: &TcpListener, count: u32) -> Command {
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        "exec env LISTEN_PID=$$ LISTEN_FDS=\"$0\" \"$@\" 3<&0 </dev/null",
        &count.to_string(),
        ENGINE,
    ]);
    shell.stdin(OwnedFd::from(listener.try_clone().unwrap()));
    shell
}

fn output(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[test]
fn a_socket_that_is_passed_is_served() {
    let root = fixture::site();
    for architecture in ALL {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // A client that connects before the server runs is served, too.
        let mut early = Client::to(listener.local_addr().unwrap());
        early.send(b"GET /hello.txt HTTP/1.0\r\n\r\n");
        let mut command = passing(&listener, 1);
        command.arg("serve").arg(root.path()).args(["--architecture", architecture.name()]);
        let server = Server::run(&mut command);
        assert_eq!(server.address, listener.local_addr().unwrap());
        assert!(early.rest().ends_with(b"hello"), "{}", architecture.name());
        assert_eq!(server.stop().value(Counter::Requests), 1);
    }
}

#[test]
fn sockets_that_cannot_be_served_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connection = Client::to(listener.local_addr().unwrap()).stream;
    let (status, said) =
        output(passing(&TcpListener::from(OwnedFd::from(connection)), 1).args(["serve", "."]));
    assert_eq!(status, Some(2));
    assert!(said.starts_with("error: the socket passed by the service manager does not listen"), "{said}");
}

#[test]
fn without_a_connection_there_is_nothing_to_serve() {
    let (status, said) = output(Command::new(ENGINE).args(["serve", ".", "--stdio"]).stdin(Stdio::null()));
    assert_eq!(status, Some(2));
    assert!(
        said.starts_with("error: standard input is not a connection") && said.contains("\nhint: "),
        "{said}"
    );
}

/// Debian's inetd with one service; dropping it ends it.
struct Inetd(Child);

impl Inetd {
    /// Runs `engine` with `arguments` for each connection to a free port; `None` where there is no inetd.
    fn start(arguments: &str) -> Option<(Inetd, SocketAddr)> {
        let program = ["/usr/sbin/inetd", "/usr/local/sbin/inetd"]
            .into_iter()
            .find(|path| std::fs::exists(path).unwrap());
        let Some(program) = program else {
            eprintln!("skipped: no inetd here; scripts/peers installs Debian's");
            return None;
        };
        // Free a moment ago: inetd takes no port 0.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let user = std::env::var("USER").unwrap_or_else(|_| "root".to_owned());
        let file = tempfile::NamedTempFile::new().unwrap();
        let line = format!("{address} stream tcp nowait.1000000 {user} {ENGINE} sojourn {arguments}\n");
        std::fs::write(file.path(), line).unwrap();
        let inetd = Command::new(program).args(["-i", "-R", "1000000"]).arg(file.path()).spawn().unwrap();
        let inetd = Inetd(inetd);
        let begun = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < DEADLINE, "inetd does not listen");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Some((inetd, address))
    }
}

impl Drop for Inetd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn another_inetd_executes_it_too() {
    let root = fixture::site();
    let config = root.path().join("serve.toml");
    let write = |more: &str| std::fs::write(&config, format!("root = {:?}\n{more}", root.path())).unwrap();
    write("");
    let Some((_inetd, address)) = Inetd::start(&format!("serve --stdio --config {}", config.display()))
    else {
        return;
    };
    for _ in 0..5 {
        assert!(get(address, "/hello.txt").ends_with("\r\n\r\nhello"));
    }
    assert!(get(address, "/large.bin").len() > fixture::LARGE_BYTES);
    let mut kept = Client::to(address);
    for _ in 0..2 {
        kept.send(b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n");
        kept.take(100);
        while !kept.take(1).ends_with(b"o") {}
    }
    // The configuration is read for each connection.
    assert!(get(address, "/.git/config").starts_with("HTTP/1.1 404 "));
    write("serve-hidden = true\n");
    assert!(get(address, "/.git/config").ends_with("secret"));
    // An error in the configuration must not be sent to the client.
    write("no-such-option = 1\n");
    assert!(
        get(address, "/hello.txt").starts_with("HTTP/1.1 500 ") && !get(address, "/").contains("no-such")
    );
}

#[test]
fn our_inetd_reads_the_configuration_each_time() {
    let root = fixture::site();
    let config = root.path().join("serve.toml");
    std::fs::write(&config, "serve-hidden = false\n").unwrap();
    let server = Server::start("inetd", root.path(), &["--config", config.to_str().unwrap()]);
    assert!(server.get("/.git/config").starts_with("HTTP/1.1 404 "));
    std::fs::write(&config, "serve-hidden = true\n").unwrap();
    assert!(server.get("/.git/config").ends_with("secret"));
    std::fs::write(&config, "serve-hidden = maybe\n").unwrap();
    assert!(server.get("/hello.txt").starts_with("HTTP/1.1 500 "));
    let counted = server.stop();
    assert_eq!((counted.value(Counter::Requests), counted.value(Counter::ChildrenFailed)), (2, 1));
}
