//! The loop's assumptions about the ring: pairs complete once, nothing submitted is lost, buffers are returned.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::ptr;
use std::time::Duration;

use io_uring::squeue::{Entry, Flags};
use io_uring::{opcode, types};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size;

use super::buffers::{BUFFERS, Buffers, GROUP};
use super::queue::{Completion, Purpose, Queue};
use crate::runtime::sockets::options::queue_length;

const TOKEN: u64 = 7;

/// All completions until none arrives for a while.
fn drain(queue: &mut Queue) -> Vec<Completion> {
    let mut completions = Vec::new();
    loop {
        let before = completions.len();
        queue.wait(Some(Duration::from_millis(50)), false, &mut completions).unwrap();
        if completions.len() == before {
            return completions;
        }
    }
}

fn send(socket: &UnixStream, bytes: &[u8]) -> Entry {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
    opcode::Send::new(types::Fd(socket.as_raw_fd()), bytes.as_ptr(), bytes.len() as u32).flags(flags).build()
}

/// Sends `bytes` and closes; `meanwhile` runs in between. Returns the single completion.
fn send_and_close(bytes: &[u8], meanwhile: impl FnOnce(&mut Queue, UnixStream)) -> Completion {
    let (socket, peer) = UnixStream::pair().unwrap();
    set_socket_send_buffer_size(&socket, 4096).unwrap();
    let mut queue = Queue::new().unwrap();
    let close = opcode::Close::new(types::Fd(socket.as_raw_fd())).build();
    let pair = ((send(&socket, bytes), Purpose::Send), (close, Purpose::CloseAfterSend));
    // SAFETY: the bytes outlive the queue.
    unsafe { queue.push_pair(pair.0, pair.1, TOKEN) };
    meanwhile(&mut queue, peer);
    let completions = drain(&mut queue);
    let [completion] = completions[..] else { panic!("one completion: {completions:?}") };
    assert_eq!(completion.token, TOKEN);
    if completion.purpose == Purpose::CloseAfterSend {
        // The ring has closed it, and the number may have been reused.
        let _ = socket.into_raw_fd();
    }
    completion
}

#[test]
fn a_pair_completes_once() {
    let mut kept = None;
    let done = send_and_close(b"hello", |_, peer| kept = Some(peer));
    assert_eq!((done.purpose, done.result), (Purpose::CloseAfterSend, Ok(0)));
    // Reading reaches the end, so it is closed.
    assert_eq!(std::io::read_to_string(kept.take().unwrap()).unwrap(), "hello");

    let failed = send_and_close(b"hello", |_, peer| drop(peer));
    assert_eq!((failed.purpose, failed.result), (Purpose::Send, Err(Errno::PIPE)));

    let long = vec![0; 1 << 20];
    let cancelled = send_and_close(&long, |queue, peer| {
        queue.flush().unwrap();
        queue.cancel(Purpose::Send, TOKEN);
        kept = Some(peer);
    });
    assert_eq!(cancelled.purpose, Purpose::Send);
    assert!(cancelled.result.is_err() || cancelled.result.is_ok_and(|sent| (sent as usize) < long.len()));
}

#[test]
fn nothing_that_is_pushed_is_lost() {
    let mut queue = Queue::new().unwrap();
    // More than the ring's completions, let alone its operations.
    let count = 20_000;
    for token in 0..count {
        // SAFETY: it points to no memory.
        unsafe { queue.push(opcode::Nop::new().build(), Purpose::Read, token) };
    }
    let mut tokens: Vec<u64> = drain(&mut queue).iter().map(|completion| completion.token).collect();
    tokens.sort_unstable();
    assert!(tokens.into_iter().eq(0..count));
}

#[test]
fn buffers_run_out_and_come_back() {
    let mut queue = Queue::new().unwrap();
    let mut buffers = Buffers::new(&queue).unwrap();
    let surplus = 20;
    let mut pairs: Vec<_> =
        (0..usize::from(BUFFERS) + surplus).map(|_| UnixStream::pair().unwrap()).collect();
    for round in 0..3u8 {
        for (token, (ours, theirs)) in pairs.iter_mut().enumerate() {
            theirs.write_all(&[round, token as u8]).unwrap();
            let receive = opcode::Recv::new(types::Fd(ours.as_raw_fd()), ptr::null_mut(), 0).buf_group(GROUP);
            let receive = receive.build().flags(Flags::BUFFER_SELECT);
            // SAFETY: the buffers are dropped after everything has completed.
            unsafe { queue.push(receive, Purpose::Receive, token as u64) };
        }
        let completions = drain(&mut queue);
        assert_eq!(completions.len(), pairs.len());
        let mut refused = Vec::new();
        for completion in completions {
            let (Ok(count), Some(id)) = (completion.result, completion.buffer()) else {
                assert_eq!(completion.result, Err(Errno::NOBUFS));
                refused.push(completion.token);
                continue;
            };
            let mut bytes = vec![b'>'];
            buffers.take(id, count as usize, &mut bytes);
            assert_eq!(bytes, [b'>', round, completion.token as u8]);
        }
        assert_eq!(refused.len(), surplus);
        for token in refused {
            std::io::Read::read_exact(&mut pairs[token as usize].0, &mut [0; 2]).unwrap();
        }
    }
}

#[test]
fn cancelled_accepting_leaves_in_the_queue_who_waits() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let connect = |count: usize| -> Vec<TcpStream> {
        (0..count).map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).collect()
    };
    let mut queue = Queue::new().unwrap();
    let accept = opcode::AcceptMulti::new(types::Fd(listener.as_raw_fd())).build();
    // SAFETY: it points to no memory.
    unsafe { queue.push(accept, Purpose::Accept, TOKEN) };
    let _first = connect(20);
    let accepted = drain(&mut queue);
    assert!(accepted.len() == 20 && accepted.iter().all(Completion::has_more), "{accepted:?}");
    for completion in accepted {
        // SAFETY: a new descriptor that is used nowhere else.
        drop(unsafe { OwnedFd::from_raw_fd(completion.result.unwrap() as i32) });
    }
    // They have come before the ring is told, as in an iteration that takes long.
    let _second = connect(30);
    queue.cancel(Purpose::Accept, TOKEN);
    let completions = drain(&mut queue);
    let [last] = completions[..] else { panic!("one completion: {completions:?}") };
    assert_eq!((last.purpose, last.result, last.has_more()), (Purpose::Accept, Err(Errno::CANCELED), false));
    assert_eq!(queue_length(listener.as_fd()).unwrap().waiting, 30);
}

#[cfg(address_sanitizer)]
#[test]
#[should_panic(expected = "was freed before it completed")]
fn memory_that_is_freed_too_early_is_noticed() {
    let (socket, _peer) = UnixStream::pair().unwrap();
    set_socket_send_buffer_size(&socket, 4096).unwrap();
    let bytes = vec![0; 1 << 20];
    let mut queue = Queue::new().unwrap();
    // SAFETY: not at all. The sanitizer keeps freed memory mapped, and the kernel only reads it.
    unsafe { queue.push(send(&socket, &bytes), Purpose::Send, TOKEN) };
    queue.flush().unwrap();
    drop(bytes);
    queue.cancel(Purpose::Send, TOKEN);
    drain(&mut queue);
}
