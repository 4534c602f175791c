//! HTTP/2 (RFC 9113) as a client, over memory: requests as HTTP/1 would write them go in, heads as it would read them and
//! bodies come out. It knows no socket and no clock.
//!
//! Frames, header compression and windows are `sojourn_http::http2`; what ends a request, and for which cause, is here.

use std::collections::BTreeMap;

use sojourn_http::http2::{Connection, ErrorCode, Event, Limits};

use crate::http::cause::Cause;

/// The windows are those of browsers. Everything is read at once, so nothing else has to be bounded.
const LIMITS: Limits = Limits {
    streams_max: 0,
    field_bytes_max: HEAD_BYTES_MAX,
    block_bytes_max: 4 * HEAD_BYTES_MAX,
    continuations_max: 64,
    stream_window: 6 << 20,
    connection_window: 15 << 20,
    output_bytes_max: usize::MAX,
};
/// A longer response head is refused.
const HEAD_BYTES_MAX: usize = 256 << 10;

/// One connection.
pub(crate) struct Http2 {
    scheme: &'static str,
    protocol: Connection,
    streams: BTreeMap<u32, Stream>,
    events: Vec<(usize, StreamEvent)>,
    /// The server has announced its end: the last stream that it answers, and the reason.
    leaving: Option<(u32, ErrorCode)>,
    /// The server has closed the connection.
    is_closed: bool,
    is_over: bool,
    /// True once the server has sent something: it speaks, whatever it speaks.
    has_heard: bool,
}

/// A request that is under way.
#[derive(Default)]
struct Stream {
    has_head: bool,
    /// The rest of the request's body.
    unsent: Vec<u8>,
}

/// The progress of a response, or the end of its stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StreamEvent {
    /// The response's head, as HTTP/1 has it.
    Head(Vec<u8>),
    Body(Vec<u8>),
    /// The response is whole. The stream is gone.
    End,
    /// There is no response, or not all of it. The stream is gone.
    Failed(Cause),
    /// The server has given up this request alone; it may have acted on it (RFC 9113, 8.7). The stream is gone.
    Reset,
    /// The server has not looked at the request and says so (RFC 9113, 8.7). The stream is gone.
    Refused,
}

impl Http2 {
    pub(crate) fn new(is_secure: bool) -> Http2 {
        Http2 {
            scheme: if is_secure { "https" } else { "http" },
            protocol: Connection::client(LIMITS),
            streams: BTreeMap::new(),
            events: Vec::new(),
            leaving: None,
            is_closed: false,
            is_over: false,
            has_heard: false,
        }
    }

    /// How many more streams the server allows.
    pub(crate) fn room(&self) -> usize {
        if self.takes_requests() { self.protocol.stream_room() } else { 0 }
    }

    /// Returns true unless the server has announced its end, or it is over.
    pub(crate) fn takes_requests(&self) -> bool {
        !self.is_over && self.leaving.is_none()
    }

    /// Returns true if nothing more comes of it, and no request may be made.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Makes a request of the bytes that HTTP/1 would send; returns its stream.
    pub(crate) fn request(&mut self, bytes: &[u8]) -> Result<usize, Cause> {
        if !self.takes_requests() {
            return Err(Cause::Reset);
        }
        let sent = self.protocol.send_request(bytes, self.scheme);
        let (id, head_bytes) = sent.ok_or(Cause::ValueUnusable)?;
        let mut stream = Stream { has_head: false, unsent: bytes[head_bytes..].to_vec() };
        send(&mut self.protocol, id, &mut stream.unsent);
        self.streams.insert(id, stream);
        Ok(id as usize)
    }

    /// Gives up a stream; the server is told.
    pub(crate) fn cancel(&mut self, stream: usize) {
        let id = stream as u32;
        if self.streams.remove(&id).is_some() {
            self.protocol.reset(id, ErrorCode::CANCEL);
        }
    }

    /// Reads what the server has sent.
    pub(crate) fn receive(&mut self, mut bytes: &[u8]) {
        self.has_heard = true;
        while let Some(event) = self.protocol.next(&mut bytes) {
            match event {
                Event::Head { stream, is_end } => self.begin(stream, is_end),
                Event::Data { stream, bytes, is_end } => {
                    self.protocol.release(stream, bytes.len());
                    if !self.streams.contains_key(&stream) {
                        continue;
                    }
                    if !bytes.is_empty() {
                        self.events.push((stream as usize, StreamEvent::Body(bytes.to_vec())));
                    }
                    if is_end {
                        self.complete(stream);
                    }
                }
                Event::Reset { stream, code: ErrorCode::REFUSED_STREAM } => {
                    self.fail(stream, StreamEvent::Refused)
                }
                Event::Reset { stream, .. } => self.fail(stream, StreamEvent::Reset),
                Event::Rejected { stream, .. } => self.fail(stream, StreamEvent::Failed(Cause::BadResponse)),
                Event::Leaving { last, code } => {
                    self.leaving = Some((last, code));
                    let unanswered: Vec<u32> = self.streams.range(last + 1..).map(|(id, _)| *id).collect();
                    for id in unanswered {
                        let is_refused = code == ErrorCode::NO_ERROR;
                        self.fail(
                            id,
                            if is_refused { StreamEvent::Refused } else { StreamEvent::Failed(Cause::Reset) },
                        );
                    }
                }
                Event::Begun | Event::TooLarge { .. } => {}
            }
        }
    }

