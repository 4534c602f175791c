//! A scripted streaming server: every packet at its time, lost, duplicated, late or invalid.
//!
//! It serves one connection after the other, each in a thread of its own, until the test ends.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use sojourn_media::{
    rtp::{Header, rtcp},
    rtsp::{Message, Method, Parsed, Parser, Transport, write::interleaved_head},
};

/// Units of timestamps per second.
pub const CLOCK_RATE: u32 = 90_000;
/// The SSRC in scripts, unless they say otherwise.
pub const SOURCE: u32 = 77;

/// One datagram or interleaved packet.
#[derive(Clone)]
pub struct Sent {
    /// When it is sent, after the response to PLAY.
    pub at: Duration,
    /// Its content.
    pub bytes: Vec<u8>,
    /// True if it is sent to the RTCP port.
    pub is_report: bool,
}

/// An RTP packet with 100 bytes of payload, sent immediately.
pub fn packet(sequence: u16, media_milliseconds: u32) -> Sent {
    let timestamp = (CLOCK_RATE / 1000 * media_milliseconds).wrapping_add(u32::MAX - 1000);
    let header = Header { marker: true, payload_type: 96, sequence, timestamp, source: SOURCE };
    Sent { at: Duration::ZERO, bytes: [&header.bytes()[..], &[0; 100]].concat(), is_report: false }
}

impl Sent {
    /// The same packet, sent this many milliseconds after the response to PLAY.
    pub fn at(self, milliseconds: u64) -> Sent {
        Sent { at: Duration::from_millis(milliseconds), ..self }
    }
}

/// An RTCP BYE.
pub fn goodbye() -> Sent {
    let mut bytes = Vec::new();
    rtcp::append_goodbye(&mut bytes, SOURCE);
    Sent { at: Duration::ZERO, bytes, is_report: true }
}

/// What a server does.
#[derive(Clone, Default)]
pub struct Script {
    /// What it sends to every client, in order of time.
    pub packets: Vec<Sent>,
    /// The film's length as it is described.
    pub length_seconds: Option<f64>,
    /// A method that gets this response instead, verbatim.
    pub instead: Option<(Method, Vec<u8>)>,
    /// What is sent on connecting, repeatedly if it `floods`.
    pub greeting: Vec<u8>,
    /// True if the greeting is repeated forever.
    pub floods: bool,
}

/// A running server, and the requests it received.
pub struct FilmServer {
    /// Where it listens.
    pub address: SocketAddr,
    /// Methods of all connections in the order of arrival.
    pub asked: Arc<Mutex<Vec<Method>>>,
    /// Receiver reports: packets lost in total, and highest sequence number.
    pub reports: Arc<Mutex<Vec<(i32, u32)>>>,
}

impl FilmServer {
    pub fn start(script: Script) -> FilmServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = FilmServer {
            address: listener.local_addr().unwrap(),
            asked: Arc::default(),
            reports: Arc::default(),
        };
        let (asked, reports) = (Arc::clone(&server.asked), Arc::clone(&server.reports));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let talk = Talk {
                    script: script.clone(),
                    stream,
                    asked: Arc::clone(&asked),
                    reports: Arc::clone(&reports),
                    way: Way::None,
                };
                thread::spawn(move || talk.serve());
            }
        });
        server
    }

    pub fn url(&self) -> String {
        format!("rtsp://{}/film", self.address)
    }

    /// How often it received this method.
    pub fn asked_for(&self, method: Method) -> usize {
        self.asked.lock().unwrap().iter().filter(|each| **each == method).count()
    }
}

enum Way {
    None,
    Udp { media: UdpSocket, reports: UdpSocket },
    Interleaved,
}

struct Talk {
    script: Script,
    stream: TcpStream,
    asked: Arc<Mutex<Vec<Method>>>,
    reports: Arc<Mutex<Vec<(i32, u32)>>>,
    way: Way,
}

impl Talk {
    fn serve(mut self) {
        while !self.script.greeting.is_empty() {
            if self.stream.write_all(&self.script.greeting).is_err() || !self.script.floods {
                break;
            }
        }
        let (mut bytes, mut buffer, mut parser) = (Vec::new(), [0; 4096], Parser::default());
        loop {
            match parser.parse(&bytes) {
                Ok(Parsed::Complete(Message::Request(request), length)) => {
                    let (method, sequence) = (request.method, request.sequence().unwrap_or(0));
                    let transport = request.fields.value("Transport").map(str::to_owned);
                    self.asked.lock().unwrap().push(method);
                    bytes.drain(..length);
                    if !self.answer(method, sequence, transport.as_deref()) {
                        return;
                    }
                }
                Ok(Parsed::Complete(message, length)) => {
                    if let Message::Interleaved(packet) = message {
                        note(&self.reports, packet.payload);
                    }
                    bytes.drain(..length);
                }
                Ok(Parsed::Partial) => match self.stream.read(&mut buffer) {
                    Ok(0) | Err(_) => return,
                    Ok(count) => bytes.extend(&buffer[..count]),
                },
                Err(_) => return,
            }
        }
    }

