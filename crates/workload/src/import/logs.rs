//! The logs of an import: one, or several that are read one after the other as if they were one.
//!
//! Each has its compression and its format. A file that was found in a folder and is no log is skipped and named; one
//! that was asked for is refused.

use std::io::{self, BufRead, Cursor, Read};

use serde::Serialize;

use super::compression::{self, Compression};
use super::detect::{self, Detected};
use super::report::{DetectedBy, MalformedLine};
use super::{Format, ImportError, Options};

/// U+FEFF in UTF-8, as some programs begin a file: no part of the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A log to read, or why it cannot be opened.
pub struct Log<'l> {
    /// What messages call it; empty for the only one.
    pub name: String,
    pub reader: io::Result<Box<dyn BufRead + 'l>>,
    /// True for a file that was not asked for by its name.
    pub is_found: bool,
}

impl<'l> Log<'l> {
    pub fn only(reader: impl BufRead + 'l) -> Self {
        Log { name: String::new(), reader: Ok(Box::new(reader)), is_found: false }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LogReport {
    pub name: String,
    pub compression: Compression,
    pub format: String,
    /// By what it was chosen, where it was not given.
    pub format_detected: Option<DetectedBy>,
    pub lines: u64,
    pub malformed: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotALog {
    pub name: String,
    pub why: String,
}

/// A log that is open: its first bytes are known, and so is its format.
pub struct Opened<'l> {
    pub compression: Compression,
    pub format: Format,
    pub format_detected: Option<DetectedBy>,
    /// What its first lines say against its being a log.
    pub doubt: Option<Doubt>,
    pub reader: Box<dyn BufRead + 'l>,
}

pub enum Doubt {
    Empty,
    /// None of its first lines can be read.
    NoEntry(MalformedLine),
}

impl<'l> Opened<'l> {
    pub fn new(
        reader: impl BufRead + 'l,
        options: &Options,
        mut interrupted: impl FnMut() -> Result<(), ImportError>,
    ) -> Result<Self, ImportError> {
        let (compression, mut reader) = compression::open(reader, &mut interrupted)?;
        let mut sample = detect::read_sample(&mut reader, &mut interrupted)?;
        if sample.starts_with(BYTE_ORDER_MARK) {
            sample.drain(..BYTE_ORDER_MARK.len());
        }
        let (Detected { format, sample_lines, sample_entries }, is_given) = match &options.format {
            Some(format) => (detect::tried(format.clone(), &sample), true),
            None => (detect::detect(&sample), false),
        };
        let doubt = if sample_lines == 0 {
            Some(Doubt::Empty)
        } else if sample_entries == 0 {
            detect::first_malformed(&mut format.clone(), &sample).map(Doubt::NoEntry)
        } else {
            None
        };
        let format_detected = (!is_given).then_some(DetectedBy { sample_lines, sample_entries });
        let reader = Box::new(Cursor::new(sample).chain(reader));
        Ok(Opened { compression, format, format_detected, doubt, reader })
    }
}