    /// The server has closed the connection.
    pub(crate) fn end(&mut self) {
        self.is_closed = true;
    }

    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        self.protocol.take_output()
    }

    /// Lets the protocol go on; what happened is appended to `events`, by stream.
    pub(crate) fn poll(&mut self, events: &mut Vec<(usize, StreamEvent)>) {
        events.append(&mut self.events);
        for (id, stream) in &mut self.streams {
            send(&mut self.protocol, *id, &mut stream.unsent);
        }
        let has_left = self.leaving.is_some() && self.streams.is_empty();
        if self.is_over || !(self.is_closed || has_left || self.protocol.is_over()) {
            return;
        }
        for (id, stream) in std::mem::take(&mut self.streams) {
            events.push((id as usize, StreamEvent::Failed(self.cause_of(&stream))));
        }
        self.is_over = true;
    }

    /// The cause of failure of the requests under way, if the connection ends.
    pub(crate) fn cause_of_end(&self) -> Cause {
        // Without its SETTINGS, what is there speaks something else.
        let is_other = self.has_heard && !self.protocol.has_settings();
        if is_other { Cause::Http2NotSpoken } else { Cause::ClosedEarly }
    }

    /// The cause of failure of one request under way, now that the connection has ended.
    fn cause_of(&self, stream: &Stream) -> Cause {
        match self.leaving {
            Some((_, code)) if code != ErrorCode::NO_ERROR => Cause::Reset,
            // It was this side that could not read on.
            _ if self.protocol.is_over() && self.protocol.has_settings() && !stream.has_head => {
                Cause::BadResponse
            }
            _ => self.cause_of_end(),
        }
    }

    fn begin(&mut self, id: u32, is_end: bool) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let head = self.protocol.head();
        // Interim responses are not for the client's user.
        if head.status().is_some_and(|status| status < 200) {
            return;
        }
        stream.has_head = true;
        self.events.push((id as usize, StreamEvent::Head([head.text(), b"\r\n"].concat())));
        if is_end {
            self.complete(id);
        }
    }

    fn complete(&mut self, id: u32) {
        self.protocol.finish(id);
        self.fail(id, StreamEvent::End);
    }

    /// The stream is gone.
    fn fail(&mut self, id: u32, event: StreamEvent) {
        if self.streams.remove(&id).is_some() {
            self.events.push((id as usize, event));
        }
    }
}

