//! A client's RTSP connection: received bytes, responses, and interleaved packets.
//!
//! It reads and writes the socket and does not interpret messages.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use sojourn_server::Permit;

use crate::authentication::Identity;
use crate::film_cache::{FilmError, OpenFilm};
use sojourn_media::rtsp::{BODY_BYTES_MAX, HEAD_BYTES_MAX};
use sojourn_media::rtsp::{Parser, write};

/// The most unparsed bytes: the longest message, and the start of another.
const RECEIVED_BYTES_MAX: usize = HEAD_BYTES_MAX + BODY_BYTES_MAX + RECEIVE_BYTES;

const RECEIVE_BYTES: usize = 16 * 1024;

/// The kernel's send buffer beyond data in transit. The rest waits in this process, where whole pictures can be
/// dropped.
const UNSENT_BYTES_MAX: libc::c_int = 128 * 1024;

/// The most bytes of unsent responses; until the client has read some, no further requests are handled.
const ANSWERS_BYTES_MAX: usize = 64 * 1024;

/// Sent bytes are removed from the buffer when there are this many.
const WRITTEN_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub struct Connection {
    pub socket: OwnedFd,
    pub peer: IpAddr,
    /// The local address that the client connected to.
    pub local: IpAddr,
    /// Its permit, to be released.
    pub permit: Permit,
    /// The index of the sockets for its datagrams.
    pub ports: usize,
    /// Received bytes that are not parsed yet.
    pub received: Vec<u8>,
    pub parser: Parser,
    /// Responses and interleaved packets, of which `written` bytes have been sent.
    output: Vec<u8>,
    written: usize,
    /// Bytes of responses since none was unsent.
    answer_bytes: usize,
    /// Unsent bytes up to the end of the last response.
    answers_end: usize,
    is_readable: bool,
    is_writable: bool,
    pub is_ready: bool,
    /// The client has shut down its sending side.
    pub has_ended: bool,
    /// The film that a request waits for, and its state.
    pub film: Waiting,
    pub identity: Identity,
    /// The current request has been authenticated.
    pub is_authenticated: bool,
    /// Sessions set up on this connection.
    pub sessions: Vec<u64>,
    /// When the arriving request began, or the last one ended.
    pub since: Duration,
    /// When the client last read something.
    pub taken: Duration,
    pub is_closing: bool,
}

/// The film that a request waits for.
#[derive(Debug, Default)]
pub enum Waiting {
    #[default]
    No,
    Yes,
    Over(Result<OpenFilm, FilmError>),
    /// It took too long.
    Expired,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    Some,
    Broken,
}

impl Connection {
    /// A connection from `peer`, accepted `now`.
    pub fn new(
        socket: OwnedFd,
        addresses: (IpAddr, IpAddr),
        permit: Permit,
        ports: usize,
        now: Duration,
    ) -> Connection {
        let (peer, local) = addresses;
        limit_unsent(&socket);
        Connection {
            socket,
            peer,
            local,
            permit,
            ports,
            received: Vec::new(),
            parser: Parser::default(),
            output: Vec::new(),
            written: 0,
            answer_bytes: 0,
            answers_end: 0,
            is_ready: false,
            is_readable: true,
            is_writable: true,
            has_ended: false,
            film: Waiting::No,
            identity: Identity::default(),
            is_authenticated: false,
            sessions: Vec::new(),
            since: now,
            taken: now,
            is_closing: false,
        }
    }

    /// Updates the socket's readiness.
    pub fn wake(&mut self, is_readable: bool, is_writable: bool) {
        self.is_readable |= is_readable;
        self.is_writable |= is_writable;
    }

    /// Reads available bytes as far as there is room.
    pub fn read(&mut self) -> Reading {
        while self.is_readable && self.received.len() < RECEIVED_BYTES_MAX {
            let start = self.received.len();
            self.received.resize(start + RECEIVE_BYTES, 0);
            let outcome = recv(&self.socket, &mut self.received[start..], RecvFlags::DONTWAIT);
            let (count, _) = outcome.unwrap_or((0, 0));
            self.received.truncate(start + count);
            match outcome {
                Ok((0, _)) => {
                    (self.is_readable, self.has_ended) = (false, true);
                }
                Ok(_) => {}
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.is_readable = false,
                Err(_) => return Reading::Broken,
            }
        }
        Reading::Some
    }

    /// Returns true if there may be more to read than there was room for.
    pub fn is_readable(&self) -> bool {
        self.is_readable
    }

    /// The buffer to append output to.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Appends a packet, completely or not at all.
    pub fn push_packet(&mut self, channel: u8, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let Ok(length) = u16::try_from(length) else { return };
        self.output.extend_from_slice(&write::interleaved_head(channel, length));
        parts.iter().for_each(|part| self.output.extend_from_slice(part));
    }

    /// Records a response appended after `before` bytes.
    pub fn note_answer(&mut self, before: usize) {
        let waiting = self.waiting_bytes();
        self.answer_bytes += waiting - before;
        self.answers_end = waiting;
    }

    /// Returns true if the client must read responses before further requests are handled.
    pub fn is_full_of_answers(&self) -> bool {
        self.answer_bytes > ANSWERS_BYTES_MAX
    }

    /// Bytes that wait for the client to take them.
    pub fn waiting_bytes(&self) -> usize {
        self.output.len() - self.written
    }

    /// Sends as much as the client accepts; returns how much, or that the connection is broken.
    pub fn write(&mut self, now: Duration) -> Result<usize, Errno> {
        let before = self.written;
        if self.waiting_bytes() == 0 {
            self.taken = now;
        }
        while self.is_writable && self.written < self.output.len() {
            match send(&self.socket, &self.output[self.written..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            {
                Ok(count) => {
                    self.written += count;
                    self.taken = now;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.is_writable = false,
                Err(error) => return Err(error),
            }
        }
        let sent = self.written - before;
        self.answers_end = self.answers_end.saturating_sub(sent);
        if self.answers_end == 0 {
            self.answer_bytes = 0;
        }
        if self.written == self.output.len() {
            self.output.clear();
            self.written = 0;
        } else if self.written > WRITTEN_BYTES_MAX {
            self.output.drain(..self.written);
            self.written = 0;
        }
        Ok(sent)
    }
}

/// Limits unsent data in the kernel. Systems that lack this buffer more for slow clients.
fn limit_unsent(socket: &OwnedFd) {
    let most = UNSENT_BYTES_MAX;
    // SAFETY: the option's value is a number, and its size is given.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const most).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}
