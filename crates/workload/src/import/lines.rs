//! Splits a stream into lines; copies only those that straddle two reads.

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

/// Calls `visit` with every line, including a last line without a line feed.
pub fn for_each(
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
        for_each(&mut reader, visit).unwrap();
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
    fn a_long_line_is_cut_alike_in_one_piece_and_in_many() {
        let long = vec![b'x'; LINE_BYTES_MAX + 100];
        let cut = &long[..LINE_BYTES_MAX + 1];
        let input = [&long[..], b"\nshort\n"].concat();
        for capacity in [1000, 1 << 20] {
            check(&input, capacity, &[(long.len() as u64 + 1, cut), (6, b"short")]);
        }
    }
}
