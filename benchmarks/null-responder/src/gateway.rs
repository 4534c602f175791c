//! The least that a gateway to a FastCGI application does over kept connections: per request a receive and a send on either
//! side, and its share of a wait.
//!
//! It takes for granted what the null responder does, and that the application answers every request with this file in
//! one record. Like our server it does the work of an iteration first, and then sends to the application before clients:
//! that wakes fewer processes.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsRawFd, OwnedFd},
};

use anyhow::{Context, bail, ensure};
use rustix::{
    buffer::spare_capacity,
    event::epoll::{self, Event, EventData, EventFlags},
    io::Errno,
    net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send},
};
use sojourn_cgi::{Application, Client, Ends, fastcgi};
use sojourn_http::request::{Parsed, Parser};

use crate::response::Response;

const EVENTS_MAX: usize = 512;
const REQUEST_BYTES_MAX: usize = 4096;
/// The token of the listener; connections have their descriptors' numbers.
const LISTENER: u64 = u64::MAX;
/// What an application is asked, whatever a client asked for.
const REQUEST: &[u8] = b"GET /file HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// The longest response of one record, with the record behind it.
const RECORDS_BYTES_MAX: usize = fastcgi::CONTENT_BYTES_MAX + 3 * fastcgi::HEADER_BYTES;

/// A connection, to a client or to the application.
struct Peer {
    socket: OwnedFd,
    stage: Stage,
}

enum Stage {
    /// A client that has yet to ask.
    Asking,
    /// A client whose answer has yet to come.
    Waiting,
    /// A client gets what follows the first bytes of a response.
    Answering { bytes: Vec<u8>, sent: usize },
    /// The application, without a request.
    Idle,
    /// The application answers the request of this client.
    Receiving { client: usize, bytes: Vec<u8>, received: usize },
}

/// What is sent and received.
struct Messages {
    /// The request as records.
    request: Vec<u8>,
    /// The head for clients. It replaces what the application sends before the body.
    head: Vec<u8>,
    /// Where the application's bytes are received, so that the body follows the head.
    offset: usize,
    answer_length: usize,
    response_length: usize,
}

struct Gateway {
    application: SocketAddr,
    messages: Messages,
    poll: OwnedFd,
    peers: Vec<Option<Peer>>,
    /// Idle connections to the application; the one used last is used next.
    idle: Vec<usize>,
    buffers: Vec<Vec<u8>>,
    to_application: Vec<usize>,
    to_clients: Vec<usize>,
}

/// Serves `response` until the process is killed; the application answers with it in `records`.
pub fn serve(
    listener: &TcpListener,
    application: SocketAddr,
    response: &Response,
    records: &Response,
) -> anyhow::Result<()> {
    ensure!(records.bytes().len() <= RECORDS_BYTES_MAX, "the response does not fit into one record");
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut gateway = Gateway {
        application,
        messages: Messages::of(response, records)?,
        poll,
        peers: Vec::new(),
        idle: Vec::new(),
        buffers: Vec::new(),
        to_application: Vec::new(),
        to_clients: Vec::new(),
    };
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
    loop {
        events.clear();
        match epoll::wait(&gateway.poll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => gateway.accept_all(listener)?,
                token => gateway.advance(token as usize)?,
            }
        }
        gateway.send_all()?;
    }
}

impl Messages {
    fn of(response: &Response, records: &Response) -> anyhow::Result<Messages> {
        let Ok(Parsed::Complete(request)) = Parser::default().parse(REQUEST) else {
            bail!("the request is none");
        };
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let client = Client { address, ends: Ends::default(), is_secure: false, version: request.version };
        let mut bytes = Vec::new();
        fastcgi::head(&Application::default(), &request, client, |_| false, &mut bytes);
        fastcgi::end_input(&mut bytes);
        let behind = 2 * fastcgi::HEADER_BYTES;
        let answer_length = records.bytes().len();
        let before = answer_length - behind - response.body_length();
        let head = response.bytes()[..response.bytes().len() - response.body_length()].to_vec();
        // The application's head has some of the fields.
        let offset = head.len().checked_sub(before).context("the application's head is longer")?;
        Ok(Messages { request: bytes, head, offset, answer_length, response_length: response.bytes().len() })
    }
}

