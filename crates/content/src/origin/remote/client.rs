//! A client of HTTP/1.1 for threads that may wait: helpers that read remote content, and whatever fetches credentials.
//!
//! It keeps idle connections, and every wait has a limit with a name. A request is sent twice only if a kept connection
//! turned out to be closed; everything sent here may be repeated.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use sojourn_http::chunked::Chunked;
use sojourn_http::upstream::{Body, Head, Parser, RequestKind};

/// How much is read from a connection at a time.
const READ_BYTES: usize = 64 * 1024;

/// Interim responses (1xx) before the final one.
const INTERIM_MAX: usize = 8;

/// How long an idle connection is kept: less than servers usually do.
const IDLE_MAX: Duration = Duration::from_secs(4);

/// How long an origin may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// `--origin-connect-timeout`: name lookup excluded, TLS included.
    pub connect: Duration,
    /// `--origin-head-timeout`: from sending a request to the head of its response.
    pub head: Duration,
    /// `--origin-part-timeout`: for a whole request, with the part of the object that it fetches.
    pub part: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(3),
            head: Duration::from_secs(10),
            part: Duration::from_secs(30),
        }
    }
}

/// Why a request got no response.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot connect to {0}: {why}", why = in_words(.1))]
    Connect(String, io::Error),
    /// The limit that was exceeded.
    #[error("{0} exceeded")]
    Timeout(&'static str),
    #[error("the connection failed: {why}", why = in_words(.0))]
    Broken(io::Error),
    #[error("the response is not valid: {0}")]
    Response(String),
}

/// A server, and the idle connections to it.
#[derive(Debug)]
pub struct Client {
    host: String,
    port: u16,
    /// For the Host field.
    authority: String,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    timeouts: Timeouts,
    idle_max: usize,
    idle: Mutex<Vec<(Stream, Instant)>>,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A response whose body has not been read yet.
pub struct Exchange<'c> {
    client: &'c Client,
    stream: Stream,
    pub status: u16,
    /// The field lines.
    fields: Vec<u8>,
    /// The announced length of the representation.
    pub content_length: Option<u64>,
    framing: Framing,
    /// Received and not yet delivered, from `at`.
    received: Vec<u8>,
    at: usize,
    keeps: bool,
    deadline: Instant,
}

enum Framing {
    Length(u64),
    Chunked(Chunked),
    UntilClose,
    Done,
}

