//! The connection machine: events in, wants out, no I/O.
//!
//! It takes events and returns what must be done next (a *want*): receive, open, load, send, close. The architecture
//! does that, at once, later or elsewhere, and passes the outcome as the next event. Buffers move by value, so
//! readiness (epoll) and completion (io_uring) drive the same machine.
//!
//! It has layers with the same interface: an [`Application`] speaks HTTP; a transport such as TLS, if there is one,
//! stands between it and the driver, which holds the outermost layer.

use std::net::IpAddr;
use std::ops::{Deref, DerefMut};

use rustls::client::ClientConnection;
use sojourn_cgi::Ends;
use sojourn_http::http2::HeadCache;

use crate::access_log::AccessLog;
use crate::clock::Clock;
use crate::counters::{Counter, Served};
use crate::limits::Limits;
use crate::tls::NewSession;

mod application;
#[cfg(test)]
pub(crate) mod bench;
mod buffer;
mod exchange;
mod handler;
mod http1;
mod http2;
mod outbox;
mod output;
mod response;
mod send_path;
#[cfg(test)]
#[path = "tests/simulation.rs"]
mod simulation;
mod tls;
mod waker_queue;
mod want;

pub use application::Application;
pub use buffer::{Buffer, Pool, RESPONSE_BUFFER_BYTES, SharedBuffer, Sharing};
pub use exchange::{BodyStep, ExchangeEvent, ExchangeId, Progress, Step};
pub use handler::Handler;
pub use http1::Http1;
pub use http2::Http2;
pub use outbox::{Address, Destination, Launch, Launched, MachineId, Outbox};
pub use output::{Frames, Output, Piece};
pub use response::{BodyWriter, Response, Source};
pub use send_path::{HEAD_ALIGNMENT_BYTES, SendPath};
pub use tls::TlsConnection;
pub use want::{Event, Lane, Reason, Wait, Want};

/// Everything a connection may use while it handles an event.
pub struct Context<'a> {
    pub handler: &'a mut dyn Handler,
    pub shared: Shared<'a>,
}

/// The state of an event loop or worker that its connections and handlers share.
pub struct Shared<'a> {
    pub pool: &'a mut Pool,
    pub heads: &'a mut HeadCache,
    pub served: &'a mut Served,
    pub clock: &'a Clock,
    pub send_path: &'a SendPath,
    pub log: Option<&'a AccessLog>,
    pub limits: &'a Limits,
    /// True during a graceful shutdown: every response is the last one of its connection.
    pub is_draining: bool,
    /// The driver passes nothing that it receives to this connection as soon as that wants to send. Otherwise the connection
    /// has to [ask](Want::CancelReceive) for it before.
    pub stops_receiving: bool,
    /// The token of the connection that handles an event.
    pub token: u64,
    /// Its ends, if the site's content [uses them](crate::handler::Content::speaks_cgi).
    pub ends: Ends,
}

impl<'a> Deref for Context<'a> {
    type Target = Shared<'a>;

    fn deref(&self) -> &Shared<'a> {
        &self.shared
    }
}

impl<'a> DerefMut for Context<'a> {
    fn deref_mut(&mut self) -> &mut Shared<'a> {
        &mut self.shared
    }
}

/// The layer between a socket and the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Transport {
    Plain,
    Tls,
}

impl Transport {
    const ALL: &[Transport] = &[Transport::Plain, Transport::Tls];

    /// The transport with the discriminant `byte`.
    pub fn from_u8(byte: u8) -> Option<Transport> {
        Transport::ALL.iter().copied().find(|transport| *transport as u8 == byte)
    }
}

/// One connection, as drivers hold it. The common variant is inline, to avoid an allocation.
#[derive(Debug)]
pub enum Connection {
    Plain(Application),
    Tls(Box<TlsConnection>),
    Launched(Launched),
    /// Made by a handler, with TLS.
    LaunchedTls(Box<TlsConnection>),
}

