//! The one response: a head as a server would write it, prepared, and a file's bytes.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
    time::SystemTime,
};

use rustix::{
    fs::sendfile,
    net::{SendFlags, send},
};
use sojourn_http::HttpDate;

use crate::Connection;

/// Types of FastCGI's records.
const END_REQUEST: u8 = 3;
const STDOUT: u8 = 6;

/// Head and body, ready to send.
pub struct Response {
    /// The head, then the body.
    bytes: Vec<u8>,
    head_length: usize,
    file: File,
    /// MSG_MORE where the connection is closed behind it: the last bytes leave in a segment with its end.
    flags: SendFlags,
}

impl Response {
    /// The response whose body is a file, as it is when this starts; `fields` are lines of the head in addition.
    pub fn of(path: &Path, connection: Connection, fields: &str) -> io::Result<Response> {
        let file = File::open(path)?;
        let body = std::fs::read(path)?;
        let (connection, flags) = match connection {
            Connection::KeepAlive => ("keep-alive", SendFlags::NOSIGNAL),
            Connection::Close => ("close", SendFlags::NOSIGNAL | SendFlags::MORE),
        };
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
        let date = HttpDate::from_seconds(now as i64).text();
        // The fields of other servers, so that as many bytes are moved.
        let head = format!(
            "HTTP/1.1 200 OK\r\nServer: null\r\nDate: {}\r\n{fields}\
             Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\
             Last-Modified: Sat, 21 Nov 2026 09:00:00 GMT\r\nConnection: {connection}\r\n\
             ETag: \"6b023313-1f4\"\r\nAccept-Ranges: bytes\r\n\r\n",
            String::from_utf8_lossy(&date),
            body.len()
        );
        let head_length = head.len();
        Ok(Response { bytes: [head.into_bytes(), body].concat(), head_length, file, flags })
    }

    pub fn body_length(&self) -> usize {
        self.bytes.len() - self.head_length
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same as an application's by FastCGI, which has no status line and no fields about the connection.
    pub fn into_records(mut self) -> Response {
        let head = String::from_utf8_lossy(&self.bytes[..self.head_length]).into_owned();
        let is_script = |line: &&str| {
            ["Cache-Control:", "Content-Type:", "Content-Length:"].iter().any(|name| line.starts_with(name))
        };
        let fields: String = head.lines().filter(is_script).map(|line| format!("{line}\r\n")).collect();
        let output = [format!("{fields}\r\n").as_bytes(), &self.bytes[self.head_length..]].concat();
        let record = |kind: u8, content: &[u8]| {
            let [high, low] = (content.len() as u16).to_be_bytes();
            [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
        };
        let parts = output.chunks(u16::MAX.into()).flat_map(|part| record(STDOUT, part));
        self.bytes = parts.chain(record(END_REQUEST, &[0; 8])).collect();
        self
    }

    /// Writes what follows the first `sent` bytes, in one call; answers whether that was all of it.
    pub fn write(&self, to: BorrowedFd<'_>, sent: &mut usize) -> rustix::io::Result<bool> {
        *sent += send(to, &self.bytes[*sent..], self.flags)?;
        Ok(*sent == self.bytes.len())
    }

    /// The same, the body straight from the page cache.
    pub fn send_file(&self, to: BorrowedFd<'_>, sent: &mut usize) -> rustix::io::Result<bool> {
        if *sent < self.head_length {
            *sent += send(to, &self.bytes[*sent..self.head_length], SendFlags::NOSIGNAL | SendFlags::MORE)?;
            if *sent < self.head_length {
                return Ok(false);
            }
        }
        let mut offset = (*sent - self.head_length) as u64;
        *sent += sendfile(to, self.file.as_fd(), Some(&mut offset), self.bytes.len() - *sent)?;
        Ok(*sent == self.bytes.len())
    }
}
