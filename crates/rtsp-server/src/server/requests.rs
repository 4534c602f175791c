//! Reads clients' messages, handles them one after the other, and responds.

use std::time::Duration;

use sojourn_measure::clock;

use super::{SLOT, Server};
use crate::authentication::Denial;
use crate::control_connection::{Reading, Waiting};
use crate::counters::Counter;
use sojourn_media::rtsp::{Message, Parsed, Refusal, Request, Status, write};

/// Messages of one connection handled in one loop iteration.
const MESSAGES_PER_ITERATION: usize = 32;

/// The time for connections before due samples are sent.
const SERVING_PER_ITERATION: Duration = SLOT;

/// The result of handling a connection's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    /// Nothing more to do until the next event.
    All,
    More,
}

/// How many of the received messages were handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handled {
    /// No complete message, or one that must wait.
    Nothing,
    /// All messages up to such a one.
    Some,
    /// As many as one loop iteration allows.
    Part,
}

/// The parts of a response besides its status.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) body: Option<String>,
}

impl Answer {
    pub(super) fn with(fields: impl IntoIterator<Item = (&'static str, String)>) -> Answer {
        Answer { fields: fields.into_iter().collect(), body: None }
    }
}

impl Server<'_> {
    /// Marks connection `token` as ready to be served.
    pub(super) fn make_ready(&mut self, token: u64) {
        if let Some(connection) = self.connections.find(token).filter(|it| !it.is_ready) {
            connection.is_ready = true;
            self.ready.push_back(token);
        }
    }

    /// Serves ready connections round-robin until due samples must be sent. A connection with more requests than one
    /// iteration allows continues after the others.
    pub(super) fn serve_ready(&mut self) {
        while let Some(token) = self.ready.pop_front() {
            let Some(connection) = self.connections.find(token) else { continue };
            connection.is_ready = false;
            if self.serve(token) == Served::More {
                self.make_ready(token);
            }
            if Duration::from(clock::now()).saturating_sub(self.now) >= SERVING_PER_ITERATION {
                return;
            }
        }
    }

    /// Reads a connection's messages, handles them, and sends the responses.
    fn serve(&mut self, token: u64) -> Served {
        let Some(connection) = self.connections.find(token) else { return Served::All };
        let was_empty = connection.received.is_empty();
        if connection.read() == Reading::Broken {
            self.close(token);
            return Served::All;
        }
        if was_empty && !connection.received.is_empty() {
            connection.since = self.now;
        }
        let handled = self.handle_messages(token);
        let Some(connection) = self.connections.find(token) else { return Served::All };
        let was_full = connection.is_full_of_answers();
        match connection.write(self.now) {
            Err(_) => {
                self.close(token);
                return Served::All;
            }
            Ok(sent) => self.counts.add(Counter::SentBytes, sent as u64),
        }
        // There will be no further event for a client whose responses have just been sent.
        let is_unblocked = was_full && !connection.is_full_of_answers();
        if handled == Handled::Part || is_unblocked || connection.is_readable() && handled == Handled::Some {
            return Served::More;
        }
        let is_over = connection.is_closing
            || connection.has_ended && !was_full && !matches!(connection.film, Waiting::Yes);
        if is_over && (connection.waiting_bytes() == 0 || connection.has_ended) {
            self.close(token);
        }
        Served::All
    }

    /// Handles received messages up to one that must wait, or as many as one loop iteration allows.
    fn handle_messages(&mut self, token: u64) -> Handled {
        let Some(connection) = self.connections.find(token) else { return Handled::Nothing };
        if connection.is_closing {
            connection.received.clear();
            return Handled::Nothing;
        }
        let received = std::mem::take(&mut connection.received);
        let mut parser = std::mem::take(&mut connection.parser);
        let (mut start, mut count) = (0, 0);
        while start < received.len() && count < MESSAGES_PER_ITERATION {
            if self.connections.find(token).is_none_or(|it| it.is_closing || it.is_full_of_answers()) {
                break;
            }
            count += 1;
            match parser.parse(&received[start..]) {
                Ok(Parsed::Partial) => break,
                Ok(Parsed::Complete(message, length)) => {
                    match message {
                        Message::Request(request) if !self.request(token, &request) => break,
                        Message::Interleaved(data) => self.interleaved(token, &data),
                        // The server sends no requests, so responses are ignored.
                        Message::Request(_) | Message::Response(_) => {}
                    }
                    start += length;
                }
                Err(error) => {
                    self.answer(token, None, Err(error.status().into()));
                    if let Some(connection) = self.connections.find(token) {
                        connection.is_closing = true;
                    }
                    start = received.len();
                }
            }
        }
        let Some(connection) = self.connections.find(token) else { return Handled::Nothing };
        connection.parser = parser;
        connection.received = received;
        connection.received.drain(..start);
        if start == 0 {
            return Handled::Nothing;
        }
        connection.since = self.now;
        let is_part = count == MESSAGES_PER_ITERATION && !connection.received.is_empty();
        if is_part { Handled::Part } else { Handled::Some }
    }

    /// Handles a request; returns true if it was answered, false if it waits for a film.
    fn request(&mut self, token: u64, request: &Request<'_>) -> bool {
        let outcome = self.authenticate(token, request).and_then(|()| self.perform(token, request));
        if matches!(outcome, Ok(None)) {
            return false;
        }
        let connection = self.connections.at(token);
        connection.is_authenticated = false;
        // A film that arrives later would be mistaken for the next request's.
        connection.is_closing |= !matches!(connection.film, Waiting::No);
        self.counts.count(Counter::Requests);
        self.answer(token, request.sequence(), outcome.map(Option::unwrap_or_default));
        let closes = request.fields.value("Connection").is_some_and(|it| it.eq_ignore_ascii_case("close"));
        if let Some(connection) = self.connections.find(token).filter(|_| closes) {
            connection.is_closing = true;
        }
        true
    }

    /// Authenticates a request once, however often it has to wait.
    fn authenticate(&mut self, token: u64, request: &Request<'_>) -> Result<(), Refusal> {
        let Some(authenticator) = &mut self.authenticator else { return Ok(()) };
        let connection = self.connections.at(token);
        if connection.is_authenticated {
            return Ok(());
        }
        let checked = authenticator.check(request, connection.peer, &mut connection.identity, self.now);
        connection.is_authenticated = checked.is_ok();
        checked.map_err(|denial| {
            match denial {
                Denial::Asked(_) => {}
                Denial::Failed(_) => self.counts.count(Counter::AuthenticationFailures),
                Denial::Limited(_) => self.counts.count(Counter::LimitFailures),
            }
            denial.into_refusal()
        })
    }

    fn answer(&mut self, token: u64, sequence: Option<u32>, outcome: Result<Answer, Refusal>) {
        let Some(connection) = self.connections.find(token) else { return };
        let (status, answer) = match outcome {
            Ok(answer) => (Status::Ok, answer),
            Err(Refusal { status, fields }) => {
                self.counts.count(Counter::Refusals);
                (status, Answer::with(fields))
            }
        };
        let before = connection.waiting_bytes();
        let mut writer = write::response(connection.output(), status, sequence);
        for (name, value) in &answer.fields {
            writer = writer.field(name, value);
        }
        match answer.body {
            None => writer.end(),
            Some(body) => writer.body(body.as_bytes()),
        }
        connection.note_answer(before);
    }
}
