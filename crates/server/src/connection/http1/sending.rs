//! Sending answers: heads and small bodies from the output, large ones turn by turn.

use std::sync::Arc;

use sojourn_content::FileRange;

use super::stream::{Next, Turn};
use super::{After, Http1, State};
use crate::connection::{Buffer, Context, Output, Piece, Reason, Want};

impl Http1 {
    pub(super) fn send(&mut self, body: Option<Piece>) -> Want {
        self.is_sending = true;
        let bytes = std::mem::take(&mut self.output);
        let is_under_way = match &self.state {
            State::Streaming(_) => true,
            State::Relaying(relay) => !relay.is_over,
            _ => false,
        };
        let is_last = self.after == After::Linger && !is_under_way;
        let may_close = self.after == After::Close;
        let (closes, (corks, uncorks)) = match &mut self.state {
            State::Streaming(stream) => {
                let closes = may_close && stream.is_ending();
                (closes, stream.cork(closes))
            }
            _ => (may_close && !is_under_way, (false, false)),
        };
        Want::Send(Output { bytes, body, corks, uncorks, closes, is_last, ..Output::default() })
    }

    pub(super) fn sent(&mut self, output: Output, context: &mut Context<'_>) -> Want {
        self.is_sending = false;
        context.pool.put(output.bytes);
        if let Some(want) = self.relayed_sent(context).or_else(|| self.established(context)) {
            return want;
        }
        if let State::Streaming(stream) = &mut self.state {
            match stream.sent(output.body.as_ref().map_or(0, Piece::length)) {
                Next::Turn => return self.take_turn(context),
                Next::Part(preamble) => {
                    self.output = preamble;
                    return self.take_turn(context);
                }
                Next::Ending(bytes) => {
                    self.output = bytes;
                    return self.send(None);
                }
                Next::Nothing => stream.finish(context.log),
            }
            self.state = State::Requests;
            if self.after == After::Linger {
                // The shutdown goes with an output; this one is empty.
                return self.send(None);
            }
        }
        match self.after {
            After::Keep => self.proceed(context),
            After::Close => Want::Close(Reason::Finished),
            After::Linger => {
                self.state = State::Lingering(0);
                context.pool.put_buffer(std::mem::take(&mut self.input));
                Want::Receive(Buffer::default())
            }
        }
    }

    fn turn(&self) -> Turn {
        let State::Streaming(stream) = &self.state else { unreachable!("only a stream has turns") };
        stream.turn()
    }

    /// The turn of a document, of which something was loaded.
    pub(super) fn turn_of_file(&self) -> FileRange {
        let Turn::File(range) = self.turn() else { unreachable!("nothing else is loaded") };
        range
    }

    /// The next part of a large body: from memory, or to be loaded first.
    pub(super) fn take_turn(&mut self, context: &mut Context<'_>) -> Want {
        let turn = match self.turn() {
            Turn::Stored(extent) => return self.send(Some(Piece::Stored(extent))),
            Turn::File(turn) => turn,
        };
        if turn.into_memory
            && let Some(chunk) = context.caches.chunk(&turn.document, turn.offset)
        {
            return self.send(Some(Piece::Memory(Arc::clone(chunk))));
        }
        Want::Load(turn)
    }

    pub(super) fn send_from_file(&mut self) -> Want {
        let turn = self.turn_of_file();
        self.send(Some(Piece::File(turn)))
    }
}
