//! Sends responses: heads and small bodies from the output, large bodies piece by piece as the handler provides them, in
//! chunks if their length is not known.

use super::{Http1, State};
use crate::connection::response::{After, BodyWriter};
use crate::connection::{BodyStep, Buffer, Context, Event, ExchangeEvent, Output, Piece, Reason, Want};

/// Longer responses are corked. Otherwise a partial segment would be sent with the client's next acknowledgement, and
/// half of the segments would be small. Shorter responses fit into one segment (on loopback) or end before an
/// acknowledgement, so corking would only cost two system calls.
const CORKED_BYTES_MIN: u64 = 64 * 1024;

impl Http1 {
    /// Sends the output, followed by `body`.
    pub(super) fn send(&mut self, body: Option<Piece>) -> Want {
        self.send_corked(body, None)
    }

    fn send_corked(&mut self, body: Option<Piece>, remaining: Option<u64>) -> Want {
        self.is_sending = true;
        let bytes = std::mem::take(&mut self.responses.output);
        let is_last_output = match &self.state {
            State::Sending(_, sending) => sending.is_over,
            State::Waiting(_) => false,
            _ => true,
        };
        let closes = self.responses.after == After::Close && is_last_output;
        let is_last = self.responses.after == After::Linger && is_last_output;
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
            output: &mut self.responses.output,
            framing: &mut sending.framing,
            bytes: &mut sending.sending_bytes,
        };
        sending.is_loading = false;
        match context.handler.body(*exchange, event, &mut writer, &mut context.shared) {
            BodyStep::Send { piece, is_last, remaining } => {
                if let Some(piece) = &piece {
                    sending.framing.begin_part(piece.length(), &mut self.responses.output);
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
                sending.framing.end(&mut self.responses.output);
                sending.is_over = true;
                // There may be something left to send or shut down; `sent` handles both.
                self.send(None)
            }
            // Everything so far has been sent; closing the connection shows the client that the body is incomplete.
            BodyStep::Broken if self.responses.output.is_empty() => Want::Close(Reason::Failed),
            BodyStep::Wait if self.responses.output.is_empty() => self.receive_upload(context),
            BodyStep::Broken | BodyStep::Wait => {
                sending.framing.end_part(&mut self.responses.output);
                self.send(None)
            }
        }
    }

    pub(super) fn sent(&mut self, output: Output, context: &mut Context<'_>) -> Want {
        self.is_sending = false;
        output.recycle(context.pool);
        match &mut self.state {
            State::Sending(_, sending) => {
                sending.sent_bytes += std::mem::take(&mut sending.sending_bytes);
                if !sending.is_over {
                    return match self.receive_upload(context) {
                        // There may be more to send, too.
                        Want::Receive(buffer) => Want::Look(buffer),
                        _ => self.send_body(ExchangeEvent::Woken, context),
                    };
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
        match self.responses.after {
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
        self.upload = None;
        if let State::Sending(exchange, sending) = std::mem::replace(&mut self.state, State::Requests) {
            sending.log(context.log, sending.sent_bytes);
            context.handler.finish(exchange, &mut context.shared);
        }
    }
}
