//! The chunked transfer coding (RFC 9112, 7.1): decoded strictly and incrementally, and written.
//!
//! A sender that bends the grammar (a sign or a blank before a size, a bare LF, data without its CRLF) may begin its
//! next message elsewhere than we think, so every deviation is an error. Chunk extensions are checked and dropped. So
//! are trailers: nothing is ever merged into the head, and a trailer that would change framing, routing or
//! authentication is an error. The caller decides what to do with the data.

use std::io::Write;

use crate::limits::{CHUNK_LINE_BYTES_MAX, TRAILERS_BYTES_MAX};
use crate::token::{is_text, is_token};

/// The end of a body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Appends the line that begins a chunk of `length` bytes, of which there must be some: a chunk of none ends the body.
pub fn begin_chunk(output: &mut Vec<u8>, length: usize) {
    debug_assert!(length > 0, "the last chunk comes last");
    write!(output, "{length:x}\r\n").expect("writing to memory cannot fail");
}

/// Appends `part` of a body as a chunk; nothing if it is empty.
pub fn append_chunk(output: &mut Vec<u8>, part: &[u8]) {
    if !part.is_empty() {
        begin_chunk(output, part.len());
        output.extend_from_slice(part);
        output.extend_from_slice(b"\r\n");
    }
}

/// How far a chunked body has been read.
#[derive(Clone, Debug, Default)]
pub struct Chunked {
    state: State,
    /// Length so far of the chunk-size line, or of all trailers together.
    line_bytes: u16,
    /// While reading a size: its value so far. In a chunk: the bytes of data still to come.
    remaining: u64,
    body_bytes: u64,
    name: TrailerName,
}

/// The next expected element; trailers come last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd)]
enum State {
    #[default]
    SizeStart,
    Size,
    /// Whitespace after a size or value; only an extension may follow.
    Blank,
    ExtensionStart,
    ExtensionName,
    /// Whitespace after an extension's name; `=` or another extension may follow.
    NameEnd,
    ValueStart,
    Value,
    Quoted,
    QuotedPair,
    QuotedEnd,
    SizeLineFeed,
    Data,
    DataEnd,
    DataLineFeed,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLineFeed,
    LastLineFeed,
    Done,
}

/// Why bytes violate the chunked coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    #[error("the chunked body is malformed")]
    Malformed,
    /// A size of more than 64 bits, or a size line or trailers over their limit.
    #[error(
        "a chunk-size line is longer than {CHUNK_LINE_BYTES_MAX} bytes, or the trailers than {TRAILERS_BYTES_MAX}"
    )]
    TooLong,
    /// A field that must not appear in trailers; see [`FORBIDDEN`].
    #[error("a trailer has the name of a field that belongs in the head")]
    Trailer,
}

impl Chunked {
    /// Decodes `bytes`, calls `data` with the body's, and returns how many bytes were consumed. Fewer than given means
    /// that the body ended.
    pub fn decode(&mut self, bytes: &[u8], mut data: impl FnMut(&[u8])) -> Result<usize, ChunkError> {
        let mut at = 0;
        while at < bytes.len() && self.state != State::Done {
            if self.state == State::Data {
                let part = self.remaining.min((bytes.len() - at) as u64) as usize;
                data(&bytes[at..at + part]);
                at += part;
                self.remaining -= part as u64;
                self.body_bytes = self.body_bytes.saturating_add(part as u64);
                if self.remaining == 0 {
                    self.state = State::DataEnd;
                }
            } else {
                self.state = self.next(bytes[at])?;
                at += 1;
            }
        }
        Ok(at)
    }

