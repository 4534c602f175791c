//! Sends through TLS: output is encrypted in bounded parts, and files are read into memory first.

use std::io::{IoSlice, Write};

use sojourn_content::{CHUNK_BYTES, FileRange};

use super::super::{Context, Event, Output, Piece, Reason, Want};
use super::{Operation, State, TlsConnection};

/// How much plaintext is encrypted at a time: four full records. A connection holds at most this much, once in clear
/// text and once encrypted.
const PLAINTEXT_BYTES_MAX: usize = CHUNK_BYTES as usize;

/// The most pieces of memory that are encrypted together.
const PIECES_MAX: usize = 64;

impl TlsConnection {
    /// Sends the inner connection's output, or the rest of one that was given back.
    pub(super) fn begin_sending(&mut self, context: &mut Context<'_>) -> Want {
        let output = self.sending.as_mut().expect("the inner is sending");
        if self.encrypted_bytes == 0 {
            return self.send_part(context);
        }
        if self.unsent.is_some() {
            let part = Output { yields: output.yields, ..Output::default() };
            return self.send_encrypted(part, context);
        }
        // It has left together with something of TLS's own.
        output.sent += std::mem::take(&mut self.encrypted_bytes);
        self.send_on(context)
    }

    /// Continues with the inner connection's output, or tells that all of it was sent.
    pub(super) fn send_on(&mut self, context: &mut Context<'_>) -> Want {
        let is_open = matches!(self.state, State::Open(_));
        match self.sending.take_if(|output| is_open && output.is_sent()) {
            Some(sent) => self.forward(Event::Sent(sent), context),
            None => self.send_part(context),
        }
    }

    /// Sends the next part of the inner connection's output, or reads it first.
    pub(super) fn send_part(&mut self, context: &mut Context<'_>) -> Want {
        let output = self.sending.as_mut().expect("the inner is sending");
        if self.chunk.is_none()
            && let Some(range) = next_of_file(output)
        {
            self.operation = Operation::Loading;
            return Want::Load(range);
        }
        let chunk = self.chunk.take();
        let head = first_of(output.bytes.get(output.sent..).unwrap_or_default(), PLAINTEXT_BYTES_MAX);
        let body_sent = (output.sent + head.len()).saturating_sub(output.bytes.len());
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
        let (mut count, mut length) = (0, 0);
        let in_memory = match &output.body {
            Some(Piece::File(_)) | None => None,
            Some(body) => Some(body),
        };
        let body = in_memory.into_iter().flat_map(|body| body.in_memory(body_sent)).chain(chunk.as_deref());
        for (slot, piece) in pieces.iter_mut().zip([head].into_iter().chain(body)) {
            let piece = first_of(piece, PLAINTEXT_BYTES_MAX - length);
            *slot = IoSlice::new(piece);
            (count, length) = (count + 1, length + piece.len());
            if length == PLAINTEXT_BYTES_MAX {
                break;
            }
        }
        let written = self.session.writer().write_vectored(&pieces[..count]);
        debug_assert_eq!(written.as_ref().ok(), Some(&length), "there is no limit");
        let Ok(written) = written else { return Want::Close(Reason::Failed) };
        self.encrypted_bytes = written;
        let is_complete = output.sent + written == output.total_bytes();
        let part = Output {
            corks: std::mem::take(&mut output.corks),
            uncorks: is_complete && output.uncorks,
            kernel_unsent_bytes_max: std::mem::take(&mut output.kernel_unsent_bytes_max),
            closes: is_complete && output.closes,
            is_last: is_complete && output.is_last,
            yields: output.yields,
            ..Output::default()
        };
        self.send_encrypted(part, context)
    }

    /// Sends what TLS itself has produced, such as handshake messages.
    pub(super) fn flush(&mut self, context: &mut Context<'_>) -> Want {
        self.send_encrypted(Output::default(), context)
    }

    /// Sends an alert, then discards further input.
    pub(super) fn fail(&mut self, context: &mut Context<'_>) -> Want {
        self.closing = Some(Reason::Failed);
        // The alert replaces close_notify.
        self.owes_close_notify = false;
        self.send_encrypted(Output { is_last: true, ..Output::default() }, context)
    }

    /// Closes the connection for the inner connection, after `close_notify` if the other side still reads.
    pub(super) fn close(&mut self, reason: Reason, context: &mut Context<'_>) -> Want {
        let is_known = matches!(self.state, State::Open(_)) && reason != Reason::Failed;
        if !self.owes_close_notify || !is_known {
            return Want::Close(reason);
        }
        self.closing = Some(reason);
        self.send_encrypted(Output { closes: true, ..Output::default() }, context)
    }

    /// Sends `output`, whose bytes TLS has encrypted.
    fn send_encrypted(&mut self, mut output: Output, context: &mut Context<'_>) -> Want {
        if (output.closes || output.is_last) && std::mem::take(&mut self.owes_close_notify) {
            self.session.send_close_notify();
        }
        output.bytes = context.pool.take();
        if let Some(unsent) = self.unsent.take() {
            output.bytes.extend_from_slice(&unsent.bytes[unsent.sent..]);
            (output.uncorks, output.closes) =
                (output.uncorks || unsent.uncorks, output.closes || unsent.closes);
            output.is_last |= unsent.is_last;
            context.pool.put(unsent.bytes);
        }
        while self.session.wants_write() {
            self.session.write_tls(&mut output.bytes).expect("memory takes everything");
        }
        self.holds_tickets = false;
        self.operation = Operation::Sending;
        Want::Send(output)
    }
}

fn first_of(bytes: &[u8], max: usize) -> &[u8] {
    &bytes[..bytes.len().min(max)]
}

/// The next part of a file in `output`, if everything before it has been sent or is sent together with it.
fn next_of_file(output: &Output) -> Option<FileRange> {
    let Some(Piece::File(range)) = &output.body else { return None };
    if output.bytes.len().saturating_sub(output.sent) > PLAINTEXT_BYTES_MAX {
        return None;
    }
    let sent = output.sent.saturating_sub(output.bytes.len());
    let length = (range.length - sent).min(PLAINTEXT_BYTES_MAX);
    let offset = range.offset + sent as u64;
    (length > 0).then(|| FileRange { offset, length, into_memory: true, ..range.clone() })
}
