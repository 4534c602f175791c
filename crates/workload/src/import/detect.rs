//! Detects a log's format by trying all named formats on its first lines.

use std::io::{self, BufRead};

use super::ImportError;
use super::entry::Malformed;
use super::format::Format;
use super::report::MalformedLine;
use super::worldcup;

pub const SAMPLE_LINES_MAX: usize = 100;

pub const SAMPLE_BYTES_MAX: usize = 256 * 1024;

/// The formats in order of preference: `common`, for example, also reads lines of `vhost_combined`.
const CANDIDATES: [&str; 9] =
    ["vhost_combined", "common", "squid", "json", "w3c", "alb", "haproxy", "envoy", "s3"];

/// The detected format with its evidence.
#[derive(Clone, Debug)]
pub struct Detected {
    /// The detected format; the fast path (common, combined) if none fits.
    pub format: Format,
    pub sample_lines: usize,
    /// The number of sample lines that the format can read; directives count, blank lines do not.
    pub sample_entries: usize,
}

/// Chooses the candidate that reads the most sample lines.
pub fn detect(sample: &[u8]) -> Detected {
    if worldcup::is_sample(sample) {
        return try_format(Format::world_cup(), sample);
    }
    let reads = |name: &str| {
        let mut format = Format::new(name, &[]).expect("the candidates have names");
        (lines(sample).filter(|line| format.read(line).is_ok()).count(), name.to_owned())
    };
    let (sample_entries, name) =
        CANDIDATES.iter().map(|name| reads(name)).fold((0, "common".to_owned()), |best, candidate| {
            if candidate.0 > best.0 { candidate } else { best }
        });
    // Combined logs have a quoted referrer and user agent after the request.
    let combined =
        name == "common" && lines(sample).any(|line| line.iter().filter(|&&byte| byte == b'"').count() >= 6);
    let name = if combined { "combined" } else { &name };
    let format = Format::new(name, &[]).expect("the candidates have names");
    let sample_lines = lines(sample).filter(|line| !is_blank(line)).count();
    Detected { format, sample_lines, sample_entries }
}

/// Counts the sample lines that a given format can read.
pub fn try_format(format: Format, sample: &[u8]) -> Detected {
    let mut reading = format.clone();
    let is_line = |piece: &&[u8]| format.record_bytes().is_some() || !is_blank(piece);
    let sample_lines = pieces(&format, sample).filter(is_line).count();
    let sample_entries = pieces(&format, sample).filter(|piece| reading.read(piece).is_ok()).count();
    Detected { format, sample_lines, sample_entries }
}

/// The first sample line that a format cannot read.
pub fn first_malformed(format: &mut Format, sample: &[u8]) -> Option<MalformedLine> {
    let are_records = format.record_bytes().is_some();
    let pieces: Vec<&[u8]> = pieces(format, sample).collect();
    let mut pieces = pieces.into_iter().zip(1..).filter(|(piece, _)| are_records || !is_blank(piece));
    pieces.find_map(|(line, number)| Some(MalformedLine::new("", number, line, format.read(line).err()?)))
}

/// The sample's lines, or its records.
fn pieces<'s>(format: &Format, sample: &'s [u8]) -> Box<dyn Iterator<Item = &'s [u8]> + 's> {
    match format.record_bytes() {
        Some(bytes) => Box::new(sample.chunks(bytes).take(SAMPLE_LINES_MAX)),
        None => Box::new(lines(sample)),
    }
}

/// The sample lines without their ends. A line cut off by the end of the sample is left out, unless it is the only one.
fn lines(sample: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = memchr::memrchr(b'\n', sample).map_or(sample, |end| &sample[..end]);
    let lines = whole.split(|&byte| byte == b'\n').take(SAMPLE_LINES_MAX);
    lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

fn is_blank(line: &[u8]) -> bool {
    matches!(super::clf::parse(line), Err(Malformed::Empty))
}

/// Reads the sample for detection. When a signal interrupts a read, `interrupted` decides whether to go on.
pub fn read_sample(
    reader: &mut impl BufRead,
    mut interrupted: impl FnMut() -> Result<(), ImportError>,
) -> Result<Vec<u8>, ImportError> {
    let mut sample = Vec::new();
    let mut lines = 0;
    while sample.len() < SAMPLE_BYTES_MAX && lines < SAMPLE_LINES_MAX {
        match reader.fill_buf() {
            Ok([]) => break,
            Ok(buffer) => {
                let taken = buffer.len().min(SAMPLE_BYTES_MAX - sample.len());
                lines += memchr::memchr_iter(b'\n', &buffer[..taken]).count();
                sample.extend_from_slice(&buffer[..taken]);
                reader.consume(taken);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => interrupted()?,
            Err(source) => return Err(ImportError::Read { line: lines as u64, source }),
        }
    }
    Ok(sample)
}
