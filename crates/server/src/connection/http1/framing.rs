//! How the bodies of responses are framed whose length is not known when they begin.

use std::io::Write;

/// The end of a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The framing of a response's body for its client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// By its length, or by what ends with the connection or the stream.
    #[default]
    Plain,
    /// Chunked; `owes_line_end` if the previous chunk's line end is not written yet.
    Chunked { owes_line_end: bool },
}

impl Framing {
    /// Announces a part of so many bytes.
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
