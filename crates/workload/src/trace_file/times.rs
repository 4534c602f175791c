//! Writes request durations; `read` is its counterpart.

use std::io::{self, Write};

use crate::request_times::{Distribution, PathTimes, RequestTimes, Times};

pub fn write(writer: &mut impl Write, times: &RequestTimes) -> io::Result<()> {
    writer.write_all(&(times.paths.len() as u32).to_le_bytes())?;
    write_times(writer, &times.all)?;
    for PathTimes { path, host, times } in &times.paths {
        writer.write_all(&(host.len() as u16).to_le_bytes())?;
        writer.write_all(&(path.len() as u32).to_le_bytes())?;
        writer.write_all(host.as_bytes())?;
        writer.write_all(path.as_bytes())?;
        write_times(writer, times)?;
    }
    Ok(())
}

fn write_times(writer: &mut impl Write, times: &Times) -> io::Result<()> {
    write_distribution(writer, times.request_time_seconds.as_ref())?;
    write_distribution(writer, times.upstream_time_seconds.as_ref())
}

fn write_distribution(writer: &mut impl Write, found: Option<&Distribution>) -> io::Result<()> {
    match found {
        Some(found) => found.numbers().iter().try_for_each(|number| writer.write_all(&number.to_le_bytes())),
        None => writer.write_all(&0_u64.to_le_bytes()),
    }
}
