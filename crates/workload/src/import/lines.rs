//! Splits a stream into lines or records; copies only those that straddle two reads.

use crate::limits::LINE_BYTES_MAX;
use std::io::{self, BufRead};

use memchr::memchr_iter;

use super::ImportError;

pub enum Step<'a> {
    Line {
        /// The length as read, including the line feed.
        bytes: u64,
        /// The line without its end; for an overlong line its first `LINE_BYTES_MAX + 1` bytes.
        text: &'a [u8],
    },
    /// A signal interrupted a read.
    Interrupted,
}

/// Calls `visit` with every record of so many bytes, or with every line if they are lines.
pub fn for_each(
    reader: &mut impl BufRead,
    record_bytes: Option<usize>,
    visit: impl FnMut(Step<'_>) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    match record_bytes {
        Some(bytes) => for_each_record(reader, bytes, visit),
        None => for_each_line(reader, visit),
    }
}

/// Calls `visit` with every line, including a last line without a line feed.
fn for_each_line(
    reader: &mut impl BufRead,
    mut visit: impl FnMut(Step<'_>) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let mut line = 0;
    let mut begun = Begun::default();
    loop {
        let buffer = match reader.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                visit(Step::Interrupted)?;
                continue;
            }
            Err(source) => return Err(ImportError::Read { line, source }),
        };
        if buffer.is_empty() {
            return if begun.bytes == 0 { Ok(()) } else { visit(begun.step()) };
        }
        let mut start = 0;
        for end in memchr_iter(b'\n', buffer) {
            let piece = &buffer[start..end];
            if begun.bytes == 0 {
                visit(Step::Line { bytes: piece.len() as u64 + 1, text: trimmed(piece) })?;
            } else {
                begun.add(piece, 1);
                visit(begun.step())?;
                begun.clear();
            }
            line += 1;
            start = end + 1;
        }
        begun.add(&buffer[start..], 0);
        let read = buffer.len();
        reader.consume(read);
    }
}

/// Calls `visit` with every record of so many bytes; a last one may be shorter.
fn for_each_record(
    reader: &mut impl BufRead,
    record_bytes: usize,
    mut visit: impl FnMut(Step<'_>) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let mut record = 0;
    let mut begun: Vec<u8> = Vec::with_capacity(record_bytes);
    loop {
        let buffer = match reader.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                visit(Step::Interrupted)?;
                continue;
            }
            Err(source) => return Err(ImportError::Read { line: record, source }),
        };
        if buffer.is_empty() {
            return match begun.len() {
                0 => Ok(()),
                bytes => visit(Step::Line { bytes: bytes as u64, text: &begun }),
            };
        }
        let read = buffer.len();
        let mut rest = buffer;
        if !begun.is_empty() {
            let (missing, after) = rest.split_at(rest.len().min(record_bytes - begun.len()));
            begun.extend_from_slice(missing);
            rest = after;
            if begun.len() == record_bytes {
                visit(Step::Line { bytes: record_bytes as u64, text: &begun })?;
                record += 1;
                begun.clear();
            }
        }
        let records = rest.chunks_exact(record_bytes);
        begun.extend_from_slice(records.remainder());
        for text in records {
            visit(Step::Line { bytes: record_bytes as u64, text })?;
            record += 1;
        }
        reader.consume(read);
    }
}

/// The start of a line whose end has not been read yet.
#[derive(Default)]
struct Begun {
    text: Vec<u8>,
    bytes: u64,
}

impl Begun {
    fn add(&mut self, piece: &[u8], line_feed: u64) {
        // Two more bytes than a line may have: a carriage return to trim, and one byte that shows it is too long.
        let room = (LINE_BYTES_MAX + 2).saturating_sub(self.text.len());
        self.text.extend_from_slice(&piece[..piece.len().min(room)]);
        self.bytes += piece.len() as u64 + line_feed;
    }

    fn clear(&mut self) {
        self.text.clear();
        self.bytes = 0;
    }

    fn step(&self) -> Step<'_> {
        Step::Line { bytes: self.bytes, text: trimmed(&self.text) }
    }
}

/// Removes a trailing carriage return, and cuts a line that is certain to be too long.
fn trimmed(text: &[u8]) -> &[u8] {
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    &text[..text.len().min(LINE_BYTES_MAX + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], capacity: usize, expected: &[(u64, &[u8])]) {
        let mut seen = Vec::new();
        let mut reader = io::BufReader::with_capacity(capacity, input);
        let visit = |step: Step<'_>| {
            if let Step::Line { bytes, text } = step {
                seen.push((bytes, text.to_vec()));
            }
            Ok(())
        };
        for_each(&mut reader, None, visit).unwrap();
        let seen: Vec<_> = seen.iter().map(|(bytes, text)| (*bytes, text.as_slice())).collect();
        assert_eq!(seen, expected, "buffer of {capacity}");
    }

    #[test]
    fn lines_are_the_same_however_they_are_read() {
        for capacity in [1, 2, 3, 5, 64] {
            check(b"", capacity, &[]);
            check(b"one", capacity, &[(3, b"one")]);
            check(b"one\ntwo\r\n\nfour", capacity, &[(4, b"one"), (5, b"two"), (1, b""), (4, b"four")]);
        }
    }

    #[test]
    fn records_are_the_same_however_they_are_read() {
        for capacity in [1, 2, 3, 5, 64] {
            for (input, expected) in [
                (&b""[..], vec![]),
                (b"ab", vec![&b"ab"[..]]),
                (b"abcd", vec![b"abcd"]),
                (b"abcdefghij", vec![b"abcd", b"efgh", b"ij"]),
            ] {
                let mut seen = Vec::new();
                let mut reader = io::BufReader::with_capacity(capacity, input);
                let visit = |step: Step<'_>| {
                    if let Step::Line { bytes, text } = step {
                        assert_eq!(bytes, text.len() as u64);
                        seen.push(text.to_vec());
                    }
                    Ok(())
                };
                for_each(&mut reader, Some(4), visit).unwrap();
                assert_eq!(seen, expected, "buffer of {capacity}");
            }
        }
    }

    #[test]
    fn a_long_line_is_cut_alike_in_one_piece_and_in_many() {
        let long = vec![b'x'; LINE_BYTES_MAX + 100];
        let cut = &long[..LINE_BYTES_MAX + 1];
        let input = [&long[..], b"\nshort\n"].concat();
        for capacity in [1000, 1 << 20] {
            check(&input, capacity, &[(long.len() as u64 + 1, cut), (6, b"short")]);
        }
    }
}
