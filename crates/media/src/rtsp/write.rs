//! Writes messages: requests, responses and interleaved packets.

use std::fmt::{Display, Write};

use super::message::{Method, Status};

pub const INTERLEAVED_HEAD_BYTES: usize = 4;

/// The value of the Server field of every response: a version would tell which faults to try.
pub const SERVER: &str = "Sojourn";

/// A message being written: fields can be added until it is ended.
#[derive(Debug)]
pub struct Writer<'b>(&'b mut Vec<u8>);

/// Starts a request with number `sequence`.
pub fn request<'b>(bytes: &'b mut Vec<u8>, method: Method, target: &str, sequence: u32) -> Writer<'b> {
    for part in [method.name(), " ", target, " RTSP/1.0\r\n"] {
        bytes.extend_from_slice(part.as_bytes());
    }
    Writer(bytes).field("CSeq", sequence)
}

/// Starts the response to request `sequence`; `None` if that could not be read.
pub fn response(bytes: &mut Vec<u8>, status: Status, sequence: Option<u32>) -> Writer<'_> {
    let line = format!("RTSP/1.0 {} {}\r\n", status.code(), status.reason());
    bytes.extend_from_slice(line.as_bytes());
    let writer = Writer(bytes);
    let writer = match sequence {
        Some(sequence) => writer.field("CSeq", sequence),
        None => writer,
    };
    writer.field("Server", SERVER)
}

impl Writer<'_> {
    /// Adds a field. The value must not contain line ends.
    #[must_use]
    pub fn field(self, name: &str, value: impl Display) -> Self {
        let start = self.0.len();
        let mut text = Text(self.0);
        write!(text, "{name}: {value}").expect("writing to memory cannot fail");
        debug_assert!(!self.0[start..].contains(&b'\n'), "a field is one line");
        self.0.extend_from_slice(b"\r\n");
        self
    }

    #[must_use]
    pub fn optional(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.field(name, value),
            None => self,
        }
    }

    pub fn end(self) {
        self.0.extend_from_slice(b"\r\n");
    }

    pub fn body(self, body: &[u8]) {
        let writer = self.field("Content-Length", body.len());
        writer.0.extend_from_slice(b"\r\n");
        writer.0.extend_from_slice(body);
    }
}

struct Text<'b>(&'b mut Vec<u8>);

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// The header of an interleaved packet of `length` bytes.
pub fn interleaved_head(channel: u8, length: u16) -> [u8; INTERLEAVED_HEAD_BYTES] {
    let [high, low] = length.to_be_bytes();
    [b'$', channel, high, low]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_messages() {
        let mut bytes = Vec::new();
        request(&mut bytes, Method::Play, "rtsp://h/f", 7)
            .field("Session", "ab")
            .optional("Range", None::<&str>)
            .end();
        assert_eq!(bytes, b"PLAY rtsp://h/f RTSP/1.0\r\nCSeq: 7\r\nSession: ab\r\n\r\n");
        bytes.clear();
        response(&mut bytes, Status::Ok, Some(7)).field("Content-Type", "application/sdp").body(b"v=0\r\n");
        // Without a version: it would tell for what the server can be attacked.
        let expected = "RTSP/1.0 200 OK\r\nCSeq: 7\r\nServer: Sojourn\r\nContent-Type: application/sdp\r\nContent-Length: 5\r\n\r\nv=0\r\n";
        assert_eq!(std::str::from_utf8(&bytes), Ok(expected));
        assert_eq!(interleaved_head(3, 0x1234), [b'$', 3, 0x12, 0x34]);
    }
}