impl Client {
    /// A client of the server at `url`, which is a scheme and an authority. `tls` serves `https`; up to `idle_max`
    /// connections are kept.
    ///
    /// # Errors
    /// If the URL is not one, or if a certificate cannot cover its host.
    pub fn new(
        url: &str,
        tls: Option<&Arc<ClientConfig>>,
        timeouts: Timeouts,
        idle_max: usize,
    ) -> Result<Client, String> {
        let (is_secure, authority) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(authority), _) => (false, authority),
            (_, Some(authority)) => (true, authority),
            _ => return Err(format!("{url} is not an http or https URL")),
        };
        let no_authority = || format!("{authority:?} is not a host with an optional port");
        let is_plain = authority.bytes().all(|byte| byte.is_ascii_graphic() && !b"@/?#\\".contains(&byte));
        let after_address = authority.rfind(']').map_or(0, |end| end + 1);
        let (host, port) = match authority[after_address..].split_once(':') {
            None => (authority, if is_secure { 443 } else { 80 }),
            Some((name, port)) => {
                let port = port.parse().map_err(|_| no_authority())?;
                (&authority[..after_address + name.len()], port)
            }
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || !is_plain || port == 0 {
            return Err(no_authority());
        }
        let tls = match (is_secure, tls) {
            (false, _) => None,
            (true, None) => return Err(format!("{url} needs TLS, and there is none")),
            (true, Some(config)) => {
                let name = ServerName::try_from(host.to_owned())
                    .map_err(|_| format!("{host:?} is not a name that a certificate can cover"))?;
                Some((Arc::clone(config), name))
            }
        };
        let (host, authority) = (host.to_owned(), authority.to_owned());
        Ok(Client { host, port, authority, tls, timeouts, idle_max, idle: Mutex::default() })
    }

    /// For the Host field.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends `request`, a head and possibly a body, and waits for the head of the response.
    ///
    /// # Errors
    /// If there is none in time.
    pub fn send(&self, request: &[u8], kind: RequestKind) -> Result<Exchange<'_>, ClientError> {
        let deadline = Instant::now() + self.timeouts.part;
        while let Some(stream) = self.take_idle() {
            // An idle connection may have been closed by the server at any time.
            match self.send_on(stream, request, kind, deadline) {
                Err(ClientError::Broken(_)) => {}
                outcome => return outcome,
            }
        }
        let stream = self.connect()?;
        self.send_on(stream, request, kind, deadline)
    }

    fn take_idle(&self) -> Option<Stream> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // The oldest ones are at the front, and of no use if a younger one is too old.
        let (stream, since) = idle.pop()?;
        if since.elapsed() < IDLE_MAX {
            return Some(stream);
        }
        idle.clear();
        None
    }

    fn connect(&self) -> Result<Stream, ClientError> {
        let failed = |error| match error {
            error if is_timeout(&error) => ClientError::Timeout("origin-connect-timeout"),
            error => ClientError::Connect(self.authority.clone(), error),
        };
        let addresses: Vec<SocketAddr> =
            (&*self.host, self.port).to_socket_addrs().map_err(failed)?.collect();
        let deadline = Instant::now() + self.timeouts.connect;
        connect_to_one(&addresses, deadline).and_then(|stream| self.greet(stream, deadline)).map_err(failed)
    }

    fn greet(&self, stream: TcpStream, deadline: Instant) -> io::Result<Stream> {
        stream.set_nodelay(true)?;
        let Some((config, name)) = &self.tls else { return Ok(Stream::Plain(stream)) };
        let session = ClientConnection::new(Arc::clone(config), name.clone()).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(session, stream);
        while stream.conn.is_handshaking() {
            stream.sock.set_read_timeout(Some(left(deadline)))?;
            stream.sock.set_write_timeout(Some(left(deadline)))?;
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Stream::Tls(Box::new(stream)))
    }

    fn send_on(
        &self,
        mut stream: Stream,
        request: &[u8],
        kind: RequestKind,
        deadline: Instant,
    ) -> Result<Exchange<'_>, ClientError> {
        let head_deadline = deadline.min(Instant::now() + self.timeouts.head);
        let failed = |error| match error {
            error if is_timeout(&error) => ClientError::Timeout("origin-head-timeout"),
            error => ClientError::Broken(error),
        };
        stream.socket().set_write_timeout(Some(left(head_deadline))).map_err(failed)?;
        stream.write_all(request).and_then(|()| stream.flush()).map_err(failed)?;
        let (mut received, mut parser, mut interim) = (Vec::new(), Parser::default(), 0);
        loop {
            let parsed = parser.parse(&received, kind);
            let head = parsed.map_err(|error| ClientError::Response(error.to_string()))?;
            match head {
                Some(Head { status: 100..=199, head_len, .. }) if interim < INTERIM_MAX => {
                    received.drain(..head_len);
                    interim += 1;
                }
                Some(head) => {
                    let framing = match head.body {
                        Body::None | Body::Length(0) => Framing::Done,
                        Body::Length(length) => Framing::Length(length),
                        Body::Chunked => Framing::Chunked(Chunked::default()),
                        Body::UntilClose => Framing::UntilClose,
                    };
                    let (status, at, keeps) = (head.status, head.head_len, head.keep_alive);
                    let (fields, content_length) = (head.fields.to_vec(), head.content_length);
                    return Ok(Exchange {
                        client: self,
                        stream,
                        status,
                        fields,
                        content_length,
                        framing,
                        received,
                        at,
                        keeps,
                        deadline,
                    });
                }
                None => {
                    stream.socket().set_read_timeout(Some(left(head_deadline))).map_err(failed)?;
                    if read_more(&mut stream, &mut received).map_err(failed)? == 0 {
                        return Err(ClientError::Broken(io::ErrorKind::UnexpectedEof.into()));
                    }
                }
            }
        }
    }

    fn keep(&self, stream: Stream) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < self.idle_max {
            idle.push((stream, Instant::now()));
        }
    }
}

