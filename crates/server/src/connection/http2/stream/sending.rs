//! Sends a stream's response: its head separately, its body as DATA, as far as the client's windows allow.

use bytes::Bytes;
use sojourn_cache_store::Extent;
use sojourn_content::{FileRange, Job};
use sojourn_http::http2::Connection;

use super::super::limits::{READ_AHEAD_BYTES_MAX, SLICE_BYTES, SLICE_BYTES_MIN};
use super::super::wire::{Unsent, Wire};
use super::{For, Stage, Stream, takes_turns};
use crate::connection::buffer::BUFFER_BYTES;
use crate::connection::{Context, Event, Output, Piece};
use crate::memory::is_short;

/// An output of the machine being sent.
#[derive(Debug)]
pub(super) struct Sending {
    /// Returned to the machine when it has been sent.
    output: Output,
    /// How many of the output's bytes were sent.
    sent: usize,
    /// What is in memory of what follows them.
    pub(super) slice: Bytes,
    rest: Rest,
}

#[derive(Debug)]
enum Rest {
    Nothing,
    Stored(Extent),
    File(FileRange),
}

impl Sending {
    /// Returns true if there is nothing to do until others have sent: no room in the output, or too much of files in memory.
    pub(super) fn is_held_up(&self, protocol: &mut Connection, wire: &Wire) -> bool {
        // Who holds a whole buffer may have to give it back.
        if self.output.bytes.capacity() >= BUFFER_BYTES {
            return false;
        }
        let has_some = self.sent < self.output.bytes.len() || !self.slice.is_empty();
        match self.rest {
            Rest::File(_) if !has_some => wire.holds_enough(),
            _ => has_some && wire.is_full(protocol),
        }
    }
}

impl Stream {
    /// Starts sending an output; the first one begins with the head.
    pub(super) fn begin(&mut self, mut output: Output, protocol: &mut Connection, context: &mut Context<'_>) {
        // It may be long until it is sent, and there may be many such streams.
        self.machine.give_back_input(context.pool);
        let mut sent = 0;
        while !self.has_head && sent < output.bytes.len() {
            let text = &output.bytes[sent..];
            let Some(head) = protocol.send_response(self.id, text, self.is_head, context.heads) else {
                return self.fail(protocol);
            };
            sent += head.text_bytes;
            self.parts += 1;
            self.has_head = !head.is_interim();
            self.body_left = if head.is_end { Some(0) } else { head.content_length };
        }
        let (slice, rest) = match &mut output.body {
            None => (Bytes::new(), Rest::Nothing),
            Some(Piece::Memory(body)) => (Bytes::from_owner(body.clone()), Rest::Nothing),
            Some(Piece::Part(body, range)) => {
                (Bytes::from_owner(body.clone()).slice(range.clone()), Rest::Nothing)
            }
            Some(Piece::Received(body)) => (Bytes::from_owner(body.share()), Rest::Nothing),
            Some(Piece::Stored(extent)) => (Bytes::new(), Rest::Stored(extent.clone())),
            Some(Piece::File(range)) => (Bytes::new(), Rest::File(range.clone())),
            Some(Piece::Frames(_)) => unreachable!("a machine of HTTP/1 has no frames"),
        };
        self.stage = Stage::Sending(Sending { output, sent, slice, rest });
    }

    /// Sends what may be sent now; returns true if there may be more to do at once in this turn.
    pub(super) fn send(
        &mut self,
        protocol: &mut Connection,
        wire: &mut Wire,
        context: &mut Context<'_>,
    ) -> bool {
        let Stage::Sending(sending) = &mut self.stage else { return false };
        if sending.sent == sending.output.bytes.len() {
            context.pool.put(std::mem::take(&mut sending.output.bytes));
            sending.sent = 0;
        }
        let bytes = &sending.output.bytes[sending.sent..];
        if bytes.is_empty() && sending.slice.is_empty() {
            match std::mem::replace(&mut sending.rest, Rest::Nothing) {
                Rest::Nothing => {
                    let output = std::mem::take(&mut sending.output);
                    self.happen(Event::Sent(output), protocol, context);
                    return true;
                }
                Rest::Stored(extent) => {
                    if let Some((slice, rest)) = extent.split_first() {
                        (sending.slice, sending.rest) = (Bytes::from_owner(slice), Rest::Stored(rest));
                    }
                    return true;
                }
                Rest::File(range) => {
                    self.read_on(range, protocol, wire);
                    return false;
                }
            }
        }
        let available = if bytes.is_empty() { sending.slice.len() } else { bytes.len() };
        let count = wire.room(protocol, self.id).min(available);
        if count == 0 {
            if protocol.room(self.id) == 0 {
                // It may be long until the client takes more.
                let output = &mut sending.output;
                let rest = &output.bytes[sending.sent..];
                if output.bytes.capacity() >= BUFFER_BYTES.max(2 * rest.len()) {
                    // A buffer that shrank where it is would leave a hole that fits no other.
                    let rest = rest.to_vec();
                    context.pool.put(std::mem::replace(&mut output.bytes, rest));
                    sending.sent = 0;
                }
            }
            return false;
        }
        if let Some(left) = &mut self.body_left {
            let Some(rest) = left.checked_sub(count as u64) else {
                self.fail(protocol);
                return false;
            };
            *left = rest;
        }
        let is_end = self.body_left == Some(0);
        self.parts += 1;
        if bytes.is_empty() {
            let part = sending.slice.split_to(count);
            wire.send_shared(protocol, self.id, part, is_end);
            let rest = self.unsent_bytes.min(sending.slice.len());
            let sent = self.unsent_bytes - rest;
            self.unsent_bytes = rest;
            wire.unsent.bytes -= sent;
            wire.unsent.allowed_bytes -= sent.min(wire.unsent.allowed_bytes);
        } else {
            wire.send(protocol, self.id, &bytes[..count], is_end);
            sending.sent += count;
        }
        // What is left waits for its next turn.
        count == available || !takes_turns(protocol.priority(self.id))
    }

    /// Requests the next slice of a file, if it could be sent.
    fn read_on(&mut self, mut range: FileRange, protocol: &mut Connection, wire: &mut Wire) {
        let Stage::Sending(sending) = &mut self.stage else { return };
        let room = wire.file_room(protocol, self.id);
        if room == 0 {
            sending.rest = Rest::File(range);
            return;
        }
        // Every window may be tiny; the total read ahead must still be limited.
        let is_much = wire.unsent.bytes >= READ_AHEAD_BYTES_MAX || is_short();
        let length_min = if is_much { 1 } else { SLICE_BYTES_MIN };
        let length = range.length.min(room.clamp(length_min, SLICE_BYTES));
        self.unsent_bytes = length;
        wire.unsent = wire.unsent + Unsent { bytes: length, allowed_bytes: length.min(room) };
        let slice = FileRange { length, into_memory: true, ..range.clone() };
        range.offset += length as u64;
        range.length -= length;
        if range.length > 0 {
            sending.rest = Rest::File(range);
        }
        let Stage::Sending(sending) = std::mem::replace(&mut self.stage, Stage::Over) else { return };
        self.stage = Stage::Job(Job::Load(slice), For::Sending(sending));
    }
}
