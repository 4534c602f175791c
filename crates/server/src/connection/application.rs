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
                    machine.finish(context);
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

#[cfg(test)]
mod tests {
    use sojourn_http::http2::PREFACE;

    use super::*;
    use crate::connection::Buffer;
    use crate::connection::bench::{Bench, BodyEcho};
    use crate::counters::Counter;

    /// A connection in clear text to a handler that takes bodies.
    struct Client {
        bench: Bench,
        application: Application,
        _root: tempfile::TempDir,
    }

    impl Client {
        fn new() -> Client {
            let root = tempfile::tempdir().unwrap();
            let mut bench = Bench::new(root.path());
            bench.handler = Box::new(BodyEcho::new(usize::MAX));
            Client { bench, application: Application::new([127, 0, 0, 1].into(), false), _root: root }
        }

        fn handle(&mut self, event: Event) -> Want {
            self.application.handle(event, &mut self.bench.context())
        }

        /// Receives into the buffer that is wanted.
        fn receive(&mut self, want: Want, bytes: &[u8]) -> Want {
            let Want::Receive(mut buffer) = want else { panic!("{want:?}") };
            buffer.space().extend_from_slice(bytes);
            self.handle(Event::Received(buffer))
        }
    }

    #[test]
    fn a_preface_in_pieces_begins_http2() {
        for cut in 1..PREFACE.len() {
            let mut client = Client::new();
            let want = client.receive(Want::Receive(Buffer::default()), &PREFACE[..cut]);
            if matches!(want, Want::Receive(_)) {
                client.receive(want, &PREFACE[cut..]);
            }
            assert!(client.application.has_streams(), "cut at {cut}");
        }
    }

    /// A proxy in front would take what follows for a part of the body.
    #[test]
    fn a_body_like_a_preface_is_a_body() {
        let mut client = Client::new();
        let head = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", PREFACE.len());
        let want = client.receive(Want::Receive(Buffer::default()), head.as_bytes());
        assert_eq!(client.application.waits_for(), Wait::Upload);
        let Want::Send(output) = client.receive(want, PREFACE) else { panic!("it is answered") };
        assert!(output.bytes.starts_with(b"HTTP/1.1 200 ") && output.bytes.ends_with(PREFACE));
        assert!(!client.application.has_streams());
        assert_eq!(client.bench.served.value(Counter::ConnectionsHttp2), 0);
    }

    #[test]
    fn a_preface_behind_a_refusal_is_discarded() {
        let mut client = Client::new();
        let Want::Send(output) = client.receive(Want::Receive(Buffer::default()), b"nonsense\r\n\r\n") else {
            panic!("it is refused")
        };
        assert!(output.bytes.starts_with(b"HTTP/1.1 400 "));
        let want = client.handle(Event::Sent(output));
        assert_eq!(client.application.waits_for(), Wait::End);
        assert!(matches!(client.receive(want, PREFACE), Want::Receive(_)));
        assert!(!client.application.has_streams());
    }
}
