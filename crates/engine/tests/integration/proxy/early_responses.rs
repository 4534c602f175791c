//! Tests of upstreams that answer before they have read the whole request.

use std::io::{Read, Write};
use std::net::SocketAddr;

use sojourn_testing::client::status;
use sojourn_testing::upstream::{Peer, Upstream};

use super::{over_all, proxy};
use crate::engine::tls::{self, Identity};

const PART_BYTES: usize = 16 * 1024;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// Answers each chunk of the request's body with the same in capitals.
pub fn capitals() -> Upstream {
    Upstream::start(|peer| {
        while peer.head().is_some() {
            peer.send(HEAD);
            loop {
                let size = peer.until(b"\r\n");
                let size = usize::from_str_radix(std::str::from_utf8(&size).unwrap().trim(), 16).unwrap();
                let Some(line) = peer.take(size + 2) else { return };
                peer.send(&chunk(&line[..size].to_ascii_uppercase()));
                if size == 0 {
                    break;
                }
            }
        }
    })
}

fn converse<S: Read + Write>(client: &mut sojourn_testing::Client<S>) {
    client.send(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    for line in ["one", "two", "three"] {
        client.send(&chunk(line.as_bytes()));
        client.until(&chunk(line.to_ascii_uppercase().as_bytes()));
    }
    client.send(b"0\r\n\r\n");
    client.until(b"0\r\n\r\n");
}

#[test]
fn each_line_is_answered_before_the_next() {
    over_all(&[], capitals, |server, upstream| {
        for _ in 0..3 {
            let mut client = server.connect();
            converse(&mut client);
            assert!(client.rest().is_empty());
        }
        // What has read the whole request is asked again, under architectures that share connections or not.
        assert!(upstream.connections() <= 3);
    });
    let identity = Identity::new();
    for architecture in ["amped", "uring"] {
        let server = proxy(architecture, &[capitals().address], &identity.flags());
        converse(&mut tls::connect(server.another_address(0), &identity.trusted()));
    }
}

/// Answers each part of a body `times` over, and reads nothing more until that was taken.
fn amplify(peer: &mut Peer, body_bytes: usize, times: usize) {
    for _ in 0..body_bytes / PART_BYTES {
        let Some(part) = peer.take(PART_BYTES) else { return };
        for _ in 0..times {
            peer.send(&chunk(&part));
        }
    }
    peer.send(b"0\r\n\r\n");
}

/// Neither side waits for the other to read: more is under way than fits between them.
#[test]
fn a_long_body_is_answered_while_it_is_sent() {
    const BODY_BYTES: usize = 24 << 20;
    const TIMES: usize = 2;
    let upstream = || {
        Upstream::start(|peer| {
            peer.head();
            rustix::net::sockopt::set_socket_send_buffer_size(&peer.stream, PART_BYTES).unwrap();
            peer.send(HEAD);
            amplify(peer, BODY_BYTES, TIMES);
        })
    };
    over_all(&[], upstream, |server, _| {
        let mut client = server.connect();
        let mut reader = client.reader();
        let length = std::thread::spawn(move || reader.rest().len());
        client.send(format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {BODY_BYTES}\r\n\r\n").as_bytes());
        client.send(&vec![b'x'; BODY_BYTES]);
        assert!(length.join().unwrap() > TIMES * BODY_BYTES);
    });
}

/// It closes with most of the request unread, so its connection is reset.
#[test]
fn a_refusal_reaches_the_client() {
    const REFUSAL: &[u8] =
        b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
    let upstream = || {
        Upstream::start(|peer| {
            peer.head();
            peer.send(REFUSAL);
        })
    };
    let refused = |address: SocketAddr| {
        let mut client = sojourn_testing::Client::to(address);
        client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8000000\r\n\r\n");
        client.send(&[b'x'; 300_000]);
        let answer = client.take(REFUSAL.len());
        assert_eq!(status(&String::from_utf8_lossy(&answer)), "413");
    };
    over_all(&[], upstream, |server, _| {
        for _ in 0..5 {
            refused(server.address);
        }
    });
}