/// Sends as much of a request's body as the server's windows allow.
fn send(protocol: &mut Connection, stream: u32, unsent: &mut Vec<u8>) {
    while !unsent.is_empty() {
        let count = protocol.room(stream).min(protocol.frame_bytes_max()).min(unsent.len());
        if count == 0 {
            return;
        }
        let head = protocol.data_head(stream, count, count == unsent.len());
        protocol.output().extend_from_slice(&head);
        protocol.output().extend_from_slice(&unsent[..count]);
        unsent.drain(..count);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use bytes::Bytes;
    use sojourn_testing::Pipe;

    use super::*;

    /// The other implementation gets the request that the text says.
    #[test]
    fn a_request_is_made_of_the_text_of_http1() {
        let (mut client, wire) = (Http2::new(true), Pipe::default());
        let text = b"POST /a?x=|1 HTTP/1.1\r\nHost: shop.test:81\r\nConnection: close\r\nCookie: a=1\r\ncookie: b=2\r\n\
                     Content-Length: 4\r\n\r\nbody";
        client.request(text).unwrap();
        let nobody = &mut Context::from_waker(Waker::noop());
        let mut handshake = pin!(h2::server::handshake(wire.clone()));
        wire.receive(&client.take_output());
        let Poll::Ready(Ok(mut server)) = handshake.as_mut().poll(nobody) else { panic!("no handshake") };
        let Poll::Ready(Some(Ok((request, _responder)))) = server.poll_accept(nobody) else {
            panic!("no request")
        };
        assert_eq!(request.method(), "POST");
        assert_eq!(request.uri().to_string(), "https://shop.test:81/a?x=|1");
        assert_eq!(request.headers().get_all("cookie").iter().count(), 2);
        assert_eq!(request.headers()["content-length"], "4");
        assert!(!request.headers().contains_key("connection") && !request.headers().contains_key("host"));
        let Poll::Ready(Some(Ok(body))) = request.into_body().poll_data(nobody) else { panic!("no body") };
        assert_eq!(&body[..], b"body");
        assert_eq!(client.request(b"GET / HTTP/1.1\r\n\r\n"), Err(Cause::ValueUnusable));
    }

    /// A server in memory that answers each request with its path, the second only after the third.
    #[test]
    fn streams_are_answered_in_any_order_and_the_end_fails_the_rest() {
        let mut client = Http2::new(false);
        let wire = Pipe::default();
        let of_server = wire.clone();
        let mut handshake = pin!(h2::server::handshake(of_server));
        let nobody = &mut Context::from_waker(Waker::noop());
        let mut events = Vec::new();
        let exchange = |client: &mut Http2, events: &mut Vec<(usize, StreamEvent)>| {
            client.poll(events);
            wire.receive(&client.take_output());
        };
        exchange(&mut client, &mut events);
        let Poll::Ready(Ok(mut server)) = handshake.as_mut().poll(nobody) else { panic!("no handshake") };
        let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        let streams: Vec<usize> =
            ["/1", "/2", "/3"].iter().map(|path| client.request(request(path).as_bytes()).unwrap()).collect();
        exchange(&mut client, &mut events);
        let mut responders = Vec::new();
        while let Poll::Ready(Some(Ok((request, responder)))) = server.poll_accept(nobody) {
            responders.push((request.uri().path().to_owned(), responder));
        }
        assert_eq!(responders.len(), 3);
        let mut answer = |path: &str| {
            let (_, responder) = responders.iter_mut().find(|(known, _)| known == path).unwrap();
            let mut body = responder.send_response(http::Response::new(()), false).unwrap();
            body.send_data(Bytes::copy_from_slice(path.as_bytes()), true).unwrap();
        };
        answer("/3");
        answer("/1");
        for _ in 0..3 {
            let _ = server.poll_accept(nobody);
            let output = wire.take_output();
            client.receive(&output);
            exchange(&mut client, &mut events);
        }
        let of = |stream: usize| {
            events.iter().filter(|(key, _)| *key == stream).map(|(_, event)| event).collect::<Vec<_>>()
        };
        let head = StreamEvent::Head(b"HTTP/1.1 200\r\n\r\n".to_vec());
        assert_eq!(of(streams[2]), [&head, &StreamEvent::Body(b"/3".to_vec()), &StreamEvent::End]);
        assert_eq!(of(streams[0]), [&head, &StreamEvent::Body(b"/1".to_vec()), &StreamEvent::End]);
        assert!(of(streams[1]).is_empty());
        client.end();
        let mut last = Vec::new();
        client.poll(&mut last);
        assert_eq!(last, [(streams[1], StreamEvent::Failed(Cause::ClosedEarly))]);
        assert!(client.is_over());
    }

    #[test]
    fn what_answers_otherwise_does_not_speak_http2() {
        let mut client = Http2::new(false);
        let mut events = Vec::new();
        client.poll(&mut events);
        let stream = client.request(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        client.poll(&mut events);
        client.receive(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        client.poll(&mut events);
        client.end();
        client.poll(&mut events);
        assert_eq!(events, [(stream, StreamEvent::Failed(Cause::Http2NotSpoken))]);
        assert!(client.is_over() && client.room() == 0);
    }

    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

    /// What becomes of a request if the server sends this and closes.
    fn ended_after(frames: &[&[u8]]) -> Vec<StreamEvent> {
        let mut client = Http2::new(false);
        let mut events = Vec::new();
        assert_eq!(client.request(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), Ok(1));
        client.receive(&frames.concat());
        client.poll(&mut events);
        client.end();
        client.poll(&mut events);
        events.into_iter().map(|(_, event)| event).collect()
    }

    #[test]
    fn a_server_that_has_sent_its_settings_speaks_http2() {
        let early = StreamEvent::Failed(Cause::ClosedEarly);
        assert_eq!(ended_after(&[&SETTINGS]), [early]);
        let too_long = [255_u8; 9];
        assert_eq!(ended_after(&[&SETTINGS, &too_long]), [StreamEvent::Failed(Cause::BadResponse)]);
    }

    #[test]
    fn a_reset_stream_is_refused_only_if_the_server_says_so() {
        let reset = |code: u8| [0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, code];
        let refused = 7;
        assert_eq!(ended_after(&[&SETTINGS, &reset(refused)]), [StreamEvent::Refused]);
        for code in [0, 2, 8, 11] {
            assert_eq!(ended_after(&[&SETTINGS, &reset(code)]), [StreamEvent::Reset], "{code}");
        }
    }
}
