//! How bodies are framed that pass a proxy: the answer's for its client, the request's for its upstream.

use std::io::Write;

use super::relay::Relay;
use crate::connection::{Buffer, Context};

/// The end of a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// How the answer's body is framed for this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// By its length, or by what ends with the connection or the stream.
    Plain,
    /// Chunked; whether the CRLF of the chunk before is owed.
    Chunked { owes_line_end: bool },
}

/// The request's body is not in the coding that its head announces.
pub(super) struct Malformed;

impl Relay {
    /// Gives the flow what has arrived of the request's body.
    pub(super) fn upload(&mut self, input: &mut Buffer, context: &mut Context<'_>) -> Result<(), Malformed> {
        let Some(reader) = &mut self.body else { return Ok(()) };
        let exchanges = context.exchanges.as_mut().expect("a proxy has exchanges");
        let Some(upload) = &mut exchanges.flow(self.flow).upload else { return Ok(()) };
        let arrived = &input.unread()[self.head_len..];
        let bytes = &mut upload.bytes;
        let is_chunked = self.is_chunked;
        let count = reader.read(arrived, |part| {
            if is_chunked {
                let _ = write!(bytes, "{:x}\r\n", part.len());
            }
            bytes.extend_from_slice(part);
            if is_chunked {
                bytes.extend_from_slice(b"\r\n");
            }
        });
        let count = count.map_err(|_| Malformed)?;
        let is_done = reader.is_done();
        if is_done {
            if is_chunked {
                bytes.extend_from_slice(LAST_CHUNK);
            }
            upload.is_complete = true;
            self.body = None;
        }
        if count > 0 || is_done {
            input.remove(self.head_len, count);
            exchanges.wake_fetch(self.flow);
        }
        Ok(())
    }
}

impl Framing {
    /// Announces a part of so many bytes.
    pub(super) fn begin_part(&mut self, length: usize, output: &mut Vec<u8>) {
        if let Framing::Chunked { owes_line_end } = self {
            let line_end = if std::mem::replace(owes_line_end, true) { "\r\n" } else { "" };
            write!(output, "{line_end}{length:x}\r\n").expect("writing to memory cannot fail");
        }
    }

    pub(super) fn end(self, output: &mut Vec<u8>) {
        if let Framing::Chunked { owes_line_end } = self {
            if owes_line_end {
                output.extend_from_slice(b"\r\n");
            }
            output.extend_from_slice(LAST_CHUNK);
        }
    }
}
