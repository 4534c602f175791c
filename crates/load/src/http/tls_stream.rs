//! TLS on one connection: the handshake, and plain bytes in and out of a socket that carries sealed ones.
//!
//! The library seals and opens; the socket is read and written here, as everywhere without waiting.

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

/// Sealed bytes taken at once: a whole record, its head and seal.
const SEALED_BYTES: usize = 16 * 1024 + 512;

/// A connection's secrets, and what was received of it and not opened yet.
#[derive(Debug)]
pub struct Secured {
    session: ClientConnection,
    /// When the connection was there and the handshake could begin.
    pub shaking_since: Nanos,
    sealed: Box<[u8]>,
    /// Bounds of the bytes not decrypted yet.
    left: (usize, usize),
}

#[derive(Debug)]
pub enum Trouble {
    System(Errno),
    /// TLS does, or a certificate is not good.
    Tls(Cause),
}

impl From<Errno> for Trouble {
    fn from(error: Errno) -> Trouble {
        Trouble::System(error)
    }
}

impl Trouble {
    /// As a cause of failure.
    pub fn cause(&self) -> Cause {
        match *self {
            Trouble::System(error) => cause::cause(error),
            Trouble::Tls(cause) => cause,
        }
    }
}

impl Secured {
    /// A connection that is to be secured.
    pub fn new(session: ClientConnection, shaking_since: Nanos) -> Secured {
        Secured { session, shaking_since, sealed: vec![0; SEALED_BYTES].into(), left: (0, 0) }
    }

    /// Goes on with the handshake as far as it goes; whether it is done.
    pub fn shake(&mut self, socket: &OwnedFd) -> Result<bool, Trouble> {
        loop {
            self.flush(socket)?;
            if !self.session.is_handshaking() {
                return Ok(true);
            }
            match self.open_some(socket, SEALED_BYTES, false) {
                // It went away in the middle: nothing was said about HTTP yet.
                Ok((0, _)) => return Err(Trouble::Tls(Cause::TlsFailed)),
                Ok(_) => {}
                Err(Trouble::System(Errno::AGAIN)) => return Ok(false),
                Err(Trouble::System(Errno::INTR)) => {}
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// Returns true if the session was one that an earlier connection had been given.
    pub fn is_resumed(&self) -> bool {
        self.session.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Sends bytes; what the socket does not take waits here.
    pub fn send(&mut self, socket: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
        self.session.writer().write_all(bytes).map_err(errno)?;
        self.flush(socket)
    }

    /// Returns true if bytes wait for the socket.
    pub fn has_unsent(&self) -> bool {
        self.session.wants_write()
    }

    /// Sends what waits, as far as the socket takes it.
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

    /// Receives plain bytes: none at the end of the connection. With `stamps` the kernel says when the last of the
    /// sealed ones came. No more than `sealed_max` of these are taken from the socket.
    pub fn receive(
        &mut self,
        socket: &OwnedFd,
        room: &mut [u8],
        sealed_max: usize,
        stamps: bool,
    ) -> Result<Received, Trouble> {
        let mut arrived = None;
        loop {
            match self.session.reader().read(room) {
                Ok(received) => return Ok((received, arrived)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Ok((0, arrived)),
            }
            match self.open_some(socket, sealed_max, stamps)? {
                (0, _) => return Ok((0, arrived)),
                (_, stamp) => arrived = stamp.or(arrived),
            }
        }
    }

    /// Says that nothing follows. Whoever does not hear it has gone already.
    pub fn say_goodbye(&mut self, socket: &OwnedFd) {
        self.session.send_close_notify();
        let _ = self.flush(socket);
    }

    /// Opens bytes that are there, or takes some from the socket first; how many, none at the end.
    fn open_some(
        &mut self,
        socket: &OwnedFd,
        sealed_max: usize,
        stamps: bool,
    ) -> Result<(usize, Option<Nanos>), Trouble> {
        let (mut from, mut to) = self.left;
        let mut stamp = None;
        if from == to {
            let room = &mut self.sealed[..sealed_max.min(SEALED_BYTES)];
            let (received, arrived) = receive::receive(socket, room, stamps)?;
            if received == 0 {
                return Ok((0, None));
            }
            (from, to, stamp) = (0, received, arrived);
        }
        let mut rest = &self.sealed[from..to];
        let opened = self.session.read_tls(&mut rest).map_err(|_| Trouble::Tls(Cause::TlsFailed))?;
        self.left = (to - rest.len(), to);
        if let Err(error) = self.session.process_new_packets() {
            // The other side is told what is wrong, if it still listens.
            let _ = self.flush(socket);
            return Err(Trouble::Tls(tls::cause(&error)));
        }
        Ok((opened, stamp))
    }
}

/// A socket as the library writes to it.
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