    /// Returns true once the last chunk and the trailers have been read.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// The state after `byte`, which is not chunk data.
    fn next(&mut self, byte: u8) -> Result<State, ChunkError> {
        let is_trailer = self.state >= State::TrailerStart;
        let limit = if is_trailer { TRAILERS_BYTES_MAX } else { CHUNK_LINE_BYTES_MAX };
        if usize::from(self.line_bytes) == limit {
            return Err(ChunkError::TooLong);
        }
        self.line_bytes += 1;
        Ok(match (self.state, byte) {
            (State::SizeStart | State::Size, digit) if digit.is_ascii_hexdigit() => self.digit(digit)?,
            (State::Size | State::Value | State::QuotedEnd | State::ExtensionName, b'\r') => {
                State::SizeLineFeed
            }
            // RFC 9112, 7.1.1: chunk-ext = *( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )
            (State::Size | State::Value | State::QuotedEnd | State::Blank, b' ' | b'\t') => State::Blank,
            (State::ExtensionName | State::NameEnd, b' ' | b'\t') => State::NameEnd,
            (State::ExtensionStart | State::ValueStart, b' ' | b'\t') => self.state,
            (
                State::Size
                | State::Value
                | State::QuotedEnd
                | State::Blank
                | State::ExtensionName
                | State::NameEnd,
                b';',
            ) => State::ExtensionStart,
            (State::ExtensionName | State::NameEnd, b'=') => State::ValueStart,
            (State::ExtensionStart | State::ExtensionName, byte) if is_token(byte) => State::ExtensionName,
            (State::ValueStart, b'"') => State::Quoted,
            (State::ValueStart | State::Value, byte) if is_token(byte) => State::Value,
            (State::Quoted, b'"') => State::QuotedEnd,
            (State::Quoted, b'\\') => State::QuotedPair,
            (State::Quoted | State::QuotedPair, byte) if is_text(byte) => State::Quoted,
            (State::SizeLineFeed, b'\n') => self.size_line_end(),
            (State::DataEnd, b'\r') => State::DataLineFeed,
            (State::DataLineFeed, b'\n') => {
                self.line_bytes = 0;
                State::SizeStart
            }
            (State::TrailerStart, b'\r') => State::LastLineFeed,
            (State::TrailerStart | State::TrailerName, byte) if is_token(byte) => {
                self.name.push(byte);
                State::TrailerName
            }
            (State::TrailerName, b':') if self.name.is_forbidden() => return Err(ChunkError::Trailer),
            (State::TrailerName, b':') => State::TrailerValue,
            (State::TrailerValue, byte) if is_text(byte) => State::TrailerValue,
            (State::TrailerValue, b'\r') => State::TrailerLineFeed,
            (State::TrailerLineFeed, b'\n') => {
                self.name = TrailerName::default();
                State::TrailerStart
            }
            (State::LastLineFeed, b'\n') => State::Done,
            _ => return Err(ChunkError::Malformed),
        })
    }

    fn digit(&mut self, digit: u8) -> Result<State, ChunkError> {
        let value = char::from(digit).to_digit(16).map(u64::from).ok_or(ChunkError::Malformed)?;
        self.remaining = self.remaining.checked_mul(16).ok_or(ChunkError::TooLong)? + value;
        Ok(State::Size)
    }

    fn size_line_end(&mut self) -> State {
        self.line_bytes = 0;
        if self.remaining == 0 { State::TrailerStart } else { State::Data }
    }
}

/// Fields that frame, route, control, authenticate or describe the content. They are forbidden in trailers (RFC 9110,
/// 6.5.1).
const FORBIDDEN: [&[u8]; 14] = [
    b"authorization",
    b"cache-control",
    b"connection",
    b"content-encoding",
    b"content-length",
    b"content-range",
    b"content-type",
    b"expect",
    b"host",
    b"proxy-authorization",
    b"range",
    b"te",
    b"trailer",
    b"transfer-encoding",
];

/// Compares a trailer's name with the forbidden ones byte by byte: which of them it may still be.
#[derive(Clone, Copy, Debug)]
struct TrailerName {
    candidates: u16,
    length: u16,
}

impl Default for TrailerName {
    fn default() -> TrailerName {
        TrailerName { candidates: (1 << FORBIDDEN.len()) - 1, length: 0 }
    }
}

impl TrailerName {
    fn push(&mut self, byte: u8) {
        let at = usize::from(self.length);
        for (index, name) in FORBIDDEN.iter().enumerate() {
            if name.get(at) != Some(&byte.to_ascii_lowercase()) {
                self.candidates &= !(1 << index);
            }
        }
        self.length += 1;
    }

