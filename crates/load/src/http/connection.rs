//! One connection of an HTTP client, plain or TLS: partial writes, a limited read rate, the response reader.
//!
//! It opens no sockets, does not wait and knows no clock. The runs decide when to send and read, and what a response or
//! failure means.

use std::os::fd::OwnedFd;

use rustix::{
    io::Errno,
    net::{SendFlags, send},
};
use sojourn_measure::Nanos;

use crate::{
    http::{
        cause::{self, Cause},
        response_reader::{Progress, ResponseReader},
        tls_stream::{TlsStream, TransportError},
    },
    runtime::{
        connector,
        read_rate::ReadRate,
        receive,
        receive::{DISCARD_BYTES_MAX, DISCARD_BYTES_MIN},
    },
};

pub(crate) struct HttpConnection {
    pub(crate) socket: OwnedFd,
    pub(crate) state: State,
    /// When it started to connect.
    pub(crate) opened: Nanos,
    pub(crate) closed_by_server: bool,
    /// The number of complete responses.
    pub(crate) answered: u32,
    pub(crate) response: ResponseReader,
    pub(crate) tls: Option<Box<TlsStream>>,
    /// The limit on how fast it may be read.
    pub(crate) read_rate: Option<ReadRate>,
    /// Bytes of the current requests that the socket has not accepted yet.
    unsent: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Waiting for the TCP handshake.
    Connecting,
    /// Waiting for the TLS handshake.
    Handshaking,
    Idle,
    /// The socket has not accepted all requests.
    Sending,
    Receiving,
    /// Done; the server announced that it will close, and is given time for that.
    Lingering,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Read {
    Received(Received),
    Nothing,
    /// The read rate allows no bytes yet.
    Limited,
}

/// Received bytes, in the buffer unless they were discarded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// How many; 0 at the end of the connection.
    pub(crate) bytes: usize,
    /// The kernel's timestamp of the last byte on the wall clock, if available.
    pub(crate) stamp: Option<Nanos>,
    is_discarded: bool,
    /// True if no more data is available.
    pub(crate) is_all: bool,
}

impl HttpConnection {
    /// A connection that started to connect at `opened`.
    pub(crate) fn new(socket: OwnedFd, opened: Nanos, response: ResponseReader) -> HttpConnection {
        HttpConnection {
            socket,
            state: State::Connecting,
            opened,
            closed_by_server: false,
            answered: 0,
            response,
            tls: None,
            read_rate: None,
            unsent: Vec::new(),
        }
    }

