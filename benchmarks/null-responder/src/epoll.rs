//! One loop over epoll, edge-triggered: a connection is told of once for reading and writing, and never again.

use std::{
    net::TcpListener,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use rustix::{
    buffer::spare_capacity,
    event::epoll::{self, Event, EventData, EventFlags},
    io::Errno,
    net::{RecvFlags, SocketFlags, accept_with, recv},
};

use crate::Connection;

const EVENTS_MAX: usize = 512;
const REQUEST_BYTES_MAX: usize = 4096;
/// The token of the listener; connections have their descriptors' numbers.
const LISTENER: u64 = u64::MAX;

/// A connection and how much of its response is under way.
struct Client {
    socket: OwnedFd,
    sent: usize,
    /// The number of the response that is being sent.
    answering: Option<usize>,
}

/// What is sent for a request.
pub trait Answers {
    /// The number of the response to this request.
    fn choose(&self, request: &[u8]) -> usize;

    /// Sends what follows the first `sent` bytes of a response, in as few calls as it can, counts them, and says whether
    /// that was all.
    fn send(&self, response: usize, to: BorrowedFd<'_>, sent: &mut usize) -> rustix::io::Result<bool>;
}

/// A function that sends the only response.
impl<F: Fn(BorrowedFd<'_>, &mut usize) -> rustix::io::Result<bool>> Answers for F {
    fn choose(&self, _: &[u8]) -> usize {
        0
    }

    fn send(&self, _: usize, to: BorrowedFd<'_>, sent: &mut usize) -> rustix::io::Result<bool> {
        self(to, sent)
    }
}

/// What is to become of a connection now.
enum Next {
    Wait,
    End,
}

/// Serves a single response, sent by a function like [`Answers::send`].
pub fn serve_one(
    listener: &TcpListener,
    keep: Connection,
    send: impl Fn(BorrowedFd<'_>, &mut usize) -> rustix::io::Result<bool>,
) -> rustix::io::Result<()> {
    serve(listener, keep, &send)
}

/// Serves until the process is killed.
pub fn serve(listener: &TcpListener, keep: Connection, answers: &impl Answers) -> rustix::io::Result<()> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut clients: Vec<Option<Client>> = Vec::new();
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
    loop {
        events.clear();
        match epoll::wait(&poll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        for event in &events {
            let token = event.data.u64();
            if token == LISTENER {
                accept_all(listener, keep, &poll, &mut clients, answers)?;
            } else if let Some(slot) = clients.get_mut(token as usize)
                && let Some(client) = slot
                && let Next::End = advance(client, keep, answers)
            {
                *slot = None;
            }
        }
    }
}

fn accept_all(
    listener: &TcpListener,
    keep: Connection,
    poll: &OwnedFd,
    clients: &mut Vec<Option<Client>>,
    answers: &impl Answers,
) -> rustix::io::Result<()> {
    loop {
        let socket = match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::CONNABORTED | Errno::INTR) => continue,
            Err(error) => return Err(error),
        };
        let index = socket.as_raw_fd() as usize;
        let mut client = Client { socket, sent: 0, answering: None };
        // Where connections are closed the request is there already, so that most are never waited for.
        if keep == Connection::Close
            && let Next::End = advance(&mut client, keep, answers)
        {
            continue;
        }
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        epoll::add(poll, &client.socket, EventData::new_u64(index as u64), flags)?;
        if clients.len() <= index {
            clients.resize_with(index + 1, || None);
        }
        clients[index] = Some(client);
    }
}

/// Reads a request if none is being answered, and answers it as far as the socket takes.
fn advance(client: &mut Client, keep: Connection, answers: &impl Answers) -> Next {
    let response = match client.answering {
        Some(response) => response,
        None => {
            let mut request = [0_u8; REQUEST_BYTES_MAX];
            match recv(&client.socket, &mut request, RecvFlags::empty()) {
                Ok((_, length @ 1..)) => *client.answering.insert(answers.choose(&request[..length])),
                Err(Errno::AGAIN) => return Next::Wait,
                Ok((_, 0)) | Err(_) => return Next::End,
            }
        }
    };
    match answers.send(response, client.socket.as_fd(), &mut client.sent) {
        Ok(true) if keep == Connection::Close => Next::End,
        Ok(true) => {
            (client.sent, client.answering) = (0, None);
            Next::Wait
        }
        // A short count means that the socket's buffer was found full, and then the kernel reports when it no longer is.
        Ok(false) | Err(Errno::AGAIN) => Next::Wait,
        Err(_) => Next::End,
    }
}
