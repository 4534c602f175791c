//! A client's RTSP connection: bytes in, messages out, and packets between them.
//!
//! It reads and writes its socket and knows nothing of what the messages say.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use sojourn_server::Permit;

use crate::authentication::Identity;
use crate::film_cache::{NoFilm, OpenFilm};
use sojourn_media::rtsp::{BODY_BYTES_MAX, HEAD_BYTES_MAX};
use sojourn_media::rtsp::{Parser, write};

/// Bytes that may have arrived and wait to be understood: the longest message, and the start of another.
const RECEIVED_BYTES_MAX: usize = HEAD_BYTES_MAX + BODY_BYTES_MAX + RECEIVE_BYTES;

const RECEIVE_BYTES: usize = 16 * 1024;

/// The kernel's send buffer beyond packets in transit: the rest waits here, where whole pictures can be dropped.
const UNSENT_BYTES_MAX: libc::c_int = 128 * 1024;

/// Answers that may wait for the client to take them; until it has, nothing more that it asks is followed.
const ANSWERS_BYTES_MAX: usize = 64 * 1024;

/// Written bytes that are kept until there are so many.
const WRITTEN_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub struct Connection {
    pub socket: OwnedFd,
    pub peer: IpAddr,
    /// The address that the client has reached.
    pub local: IpAddr,
    /// Its being counted, to be given back.
    pub permit: Permit,
    /// Which sockets its datagrams leave by.
    pub ports: usize,
    /// Received bytes that are not parsed yet.
    pub received: Vec<u8>,
    pub parser: Parser,
    datagrams: Vec<u8>,
    written: usize,
    /// Bytes of responses since the output was last empty, and the output up to the end of the last response.
    answers: (usize, usize),
    is_readable: bool,
    is_writable: bool,
    pub is_ready: bool,
    /// The client will send no more.
    pub has_ended: bool,
    /// A request that waits for a film, and the film's state.
    pub film: Waiting,
    pub identity: Identity,
    /// The request that is being followed has been let in.
    pub is_let_in: bool,
    /// Sessions that were set up here.
    pub sessions: Vec<u64>,
    /// When the request that is arriving began, or what was last understood ended.
    pub since: Duration,
    /// When the client last took something of what waits for it.
    pub taken: Duration,
    pub is_closing: bool,
}

/// A film that a request waits for.
#[derive(Debug, Default)]
pub enum Waiting {
    #[default]
    No,
    Yes,
    Over(Result<OpenFilm, NoFilm>),
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
            datagrams: Vec::new(),
            written: 0,
            answers: (0, 0),
            is_ready: false,
            is_readable: true,
            is_writable: true,
            has_ended: false,
            film: Waiting::No,
            identity: Identity::default(),
            is_let_in: false,
            sessions: Vec::new(),
            since: now,
            taken: now,
            is_closing: false,
        }
    }

    /// The socket may have changed: it can be read, written.
    pub fn wake(&mut self, is_readable: bool, is_writable: bool) {
        self.is_readable |= is_readable;
        self.is_writable |= is_writable;
    }

    /// Reads arrived bytes, as far as there is room.
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
    pub fn datagrams(&mut self) -> &mut Vec<u8> {
        &mut self.datagrams
    }

    /// Appends a packet, whole or not at all.
    pub fn push_packet(&mut self, channel: u8, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let Ok(length) = u16::try_from(length) else { return };
        self.datagrams.extend_from_slice(&write::interleaved_head(channel, length));
        parts.iter().for_each(|part| self.datagrams.extend_from_slice(part));
    }

    /// An answer was appended when so many bytes were waiting.
    pub fn note_answer(&mut self, before: usize) {
        let waiting = self.waiting_bytes();
        self.answers = (self.answers.0 + waiting - before, waiting);
    }

    /// Returns true if the client is to take answers before it is given more.
    pub fn is_full_of_answers(&self) -> bool {
        self.answers.0 > ANSWERS_BYTES_MAX
    }

    /// Bytes that wait for the client to take them.
    pub fn waiting_bytes(&self) -> usize {
        self.datagrams.len() - self.written
    }

    /// Sends what the client takes; returns how much, or that the connection is broken.
    pub fn write(&mut self, now: Duration) -> Result<usize, Errno> {
        let before = self.written;
        if self.waiting_bytes() == 0 {
            self.taken = now;
        }
        while self.is_writable && self.written < self.datagrams.len() {
            match send(
                &self.socket,
                &self.datagrams[self.written..],
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            ) {
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
        self.answers.1 = self.answers.1.saturating_sub(sent);
        if self.answers.1 == 0 {
            self.answers.0 = 0;
        }
        if self.written == self.datagrams.len() {
            self.datagrams.clear();
            self.written = 0;
        } else if self.written > WRITTEN_BYTES_MAX {
            self.datagrams.drain(..self.written);
            self.written = 0;
        }
        Ok(sent)
    }
}

/// Has the kernel take no more than it can soon send. A system that cannot do that keeps more for slow clients.
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