    /// Returns true if it has requests in flight.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.state, State::Sending | State::Receiving)
    }

    /// Why the TCP handshake failed, if it did, after the socket reported its end.
    pub(crate) fn connect_error(&self) -> Option<Cause> {
        if !self.closed_by_server {
            return None;
        }
        connector::socket_error(&self.socket).map(|error| match cause::cause(error) {
            Cause::Reset => Cause::ConnectRefused,
            cause => cause,
        })
    }

    /// Sends requests and keeps what the socket does not accept. Returns false if the connection is not established;
    /// nothing is sent or kept then.
    pub(crate) fn send(&mut self, requests: &[u8]) -> Result<bool, Errno> {
        match &mut self.tls {
            Some(tls) => tls.send(&self.socket, requests)?,
            None => {
                let sent = match send(&self.socket, requests, SendFlags::NOSIGNAL) {
                    Ok(sent) => sent,
                    Err(Errno::AGAIN) if self.state == State::Connecting => return Ok(false),
                    Err(Errno::AGAIN | Errno::INTR) => 0,
                    Err(error) => return Err(error),
                };
                if sent < requests.len() {
                    self.unsent.extend_from_slice(&requests[sent..]);
                }
            }
        }
        self.state = if self.has_unsent() { State::Sending } else { State::Receiving };
        Ok(true)
    }

    /// Sends bytes that the socket did not accept before.
    pub(crate) fn send_rest(&mut self) -> Result<(), Errno> {
        match &mut self.tls {
            Some(tls) => tls.flush(&self.socket)?,
            None => match send(&self.socket, &self.unsent, SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error),
            },
        }
        if !self.has_unsent() {
            self.state = State::Receiving;
        }
        Ok(())
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.has_unsent())
    }

    /// Reads available data, as far as the buffer and the read rate allow. Bytes of a body that need not be inspected
    /// are discarded in the kernel. With `stamps`, kernel timestamps are read.
    pub(crate) fn read(
        &mut self,
        buffer: &mut [u8],
        stamps: bool,
        now: Nanos,
    ) -> Result<Read, TransportError> {
        let discardable = self.response.discardable().filter(|&bytes| bytes >= DISCARD_BYTES_MIN);
        // Encrypted bytes must be decrypted.
        let discardable = discardable.filter(|_| self.tls.is_none());
        let most = discardable.map_or(buffer.len() as u64, |bytes| bytes.min(DISCARD_BYTES_MAX));
        let most = most.min(self.read_rate.as_ref().map_or(u64::MAX, |rate| rate.allowed(now))) as usize;
        if most == 0 {
            return Ok(Read::Limited);
        }
        let received = loop {
            let received = match &mut self.tls {
                Some(tls) => tls.receive(&self.socket, &mut buffer[..most], most, stamps),
                None if discardable.is_some() => {
                    receive::discard(&self.socket, most, stamps).map_err(TransportError::from)
                }
                None => {
                    receive::receive(&self.socket, &mut buffer[..most], stamps).map_err(TransportError::from)
                }
            };
            match received {
                Err(TransportError::System(Errno::INTR)) => {}
                Err(TransportError::System(Errno::AGAIN)) => return Ok(Read::Nothing),
                received => break received,
            }
        };
        let (bytes, stamp) = received?;
        self.closed_by_server |= bytes == 0;
        if let Some(rate) = &mut self.read_rate {
            rate.record(bytes as u64, now);
        }
        Ok(Read::Received(Received {
            bytes,
            stamp,
            is_discarded: discardable.is_some(),
            // Of encrypted data there may be more, however few plain bytes there were.
            is_all: bytes < most && !self.closed_by_server && self.tls.is_none(),
        }))
    }

    /// Passes received bytes from `start` to the response; returns how many belong to it. The rest starts another
    /// response.
    pub(crate) fn take(
        &mut self,
        buffer: &[u8],
        received: &Received,
        from: usize,
    ) -> Result<(usize, Progress), Cause> {
        match received.is_discarded {
            true => Ok((received.bytes, self.response.discarded(received.bytes as u64))),
            false => self.response.feed(&buffer[from..received.bytes]),
        }
    }

    /// Returns true if an idle connection received unexpected data or its end.
    pub(crate) fn has_unsolicited(&mut self, buffer: &mut [u8]) -> bool {
        let received = match &mut self.tls {
            Some(tls) => tls.receive(&self.socket, buffer, buffer.len(), false),
            None => receive::receive(&self.socket, buffer, false).map_err(TransportError::from),
        };
        !matches!(received, Err(TransportError::System(Errno::AGAIN | Errno::INTR)))
    }

    /// Records that the last response in flight is complete.
    pub(crate) fn complete(&mut self) {
        self.state = State::Idle;
        self.unsent.clear();
    }

    /// Returns true if a failure now most likely means that the server had just closed an idle connection: it was
    /// reused, and no byte of the response has arrived.
    pub(crate) fn is_stale(&self) -> bool {
        self.answered > 0 && !self.response.has_begun()
    }

    /// Sends close_notify, unless the server has closed its side.
    pub(crate) fn close_notify(&mut self) {
        if let Some(tls) = &mut self.tls
            && !self.closed_by_server
        {
            tls.close_notify(&self.socket);
        }
    }
}
