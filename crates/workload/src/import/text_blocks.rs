//! Cuts a stream into blocks of whole lines or records, which can be parsed apart.
//!
//! Of a line that is longer than a line may be, only so much is kept that it counts as too long.

use std::io::{self, BufRead, ErrorKind};

use crate::limits::LINE_BYTES_MAX;

/// The text of a block, or a read more: with what its lines say, it stays in the cache of one core.
pub const BLOCK_BYTES: usize = 128 << 10;

/// What is kept of a line that is too long: a carriage return to trim, and one byte that shows it is too long.
const KEPT_BYTES: usize = LINE_BYTES_MAX + 2;

/// Whole lines, of which the very last of a stream may have no line feed.
#[derive(Default)]
pub struct TextBlock {
    buffer: Vec<u8>,
    end: usize,
    /// The bytes of its first line that were left out.
    pub left_out: u64,
}

impl TextBlock {
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.end]
    }
}

pub struct TextReader<R> {
    reader: R,
    record_bytes: Option<usize>,
    /// What each read asks for; `None` for what a block lacks. A decompressor that meets damage drops what it has decompressed
    /// in that read, so the number of lines before the damage would depend on the size of reads.
    read_bytes: Option<usize>,
    /// The start of a line or record that belongs to the next block.
    begun: Vec<u8>,
    /// The bytes until the place from which no line begins.
    remaining: u64,
    failure: Option<io::Error>,
    at_end: bool,
}

impl<R: BufRead> TextReader<R> {
    /// Reads the lines, or records of so many bytes, that begin within the first `limit` bytes.
    pub fn new(
        reader: R,
        record_bytes: Option<usize>,
        read_bytes: Option<usize>,
        limit: Option<u64>,
    ) -> Self {
        TextReader {
            reader,
            record_bytes,
            read_bytes,
            begun: Vec::new(),
            remaining: limit.unwrap_or(u64::MAX),
            failure: None,
            at_end: false,
        }
    }

    /// Whether it decompresses what it reads.
    pub fn decompresses(&self) -> bool {
        self.read_bytes.is_some()
    }

    /// Fills the block; false at the end. An error comes after the whole lines before it.
    pub fn next(&mut self, block: &mut TextBlock) -> io::Result<bool> {
        if self.remaining == 0 {
            return Ok(false);
        }
        if block.buffer.is_empty() {
            block.buffer.resize(BLOCK_BYTES + self.read_bytes.unwrap_or(0), 0);
        }
        block.left_out = 0;
        block.end = self.begun.len();
        block.buffer[..block.end].copy_from_slice(&self.begun);
        self.begun.clear();
        let cut = loop {
            if self.failure.is_none() {
                self.fill(block);
            }
            if let Some(cut) = self.cut(block) {
                break cut;
            }
            // One line fills the block: its middle is left out.
            block.left_out += (block.end - KEPT_BYTES) as u64;
            block.end = KEPT_BYTES;
        };
        if cut == 0
            && let Some(failure) = self.failure.take()
        {
            self.remaining = 0;
            return Err(failure);
        }
        self.begun.extend_from_slice(&block.buffer[cut..block.end]);
        block.end = cut;
        self.remaining = self.remaining.saturating_sub(cut as u64 + block.left_out);
        Ok(cut > 0)
    }

