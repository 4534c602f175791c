//! HDR interval logs, version 1.3: histograms on disk that any HdrHistogram tool reads and merges.
//!
//! Reads any log of latencies in nanoseconds, whatever range and precision its histograms have.

use std::{
    borrow::Borrow,
    io::{self, Write},
    time::{Duration, SystemTime},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use hdrhistogram::serialization::{
    Deserializer, V2DeflateSerializer,
    interval_log::{IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag},
};
use thiserror::Error;

use crate::{Histogram, Nanos};

const MAX_COLUMN_UNIT_NS: f64 = 1_000_000.0;

pub struct Interval<'a, H = &'a Histogram> {
    /// The name of the measurement, without commas and spaces.
    pub tag: &'a str,
    /// Offset from the start of the run.
    pub start: Nanos,
    pub length: Nanos,
    /// Latencies in nanoseconds; the log's maximum column is in milliseconds, as usual.
    pub histogram: H,
}

/// Writes a log whose time zero is `start_time`.
pub fn write<'a, H: Borrow<Histogram>>(
    output: &mut impl Write,
    start_time: SystemTime,
    comment: &str,
    intervals: impl IntoIterator<Item = Interval<'a, H>>,
) -> io::Result<()> {
    write_header(output, start_time, comment)?;
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .with_max_value_divisor(MAX_COLUMN_UNIT_NS)
        .begin_log_with(output, &mut serializer)?;
    for interval in intervals {
        log.write_histogram(
            interval.histogram.borrow().counts(),
            Duration::from_nanos(interval.start.0),
            Duration::from_nanos(interval.length.0),
            Tag::new(interval.tag),
        )
        .map_err(io::Error::other)?;
    }
    Ok(())
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReadInterval {
    pub tag: String,
    /// Offset from the start of the run.
    pub start: Nanos,
    pub length: Nanos,
    pub histogram: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LogError {
    /// A line that is neither a comment nor a row.
    #[error("row {0} is not a row of an HDR interval log")]
    Row(usize),
    /// A row with a damaged histogram.
    #[error("the histogram of row {row} cannot be decoded: {why}")]
    Histogram {
        /// The row's number from one, without comments.
        row: usize,
        why: String,
    },
}

pub fn read(log: &[u8]) -> Result<Vec<ReadInterval>, LogError> {
    let mut deserializer = Deserializer::new();
    let mut rows = Vec::new();
    for entry in IntervalLogIterator::new(log) {
        let row = rows.len() + 1;
        let LogEntry::Interval(interval) = entry.map_err(|_| LogError::Row(row))? else { continue };
        let damaged = |why: String| LogError::Histogram { row, why };
        let bytes =
            STANDARD.decode(interval.encoded_histogram()).map_err(|error| damaged(error.to_string()))?;
        let counts: hdrhistogram::Histogram<u64> =
            deserializer.deserialize(&mut bytes.as_slice()).map_err(|error| damaged(error.to_string()))?;
        rows.push(ReadInterval {
            tag: interval.tag().map_or_else(String::new, |tag| tag.as_str().to_owned()),
            start: nanos(interval.start_timestamp()),
            length: nanos(interval.duration()),
            histogram: Histogram::from_counts(&counts),
        });
    }
    Ok(rows)
}

fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// The crate's own writer omits the version and the legend, which other readers expect.
fn write_header(output: &mut impl Write, start_time: SystemTime, comment: &str) -> io::Result<()> {
    let start_seconds = start_time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    writeln!(output, "#[{comment}]")?;
    writeln!(output, "#[Histogram log format version 1.3]")?;
    writeln!(output, "#[StartTime: {start_seconds:.3} (seconds since epoch)]")?;
    writeln!(output, "#[BaseTime: {start_seconds:.3} (seconds since epoch)]")?;
    writeln!(
        output,
        "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\""
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_with_its_tag() {
        let mut histogram = Histogram::default();
        histogram.record(Nanos(1_500_000));
        let rows = [("connect", 0), ("response", 4)].map(|(tag, start)| Interval {
            tag,
            start: Nanos(start * 1_000_000_000),
            length: Nanos(4_000_000_000),
            histogram: &histogram,
        });
        let mut log = Vec::new();
        write(&mut log, SystemTime::now(), "test", rows).unwrap();
        let rows = read(&log).unwrap();
        assert_eq!([&rows[0].tag, &rows[1].tag], ["connect", "response"]);
        assert_eq!((rows[1].start, rows[1].length), (Nanos(4_000_000_000), Nanos(4_000_000_000)));
        assert_eq!(rows[1].histogram, histogram);
        assert!(String::from_utf8(log).unwrap().contains("Histogram log format version 1.3"));
    }

    #[test]
    fn what_is_damaged_is_refused_and_never_panics() {
        let mut log = Vec::new();
        let mut histogram = Histogram::default();
        (1..500).for_each(|i| histogram.record(Nanos(i * 977)));
        let row = Interval { tag: "x", start: Nanos(0), length: Nanos(1), histogram: &histogram };
        write(&mut log, SystemTime::now(), "test", [row]).unwrap();
        for at in 0..log.len() {
            let _ = read(&log[..at]);
            let mut damaged = log.clone();
            damaged[at] ^= 0x15;
            let _ = read(&damaged);
        }
        assert!(read(&log[..log.len() - 20]).is_err());
        let error = read(b"Tag=x,0.0,1.0,1.0,HISTnonsense\n").unwrap_err();
        assert!(error.to_string().starts_with("the histogram of row 1"), "{error}");
    }
}
