//! An HTTP/2 client over a socket or TLS, polled by hand like the server's side.

use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{self, Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::engine::{DEADLINE, tls};

/// The client's windows, as large as a browser's.
const WINDOW: u32 = 6 << 20;

/// A connection.
pub struct Client {
    sender: SendRequest<Bytes>,
    connection: Connection<Socket, Bytes>,
    socket: TcpStream,
    scheme: &'static str,
    is_over: bool,
}

/// A request with its response.
pub struct Exchange {
    response: ResponseFuture,
    /// The unsent part of the request.
    upload: Option<(SendStream<Bytes>, Bytes)>,
    incoming: Option<RecvStream>,
    /// The head of the response, once received.
    pub head: Option<(u16, HeaderMap)>,
    /// The received part of the body.
    pub body: Vec<u8>,
    /// The end of the exchange.
    pub outcome: Option<Result<(), Option<Reason>>>,
    asked: Instant,
    pub took: Duration,
}

impl Client {
    /// Connects with prior knowledge of HTTP/2.
    pub fn to(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).unwrap();
        Client::over(socket.try_clone().unwrap(), Box::new(socket), "http")
    }

    /// Connects over TLS and negotiates HTTP/2.
    pub fn secure_to(address: SocketAddr, config: &Arc<ClientConfig>) -> Client {
        let mut stream = tls::connect(address, config).stream;
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        assert_eq!(stream.conn.alpn_protocol(), Some(&b"h2"[..]));
        Client::over(stream.sock.try_clone().unwrap(), Box::new(stream), "https")
    }

    fn over(socket: TcpStream, stream: Box<dyn ReadWrite>, scheme: &'static str) -> Client {
        socket.set_nonblocking(true).unwrap();
        socket.set_nodelay(true).unwrap();
        let mut builder = client::Builder::new();
        builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
        let mut handshake = Box::pin(builder.handshake(Socket(stream)));
        let begun = Instant::now();
        let (sender, connection) = loop {
            match handshake.as_mut().poll(&mut nobody()) {
                Poll::Ready(made) => break made.unwrap(),
                Poll::Pending => wait(&socket, begun),
            }
        };
        Client { sender, connection, socket, scheme, is_over: false }
    }

    /// Sends a GET.
    pub fn get(&mut self, path: &str) -> Exchange {
        let request = Request::get(format!("{}://h{path}", self.scheme)).body(()).unwrap();
        let (response, _) = self.sender.send_request(request, true).unwrap();
        Exchange::new(response, None)
    }

    /// Sends a POST; declares the length of its body if it `announces` it.
    pub fn post(&mut self, path: &str, body: Vec<u8>, announces: bool) -> Exchange {
        let mut request = Request::post(format!("{}://h{path}", self.scheme));
        if announces {
            request = request.header("content-length", body.len());
        }
        let (response, stream) = self.sender.send_request(request.body(()).unwrap(), false).unwrap();
        Exchange::new(response, Some((stream, body.into())))
    }

    /// Waits until `exchanges` have ended.
    pub fn finish(&mut self, exchanges: &mut [Exchange]) {
        self.finish_some(exchanges, exchanges.len());
    }

    /// Waits until `count` of `exchanges` have ended, reading the others meanwhile.
    pub fn finish_some(&mut self, exchanges: &mut [Exchange], count: usize) {
        let begun = Instant::now();
        while self.advance(exchanges) < count {
            wait(&self.socket, begun);
        }
    }

    /// Waits until the server has closed the connection.
    pub fn finish_all(&mut self) {
        let begun = Instant::now();
        while !self.is_over {
            self.advance(&mut []);
            wait(&self.socket, begun);
        }
    }

    fn advance(&mut self, exchanges: &mut [Exchange]) -> usize {
        self.is_over |= !self.is_over && Pin::new(&mut self.connection).poll(&mut nobody()).is_ready();
        exchanges.iter_mut().for_each(Exchange::advance);
        // Releases flow-control capacity for data that was read.
        self.is_over |= !self.is_over && Pin::new(&mut self.connection).poll(&mut nobody()).is_ready();
        exchanges.iter().filter(|exchange| exchange.outcome.is_some()).count()
    }
}

impl Exchange {
    fn new(response: ResponseFuture, upload: Option<(SendStream<Bytes>, Bytes)>) -> Exchange {
        let (incoming, head, body, outcome) = (None, None, Vec::new(), None);
        let (asked, took) = (Instant::now(), Duration::ZERO);
        Exchange { response, upload, incoming, head, body, outcome, asked, took }
    }

    /// Sends as much as the server's windows allow.
    fn upload(&mut self) {
        let Some((stream, rest)) = &mut self.upload else { return };
        stream.reserve_capacity(rest.len());
        let part = rest.split_to(stream.capacity().min(rest.len()));
        let is_last = rest.is_empty();
        let has_failed = (is_last || !part.is_empty()) && stream.send_data(part, is_last).is_err();
        if has_failed || is_last {
            self.upload = None;
        }
    }

    fn advance(&mut self) {
        self.upload();
        if self.outcome.is_some() {
            return;
        }
        if self.incoming.is_none() {
            match Pin::new(&mut self.response).poll(&mut nobody()) {
                Poll::Pending => return,
                Poll::Ready(Err(error)) => return self.end(Err(error.reason())),
                Poll::Ready(Ok(response)) => {
                    let (head, body) = response.into_parts();
                    self.head = Some((head.status.as_u16(), head.headers));
                    self.incoming = Some(body);
                }
            }
        }
        let incoming = self.incoming.as_mut().expect("the head is there");
        loop {
            match incoming.poll_data(&mut nobody()) {
                Poll::Pending => return,
                Poll::Ready(None) => return self.end(Ok(())),
                Poll::Ready(Some(Err(error))) => return self.end(Err(error.reason())),
                Poll::Ready(Some(Ok(bytes))) => {
                    self.body.extend_from_slice(&bytes);
                    let _ = incoming.flow_control().release_capacity(bytes.len());
                }
            }
        }
    }

    fn end(&mut self, outcome: Result<(), Option<Reason>>) {
        self.outcome = Some(outcome);
        self.took = self.asked.elapsed();
    }

    pub fn check(&self, status: u16, body: &[u8]) {
        assert_eq!(self.outcome, Some(Ok(())));
        assert_eq!(self.head.as_ref().unwrap().0, status);
        assert!(self.body == body, "{} bytes, not {}", self.body.len(), body.len());
    }
}

fn nobody() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Waits until data can be read, or for a moment, because sending may be blocked.
fn wait(socket: &TcpStream, begun: Instant) {
    assert!(begun.elapsed() < DEADLINE, "nothing in {DEADLINE:?}");
    let moment = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
    let _ = poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&moment));
}

trait ReadWrite: Read + Write + Send {}
impl<S: Read + Write + Send> ReadWrite for S {}

struct Socket(Box<dyn ReadWrite>);

fn pending<T>(outcome: io::Result<T>) -> Poll<io::Result<T>> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        outcome => Poll::Ready(outcome),
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        pending(self.0.read(into.initialize_unfilled()).map(|count| into.advance(count)))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        pending(self.0.write(bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        pending(self.0.flush())
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
