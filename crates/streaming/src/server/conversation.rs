//! Talking with a client: messages are read, followed one after the other, and answered.

use super::Server;
use super::connection::{Reading, Waiting};
use super::counters::Counter;
use super::guard::Denial;
use crate::rtsp::{Message, Parsed, Refusal, Request, Status, write};

/// What a request is answered, beside its status.
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
    /// Reads what a connection sends, follows it, and sends what is to be said.
    pub(super) fn serve(&mut self, token: u64) {
        loop {
            let Some(connection) = self.connections.find(token) else { return };
            let was_empty = connection.received.is_empty();
            if connection.read() == Reading::Broken {
                return self.close(token);
            }
            if was_empty && !connection.received.is_empty() {
                connection.since = self.now;
            }
            let understood = self.understand(token);
            let Some(connection) = self.connections.find(token) else { return };
            match connection.write(self.now) {
                Err(_) => return self.close(token),
                Ok(sent) => self.counts.add(Counter::SentBytes, sent as u64),
            }
            let is_over =
                connection.is_closing || connection.has_ended && !matches!(connection.film, Waiting::Yes);
            if is_over && (connection.waiting_bytes() == 0 || connection.has_ended) {
                return self.close(token);
            }
            if !connection.is_readable() || understood == 0 {
                return;
            }
        }
    }

    /// Follows the messages that are there, up to one that has to wait; returns their bytes.
    fn understand(&mut self, token: u64) -> usize {
        let Some(connection) = self.connections.find(token) else { return 0 };
        if connection.is_closing {
            connection.received.clear();
            return 0;
        }
        let received = std::mem::take(&mut connection.received);
        let mut parser = std::mem::take(&mut connection.parser);
        let mut start = 0;
        while start < received.len() {
            match parser.parse(&received[start..]) {
                Ok(Parsed::Partial) => break,
                Ok(Parsed::Complete(message, length)) => {
                    match message {
                        Message::Request(request) if !self.request(token, &request) => break,
                        Message::Interleaved(data) => self.interleaved(token, &data),
                        // A server asks nothing, so it is answered nothing.
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
        if let Some(connection) = self.connections.find(token) {
            connection.parser = parser;
            connection.received = received;
            connection.received.drain(..start);
            if start > 0 {
                connection.since = self.now;
            }
        }
        start
    }

    /// Follows a request; returns whether it is answered, or has to wait for a film.
    fn request(&mut self, token: u64, request: &Request<'_>) -> bool {
        let outcome = self.let_in(token, request).and_then(|()| self.follow(token, request));
        if matches!(outcome, Ok(None)) {
            return false;
        }
        let connection = self.connections.at(token);
        connection.is_let_in = false;
        // A film that is still to come would be taken for the next request's.
        connection.is_closing |= !matches!(connection.film, Waiting::No);
        self.counts.count(Counter::Requests);
        self.answer(token, request.sequence(), outcome.map(Option::unwrap_or_default));
        let closes = request.fields.value("Connection").is_some_and(|it| it.eq_ignore_ascii_case("close"));
        if let Some(connection) = self.connections.find(token).filter(|_| closes) {
            connection.is_closing = true;
        }
        true
    }

    /// Lets a request in once, however often it has to wait.
    fn let_in(&mut self, token: u64, request: &Request<'_>) -> Result<(), Refusal> {
        let Some(guard) = &mut self.guard else { return Ok(()) };
        let connection = self.connections.at(token);
        if connection.is_let_in {
            return Ok(());
        }
        let checked = guard.check(request, connection.peer, &mut connection.identity, self.now);
        connection.is_let_in = checked.is_ok();
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
        let mut writer = write::response(connection.outgoing(), status, sequence);
        for (name, value) in &answer.fields {
            writer = writer.field(name, value);
        }
        match answer.body {
            None => writer.end(),
            Some(body) => writer.body(body.as_bytes()),
        }
    }
}
