//! HDR interval logs, version 1.3: histograms on disk that any HdrHistogram tool reads and merges.

use std::{
    borrow::Borrow,
    io::{self, Write},
    time::{Duration, SystemTime},
};

use hdrhistogram::serialization::{
    V2DeflateSerializer,
    interval_log::{IntervalLogWriterBuilder, Tag},
};

use crate::{Histogram, Nanos};

const MAX_COLUMN_UNIT_NS: f64 = 1_000_000.0;

/// One row of a log.
pub struct Interval<'a, H = &'a Histogram> {
    /// What was measured: letters, digits, `_`; no comma and no space.
    pub tag: &'a str,
    /// When it began, since the run's start.
    pub start: Nanos,
    /// How long it lasted.
    pub length: Nanos,
    /// What was recorded, in nanoseconds; the log's maximum column is in milliseconds, as usual.
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

/// The crate's own writer leaves out the version and the legend, which other readers look for.
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
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

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
        let tags: Vec<_> = IntervalLogIterator::new(&log)
            .filter_map(|entry| match entry.unwrap() {
                LogEntry::Interval(interval) => interval.tag().map(|tag| tag.as_str().to_owned()),
                _ => None,
            })
            .collect();
        assert_eq!(tags, ["connect", "response"]);
        assert!(String::from_utf8(log).unwrap().contains("Histogram log format version 1.3"));
    }
}