    fn is_forbidden(self) -> bool {
        let length = usize::from(self.length);
        FORBIDDEN
            .iter()
            .enumerate()
            .any(|(index, name)| self.candidates >> index & 1 == 1 && name.len() == length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The encoded length and the decoded data of `bytes`; `None` while the body is incomplete.
    fn decode(bytes: &[u8]) -> Result<Option<(usize, Vec<u8>)>, ChunkError> {
        let (mut chunked, mut body) = (Chunked::default(), Vec::new());
        let taken = chunked.decode(bytes, |data| body.extend_from_slice(data))?;
        assert_eq!(chunked.body_bytes(), body.len() as u64);
        Ok(chunked.is_done().then_some((taken, body)))
    }

    fn accepted(text: &str, body: &str) {
        assert_eq!(decode(text.as_bytes()), Ok(Some((text.len(), body.as_bytes().to_vec()))), "{text:?}");
        let next = format!("{text}GET");
        assert_eq!(decode(next.as_bytes()).unwrap().unwrap().0, text.len(), "what follows is not taken");
    }

    fn refused(text: &str, expected: ChunkError) {
        assert_eq!(decode(text.as_bytes()), Err(expected), "{text:?}");
    }

    #[test]
    fn bodies() {
        accepted("0\r\n\r\n", "");
        accepted("000\r\n\r\n", "");
        accepted("5\r\nhello\r\n0\r\n\r\n", "hello");
        accepted("5\r\nhello\r\n0A\r\n, world!!!\r\n0\r\n\r\n", "hello, world!!!");
        accepted("a\r\n0123456789\r\n0\r\nX-Sum: 1\r\nY:\r\n\r\n", "0123456789");
    }

    #[test]
    fn what_is_written_is_read() {
        let mut written = Vec::new();
        for part in [b"hello".as_slice(), b"", &[b'x'; 300]] {
            append_chunk(&mut written, part);
        }
        written.extend_from_slice(LAST_CHUNK);
        assert!(written.starts_with(b"5\r\nhello\r\n12c\r\nx"));
        let body = [b"hello".as_slice(), &[b'x'; 300]].concat();
        assert_eq!(decode(&written), Ok(Some((written.len(), body))));
    }

    #[test]
    fn extensions_are_dropped() {
        for extension in
            [";a", ";a=b", ";a=\"b; \\\"c\\\"\"", ";a;b=c", " ; a = b", "\t;a = \"\"  ;b", ";a=\"\u{e9}\""]
        {
            accepted(&format!("5{extension}\r\nhello\r\n0{extension}\r\n\r\n"), "hello");
        }
        let extension = |bytes: usize| format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(bytes));
        accepted(&extension(CHUNK_LINE_BYTES_MAX - 4), "hello");
        refused(&extension(CHUNK_LINE_BYTES_MAX - 3), ChunkError::TooLong);
    }

    #[test]
    fn sizes_that_are_none() {
        for size in ["", " 5", "+5", "-5", "0x5", "5_", "5 ", "5\t", "5 x", "g", "\u{ff15}", "5\0", "5,5"] {
            refused(&format!("{size}\r\nhello\r\n0\r\n\r\n"), ChunkError::Malformed);
        }
        refused("10000000000000000\r\n", ChunkError::TooLong);
        assert_eq!(decode(b"ffffffffffffffff\r\nx"), Ok(None));
    }

    #[test]
    fn lines_that_end_otherwise() {
        for bad in [
            "5\nhello\r\n0\r\n\r\n",
            "5\rhello\r\n0\r\n\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "5\r\nhello0\r\n\r\n",
            "5\r\nhello!!\r\n0\r\n\r\n",
            "5\r\nhello\r0\r\n\r\n",
            "0\n\n",
            "0\r\n\n",
            "0\r\n\rX",
            "0\r\nX: y\n\r\n",
        ] {
            refused(bad, ChunkError::Malformed);
        }
    }

    #[test]
    fn extensions_that_are_none() {
        for bad in [
            ";",
            ";;a",
            ";=b",
            ";a=",
            ";a b",
            ";a[=x",
            ";\0a",
            ";a\rX",
            ";a\n",
            ";a=\"b",
            ";a=\"\x01\"",
            ";a=b c",
        ] {
            refused(&format!("5{bad}\r\nhello\r\n0\r\n\r\n"), ChunkError::Malformed);
        }
    }

    #[test]
    fn trailers() {
        for bad in [": y", "X : y", " X: y", "X", "X: a\0b", "X: a\x7fb", "X: a\rb", "X: y\r\n folded"] {
            refused(&format!("0\r\n{bad}\r\n\r\n"), ChunkError::Malformed);
        }
        for name in FORBIDDEN {
            let name = str::from_utf8(name).unwrap();
            refused(&format!("0\r\n{name}: x\r\n\r\n"), ChunkError::Trailer);
            refused(&format!("0\r\nA: b\r\n{}:x\r\n\r\n", name.to_uppercase()), ChunkError::Trailer);
            accepted(&format!("0\r\n{name}s: x\r\nX-{name}: x\r\n\r\n"), "");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "it takes minutes")]
    fn trailers_are_limited() {
        refused(&format!("0\r\n{}", "X: y\r\n".repeat(TRAILERS_BYTES_MAX / 6 + 1)), ChunkError::TooLong);
    }

    proptest! {
        #[test]
        fn cutting_changes_nothing(
            pieces in proptest::collection::vec("([0-9a-f]{1,2}|;a=\"b\"|\r\n|[ -~]{1,9}|0\r\n\r\n)", 0..12),
            cuts in proptest::collection::vec(0_usize..80, 0..6),
        ) {
            let bytes = pieces.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut <= bytes.len()).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let (mut chunked, mut body, mut taken) = (Chunked::default(), Vec::new(), 0);
            let result = cuts.windows(2).try_for_each(|ends| {
                taken += chunked.decode(&bytes[ends[0]..ends[1]], |data| body.extend_from_slice(data))?;
                Ok(())
            });
            let pieces = result.map(|()| chunked.is_done().then_some((taken, body)));
            prop_assert_eq!(pieces, decode(&bytes));
        }
    }
}
