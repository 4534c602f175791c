//! HTTP/2 (RFC 9113) as a client, over memory: requests as HTTP/1 would write them go in, heads as it would read them and
//! bodies come out. It knows no socket and no clock.
//!
//! Frames, header compression and flow control are the `h2` crate's. It expects to be polled by a runtime; here it is polled
//! after every event, and never has to be woken.

use std::{
    collections::VecDeque,
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use h2::{
    Reason, RecvStream,
    client::{Builder, Connection, ResponseFuture, SendRequest},
};
use http::{HeaderName, HeaderValue, Method, Request, Uri, Version};
use slab::Slab;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::cause::Cause;

/// How much of a body the server may send ahead of what was read, of one stream and of all: as browsers allow.
const STREAM_WINDOW_BYTES: u32 = 6 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 15 << 20;
/// A longer response head is refused.
const HEAD_BYTES_MAX: u32 = 256 << 10;
/// Bytes that wait for the socket before the protocol has to.
const OUTPUT_BYTES_MAX: usize = 256 << 10;

type Opening =
    Pin<Box<dyn Future<Output = Result<(SendRequest<Bytes>, Connection<Pipe, Bytes>), h2::Error>>>>;

/// One connection.
pub(crate) struct Http2 {
    scheme: &'static str,
    pipe: Pipe,
    session: Session,
    streams: Slab<Stream>,
    /// True once the server has sent something: it speaks, whatever it speaks.
    has_heard: bool,
    has_answered: bool,
}

enum Session {
    Opening(Opening),
    Open(SendRequest<Bytes>, Box<Connection<Pipe, Bytes>>),
    Over,
}

enum Stream {
    Waiting(ResponseFuture),
    Reading(RecvStream),
}

/// What became of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The response's head, as HTTP/1 has it.
    Head(Vec<u8>),
    Body(Bytes),
    /// The response is whole. The stream is gone.
    End,
    /// There is no response, or not all of it. The stream is gone.
    Failed(Cause),
    /// The server has not looked at the request and says so (RFC 9113, 8.7). The stream is gone.
    Refused,
}

impl Http2 {
    pub(crate) fn new(is_secure: bool) -> Http2 {
        let pipe = Pipe::default();
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(HEAD_BYTES_MAX);
        let of_future = pipe.clone();
        Http2 {
            scheme: if is_secure { "https" } else { "http" },
            session: Session::Opening(Box::pin(async move { builder.handshake(of_future).await })),
            pipe,
            streams: Slab::new(),
            has_heard: false,
            has_answered: false,
        }
    }

    /// How many more streams the server allows.
    pub(crate) fn room(&self) -> usize {
        match &self.session {
            Session::Open(_, connection) => {
                connection.max_concurrent_send_streams().saturating_sub(self.streams.len())
            }
            Session::Opening(_) | Session::Over => 0,
        }
    }

