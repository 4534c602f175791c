//! Parses a log, or a part of one, elsewhere than where it is collected: as pieces, which [`Log::pieces`] takes.
//!
//! [`Log::pieces`]: super::Log

use std::io::{self, BufRead, Read};
use std::ops::Range;

use super::logs::Opened;
use super::parse_ahead::BlockParser;
use super::parsed_block::{ParsedBlock, Parser, Piece};
use super::report::Compression;
use super::text_blocks::{TextBlock, TextReader};
use super::{ImportError, Options};

/// How a log can be parsed in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// It is no log.
    None,
    /// As a whole only, because it is compressed, or its lines depend on those before them.
    Whole,
    /// At any multiple of so many bytes.
    Every(u64),
}

/// A part of a log that can be parsed in parts.
pub struct Part<'l> {
    /// The bytes in which its lines begin.
    pub range: Range<u64>,
    /// Reads the log from the byte before the range, or from its start.
    pub reader: Box<dyn BufRead + Send + 'l>,
}

/// Parses a log piece by piece.
pub struct PieceParser<'l> {
    reader: TextReader<Box<dyn BufRead + Send + 'l>>,
    parser: Parser,
    text: TextBlock,
    block: ParsedBlock,
}

/// How a log can be parsed, decided from its first bytes.
pub fn parts(
    reader: impl BufRead + Send,
    options: &Options,
    interrupted: impl FnMut() -> Result<(), ImportError>,
) -> Result<Parts, ImportError> {
    let opened = Opened::new(reader, options, interrupted)?;
    let unit = opened.format.record_bytes().unwrap_or(1);
    // Records behind a mark do not begin at multiples of their length.
    let is_aligned = opened.mark_bytes == 0 || unit == 1;
    Ok(match opened.compression {
        _ if opened.unreadable.is_some() => Parts::None,
        Compression::Plain if opened.format.is_stateless() && is_aligned => Parts::Every(unit as u64),
        _ => Parts::Whole,
    })
}

impl<'l> PieceParser<'l> {
    /// `reader` reads the log from its start, to find its format; its lines are those of `part`, or all.
    pub fn new(
        reader: impl BufRead + Send + 'l,
        part: Option<Part<'l>>,
        options: &Options,
        interrupted: impl FnMut() -> Result<(), ImportError>,
    ) -> Result<Self, ImportError> {
        let opened = Opened::new(reader, options, interrupted)?;
        let record_bytes = opened.format.record_bytes();
        let parser = Parser::new(opened.format.clone(), options.clone());
        let read_bytes = opened.compression.read_bytes();
        let (reader, limit) = match part {
            None => (opened.reader, None),
            Some(Part { range, .. }) if range.start == 0 => {
                (opened.reader, Some(range.end.saturating_sub(opened.mark_bytes)))
            }
            Some(Part { range, mut reader }) => {
                let skipped = match record_bytes {
                    Some(_) => io::copy(&mut reader.by_ref().take(1), &mut io::sink()).map(|_| 1),
                    None => reader.skip_until(b'\n'),
                };
                let skipped = skipped.map_err(|source| ImportError::Read { line: 0, source })? as u64;
                (reader, Some((range.end - range.start + 1).saturating_sub(skipped)))
            }
        };
        let reader = TextReader::new(reader, record_bytes, read_bytes, limit);
        Ok(PieceParser { reader, parser, text: TextBlock::default(), block: ParsedBlock::default() })
    }

    /// The next piece, of so much text or a little more; `None` at the end. A piece whose log cannot be read further ends
    /// with the error.
    pub fn piece(&mut self, text_bytes: u64) -> Option<Vec<u8>> {
        self.parser.begin_anew();
        let mut piece = Piece::default();
        let (mut parsed_bytes, mut is_empty) = (0, true);
        while parsed_bytes < text_bytes {
            match self.reader.next(&mut self.text) {
                Ok(true) => {}
                Ok(false) if is_empty => return None,
                Ok(false) => break,
                Err(failure) => return Some(piece.finish(Some(&failure))),
            }
            self.parser.parse(&self.text, &mut self.block);
            piece.push(&self.block);
            parsed_bytes += self.block.bytes;
            is_empty = false;
        }
        Some(piece.finish(None))
    }
}
