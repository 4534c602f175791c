//! Tests of memory shortage: the server sheds load and survives.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, setrlimit};
use sojourn_server::Counter;
use sojourn_testing::{fixture, until};

use crate::dynamic::configured;
use crate::engine::{Client, DEADLINE, ENGINE, Server};

/// Uses an address-space limit to exhaust memory: the server must survive clients that request much and read nothing.
#[test]
fn a_small_address_space_is_not_the_end() {
    for architecture in ["amped", "uring"] {
        let root = fixture::site();
        let mut command = Command::new(ENGINE);
        command.arg("serve").arg(root.path()).args([
            "--listen",
            "127.0.0.1:0",
            "--architecture",
            architecture,
        ]);
        let limit = Some(200 << 20);
        // SAFETY: one system call, which may be made between fork and exec.
        unsafe {
            command.pre_exec(move || Ok(setrlimit(Resource::As, Rlimit { current: limit, maximum: limit })?));
        }
        let server = Server::run(&mut command);
        let begun = Instant::now();
        let mut greedy = Vec::new();
        let is_shed = || server.counters().value(Counter::LimitMemory) > 0;
        while !is_shed() {
            assert!(
                begun.elapsed() < DEADLINE,
                "{architecture}: {} connections, and nothing is shed",
                greedy.len()
            );
            for _ in 0..10 {
                let mut client = server.connect();
                client.send(&streams_that_are_not_taken());
                greedy.push(client);
            }
        }
        drop(greedy);
        answers_again(&server, architecture);
        server.stop();
    }
}

/// What many clients have used at once goes back to the kernel when they are gone.
#[test]
fn memory_goes_back_after_a_burst() {
    const BODY_BYTES: usize = 700 * 1024;
    const CLIENTS: usize = 150;
    /// What makes the test worth while, and what the allocator may keep.
    const BURST_BYTES: u64 = 90 << 20;
    const KEPT_BYTES: u64 = 48 << 20;
    for architecture in ["amped", "uring"] {
        let root = tempfile::tempdir().unwrap();
        // An application gets a chunked body when all of it has come, and these never do.
        let room = "upstream-gathered-total = \"256MiB\"\n";
        let route = "[[route]]\npath = \"/app/\"\nupstream = \"fcgi://127.0.0.1:9\"\n";
        let server = configured(architecture, root.path(), &format!("{room}{route}"));
        server.get("/none");
        let before = server.memory_bytes();
        let mut greedy: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
        let head =
            format!("POST /app/ HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{BODY_BYTES:x}\r\n");
        let body = vec![b'x'; BODY_BYTES];
        for client in &mut greedy {
            client.send(head.as_bytes());
            client.send(&body);
        }
        until("a burst", || (server.memory_bytes() >= before + BURST_BYTES).then_some(()));
        drop(greedy);
        until("memory that goes back", || (server.memory_bytes() <= before + KEPT_BYTES).then_some(()));
        server.stop();
    }
}

/// An HTTP/2 client that fills its connection with requests for a file and never reads the responses.
fn streams_that_are_not_taken() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\xff\xff".to_vec();
    for number in 0..15_u32 {
        let fields = b"\x82\x86\x04\x0b/medium.bin\x01\x01h";
        bytes.extend([0, 0, fields.len() as u8, 1, 5]);
        bytes.extend((2 * number + 1).to_be_bytes());
        bytes.extend_from_slice(fields);
    }
    bytes
}

fn answers_again(server: &Server, architecture: &str) {
    let begun = Instant::now();
    loop {
        let mut client = Client::to(server.address);
        client.send(b"GET /hello.txt HTTP/1.0\r\n\r\n");
        if client.rest().ends_with(b"hello") {
            return;
        }
        assert!(begun.elapsed() < DEADLINE, "{architecture}: it does not recover");
        std::thread::sleep(Duration::from_millis(50));
    }
}
