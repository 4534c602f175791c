//! Requests one behind the other: what of them can be answered is, until something has to be waited for.

use std::sync::Arc;

use super::answer::Step;
use super::{After, Http1, State};
use crate::connection::{Buffer, Context, Want};

/// Answers to pipelined requests gather up to this before they are sent.
pub(super) const OUTPUT_BYTES_MAX: usize = 32 * 1024;

impl Http1 {
    /// Answers what can be answered from `input`.
    pub(super) fn proceed(&mut self, context: &mut Context<'_>) -> Want {
        loop {
            if self.input.unread().is_empty() || self.output.len() >= OUTPUT_BYTES_MAX || !self.read_body() {
                return self.send_or_receive(context);
            }
            let input = std::mem::take(&mut self.input);
            let step = self.step(input.unread(), context);
            self.input = input;
            match step {
                Step::Partial => return self.send_or_receive(context),
                Step::Body => {}
                Step::Answered { consumed } => {
                    self.consume(consumed);
                    if self.after != After::Keep {
                        return self.send(None);
                    }
                }
                Step::AnsweredWith { consumed, body } => {
                    self.consume(consumed);
                    return self.send(Some(body));
                }
                Step::Stream { consumed, stream } => {
                    self.consume(consumed);
                    self.state = State::Streaming(stream);
                    return self.take_turn(context);
                }
                Step::Flush => return self.send(None),
                Step::Search => {
                    self.state = State::Searching;
                    return Want::Wait;
                }
                Step::Relay(relay) => {
                    self.state = State::Relaying(relay);
                    return self.relay_on(context);
                }
                Step::Follow { consumed, relay } => {
                    self.consume(consumed);
                    self.state = State::Relaying(relay);
                    return self.relay_on(context);
                }
                Step::Tunnel(id) => return self.open_on(id, context),
                Step::Tunnelled { consumed, tunnelling } => {
                    self.consume(consumed);
                    return self.establish(tunnelling, context);
                }
                // Earlier answers do not wait for the disk; then the request is read again.
                Step::Open(_) | Step::Load(_) if !self.output.is_empty() => return self.send(None),
                Step::Open(opening) => {
                    self.state = State::Resolving(None);
                    return Want::Open(opening);
                }
                Step::Load(range) => {
                    self.state = State::Resolving(Some(Arc::clone(&range.document)));
                    return Want::Load(range);
                }
            }
        }
    }

    /// The request at the start of the input is answered. What follows a last request was not asked for, but
    /// closing on it would reset the connection.
    pub(super) fn consume(&mut self, count: usize) {
        self.input.consume(count);
        if self.after == After::Close && !self.input.unread().is_empty() {
            self.after = After::Linger;
        }
    }

    fn send_or_receive(&mut self, context: &mut Context<'_>) -> Want {
        if !self.output.is_empty() {
            return self.send(None);
        }
        let input = std::mem::take(&mut self.input);
        if input.unread().is_empty() {
            context.pool.put_buffer(input);
            return Want::Receive(Buffer::default());
        }
        self.is_head = is_head(input.unread());
        Want::Receive(input)
    }
}

/// Whether `bytes`, of which not all may be there or make sense, ask for a head alone.
pub(super) fn is_head(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"HEAD ")
}
