//! The frames of a connection on their way to the client.
//!
//! Small parts of bodies are copied behind the headers of their frames. Large ones stay where they are, and the output
//! refers to them.

use std::ops::Add;

use bytes::Bytes;
use sojourn_http::http2::Connection;

use super::limits::{
    GATHERED_BYTES_MIN, HEADS_BYTES, KERNEL_UNSENT_BYTES_MAX, ROOM_BYTES_MIN, UNSENT_BYTES_MAX,
    output_bytes_max,
};
use crate::connection::output::{Frames, Output, Piece};

/// Parts of bodies gathered for the next output, between the frames in the protocol's memory.
#[derive(Debug, Default)]
pub struct Wire {
    /// Parts of bodies that belong between the frames.
    parts: Vec<(usize, Bytes)>,
    part_bytes: usize,
    /// The size of the last output, without those parts: the next is likely to be as large.
    pub last_bytes: usize,
    /// Body bytes in this output.
    body_bytes: u64,
    /// What all streams hold of files; counted anew in each round.
    pub unsent: Unsent,
    total: Totals,
}

/// File bytes that were read, or are being read, and are not sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unsent {
    pub bytes: usize,
    /// Those that the client's windows allow, so that nobody else can use them.
    pub allowed_bytes: usize,
}

impl Add for Unsent {
    type Output = Unsent;

    fn add(self, other: Unsent) -> Unsent {
        Unsent { bytes: self.bytes + other.bytes, allowed_bytes: self.allowed_bytes + other.allowed_bytes }
    }
}

/// Bytes sent since the start of the connection, and at the last query.
#[derive(Debug, Default)]
struct Totals {
    bytes: u64,
    bodies: u64,
    seen_bytes: u64,
    seen_bodies: u64,
    fraction: f64,
}

impl Wire {
    pub fn has_output(&self, protocol: &mut Connection) -> bool {
        !protocol.output().is_empty()
    }

    /// Returns true if much more fits into this output.
    pub fn is_half_empty(&self, protocol: &mut Connection) -> bool {
        self.left(protocol) >= output_bytes_max() / 2
    }

    fn left(&self, protocol: &mut Connection) -> usize {
        output_bytes_max().saturating_sub(protocol.output().len() + self.part_bytes)
    }

    /// Returns true if the next part of a body is rather a whole frame in the next output.
    pub fn is_full(&self, protocol: &mut Connection) -> bool {
        self.left(protocol) < HEADS_BYTES + ROOM_BYTES_MIN
    }

    /// How many bytes of a body may be sent now, in one frame.
    pub fn room(&self, protocol: &mut Connection, stream: u32) -> usize {
        if self.is_full(protocol) {
            return 0;
        }
        let left = self.left(protocol) - HEADS_BYTES;
        protocol.room(stream).min(protocol.frame_bytes_max()).min(left)
    }

    /// Returns true if more of files than is held now may not be read.
    pub fn holds_enough(&self) -> bool {
        self.unsent.bytes >= UNSENT_BYTES_MAX
    }

    /// How many bytes of a file may be read for a stream now.
    pub fn file_room(&self, protocol: &mut Connection, stream: u32) -> usize {
        if self.holds_enough() {
            return 0;
        }
        let left = protocol.connection_window().saturating_sub(self.unsent.allowed_bytes);
        protocol.stream_window(stream).min(left)
    }

    /// Sends a part of a body that is copied.
    pub fn send(&mut self, protocol: &mut Connection, stream: u32, part: &[u8], is_end: bool) {
        let head = protocol.data_head(stream, part.len(), is_end);
        let output = protocol.output();
        output.extend_from_slice(&head);
        output.extend_from_slice(part);
        self.body_bytes += part.len() as u64;
    }

    /// Sends a part of a body that others may hold, too.
    pub fn send_shared(&mut self, protocol: &mut Connection, stream: u32, part: Bytes, is_end: bool) {
        if part.len() < GATHERED_BYTES_MIN {
            return self.send(protocol, stream, &part, is_end);
        }
        let head = protocol.data_head(stream, part.len(), is_end);
        let output = protocol.output();
        output.extend_from_slice(&head);
        self.body_bytes += part.len() as u64;
        self.part_bytes += part.len();
        self.parts.push((output.len(), part));
    }

