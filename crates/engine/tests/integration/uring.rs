//! Tests specific to `--architecture uring`: a system that forbids it, several rings, an overflowing ring, and what arrives
//! while a receive is cancelled.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::engine::{Client, ENGINE, Server};
use sojourn_server::Counter;
use sojourn_testing::fixture;

/// Simultaneously active connections: more than one submission holds, and more than the receive buffers.
const AT_ONCE: usize = 3000;

/// Makes the kernel refuse `system_call` with `error`, for this process and programs it executes.
fn refuse(system_call: libc::c_long, error: i32) -> std::io::Result<()> {
    let statement = |code: u32, jump, k| libc::sock_filter { code: code as u16, jt: 0, jf: jump, k };
    let program = [
        // seccomp_data starts with the call's number.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, system_call as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | error as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: both calls only read, and the program outlives them.
    let outcomes = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter),
        ]
    };
    if outcomes == [0, 0] { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[test]
fn a_system_that_forbids_it_is_named_before_anybody_is_let_in() {
    for (error, hint) in [(libc::EPERM, "forbids it"), (libc::ENOSYS, "it needs Linux 5.19 or later")] {
        let root = fixture::site();
        let mut command = Command::new(ENGINE);
        command.arg("serve").arg(root.path()).args(["--listen", "127.0.0.1:0", "--architecture", "uring"]);
        // SAFETY: it calls what is allowed between fork and exec.
        unsafe { command.pre_exec(move || refuse(libc::SYS_io_uring_setup, error)) };
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        let lines: Vec<_> = said.lines().collect();
        let [first, second] = lines[..] else { panic!("two lines: {said:?}") };
        assert!(first.starts_with("error: io_uring is not available: "), "{said}");
        assert!(second.starts_with("hint: ") && second.contains(hint), "{said}");
        assert!(second.ends_with("; try --architecture amped"), "{said}");
    }
}

#[test]
fn rings_share_the_port_and_the_limit() {
    let root = fixture::site();
    let server = Server::start("uring", root.path(), &["--workers", "4", "--connections-max", "8"]);
    let mut clients: Vec<Client> = (0..12).map(|_| server.connect()).collect();
    let answers: Vec<String> = clients
        .iter_mut()
        .map(|client| {
            client.send(b"GET /hello.txt HTTP/1.0\r\n\r\n");
            String::from_utf8(client.rest()).unwrap()
        })
        .collect();
    let refused = answers.iter().filter(|answer| answer.starts_with("HTTP/1.1 503 ")).count();
    let served = server.stop();
    assert_eq!(served.value(Counter::ConnectionsShed), refused as u64);
    assert_eq!(served.value(Counter::Responses2xx), (12 - refused) as u64);
    assert_eq!(served.value(Counter::ConnectionsOpen), 0);
}

#[test]
fn more_at_once_than_a_ring_holds() {
    let root = fixture::site();
    let server = Server::start("uring", root.path(), &["--workers", "1"]);
    let stop = |signal| rustix::process::kill_process(server.pid(), signal).unwrap();
    // While it is stopped, all clients connect and send requests.
    stop(rustix::process::Signal::STOP);
    let mut clients: Vec<Client> = (0..AT_ONCE).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send(b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n"));
    stop(rustix::process::Signal::CONT);
    for round in 0..2 {
        for client in &mut clients {
            let mut answer = client.take(100);
            while !answer.ends_with(b"hello") {
                answer.extend(client.take(1));
            }
            assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
        }
        if round == 0 {
            // Now all are being waited for, and send at once.
            stop(rustix::process::Signal::STOP);
            clients.iter_mut().for_each(|client| client.send(b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n"));
            stop(rustix::process::Signal::CONT);
        }
    }
    let served = server.stop();
    assert_eq!(served.value(Counter::Requests), 2 * AT_ONCE as u64);
    assert_eq!(served.value(Counter::ConnectionErrors), 0);
}

#[test]
fn bytes_that_arrive_at_the_deadline_of_a_head_buy_no_time() {
    const CLIENTS: usize = 200;
    let root = fixture::site();
    let server = Server::start("uring", root.path(), &["--workers", "1", "--head-timeout", "500ms"]);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send(b"GET / HTTP/1.1\r\nX: "));
    let begun = Instant::now();
    // In the iteration that finds the deadlines passed, bytes have been received, and more arrive before receives are cancelled.
    while begun.elapsed() < Duration::from_secs(1) {
        clients.iter_mut().for_each(|client| client.send(b"x"));
    }
    server.wait_until(Counter::LimitHead, CLIENTS as u64);
}