    fn fill(&mut self, block: &mut TextBlock) {
        while block.end < BLOCK_BYTES && !self.at_end {
            let end = self.read_bytes.map_or(BLOCK_BYTES, |bytes| block.end + bytes);
            match self.reader.read(&mut block.buffer[block.end..end]) {
                Ok(0) => self.at_end = true,
                Ok(count) => block.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failure = Some(error);
                    return;
                }
            }
        }
    }

    /// Where the block's last line ends; `None` if the block is full of one line.
    fn cut(&self, block: &TextBlock) -> Option<usize> {
        let text = block.bytes();
        let limit = usize::try_from(self.remaining.saturating_sub(block.left_out)).unwrap_or(usize::MAX);
        let reaches_limit = limit <= text.len();
        if let Some(bytes) = self.record_bytes {
            let whole = text.len().min(limit);
            return Some(if self.at_end && !reaches_limit { whole } else { whole - whole % bytes });
        }
        let last = limit.saturating_sub(1);
        if reaches_limit && let Some(feed) = memchr::memchr(b'\n', &text[last..]) {
            return Some(last + feed + 1);
        }
        if self.at_end {
            return Some(text.len());
        }
        match memchr::memrchr(b'\n', &text[..text.len().min(last)]) {
            Some(feed) => Some(feed + 1),
            None => self.failure.is_some().then_some(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read};

    use super::*;

    /// All blocks of a text, with the bytes left out of each.
    fn blocks(
        text: &[u8],
        limit: Option<u64>,
        record_bytes: Option<usize>,
        read_bytes: Option<usize>,
    ) -> Vec<(Vec<u8>, u64)> {
        let mut reader =
            TextReader::new(BufReader::with_capacity(1000, text), record_bytes, read_bytes, limit);
        let (mut block, mut found) = (TextBlock::default(), Vec::new());
        while reader.next(&mut block).unwrap() {
            found.push((block.bytes().to_vec(), block.left_out));
        }
        assert!(!reader.next(&mut block).unwrap(), "the end comes once");
        found
    }

    #[test]
    fn every_line_is_in_the_part_in_which_it_begins() {
        let text: Vec<u8> = (0..60_000)
            .flat_map(|number| format!("line {number}\n\n").repeat(1 + number % 2).into_bytes())
            .collect();
        let unfinished = &text[..text.len() - 2];
        for (text, read_bytes) in [(&text[..], Some(1000)), (unfinished, None)] {
            let whole = blocks(text, None, None, read_bytes);
            assert!(whole.len() > 2 && whole[..2].iter().all(|(block, _)| block.ends_with(b"\n")));
            assert_eq!(whole.iter().flat_map(|(block, _)| block).copied().collect::<Vec<_>>(), text);
            for border in
                (1..30).chain(BLOCK_BYTES - 15..BLOCK_BYTES + 15).chain(text.len() - 15..=text.len())
            {
                let first: Vec<u8> = blocks(text, Some(border as u64), None, read_bytes)
                    .into_iter()
                    .flat_map(|(block, _)| block)
                    .collect();
                let begins_line = |place: usize| place == 0 || text[place - 1] == b'\n';
                let next = (border..text.len()).find(|place| begins_line(*place)).unwrap_or(text.len());
                assert_eq!(first.len(), next, "{border}");
                assert!(text.starts_with(&first));
            }
        }
    }

    #[test]
    fn of_lines_longer_than_a_block_only_the_middle_is_left_out() {
        for length in [BLOCK_BYTES - 1, BLOCK_BYTES, 3 * BLOCK_BYTES + 7] {
            let long = [&b"a\n"[..], &vec![b'x'; length], b"\nb\n"].concat();
            for limit in
                [None, Some(3), Some(2 + KEPT_BYTES as u64), Some(2 + length as u64), Some(3 + length as u64)]
            {
                let found = blocks(&long, limit, None, None);
                let left_out: u64 = found.iter().map(|(_, left_out)| left_out).sum();
                let text: Vec<u8> = found.into_iter().flat_map(|(block, _)| block).collect();
                let rest = if limit.is_none() { 2 } else { 0 };
                assert_eq!(
                    text.len() as u64 + left_out,
                    (2 + length + 1 + rest) as u64,
                    "{length} {limit:?}"
                );
                let lines: Vec<_> = text.split(|byte| *byte == b'\n').collect();
                assert!(lines[0] == b"a" && lines[1].len() > LINE_BYTES_MAX, "{length} {limit:?}");
            }
        }
    }

    #[test]
    fn records_are_never_cut() {
        let text = vec![7; BLOCK_BYTES + 1234];
        let found = blocks(&text, None, Some(20), None);
        assert_eq!(found.iter().map(|(block, _)| block.len() % 20).collect::<Vec<_>>(), [0, text.len() % 20]);
        let part = blocks(&text, Some(2000), Some(20), Some(1000));
        assert_eq!(part.iter().map(|(block, _)| block.len()).sum::<usize>(), 2000);
    }

    #[test]
    fn a_failure_comes_after_the_lines_before_it() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(ErrorKind::UnexpectedEof.into())
            }
        }
        let reader = || BufReader::new((&b"one\ntwo\nthr"[..]).chain(Fails));
        let mut block = TextBlock::default();
        for read_bytes in [Some(1000), None] {
            let mut whole = TextReader::new(reader(), None, read_bytes, None);
            assert!(whole.next(&mut block).unwrap());
            assert_eq!(block.bytes(), b"one\ntwo\n");
            assert_eq!(whole.next(&mut block).unwrap_err().kind(), ErrorKind::UnexpectedEof);
            assert!(!whole.next(&mut block).unwrap());
            // A part that ends before it does not meet it.
            let mut part = TextReader::new(reader(), None, read_bytes, Some(5));
            assert!(part.next(&mut block).unwrap() && !part.next(&mut block).unwrap());
        }
    }
}
