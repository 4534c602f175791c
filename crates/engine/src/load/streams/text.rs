//! The result of a run of viewers as text for people: streams, packets, times, and whether to trust it.

use std::io::{self, Write};

use super::{
    super::text::{number, write_row, write_times_head, write_warnings},
    StreamResult,
};

pub fn write_text(output: &mut impl Write, result: &StreamResult) -> io::Result<()> {
    let report = &result.report;
    let streams = &report.streaming.streams;
    writeln!(
        output,
        "{} of {}, films: {}, {} by {}",
        result.tool,
        result.url,
        result.films,
        if report.streaming.segments.is_some() { "segments" } else { "packets" },
        result.connection
    )?;
    if let Some(why) = &report.stopped_because {
        writeln!(output, "NOT COMPLETE: {why}")?;
    }
    let percent = |share: Option<f64>| number(share.map(|share| share * 100.0));
    writeln!(
        output,
        "{} of {} streams conform ({} %); {} started, {} refused, {} timed out, {} not begun at the end",
        streams.conforming,
        streams.judged,
        percent(streams.conforming_fraction),
        streams.started,
        streams.refused,
        streams.timed_out,
        streams.unfinished,
    )?;
    for (fault, count) in &streams.faults {
        writeln!(output, "  {count} not because: {}", fault.replace('_', " "))?;
    }
    for (status, count) in &streams.refused_by_status {
        writeln!(output, "  {count} refused with {status}")?;
    }
    for (cause, count) in &streams.failures_by_cause {
        writeln!(output, "  {count} failed: {}", cause.replace('_', " "))?;
    }
    if streams.slow + streams.vanishing > 0 {
        writeln!(output, "  not judged: {} slow, {} vanishing", streams.slow, streams.vanishing)?;
    }
    write_media(output, result)?;
    write_times_head(output)?;
    match (&report.startup_time_seconds, &report.segment_time_seconds) {
        (Some(startup), Some(segment)) => {
            write_row(output, "connecting until the playlist", &report.setup_time_seconds)?;
            write_row(output, "asking until the first byte", &report.time_to_first_packet_seconds)?;
            write_row(output, "connecting until it is shown", startup)?;
            write_row(output, "asking until a whole segment", segment)?;
            write_row(output, "segments behind the first's pace", &report.behind_seconds)?;
        }
        _ => {
            write_row(output, "connecting until playing", &report.setup_time_seconds)?;
            write_row(output, "PLAY until the first packet", &report.time_to_first_packet_seconds)?;
            write_row(output, "packets behind the first's pace", &report.behind_seconds)?;
            write_row(output, "jitter of tracks", &report.jitter_seconds)?;
        }
    }
    write_row(output, "generator's lateness", &report.generator.receive_lag_seconds)?;
    let generator = &report.generator;
    writeln!(
        output,
        "\ngenerator: {} % of a core; arrivals by {}",
        percent(generator.cpu_fraction),
        generator.arrival_clock
    )?;
    write_warnings(output, &generator.reasons, &report.warnings)
}

fn write_media(output: &mut impl Write, result: &StreamResult) -> io::Result<()> {
    let streaming = &result.report.streaming;
    let bits = number(result.report.bytes_per_second.map(|bytes| bytes * 8.0 / 1e6));
    if let Some(packets) = &streaming.packets {
        let deliveries = &packets.deliveries;
        writeln!(
            output,
            "{} packets, {bits} Mbit/s: {} lost, {} late, {} out of order, {} void",
            deliveries.received, deliveries.lost, deliveries.late, packets.reordered, deliveries.void,
        )?;
    }
    if let Some(segments) = &streaming.segments {
        writeln!(
            output,
            "{} segments, {bits} Mbit/s: {} lost, {} late, {} void",
            segments.received, segments.lost, segments.late, segments.void,
        )?;
    }
    let starvation = &streaming.starvation;
    writeln!(
        output,
        "{} streams had nothing to show, {} times, {} s in all",
        starvation.streams,
        starvation.count,
        number(Some(starvation.seconds)),
    )?;
    let Some(rates) = &streaming.bit_rate else { return Ok(()) };
    writeln!(
        output,
        "kbit/s of a stream: mean {}, from {} to {}",
        number(Some(rates.mean_bits_per_second / 1e3)),
        number(Some(rates.min_bits_per_second / 1e3)),
        number(Some(rates.max_bits_per_second / 1e3)),
    )
}
