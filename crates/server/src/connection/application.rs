//! The protocol on a transport, and how it is chosen.

use std::net::IpAddr;

use super::{Context, Event, Http1, Http2, Wait, Want};

/// The state machine of one protocol.
#[derive(Debug)]
pub enum Application {
    Http1(Http1),
    /// HTTP/2; boxed because it is much larger and less common.
    Http2(Box<Http2>),
}

impl Application {
    /// The protocol of a connection from `peer` without ALPN: HTTP/1, unless the client begins with HTTP/2 (RFC 9113,
    /// 3.3: prior knowledge). If the connection `is_secure`, HTTP/2 would have been negotiated by ALPN.
    pub fn new(peer: IpAddr, is_secure: bool) -> Application {
        Application::Http1(Http1::new(peer, is_secure))
    }

    pub fn start(&self) -> Want {
        match self {
            Application::Http1(machine) => machine.start(),
            Application::Http2(machine) => machine.start(),
        }
    }

    pub fn handle(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        match self {
            Application::Http1(machine) => match event {
                Event::Received(buffer) if machine.may_be_http2() && Http2::is_begun_by(buffer.unread()) => {
                    let mut machine = Box::new(Http2::new(machine.peer(), false));
                    let want = machine.handle(Event::Received(buffer), context);
                    *self = Application::Http2(machine);
                    want
                }
                event => machine.handle(event, context),
            },
            Application::Http2(machine) => machine.handle(event, context),
        }
    }

    pub fn waits_for(&self) -> Wait {
        match self {
            Application::Http1(machine) => machine.waits_for(),
            Application::Http2(machine) => machine.waits_for(),
        }
    }

    /// Returns true if it multiplexes requests.
    pub fn has_streams(&self) -> bool {
        matches!(self, Application::Http2(_))
    }

    /// The share of body bytes among the bytes sent since the last call, as far as the protocol distinguishes them.
    pub fn body_fraction(&mut self) -> f64 {
        match self {
            Application::Http1(_) => 1.0,
            Application::Http2(machine) => machine.body_fraction(),
        }
    }

    pub fn finish(&mut self, context: &mut Context<'_>) {
        match self {
            Application::Http1(machine) => machine.finish(context),
            Application::Http2(machine) => machine.finish(context),
        }
    }
}