impl Gateway {
    fn accept_all(&mut self, listener: &TcpListener) -> anyhow::Result<()> {
        loop {
            match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => self.add(socket, Stage::Asking)?,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::CONNABORTED | Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
        }
    }

    fn add(&mut self, socket: OwnedFd, stage: Stage) -> anyhow::Result<usize> {
        let index = socket.as_raw_fd() as usize;
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        epoll::add(&self.poll, &socket, EventData::new_u64(index as u64), flags)?;
        if self.peers.len() <= index {
            self.peers.resize_with(index + 1, || None);
        }
        self.peers[index] = Some(Peer { socket, stage });
        Ok(index)
    }

    /// Receives what there is, and notes what is to be sent.
    fn advance(&mut self, index: usize) -> anyhow::Result<()> {
        let Some(peer) = self.peers.get_mut(index).and_then(Option::as_mut) else { return Ok(()) };
        match &mut peer.stage {
            Stage::Waiting => {}
            Stage::Answering { .. } => self.to_clients.push(index),
            Stage::Asking => match recv(&peer.socket, &mut [0_u8; REQUEST_BYTES_MAX], RecvFlags::empty()) {
                Ok((_, 1..)) => {
                    peer.stage = Stage::Waiting;
                    self.ask(index)?;
                }
                Err(Errno::AGAIN) => {}
                Ok((_, 0)) | Err(_) => self.peers[index] = None,
            },
            Stage::Idle => {
                if recv(&peer.socket, &mut [0_u8; 1], RecvFlags::empty()) != Err(Errno::AGAIN) {
                    self.idle.retain(|other| *other != index);
                    self.peers[index] = None;
                }
            }
            Stage::Receiving { client, bytes, received } => {
                let Messages { head, offset, answer_length, .. } = &self.messages;
                let space = &mut bytes[offset + *received..offset + answer_length];
                match recv(&peer.socket, space, RecvFlags::empty()) {
                    Ok((_, count @ 1..)) => *received += count,
                    Err(Errno::AGAIN) => {}
                    Ok((_, 0)) => bail!("the application has closed a connection"),
                    Err(error) => return Err(error.into()),
                }
                if *received == *answer_length {
                    let (client, mut bytes) = (*client, std::mem::take(bytes));
                    bytes[..head.len()].copy_from_slice(head);
                    peer.stage = Stage::Idle;
                    self.idle.push(index);
                    self.peers[client].as_mut().expect("it waits").stage =
                        Stage::Answering { bytes, sent: 0 };
                    self.to_clients.push(client);
                }
            }
        }
        Ok(())
    }

    /// Takes a connection to the application for this client's request.
    fn ask(&mut self, client: usize) -> anyhow::Result<()> {
        let index = match self.idle.pop() {
            Some(index) => index,
            None => {
                let socket = TcpStream::connect(self.application)?;
                socket.set_nonblocking(true)?;
                socket.set_nodelay(true)?;
                self.add(socket.into(), Stage::Idle)?
            }
        };
        let length = self.messages.offset + self.messages.answer_length;
        let bytes = self.buffers.pop().unwrap_or_else(|| vec![0; length]);
        self.peers[index].as_mut().expect("it is open").stage =
            Stage::Receiving { client, bytes, received: 0 };
        self.to_application.push(index);
        Ok(())
    }

    fn send_all(&mut self) -> anyhow::Result<()> {
        for index in self.to_application.drain(..) {
            let Some(peer) = &self.peers[index] else { continue };
            let request = &self.messages.request;
            let sent = send(&peer.socket, request, SendFlags::NOSIGNAL)?;
            ensure!(sent == request.len(), "a request does not fit into the socket's buffer");
        }
        for index in self.to_clients.drain(..) {
            let Some(peer) = &mut self.peers[index] else { continue };
            let Stage::Answering { bytes, sent } = &mut peer.stage else { continue };
            match send(&peer.socket, &bytes[*sent..self.messages.response_length], SendFlags::NOSIGNAL) {
                Ok(count) => *sent += count,
                Err(Errno::AGAIN) => {}
                Err(_) => {
                    self.peers[index] = None;
                    continue;
                }
            }
            // Otherwise the kernel reports when there is room again.
            if *sent == self.messages.response_length {
                self.buffers.push(std::mem::take(bytes));
                peer.stage = Stage::Asking;
            }
        }
        Ok(())
    }
}