    /// Responds; returns true to continue.
    fn answer(&mut self, method: Method, sequence: u32, transport: Option<&str>) -> bool {
        if let Some((instead, bytes)) = &self.script.instead
            && *instead == method
        {
            let text = String::from_utf8_lossy(bytes).replace("CSEQ", &sequence.to_string());
            let bytes = if text.is_ascii() { text.into_bytes() } else { bytes.clone() };
            return self.stream.write_all(&bytes).is_ok();
        }
        let mut body = String::new();
        let fields = match method {
            Method::Options => {
                "Public: OPTIONS, DESCRIBE, SETUP, PLAY, GET_PARAMETER, TEARDOWN\r\n".to_owned()
            }
            Method::Describe => {
                let length = self.script.length_seconds.map(|length| format!("a=range:npt=0-{length}\r\n"));
                body = format!(
                    "v=0\r\n{}m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/{CLOCK_RATE}\r\na=control:track1\r\n",
                    length.unwrap_or_default()
                );
                "Content-Type: application/sdp\r\n".to_owned()
            }
            Method::Setup => {
                let granted = self.set_up(transport.unwrap_or_default());
                format!("Session: 5;timeout=2\r\nTransport: {granted}\r\n")
            }
            _ => "Session: 5\r\n".to_owned(),
        };
        let length = body.len();
        let reply =
            format!("RTSP/1.0 200 OK\r\nCSeq: {sequence}\r\n{fields}Content-Length: {length}\r\n\r\n{body}");
        let sent = self.stream.write_all(reply.as_bytes()).is_ok();
        if method == Method::Play {
            self.play();
        }
        sent && method != Method::Teardown
    }

    fn set_up(&mut self, offered: &str) -> Transport {
        let mut transport = Transport::parse_all(offered).unwrap().remove(0);
        match transport.client_ports {
            Some((media_port, report_port)) => {
                let open = |port: u16| {
                    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                    socket.connect(("127.0.0.1", port)).unwrap();
                    socket
                };
                let (media, reports) = (open(media_port), open(report_port));
                let port = |socket: &UdpSocket| socket.local_addr().unwrap().port();
                transport.server_ports = Some((port(&media), port(&reports)));
                self.way = Way::Udp { media, reports };
            }
            None => self.way = Way::Interleaved,
        }
        transport
    }

    /// Sends the script's packets in another thread while the dialogue continues.
    fn play(&mut self) {
        let (packets, began) = (self.script.packets.clone(), Instant::now());
        let wait = move |at: Duration| thread::sleep(at.saturating_sub(began.elapsed()));
        match std::mem::replace(&mut self.way, Way::None) {
            Way::None => {}
            Way::Udp { media, reports } => {
                let (listening, noted) = (reports.try_clone().unwrap(), Arc::clone(&self.reports));
                thread::spawn(move || {
                    let mut buffer = [0; 1500];
                    while let Ok(count) = listening.recv(&mut buffer) {
                        note(&noted, &buffer[..count]);
                    }
                });
                thread::spawn(move || {
                    for sent in packets {
                        wait(sent.at);
                        // A viewer that has left refuses packets.
                        let _ = if sent.is_report { &reports } else { &media }.send(&sent.bytes);
                    }
                });
            }
            Way::Interleaved => {
                let mut stream = self.stream.try_clone().unwrap();
                thread::spawn(move || {
                    for sent in packets {
                        wait(sent.at);
                        let head = interleaved_head(u8::from(sent.is_report), sent.bytes.len() as u16);
                        if stream.write_all(&[&head[..], &sent.bytes].concat()).is_err() {
                            return;
                        }
                    }
                });
            }
        }
    }
}

fn note(reports: &Mutex<Vec<(i32, u32)>>, datagram: &[u8]) {
    for packet in rtcp::packets(datagram).flatten() {
        if let rtcp::Packet::Receiver { receptions, .. } = packet {
            reports
                .lock()
                .unwrap()
                .extend(receptions.into_iter().map(|each| (each.lost, each.highest_sequence)));
        }
    }
}