    /// The output for the driver.
    pub fn take(&mut self, protocol: &mut Connection, is_last: bool) -> Output {
        let bytes = protocol.take_output();
        let is_first = self.total.bytes == 0;
        self.last_bytes = bytes.len();
        self.total.bytes += (bytes.len() + std::mem::take(&mut self.part_bytes)) as u64;
        self.total.bodies += std::mem::take(&mut self.body_bytes);
        let kernel_unsent_bytes_max = if is_first { KERNEL_UNSENT_BYTES_MAX } else { 0 };
        let output = Output { is_last, kernel_unsent_bytes_max, ..Output::default() };
        if self.parts.is_empty() {
            return Output { bytes, ..output };
        }
        let parts = std::mem::take(&mut self.parts);
        Output { body: Some(Piece::Frames(Frames::new(bytes, parts))), ..output }
    }

    /// The share of body bytes since the last call; the previous share if nothing was sent.
    pub fn body_fraction(&mut self) -> f64 {
        let total = &mut self.total;
        if total.bytes > total.seen_bytes {
            let sent = (total.bytes - total.seen_bytes) as f64;
            total.fraction = (total.bodies - total.seen_bodies) as f64 / sent;
            (total.seen_bytes, total.seen_bodies) = (total.bytes, total.bodies);
        }
        total.fraction
    }
}

#[cfg(test)]
mod tests {
    use sojourn_http::http2::Event;

    use super::super::limits::{OUTPUT_BYTES_MAX, of_protocol};
    use super::*;

    /// A server that owes the body of stream 1.
    fn server() -> Connection {
        let mut server = Connection::server(of_protocol());
        let mut client = Connection::client(of_protocol());
        client.send_request(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "http").unwrap();
        let said = client.take_output();
        let mut input = &said[..];
        while let Some(event) = server.next(&mut input) {
            assert!(matches!(event, Event::Begun | Event::Head { stream: 1, is_end: true }));
        }
        server.take_output();
        server
    }

    #[test]
    fn large_parts_are_gathered_in_their_places() {
        let (mut server, mut wire) = (server(), Wire::default());
        let large = Bytes::from(vec![b'l'; GATHERED_BYTES_MIN]);
        wire.send(&mut server, 1, b"abc", false);
        wire.send_shared(&mut server, 1, large.clone(), false);
        wire.send_shared(&mut server, 1, Bytes::from_static(b"small"), false);
        wire.send_shared(&mut server, 1, large, true);
        let output = wire.take(&mut server, false);
        let body = output.body.as_ref().unwrap();
        let all: Vec<u8> = body.in_memory(0).collect::<Vec<_>>().concat();
        assert_eq!((all.len(), body.length()), (output.total_bytes(), output.total_bytes()));
        assert_eq!(&all[..12], b"\0\0\x03\0\0\0\0\0\x01abc");
        assert_eq!(&all[12 + 9 + GATHERED_BYTES_MIN..][..14], b"\0\0\x05\0\0\0\0\0\x01small");
        for sent in 0..all.len() {
            let rest = body.in_memory(sent).collect::<Vec<_>>().concat();
            assert!(rest == all[sent..], "after {sent}");
        }
        assert!(!wire.has_output(&mut server));
    }

    /// TLS encrypts no more at once.
    #[test]
    fn bodies_leave_room_for_heads() {
        let (mut server, mut wire) = (server(), Wire::default());
        let body = Bytes::from(vec![b'b'; OUTPUT_BYTES_MAX]);
        loop {
            let room = wire.room(&mut server, 1);
            if room == 0 {
                break;
            }
            wire.send_shared(&mut server, 1, body.slice(..room), false);
        }
        let length = wire.take(&mut server, false).total_bytes();
        assert!((OUTPUT_BYTES_MAX - HEADS_BYTES - ROOM_BYTES_MIN..OUTPUT_BYTES_MAX).contains(&length));
    }

    #[test]
    fn bodies_are_told_from_frames() {
        let (mut server, mut wire) = (server(), Wire::default());
        assert_eq!(wire.body_fraction(), 0.0);
        wire.send(&mut server, 1, b"x", false);
        wire.take(&mut server, false);
        assert_eq!(wire.body_fraction(), 0.1);
        assert_eq!(wire.body_fraction(), 0.1, "nothing was sent since");
        wire.send_shared(&mut server, 1, Bytes::from(vec![0; 9 * 999]), true);
        wire.take(&mut server, false);
        assert_eq!(wire.body_fraction(), 0.999);
    }
}
