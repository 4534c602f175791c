//! A client that sends the bodies of requests part by part.

use std::collections::BTreeMap;

use sojourn_http::http2::{Connection, ErrorCode, Event};

use super::super::limits;
use super::Server;

pub struct Uploader {
    pub protocol: Connection,
    /// What has come back, by stream.
    pub answers: BTreeMap<u32, Answer>,
    /// The server has announced its end.
    pub is_left: bool,
}

#[derive(Default)]
pub struct Answer {
    /// Those of interim responses included.
    pub statuses: Vec<u16>,
    pub body: Vec<u8>,
    pub is_ended: bool,
    pub reset: Option<ErrorCode>,
}

impl Answer {
    pub fn is_whole(&self, status: u16, body: &[u8]) -> bool {
        self.statuses == [status] && self.body == body && self.is_ended
    }
}

impl Default for Uploader {
    fn default() -> Uploader {
        Uploader {
            protocol: Connection::client(limits::of_protocol()),
            answers: BTreeMap::new(),
            is_left: false,
        }
    }
}

impl Uploader {
    /// Begins a request whose body follows; returns its stream.
    pub fn begin(&mut self, method: &str, fields: &str) -> u32 {
        let text = format!("{method} / HTTP/1.1\r\nHost: h\r\n{fields}\r\nbody");
        let (stream, _) = self.protocol.send_request(text.as_bytes(), "http").unwrap();
        self.answers.insert(stream, Answer::default());
        stream
    }

    /// Sends a part of a body, which must fit into the windows.
    pub fn send(&mut self, stream: u32, part: &[u8], is_end: bool) {
        let head = self.protocol.data_head(stream, part.len(), is_end);
        self.protocol.output().extend_from_slice(&[&head, part].concat());
    }

    /// Sends as much of `part` as the server takes; returns true if that is all.
    pub fn send_part(&mut self, stream: u32, mut part: &[u8], server: &mut Server) -> bool {
        loop {
            self.talk(server);
            let room = self.protocol.room(stream).min(self.protocol.frame_bytes_max());
            if part.is_empty() || room == 0 {
                return part.is_empty();
            }
            let (sent, rest) = part.split_at(room.min(part.len()));
            self.send(stream, sent, false);
            part = rest;
        }
    }

    /// Sends the whole body, or as much of it as the server takes.
    pub fn send_all(&mut self, stream: u32, body: &[u8], server: &mut Server) {
        if self.send_part(stream, body, server) {
            self.send(stream, b"", true);
            self.talk(server);
        }
    }

    /// Lets both sides exchange bytes until neither has any.
    pub fn talk(&mut self, server: &mut Server) {
        loop {
            let said = self.protocol.take_output();
            if !said.is_empty() {
                server.receive(&said);
            }
            let sent = std::mem::take(&mut server.sent);
            if said.is_empty() && sent.is_empty() {
                return;
            }
            let mut input = &sent[..];
            while let Some(event) = self.protocol.next(&mut input) {
                match event {
                    Event::Head { stream, is_end } => {
                        let answer = self.answers.get_mut(&stream).unwrap();
                        answer.statuses.extend(self.protocol.head().status());
                        answer.is_ended |= is_end;
                    }
                    Event::Data { stream, bytes, is_end } => {
                        self.protocol.release(stream, bytes.len());
                        let answer = self.answers.get_mut(&stream).unwrap();
                        answer.body.extend_from_slice(bytes);
                        answer.is_ended |= is_end;
                    }
                    Event::Reset { stream, code } => {
                        self.answers.get_mut(&stream).unwrap().reset = Some(code);
                    }
                    Event::Leaving { .. } => self.is_left = true,
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}
