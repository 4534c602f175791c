//! The one response: a head as a server would write it, prepared, and a file's bytes.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
};

use rustix::{
    fs::sendfile,
    net::{SendFlags, send},
};

use crate::Connection;

/// Head and body, ready to send.
pub struct Response {
    /// The head, then the body.
    bytes: Vec<u8>,
    head_length: usize,
    file: File,
}

impl Response {
    /// The response whose body is a file.
    pub fn of(path: &Path, connection: Connection) -> io::Result<Response> {
        let file = File::open(path)?;
        let body = std::fs::read(path)?;
        let connection = match connection {
            Connection::KeepAlive => "keep-alive",
            Connection::Close => "close",
        };
        // The fields of other servers, so that as many bytes are moved.
        let head = format!(
            "HTTP/1.1 200 OK\r\nServer: null\r\nDate: Sat, 21 Nov 2026 10:00:00 GMT\r\n\
             Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\
             Last-Modified: Sat, 21 Nov 2026 09:00:00 GMT\r\nConnection: {connection}\r\n\
             ETag: \"6b023313-1f4\"\r\nAccept-Ranges: bytes\r\n\r\n",
            body.len()
        );
        let head_length = head.len();
        Ok(Response { bytes: [head.into_bytes(), body].concat(), head_length, file })
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes what follows the first `sent` bytes, in one call; answers whether that was all of it.
    pub fn write(&self, to: BorrowedFd<'_>, sent: &mut usize) -> rustix::io::Result<bool> {
        *sent += send(to, &self.bytes[*sent..], SendFlags::NOSIGNAL)?;
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