    /// Returns true if nothing more comes of it, and no request may be made.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.session, Session::Over)
    }

    /// Makes a request of the bytes that HTTP/1 would send; returns its stream.
    pub(crate) fn request(&mut self, bytes: &[u8]) -> Result<usize, Cause> {
        let (request, body) = translated(bytes, self.scheme).ok_or(Cause::ValueUnusable)?;
        let Session::Open(sender, _) = &mut self.session else { return Err(Cause::Reset) };
        let sent = sender.send_request(request, body.is_empty());
        let (response, mut stream) = sent.map_err(|_| Cause::Reset)?;
        if !body.is_empty() {
            stream.send_data(body, true).map_err(|_| Cause::Reset)?;
        }
        Ok(self.streams.insert(Stream::Waiting(response)))
    }

    /// Gives up a stream; the server is told.
    pub(crate) fn cancel(&mut self, stream: usize) {
        self.streams.try_remove(stream);
    }

    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.has_heard = true;
        self.pipe.ends().input.extend(bytes);
    }

    /// The server has closed the connection.
    pub(crate) fn end(&mut self) {
        self.pipe.ends().is_ended = true;
    }

    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pipe.ends().output)
    }

    /// Lets the protocol read and write; what it has to tell is added to the news, by stream.
    pub(crate) fn poll(&mut self, news: &mut Vec<(usize, News)>) {
        let nobody = &mut Context::from_waker(Waker::noop());
        if let Session::Opening(opening) = &mut self.session {
            match opening.as_mut().poll(nobody) {
                Poll::Pending => return,
                Poll::Ready(Ok((sender, connection))) => {
                    self.session = Session::Open(sender, Box::new(connection));
                }
                Poll::Ready(Err(_)) => self.session = Session::Over,
            }
        }
        let mut over = false;
        if let Session::Open(_, connection) = &mut self.session {
            over = Pin::new(connection.as_mut()).poll(nobody).is_ready();
        }
        let keys: Vec<usize> = self.streams.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.poll_stream(key, news);
        }
        match &mut self.session {
            // Windows that were opened by what was read.
            Session::Open(_, connection) if !over => {
                over = Pin::new(connection.as_mut()).poll(nobody).is_ready()
            }
            _ => {}
        }
        if over {
            let cause = self.cause_of_end();
            self.session = Session::Over;
            let left: Vec<usize> = self.streams.iter().map(|(key, _)| key).collect();
            self.streams.clear();
            news.extend(left.into_iter().map(|key| (key, News::Failed(cause))));
        }
    }

    /// What an end of the connection means for requests under way.
    pub(crate) fn cause_of_end(&self) -> Cause {
        match self.has_answered {
            // Not a single answer: what is there speaks something else.
            false if self.has_heard => Cause::Http2NotSpoken,
            _ => Cause::ClosedEarly,
        }
    }

    fn poll_stream(&mut self, key: usize, news: &mut Vec<(usize, News)>) {
        let nobody = &mut Context::from_waker(Waker::noop());
        if let Stream::Waiting(response) = &mut self.streams[key] {
            match Pin::new(response).poll(nobody) {
                Poll::Pending => return,
                Poll::Ready(Ok(response)) => {
                    self.has_answered = true;
                    let (head, body) = response.into_parts();
                    news.push((key, News::Head(written(&head))));
                    self.streams[key] = Stream::Reading(body);
                }
                Poll::Ready(Err(error)) => return self.fail(key, &error, news),
            }
        }
        while let Stream::Reading(body) = &mut self.streams[key] {
            match body.poll_data(nobody) {
                Poll::Pending => return,
                Poll::Ready(Some(Ok(data))) => {
                    // It cannot be refused: so much was received.
                    let _ = body.flow_control().release_capacity(data.len());
                    if !data.is_empty() {
                        news.push((key, News::Body(data)));
                    }
                }
                Poll::Ready(Some(Err(error))) => return self.fail(key, &error, news),
                Poll::Ready(None) => {
                    self.streams.remove(key);
                    return news.push((key, News::End));
                }
            }
        }
    }

    fn fail(&mut self, key: usize, error: &h2::Error, news: &mut Vec<(usize, News)>) {
        let was_reading = matches!(self.streams.remove(key), Stream::Reading(_));
        let is_end = error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
        if is_end || error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM) {
            return news.push((key, News::Refused));
        }
        let cause = match () {
            () if error.is_reset() || error.is_go_away() && error.is_remote() => Cause::Reset,
            () if error.is_io() || was_reading => self.cause_of_end(),
            () if self.has_answered => Cause::BadResponse,
            () => Cause::Http2NotSpoken,
        };
        news.push((key, News::Failed(cause)));
    }
}

/// A request of HTTP/2 from the text of one of HTTP/1, and its body.
fn translated(bytes: &[u8], scheme: &str) -> Option<(Request<()>, Bytes)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(method.as_bytes()).ok()?;
    *request.version_mut() = Version::HTTP_2;
    let mut authority = None;
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        // RFC 9113, 8.2.2 and 8.3.1.
        if name.eq_ignore_ascii_case("host") {
            authority = Some(value);
        } else if !name.eq_ignore_ascii_case("connection") {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            request.headers_mut().append(name, HeaderValue::from_bytes(value.as_bytes()).ok()?);
        }
    }
    *request.uri_mut() =
        Uri::builder().scheme(scheme).authority(authority?).path_and_query(target).build().ok()?;
    Some((request, Bytes::copy_from_slice(&bytes[end + 4..])))
}

/// The head of a response as HTTP/1 has it.
fn written(head: &http::response::Parts) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {}\r\n", head.status.as_str()).into_bytes();
    for (name, value) in &head.headers {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    text
}