impl Exchange<'_> {
    /// The value of the first field called `name`.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        let is_it = |field: &[u8]| field.eq_ignore_ascii_case(name.as_bytes());
        sojourn_http::head::field_lines(&self.fields).find(|(own, _)| is_it(own)).map(|(_, value)| value)
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.field(name)?).ok()
    }

    /// Reads the body until `into` is full or it ends; returns the number of bytes read. If the body has ended, the
    /// connection is kept.
    ///
    /// # Errors
    /// If the connection fails, or takes longer than [`Timeouts::part`].
    pub fn read(mut self, into: &mut [u8]) -> Result<usize, ClientError> {
        let mut filled = 0;
        loop {
            let available = &self.received[self.at..];
            let room = &mut into[filled..];
            match &mut self.framing {
                Framing::Done => break,
                Framing::Length(left) => {
                    let count =
                        available.len().min(room.len()).min(usize::try_from(*left).unwrap_or(usize::MAX));
                    room[..count].copy_from_slice(&available[..count]);
                    (self.at, filled, *left) = (self.at + count, filled + count, *left - count as u64);
                    if *left == 0 {
                        self.framing = Framing::Done;
                    }
                }
                Framing::UntilClose => {
                    let count = available.len().min(room.len());
                    room[..count].copy_from_slice(&available[..count]);
                    (self.at, filled) = (self.at + count, filled + count);
                }
                Framing::Chunked(chunked) => {
                    let mut is_over = false;
                    let consumed = chunked.decode(available, |data| {
                        let count = data.len().min(into.len() - filled);
                        into[filled..filled + count].copy_from_slice(&data[..count]);
                        filled += count;
                        is_over |= count < data.len();
                    });
                    self.at += consumed.map_err(|error| ClientError::Response(error.to_string()))?;
                    if is_over {
                        self.keeps = false;
                        break;
                    }
                    if chunked.is_done() {
                        self.framing = Framing::Done;
                    }
                }
            }
            if filled == into.len() && !matches!(self.framing, Framing::Chunked(_)) {
                break;
            }
            if !matches!(self.framing, Framing::Done) && !self.receive(into, &mut filled)? {
                break;
            }
        }
        if matches!(self.framing, Framing::Done) && self.keeps && self.at == self.received.len() {
            self.client.keep(self.stream);
        }
        Ok(filled)
    }

    /// Receives more: straight into place, if the framing allows. Returns false at the end of a body that ends with the
    /// connection.
    fn receive(&mut self, into: &mut [u8], filled: &mut usize) -> Result<bool, ClientError> {
        let failed = |error| match error {
            error if is_timeout(&error) => ClientError::Timeout("origin-part-timeout"),
            error => ClientError::Broken(error),
        };
        if Instant::now() >= self.deadline {
            return Err(ClientError::Timeout("origin-part-timeout"));
        }
        self.stream.socket().set_read_timeout(Some(left(self.deadline))).map_err(failed)?;
        let count = match &mut self.framing {
            Framing::Length(rest) if self.at == self.received.len() => {
                let room = (into.len() - *filled).min(usize::try_from(*rest).unwrap_or(usize::MAX));
                let count =
                    read_once(&mut self.stream, &mut into[*filled..*filled + room]).map_err(failed)?;
                (*filled, *rest) = (*filled + count, *rest - count as u64);
                if *rest == 0 {
                    self.framing = Framing::Done;
                }
                count
            }
            _ => {
                self.received.drain(..std::mem::take(&mut self.at));
                read_more(&mut self.stream, &mut self.received).map_err(failed)?
            }
        };
        match (count, &self.framing) {
            (0, Framing::UntilClose) => Ok(false),
            (0, _) => Err(ClientError::Broken(io::ErrorKind::UnexpectedEof.into())),
            _ => Ok(true),
        }
    }

    /// Reads a small body as text, such as that of an error.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn text_body(self, bytes_max: usize) -> Result<String, ClientError> {
        let mut bytes = vec![0; bytes_max];
        let length = self.read(&mut bytes)?;
        bytes.truncate(length);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(into),
            Stream::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}

/// Connects to the first of `addresses` that answers.
fn connect_to_one(addresses: &[SocketAddr], deadline: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (index, address) in addresses.iter().enumerate() {
        match TcpStream::connect_timeout(address, share(deadline, addresses.len() - index)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The time for one of `count` attempts that remain until `deadline`: one that hangs leaves the others their part.
pub(super) fn share(deadline: Instant, count: usize) -> Duration {
    (left(deadline) / u32::try_from(count.max(1)).unwrap_or(u32::MAX)).max(Duration::from_millis(1))
}

fn read_more(stream: &mut Stream, received: &mut Vec<u8>) -> io::Result<usize> {
    let before = received.len();
    received.resize(before + READ_BYTES, 0);
    let count = read_once(stream, &mut received[before..]);
    received.truncate(before + *count.as_ref().unwrap_or(&0));
    count
}

fn read_once(stream: &mut Stream, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// An error of a connection in an operator's words: those of the TLS library name its own types and pages.
fn in_words(error: &io::Error) -> String {
    let text = error.to_string();
    if text.contains("CaUsedAsEndEntity") {
        return "its certificate is that of an authority, which cannot serve: let it have one that the authority issued, or \
                make it with basicConstraints=CA:FALSE"
            .to_owned();
    }
    text.split(": https://").next().unwrap_or_default().to_owned()
}

/// The time until `deadline`; never zero, which would mean no limit.
pub(super) fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

/// A socket's own timeout is reported as if it did not block.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_address_that_hangs_leaves_time_for_the_next() {
        let (hangs, answers) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let address = |listener: &TcpListener| listener.local_addr().unwrap();
        // Its queue is full, so the kernel drops what comes.
        rustix::net::listen(&hangs, 0).unwrap();
        let _waiting: Vec<_> = (0..3)
            .map(|_| TcpStream::connect_timeout(&address(&hangs), Duration::from_millis(100)))
            .collect();
        let until = Instant::now() + Duration::from_millis(200);
        let error = connect_to_one(&[address(&hangs)], until).unwrap_err();
        assert!(is_timeout(&error), "{error}");
        let until = Instant::now() + Duration::from_secs(1);
        let stream = connect_to_one(&[address(&hangs), address(&answers)], until).unwrap();
        assert!(Instant::now() < until, "there is time left for the request");
        assert_eq!(stream.peer_addr().unwrap(), address(&answers));
    }

    #[test]
    fn errors_of_tls_are_told_in_words() {
        let check = |text: &str, expected: &str| {
            let found = ClientError::Connect("files:443".to_owned(), io::Error::other(text)).to_string();
            assert!(found.starts_with(&format!("cannot connect to files:443: {expected}")), "{found}");
            assert!(!found.contains("https://"), "{found}");
        };
        check(
            "invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))",
            "its certificate is that of an authority",
        );
        check("peer closed connection: https://docs.rs/rustls/page", "peer closed connection");
        check("Connection refused (os error 111)", "Connection refused (os error 111)");
    }
}
