//! Tests of memory shortage: the server sheds load and survives.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, setrlimit};
use sojourn_server::Counter;
use sojourn_testing::fixture;

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
    /// What makes the test worth while, and what the allocator may keep beside the caches.
    const BURST_BYTES: u64 = 96 << 20;
    const KEPT_BYTES: u64 = 48 << 20;
    for architecture in ["amped", "uring"] {
        let root = fixture::site();
        let server = Server::start(architecture, root.path(), &["--workers", "1"]);
        answers_again(&server, architecture);
        let before = server.memory_bytes();
        let mut greedy = Vec::new();
        while server.memory_bytes() < before + BURST_BYTES {
            assert!(greedy.len() < 1000, "{architecture}: {} bytes", server.memory_bytes() - before);
            for _ in 0..10 {
                let mut client = server.connect();
                client.send(&streams_that_are_not_taken());
                greedy.push(client);
            }
            // Until all are answered as far as they may be.
            server.wait_until(Counter::ConnectionsOpen, greedy.len() as u64);
        }
        drop(greedy);
        let begun = Instant::now();
        while server.memory_bytes() > before + KEPT_BYTES {
            let more = server.memory_bytes() - before;
            assert!(begun.elapsed() < DEADLINE, "{architecture} keeps {more} bytes");
            std::thread::sleep(Duration::from_millis(100));
        }
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