/// Both directions as memory; clones are the same.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<Ends>>);

#[derive(Default)]
struct Ends {
    input: VecDeque<u8>,
    output: Vec<u8>,
    is_ended: bool,
}

impl Pipe {
    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut ends = self.ends();
        let (first, _) = ends.input.as_slices();
        let count = first.len().min(into.remaining());
        if count == 0 && !ends.is_ended {
            return Poll::Pending;
        }
        into.put_slice(&first[..count]);
        ends.input.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let output = &mut self.ends().output;
        match bytes.len().min(OUTPUT_BYTES_MAX.saturating_sub(output.len())) {
            0 => Poll::Pending,
            count => {
                output.extend_from_slice(&bytes[..count]);
                Poll::Ready(Ok(count))
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_translated_from_the_text_of_http1() {
        let text = b"POST /a?x=|1 HTTP/1.1\r\nHost: shop.test:81\r\nConnection: close\r\nCookie: a=1\r\ncookie: b=2\r\n\
                     Content-Length: 4\r\n\r\nbody";
        let (request, body) = translated(text, "https").unwrap();
        assert_eq!(request.method(), "POST");
        assert_eq!(request.uri().to_string(), "https://shop.test:81/a?x=|1");
        assert_eq!(request.headers().get_all("cookie").iter().count(), 2);
        assert_eq!(request.headers()["content-length"], "4");
        assert!(!request.headers().contains_key("connection") && !request.headers().contains_key("host"));
        assert_eq!(&body[..], b"body");
        for bad in ["", "GET / HTTP/1.1\r\n\r\n", "GET /\r\nHost: a\r\n", "GET / x\r\nHost: a\r\nbad\r\n\r\n"]
        {
            assert!(translated(bad.as_bytes(), "http").is_none(), "{bad:?}");
        }
    }

    /// A server in memory that answers each request with its path, the second only after the third.
    #[test]
    fn streams_are_answered_in_any_order_and_the_end_fails_the_rest() {
        let mut client = Http2::new(false);
        let wire = Pipe::default();
        let of_server = wire.clone();
        let mut handshake = Box::pin(h2::server::handshake(of_server));
        let nobody = &mut Context::from_waker(Waker::noop());
        let mut news = Vec::new();
        let exchange = |client: &mut Http2, news: &mut Vec<(usize, News)>| {
            client.poll(news);
            wire.ends().input.extend(client.take_output());
        };
        exchange(&mut client, &mut news);
        let Poll::Ready(Ok(mut server)) = handshake.as_mut().poll(nobody) else { panic!("no handshake") };
        let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        let streams: Vec<usize> =
            ["/1", "/2", "/3"].iter().map(|path| client.request(request(path).as_bytes()).unwrap()).collect();
        exchange(&mut client, &mut news);
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
            let output = mem_take(&wire);
            client.receive(&output);
            exchange(&mut client, &mut news);
        }
        let of = |stream: usize| {
            news.iter().filter(|(key, _)| *key == stream).map(|(_, news)| news).collect::<Vec<_>>()
        };
        let head = News::Head(b"HTTP/1.1 200\r\n\r\n".to_vec());
        assert_eq!(of(streams[2]), [&head, &News::Body(Bytes::from_static(b"/3")), &News::End]);
        assert_eq!(of(streams[0]), [&head, &News::Body(Bytes::from_static(b"/1")), &News::End]);
        assert!(of(streams[1]).is_empty());
        client.end();
        let mut last = Vec::new();
        client.poll(&mut last);
        assert_eq!(last, [(streams[1], News::Failed(Cause::ClosedEarly))]);
        assert!(client.is_over());
    }

    fn mem_take(wire: &Pipe) -> Vec<u8> {
        std::mem::take(&mut wire.ends().output)
    }

    #[test]
    fn what_answers_otherwise_does_not_speak_http2() {
        let mut client = Http2::new(false);
        let mut news = Vec::new();
        client.poll(&mut news);
        let stream = client.request(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        client.poll(&mut news);
        client.receive(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        client.poll(&mut news);
        client.end();
        client.poll(&mut news);
        assert_eq!(news, [(stream, News::Failed(Cause::Http2NotSpoken))]);
        assert!(client.is_over() && client.room() == 0);
    }
}