impl Connection {
    /// A connection just accepted from `peer`; `tls` is the session if it speaks TLS.
    pub fn new(peer: IpAddr, tls: Option<NewSession>) -> Connection {
        match tls {
            None => Connection::Plain(Application::new(peer, false)),
            Some(session) => Connection::Tls(Box::new(TlsConnection::new(peer, session))),
        }
    }

    /// A connection that a handler makes for `machine`; `tls` is the session if it speaks TLS.
    pub fn launched(machine: Launched, tls: Option<Box<ClientConnection>>) -> Connection {
        match tls {
            None => Connection::Launched(machine),
            Some(session) => Connection::LaunchedTls(Box::new(TlsConnection::launched(*session, machine))),
        }
    }

    pub fn start(&self) -> Want {
        match self {
            Connection::Plain(application) => application.start(),
            Connection::Tls(tls) => tls.start(),
            Connection::Launched(_) | Connection::LaunchedTls(_) => Want::Wait,
        }
    }

    /// Handles an event and returns the next want.
    pub fn handle(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        if let (Event::Expired, Some(limit)) = (&event, self.waits_for().limit()) {
            context.served.count(limit);
        }
        match self {
            Connection::Plain(application) => application.handle(event, context),
            Connection::Tls(tls) | Connection::LaunchedTls(tls) => tls.handle(event, context),
            Connection::Launched(machine) => machine.handle(event, context),
        }
    }

    pub fn waits_for(&self) -> Wait {
        match self {
            Connection::Plain(application) => application.waits_for(),
            Connection::Tls(tls) | Connection::LaunchedTls(tls) => tls.waits_for(),
            Connection::Launched(machine) => machine.waits_for(),
        }
    }

    /// Returns true if it multiplexes requests: it delegates jobs, and must be told at once when the server stops.
    pub fn has_streams(&self) -> bool {
        match self {
            Connection::Plain(application) => application.has_streams(),
            Connection::Tls(tls) => tls.has_streams(),
            Connection::Launched(_) | Connection::LaunchedTls(_) => false,
        }
    }

    /// Returns true if it gets nothing that is received as soon as it wants to send.
    pub fn stops_receiving(&self) -> bool {
        match self {
            Connection::Launched(_) => true,
            Connection::Plain(Application::Http1(http)) => http.is_upgraded(),
            _ => false,
        }
    }

    /// Returns true if a handler made it.
    pub fn is_launched(&self) -> bool {
        matches!(self, Connection::Launched(_) | Connection::LaunchedTls(_))
    }

    pub fn received(&self) -> Counter {
        match self {
            Connection::Plain(_) | Connection::Tls(_) => Counter::ReceivedBytes,
            Connection::Launched(_) | Connection::LaunchedTls(_) => Counter::UpstreamReceivedBytes,
        }
    }

    pub fn sent(&self) -> Counter {
        match self {
            Connection::Plain(_) | Connection::Tls(_) => Counter::SentBytes,
            Connection::Launched(machine) => machine.sent(),
            Connection::LaunchedTls(_) => Counter::UpstreamSentBytes,
        }
    }

    /// The share of body bytes among the bytes sent since the last call. Only body bytes count against slow readers: a
    /// client may read many frames of one byte each.
    pub fn body_fraction(&mut self) -> f64 {
        match self {
            Connection::Plain(application) => application.body_fraction(),
            Connection::Tls(tls) => tls.body_fraction(),
            Connection::Launched(_) | Connection::LaunchedTls(_) => 1.0,
        }
    }

    /// Called before the connection is dropped: ends whatever it has started.
    pub fn finish(&mut self, context: &mut Context<'_>) {
        match self {
            Connection::Plain(application) => application.finish(context),
            Connection::Tls(tls) | Connection::LaunchedTls(tls) => tls.finish(context),
            Connection::Launched(machine) => drop(machine.finish(context)),
        }
    }
}
