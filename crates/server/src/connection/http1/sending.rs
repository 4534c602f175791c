//! Sends responses: heads and small bodies from the output, large bodies piece by piece as the handler provides them, in
//! chunks if their length is not known.

use std::io::Write;

use super::{After, Http1, State};
use crate::access_log::{AccessLog, OpenLine};
use crate::connection::{
    BodyStep, BodyWriter, Buffer, Context, Event, ExchangeEvent, Output, Piece, Reason, Want,
};

/// Longer responses are corked. Otherwise a partial segment would be sent with the client's next acknowledgement, and
/// half of the segments would be small. Shorter responses fit into one segment (on loopback) or end before an
/// acknowledgement, so corking would only cost two system calls.
const CORKED_BYTES_MIN: u64 = 64 * 1024;

/// A body being sent.
#[derive(Debug, Default)]
pub(super) struct Sending {
    framing: Framing,
    line: Option<OpenLine>,
    sent_bytes: u64,
    /// Body bytes in the output that is being sent.
    sending_bytes: u64,
    is_corked: bool,
    /// The next piece is being read from disk.
    is_loading: bool,
    is_over: bool,
}

impl Sending {
    /// A body of which `body_bytes` are already in the output behind the head. `line` is logged when it ends.
    pub(super) fn new(line: Option<OpenLine>, framing: Framing, body_bytes: u64) -> Sending {
        Sending { framing, line, sending_bytes: body_bytes, ..Sending::default() }
    }

    /// Returns true if a wake-up may mean progress.
    pub(super) fn takes_wakes(&self) -> bool {
        !self.is_loading
    }

    /// Logs the response, `body_bytes` of whose body were sent.
    pub(super) fn log(&self, log: Option<&AccessLog>, body_bytes: u64) {
        if let (Some(log), Some(line)) = (log, &self.line) {
            log.finish(line, body_bytes);
        }
    }
}

impl Http1 {
    /// Sends the output, followed by `body`.
    pub(super) fn send(&mut self, body: Option<Piece>) -> Want {
        self.send_corked(body, None)
    }

    fn send_corked(&mut self, body: Option<Piece>, remaining: Option<u64>) -> Want {
        self.is_sending = true;
        let bytes = std::mem::take(&mut self.output);
        let is_last_output = match &self.state {
            State::Sending(_, sending) => sending.is_over,
            State::Waiting(_) => false,
            _ => true,
        };
        let closes = self.after == After::Close && is_last_output;
        let is_last = self.after == After::Linger && is_last_output;
        let (mut corks, mut uncorks) = (false, false);
        if let State::Sending(_, sending) = &mut self.state {
            corks = !sending.is_corked
                && remaining.is_some_and(|remaining| closes || remaining > CORKED_BYTES_MIN);
            sending.is_corked |= corks;
            uncorks = sending.is_corked && sending.is_over && !closes;
        }
        Want::Send(Output { bytes, body, corks, uncorks, closes, is_last, ..Output::default() })
    }

    pub(super) fn send_body(&mut self, event: ExchangeEvent, context: &mut Context<'_>) -> Want {
        let State::Sending(exchange, sending) = &mut self.state else { unreachable!("a body is sent") };
        let mut writer = BodyWriter {
            output: &mut self.output,
            framing: &mut sending.framing,
            bytes: &mut sending.sending_bytes,
        };
        sending.is_loading = false;
        match context.handler.body(*exchange, event, &mut writer, &mut context.shared) {
            BodyStep::Send { piece, is_last, remaining } => {
                if let Some(piece) = &piece {
                    sending.framing.begin_part(piece.length(), &mut self.output);
                    sending.sending_bytes += piece.length() as u64;
                }
                sending.is_over = is_last;
                self.send_corked(piece, remaining)
            }
            BodyStep::Load(range) => {
                sending.is_loading = true;
                Want::Load(range)
            }
            BodyStep::End => {
                sending.framing.end(&mut self.output);
                sending.is_over = true;
                // There may be something left to send or shut down; `sent` handles both.
                self.send(None)
            }
            // Everything so far has been sent; closing the connection shows the client that the body is incomplete.
            BodyStep::Broken if self.output.is_empty() => Want::Close(Reason::Failed),
            BodyStep::Wait if self.output.is_empty() => Want::Wait,
            BodyStep::Broken | BodyStep::Wait => self.send(None),
        }
    }

    pub(super) fn sent(&mut self, output: Output, context: &mut Context<'_>) -> Want {
        self.is_sending = false;
        context.pool.put(output.bytes);
        match &mut self.state {
            State::Sending(_, sending) => {
                sending.sent_bytes += std::mem::take(&mut sending.sending_bytes);
                if !sending.is_over {
                    return self.send_body(ExchangeEvent::Woken, context);
                }
                self.finish_body(context);
            }
            State::Waiting(_) => return self.wait_on(context),
            State::Upgraded { machine, .. } => {
                // First handle what the client has sent after its request.
                let input = std::mem::take(&mut self.input);
                let event = if input.unread().is_empty() { Event::Woken } else { Event::Received(input) };
                return machine.handle(event, context);
            }
            _ => {}
        }
        match self.after {
            After::Keep => self.process_requests(context),
            After::Close => Want::Close(Reason::Finished),
            After::Linger => {
                self.state = State::Lingering(0);
                context.pool.put_buffer(std::mem::take(&mut self.input));
                Want::Receive(Buffer::default())
            }
        }
    }

    /// Ends the body: sent, or the client has left.
    pub(super) fn finish_body(&mut self, context: &mut Context<'_>) {
        if let State::Sending(exchange, sending) = std::mem::replace(&mut self.state, State::Requests) {
            sending.log(context.log, sending.sent_bytes);
            context.handler.finish(exchange, &mut context.shared);
        }
    }
}

/// The end of a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The framing of a response's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// By its length, or by the end of the connection or stream.
    #[default]
    Plain,
    /// Chunked; `owes_line_end` if the previous chunk's CRLF has not been written yet.
    Chunked { owes_line_end: bool },
}

impl Framing {
    /// Announces a part of `length` bytes.
    pub fn begin_part(&mut self, length: usize, output: &mut Vec<u8>) {
        if let Framing::Chunked { owes_line_end } = self {
            let line_end = if std::mem::replace(owes_line_end, true) { "\r\n" } else { "" };
            write!(output, "{line_end}{length:x}\r\n").expect("writing to memory cannot fail");
        }
    }

    pub fn end(self, output: &mut Vec<u8>) {
        if let Framing::Chunked { owes_line_end } = self {
            if owes_line_end {
                output.extend_from_slice(b"\r\n");
            }
            output.extend_from_slice(LAST_CHUNK);
        }
    }
}
