//! The connection machine: events in, wants out, no I/O.
//!
//! It takes what has happened and says what must be done next: receive, open, load, send, close. Doing it, at once
//! or later or elsewhere, is the architecture's job; the outcome comes back as the next event. Buffers move by value,
//! so readiness (epoll) and completion (io_uring) drive the same machine.
//!
//! It has layers of one shape: an [`Application`] speaks HTTP, and a transport, if there is one, stands between it
//! and the driver, which holds the outermost.

use std::net::IpAddr;

use sojourn_content::Caches;

use crate::access_log::AccessLog;
use crate::clock::Clock;
use crate::counters::{Counter, Served};
use crate::handler::reverse_proxy::Exchanges;
use crate::hosts::Hosts;
use crate::site::{Limits, Site};

mod application;
#[cfg(test)]
mod bench;
mod buffer;
mod fetch;
mod http1;
mod http2;
mod lookup;
mod output;
mod send_path;
mod tls;
mod tunnel;
mod want;

pub use application::Application;
pub use buffer::{Buffer, Pool};
pub use fetch::Fetch;
pub use http1::Http1;
pub use http2::Http2;
pub use lookup::Lookup;
pub use output::{Output, Piece};
pub use send_path::{HEAD_ALIGNMENT_BYTES, SendPath};
pub use tls::{ALPN, TlsConnection};
pub use tunnel::TunnelEnd;
pub use want::{Event, Lane, Reason, Wait, Want};

/// What a connection may use while it handles an event.
pub struct Context<'a> {
    /// The caches, private or locked for the moment.
    pub caches: &'a mut Caches,
    /// Memory for buffers.
    pub pool: &'a mut Pool,
    /// The counters.
    pub served: &'a mut Served,
    /// The time.
    pub clock: &'a Clock,
    /// How bodies travel.
    pub send_path: &'a SendPath,
    /// Which host a request is for, and what it has for what goes wrong.
    pub hosts: &'a Hosts,
    /// The log.
    pub log: Option<&'a AccessLog>,
    /// Limits on clients.
    pub limits: &'a Limits,
    /// Whether the server is stopping: every response is the last of its connection.
    pub is_draining: bool,
    /// What a proxy has under way with its upstreams.
    pub exchanges: Option<&'a mut Exchanges>,
}

/// What lies between a socket and what is spoken on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Transport {
    /// Nothing.
    Plain,
    /// TLS.
    Tls,
}

impl Transport {
    /// Every transport.
    const ALL: &[Transport] = &[Transport::Plain, Transport::Tls];

    /// The transport whose discriminant is `byte`.
    pub fn from_u8(byte: u8) -> Option<Transport> {
        Transport::ALL.iter().copied().find(|transport| *transport as u8 == byte)
    }
}

/// One connection, as drivers hold it. The common one is inline, so that it costs nothing to be one of several.
#[derive(Debug)]
pub enum Connection {
    /// Nothing lies in between.
    Plain(Application),
    /// TLS does.
    Tls(Box<TlsConnection>),
    /// The other side is an upstream.
    Upstream(Box<Fetch>),
    /// The same, with TLS in between.
    UpstreamTls(Box<TlsConnection>),
    /// The other side looks a name up.
    Lookup(Box<Lookup>),
    /// It is part of a tunnel, on whose client's socket it only sends.
    Tunnel(Box<TunnelEnd>),
}

impl Connection {
    /// A connection to `site` just accepted from `peer`.
    ///
    /// # Panics
    /// If it is to speak TLS and the site has no certificates.
    pub fn new(peer: IpAddr, transport: Transport, site: &Site) -> Connection {
        match transport {
            Transport::Plain => Connection::Plain(Application::new(peer, false)),
            Transport::Tls => {
                let tls = site.tls.as_ref().expect("a site that listens for TLS has certificates");
                Connection::Tls(Box::new(TlsConnection::new(peer, tls.accept())))
            }
        }
    }

    /// The first want.
    pub fn start(&self) -> Want {
        match self {
            Connection::Plain(application) => application.start(),
            Connection::Tls(tls) => tls.start(),
            Connection::Upstream(_)
            | Connection::UpstreamTls(_)
            | Connection::Lookup(_)
            | Connection::Tunnel(_) => Want::Wait,
        }
    }

    /// Takes an event, says what is wanted next.
    pub fn handle(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        if let (Event::Expired, Some(limit)) = (&event, self.waits_for().limit()) {
            context.served.count(limit);
        }
        match self {
            Connection::Plain(application) => application.handle(event, context),
            Connection::Tls(tls) | Connection::UpstreamTls(tls) => tls.handle(event, context),
            Connection::Upstream(fetch) => fetch.handle(event, context),
            Connection::Lookup(lookup) => lookup.handle(event, context),
            Connection::Tunnel(end) => end.handle(event, context),
        }
    }

    /// What the connection waits for while its want cannot be done.
    pub fn waits_for(&self) -> Wait {
        match self {
            Connection::Plain(application) => application.waits_for(),
            Connection::Tls(tls) | Connection::UpstreamTls(tls) => tls.waits_for(),
            Connection::Upstream(fetch) => fetch.waits_for(),
            Connection::Lookup(lookup) => lookup.waits_for(),
            Connection::Tunnel(end) => end.waits_for(),
        }
    }

    /// Whether it carries requests side by side: it delegates, and wants to know of the server's stopping at once.
    pub fn has_streams(&self) -> bool {
        match self {
            Connection::Plain(application) => application.has_streams(),
            Connection::Tls(tls) => tls.has_streams(),
            Connection::Upstream(_)
            | Connection::UpstreamTls(_)
            | Connection::Lookup(_)
            | Connection::Tunnel(_) => false,
        }
    }

    /// What counts the bytes received on it.
    pub fn received(&self) -> Counter {
        match self {
            Connection::Plain(_) | Connection::Tls(_) => Counter::ReceivedBytes,
            // Nothing is received from who looks up, and only from a tunnel's origin.
            Connection::Upstream(_)
            | Connection::UpstreamTls(_)
            | Connection::Lookup(_)
            | Connection::Tunnel(_) => Counter::UpstreamReceivedBytes,
        }
    }

    /// What counts the bytes sent on it.
    pub fn sent(&self) -> Counter {
        match self {
            Connection::Plain(_) | Connection::Tls(_) => Counter::SentBytes,
            Connection::Upstream(_) | Connection::UpstreamTls(_) | Connection::Lookup(_) => {
                Counter::UpstreamSentBytes
            }
            Connection::Tunnel(end) => end.sent(),
        }
    }

    /// The connection is about to be forgotten: whatever it has begun ends here.
    pub fn finish(&mut self, context: &mut Context<'_>) {
        match self {
            Connection::Plain(application) => return application.finish(context),
            Connection::Tls(tls) => return tls.finish(context),
            Connection::Upstream(fetch) => fetch.finish(context),
            Connection::UpstreamTls(tls) => tls.finish(context),
            Connection::Lookup(lookup) => lookup.finish(context),
            Connection::Tunnel(end) => end.finish(context),
        }
        context.exchanges.as_mut().expect("somebody has launched it").forget();
    }
}
