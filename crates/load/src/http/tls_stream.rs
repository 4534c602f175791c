//! TLS on one connection: the handshake, and plain bytes over an encrypted socket.
//!
//! The library encrypts and decrypts; the socket is read and written here, without blocking.

use std::{
    io::{self, Read, Write},
    os::fd::OwnedFd,
};

use rustix::{
    io::Errno,
    net::{SendFlags, send},
};
use rustls::{ClientConnection, HandshakeKind};
use sojourn_measure::Nanos;

use crate::{
    http::{
        cause::{self, Cause},
        tls,
    },
    runtime::{receive, receive::Received},
};

/// Encrypted bytes per read: a whole record with header and tag.
const RECORD_BYTES_MAX: usize = 16 * 1024 + 512;

/// The TLS state of a connection, and received bytes that are not decrypted yet.
#[derive(Debug)]
pub struct TlsStream {
    session: ClientConnection,
    /// When the connection was established, so that the handshake could start.
    pub handshake_since: Nanos,
    encrypted: Box<[u8]>,
    /// The range of bytes not decrypted yet.
    left: (usize, usize),
}

#[derive(Debug)]
pub enum TransportError {
    System(Errno),
    /// A TLS failure, or a rejected certificate.
    Tls(Cause),
}

impl From<Errno> for TransportError {
    fn from(error: Errno) -> TransportError {
        TransportError::System(error)
    }
}

impl TransportError {
    pub fn cause(&self) -> Cause {
        match *self {
            TransportError::System(error) => cause::cause(error),
            TransportError::Tls(cause) => cause,
        }
    }
}

impl TlsStream {
    pub fn new(session: ClientConnection, handshake_since: Nanos) -> TlsStream {
        TlsStream { session, handshake_since, encrypted: vec![0; RECORD_BYTES_MAX].into(), left: (0, 0) }
    }

    /// Continues the handshake as far as possible; returns true once it is complete.
    pub fn handshake(&mut self, socket: &OwnedFd) -> Result<bool, TransportError> {
        loop {
            self.flush(socket)?;
            if !self.session.is_handshaking() {
                return Ok(true);
            }
            match self.decrypt_some(socket, RECORD_BYTES_MAX, false) {
                // The server closed during the handshake.
                Ok((0, _)) => return Err(TransportError::Tls(Cause::TlsFailed)),
                Ok(_) => {}
                Err(TransportError::System(Errno::AGAIN)) => return Ok(false),
                Err(TransportError::System(Errno::INTR)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns true if an earlier session was resumed.
    pub fn is_resumed(&self) -> bool {
        self.session.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Returns true if the server has agreed to HTTP/2.
    pub fn is_http2(&self) -> bool {
        self.session.alpn_protocol() == Some(tls::HTTP2)
    }

    /// Sends bytes and keeps what the socket does not accept.
    pub fn send(&mut self, socket: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
        self.session.writer().write_all(bytes).map_err(errno)?;
        self.flush(socket)
    }

    /// Returns true if bytes wait for the socket.
    pub fn has_unsent(&self) -> bool {
        self.session.wants_write()
    }

    /// Sends kept bytes, as far as the socket accepts them.
    pub fn flush(&mut self, socket: &OwnedFd) -> Result<(), Errno> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut Socket(socket)).map_err(errno) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Receives plain bytes; 0 at the end. With `stamps`, returns the kernel's timestamp of the last encrypted byte.
    /// Reads at most `encrypted_max` encrypted bytes from the socket.
    pub fn receive(
        &mut self,
        socket: &OwnedFd,
        room: &mut [u8],
        encrypted_max: usize,
        stamps: bool,
    ) -> Result<Received, TransportError> {
        let mut arrived = None;
        loop {
            match self.session.reader().read(room) {
                Ok(received) => return Ok((received, arrived)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Ok((0, arrived)),
            }
            match self.decrypt_some(socket, encrypted_max, stamps)? {
                (0, _) => return Ok((0, arrived)),
                (_, stamp) => arrived = stamp.or(arrived),
            }
        }
    }

    /// Sends close_notify; the server may have closed already.
    pub fn close_notify(&mut self, socket: &OwnedFd) {
        self.session.send_close_notify();
        let _ = self.flush(socket);
    }

    /// Decrypts received bytes, after reading some if necessary; returns how many, 0 at the end.
    fn decrypt_some(
        &mut self,
        socket: &OwnedFd,
        encrypted_max: usize,
        stamps: bool,
    ) -> Result<(usize, Option<Nanos>), TransportError> {
        let (mut from, mut to) = self.left;
        let mut stamp = None;
        if from == to {
            let room = &mut self.encrypted[..encrypted_max.min(RECORD_BYTES_MAX)];
            let (received, arrived) = receive::receive(socket, room, stamps)?;
            if received == 0 {
                return Ok((0, None));
            }
            (from, to, stamp) = (0, received, arrived);
        }
        let mut rest = &self.encrypted[from..to];
        let opened = self.session.read_tls(&mut rest).map_err(|_| TransportError::Tls(Cause::TlsFailed))?;
        self.left = (to - rest.len(), to);
        if let Err(error) = self.session.process_new_packets() {
            // Sends the alert that tells the server what is wrong.
            let _ = self.flush(socket);
            return Err(TransportError::Tls(tls::cause(&error)));
        }
        Ok((opened, stamp))
    }
}

/// A writer for the library.
struct Socket<'a>(&'a OwnedFd);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
