//! The logs of an import: one, or several read one after the other as if they were one.
//!
//! Each has its own compression and format. A file found in a folder that is not a log is skipped and reported; a file
//! named by the user is refused.

use std::io::{self, BufRead, Cursor, Read};

use super::compression;
use super::detect::{self, Detected};
use super::report::{Compression, DetectedBy, MalformedLine};
use super::text_blocks::TextReader;
use super::{Format, ImportError, Options};

/// The byte order mark U+FEFF in UTF-8, which some programs write at the start of a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A log to read, or the reason why it cannot be opened.
pub struct Log<'l> {
    /// The log's name in messages; empty for a single log.
    pub name: String,
    pub reader: io::Result<Box<dyn BufRead + Send + 'l>>,
    /// Set where a read ends by itself, as of a file: another thread may then read ahead. A terminal or a pipe may never
    /// deliver, and a thread that waits for it could not be ended.
    pub may_read_ahead: bool,
    /// Set for a file found in a folder rather than named by the user.
    pub is_found: bool,
    /// The whole log in pieces, where it is parsed elsewhere ([`PieceParser`]); only its first bytes are read from
    /// `reader`, to find its format.
    ///
    /// [`PieceParser`]: super::PieceParser
    pub pieces: Option<Pieces<'l>>,
}

/// Pieces in the order of their lines.
pub type Pieces<'l> = Box<dyn Iterator<Item = Result<Vec<u8>, ImportError>> + 'l>;

impl<'l> Log<'l> {
    pub fn only(reader: impl BufRead + Send + 'l) -> Self {
        Log {
            name: String::new(),
            reader: Ok(Box::new(reader)),
            may_read_ahead: false,
            is_found: false,
            pieces: None,
        }
    }
}

/// An open log, with its first bytes read and its format chosen.
pub struct Opened<'l> {
    pub compression: Compression,
    pub format: Format,
    pub format_detected: Option<DetectedBy>,
    /// The evidence in its first lines that it is not a log.
    pub unreadable: Option<Unreadable>,
    /// The length of the byte order mark, which is skipped.
    pub mark_bytes: u64,
    pub reader: Box<dyn BufRead + Send + 'l>,
}

pub enum Unreadable {
    Empty,
    /// None of its first lines can be parsed.
    NoEntry(MalformedLine),
}

impl<'l> Opened<'l> {
    pub fn new(
        reader: impl BufRead + Send + 'l,
        options: &Options,
        mut interrupted: impl FnMut() -> Result<(), ImportError>,
    ) -> Result<Self, ImportError> {
        let (compression, mut reader) = compression::open(reader, &mut interrupted)?;
        let mut sample = detect::read_sample(&mut reader, &mut interrupted)?;
        let mark_bytes = if sample.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        sample.drain(..mark_bytes);
        let (Detected { format, sample_lines, sample_entries }, is_given) = match &options.format {
            Some(format) => (detect::try_format(format.clone(), &sample), true),
            None => (detect::detect(&sample), false),
        };
        let unreadable = if sample_lines == 0 {
            Some(Unreadable::Empty)
        } else if sample_entries == 0 {
            detect::first_malformed(&mut format.clone(), &sample).map(Unreadable::NoEntry)
        } else {
            None
        };
        let format_detected = (!is_given).then_some(DetectedBy { sample_lines, sample_entries });
        let reader = Box::new(Cursor::new(sample).chain(reader));
        let mark_bytes = mark_bytes as u64;
        Ok(Opened { compression, format, format_detected, unreadable, mark_bytes, reader })
    }

    /// Its lines in blocks that can be parsed apart.
    pub fn into_blocks(self) -> TextReader<Box<dyn BufRead + Send + 'l>> {
        TextReader::new(self.reader, self.format.record_bytes(), self.compression.read_bytes(), None)
    }
}
