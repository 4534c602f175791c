//! Receives through TLS: decrypts bytes for the inner connection, or discards them once the connection has ended.

use std::io::BufRead;

use super::super::http1::LINGER_BYTES_MAX;
use super::super::{Buffer, Context, Event, Reason, Want};
use super::{Operation, State, TlsConnection, unbounded};
use crate::tls::{prefers_chacha20, session};

/// The most bytes that a client may send before its handshake is complete.
const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;

impl TlsConnection {
    pub(super) fn received(&mut self, mut buffer: Buffer, context: &mut Context<'_>) -> Want {
        let received = buffer.unread().len();
        let is_first = matches!(self.state, State::Handshake(None)) && self.undelivered_bytes == 0;
        // A TLS record begins with a small number, an HTTP request with a capital letter.
        if is_first && buffer.unread().first().is_some_and(u8::is_ascii_uppercase) {
            context.pool.put_buffer(buffer);
            return self.reject_connection(context);
        }
        self.undelivered_bytes += received;
        if let Some(config) = self.client_order.take()
            && prefers_chacha20(buffer.unread())
        {
            self.session = unbounded(session(&config).into());
        }
        let decrypted = self.decrypt(buffer.unread(), context);
        buffer.consume(received);
        context.pool.put_buffer(buffer);
        if decrypted.is_err() && self.is_to_upstream() {
            return self.abort(Event::Failed, context);
        }
        if decrypted.is_err() {
            return self.fail(context);
        }
        self.advance(context)
    }

    /// Decrypts `bytes` and appends the plaintext to the inner connection's input.
    fn decrypt(&mut self, mut bytes: &[u8], context: &mut Context<'_>) -> Result<(), Broken> {
        while !bytes.is_empty() && !self.is_ended {
            // Reads as much as there is room for, at least one record.
            self.session.read_tls(&mut bytes).map_err(|_| Broken)?;
            let state = self.session.process_new_packets().map_err(|_| Broken)?;
            self.is_ended |= state.peer_has_closed();
            if state.plaintext_bytes_to_read() > 0 && !self.receiving.is_allocated() {
                self.receiving = context.pool.take_buffer();
            }
            let mut reader = self.session.reader();
            while let Ok(plaintext @ [_, ..]) = reader.fill_buf() {
                self.receiving.space().extend_from_slice(plaintext);
                self.has_plaintext = true;
                let length = plaintext.len();
                reader.consume(length);
            }
        }
        let is_too_long = self.session.is_handshaking() && self.undelivered_bytes > HANDSHAKE_BYTES_MAX;
        if is_too_long { Err(Broken) } else { Ok(()) }
    }

    /// Passes decrypted bytes to the inner connection.
    pub(super) fn receive(&mut self, buffer: Buffer, context: &mut Context<'_>) -> Option<Event> {
        if std::mem::take(&mut self.has_plaintext) {
            self.undelivered_bytes = 0;
            self.deliveries = self.deliveries.wrapping_add(1);
            return Some(Event::Received(buffer));
        }
        if self.is_ended {
            context.pool.put_buffer(buffer);
            return Some(Event::Ended);
        }
        self.receiving = buffer;
        None
    }

    pub(super) fn discard(&mut self, buffer: Buffer, discarded: u64, context: &mut Context<'_>) -> Want {
        let discarded = discarded + buffer.unread().len() as u64;
        context.pool.put_buffer(buffer);
        if discarded > LINGER_BYTES_MAX {
            return Want::Close(Reason::Failed);
        }
        self.operation = Operation::Discarding(discarded);
        Want::Receive(Buffer::default())
    }
}

/// The input is not TLS, or is not allowed in this state.
struct Broken;
