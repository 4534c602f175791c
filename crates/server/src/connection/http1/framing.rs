//! Frames response bodies whose length is not known at their start.

use std::io::Write;

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
