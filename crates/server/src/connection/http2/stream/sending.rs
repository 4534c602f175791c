//! Sends a stream's response: its head separately, its body as DATA, as far as the client's windows allow.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use h2::Reason as Code;
use sojourn_cache_store::Extent;
use sojourn_content::{FileRange, Job};

use super::super::head;
use super::super::held::{Gauge, Held, ReadAhead};
use super::super::limits::{
    READ_AHEAD_BYTES_MAX, SLICE_BYTES, SLICE_BYTES_MIN, STREAM_WAITING_BYTES_MAX, waiting_bytes_max,
};
use super::{End, For, Stage, Stream};
use crate::connection::{Context, Event, Output, Piece};
use crate::memory::is_short;

/// An output of the machine being sent.
#[derive(Debug)]
pub(super) struct Sending {
    /// Returned to the machine when it has been sent.
    pub(super) output: Output,
    pub(super) bytes: Bytes,
    /// Counts bytes that were read from a file.
    read_ahead: Option<ReadAhead>,
    rest: Rest,
}

#[derive(Debug)]
pub(super) enum Rest {
    Nothing,
    Memory(Arc<[u8]>),
    Stored(Extent),
    File(FileRange),
}

impl Stream {
    /// Starts sending an output; the first one begins with the head.
    pub(super) fn begin(&mut self, mut output: Output) {
        let mut bytes = Bytes::from(std::mem::take(&mut output.bytes));
        while self.sender.is_none() && !bytes.is_empty() {
            let Some(head) = head::read_response(&bytes) else { return self.fail() };
            bytes.advance(head.text_length);
            self.parts += 1;
            if head.response.status().is_informational() {
                if self.respond.send_informational(head.response).is_err() {
                    return self.finish_as(End::Cancelled);
                }
                continue;
            }
            let has_body = !self.is_head && !matches!(head.response.status().as_u16(), 204 | 304);
            self.body_left = if has_body { head.content_length } else { Some(0) };
            self.is_ended = self.body_left == Some(0);
            match self.respond.send_response(head.response, self.is_ended) {
                Ok(sender) => self.sender = Some(sender),
                Err(_) => return self.finish_as(End::Cancelled),
            }
        }
        let rest = match &output.body {
            None => Rest::Nothing,
            Some(Piece::Memory(body)) => Rest::Memory(Arc::clone(body)),
            Some(Piece::Stored(extent)) => Rest::Stored(extent.clone()),
            Some(Piece::File(range)) => Rest::File(range.clone()),
        };
        self.stage = Stage::Sending(Sending { output, bytes, read_ahead: None, rest });
    }

    /// Passes on what may be sent now; returns true if more may be possible at once.
    pub(super) fn send(&mut self, mut sending: Sending, gauge: &Gauge, context: &mut Context<'_>) -> bool {
        if sending.bytes.is_empty() {
            match std::mem::replace(&mut sending.rest, Rest::Nothing) {
                Rest::Nothing => {
                    self.happen(Event::Sent(sending.output), context);
                    return true;
                }
                Rest::Memory(body) => sending.bytes = Bytes::from_owner(body),
                Rest::Stored(extent) => {
                    if let Some((slice, rest)) = extent.split_first() {
                        (sending.bytes, sending.rest) = (Bytes::from_owner(slice), Rest::Stored(rest));
                    }
                    self.stage = Stage::Sending(sending);
                    return true;
                }
                Rest::File(range) => {
                    self.read_on(sending, range, gauge);
                    return false;
                }
            }
        }
        let room = self.room(sending.bytes.len(), gauge);
        if room == 0 {
            self.stage = Stage::Sending(sending);
            return false;
        }
        let part = sending.bytes.split_to(room.min(sending.bytes.len()));
        if let Some(read_ahead) = &mut sending.read_ahead {
            read_ahead.shrink_to(sending.bytes.len());
        }
        if let Some(left) = &mut self.body_left {
            let Some(rest) = left.checked_sub(part.len() as u64) else {
                self.fail();
                return false;
            };
            *left = rest;
        }
        self.is_ended = self.body_left == Some(0);
        self.parts += 1;
        let sender = self.sender.as_mut().expect("a body follows its head");
        if sender.send_data(Held::new(part, gauge), self.is_ended).is_err() {
            self.finish_as(End::Cancelled);
            return false;
        }
        self.stage = Stage::Sending(sending);
        true
    }

    /// Requests the next slice of a file, if it could be sent.
    fn read_on(&mut self, mut sending: Sending, mut rest: FileRange, gauge: &Gauge) {
        let room = self.room(SLICE_BYTES, gauge);
        if room == 0 {
            sending.rest = Rest::File(rest);
            self.stage = Stage::Sending(sending);
            return;
        }
        // Every window may be tiny; the total read ahead must still be limited.
        let length_min =
            if gauge.read_bytes() < READ_AHEAD_BYTES_MAX && !is_short() { SLICE_BYTES_MIN } else { 1 };
        let length = rest.length.min(room.clamp(length_min, SLICE_BYTES));
        sending.read_ahead = Some(ReadAhead::new(length, gauge));
        let slice = FileRange { length, into_memory: true, ..rest.clone() };
        rest.offset += length as u64;
        rest.length -= length;
        if rest.length > 0 {
            sending.rest = Rest::File(rest);
        }
        self.stage = Stage::Job(Job::Load(slice), For::Sending(sending));
    }

    /// How many of `wanted` bytes may be passed to `h2` now.
    fn room(&mut self, wanted: usize, gauge: &Gauge) -> usize {
        if gauge.value() >= waiting_bytes_max() {
            return 0;
        }
        let Some(sender) = &mut self.sender else { return 0 };
        sender.reserve_capacity(wanted.min(STREAM_WAITING_BYTES_MAX));
        sender.capacity()
    }

    /// The machine has finished its output.
    pub(super) fn complete(&mut self) {
        let Some(sender) = &mut self.sender else { return self.fail() };
        match self.body_left {
            Some(0) => {}
            Some(_) => return self.fail(),
            // Only now is the end of the body known.
            None if sender.send_data(Held::new(Bytes::new(), &Gauge::default()), true).is_err() => {
                return self.finish_as(End::Cancelled);
            }
            None => {}
        }
        self.finish_as(End::Answered);
    }

    pub(super) fn fail(&mut self) {
        self.reset(Code::INTERNAL_ERROR);
        self.finish_as(End::Failed);
    }

    pub(super) fn reset(&mut self, code: Code) {
        match &mut self.sender {
            Some(sender) => sender.send_reset(code),
            None => self.respond.send_reset(code),
        }
    }

    pub(super) fn finish_as(&mut self, end: End) {
        self.stage = Stage::Over;
        self.end = Some(end);
    }
}
