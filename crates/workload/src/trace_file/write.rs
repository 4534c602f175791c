//! Writes a trace file front to back, given its totals beforehand.

use std::io::{self, Write};

use super::{Head, MAGIC, MAGIC_WITH_TIMES};
use crate::request_times::{Distribution, PathTimes, RequestTimes, Times};
use crate::trace::{Document, Request, Trace};

/// Writes exactly the documents, sessions and requests that its head announces, in this order.
pub struct TraceWriter<W> {
    writer: W,
}

impl<W: Write> TraceWriter<W> {
    /// Writes the head. Give a buffered writer.
    pub fn new(writer: W, head: &Head) -> io::Result<Self> {
        TraceWriter::with_times(writer, head, None)
    }

    /// Writes the head and the request durations.
    pub fn with_times(mut writer: W, head: &Head, times: Option<&RequestTimes>) -> io::Result<Self> {
        writer.write_all(if times.is_some() { &MAGIC_WITH_TIMES } else { &MAGIC })?;
        writer.write_all(&head.origin.unix_ns.to_le_bytes())?;
        writer.write_all(&head.origin.utc_offset_seconds.to_le_bytes())?;
        for count in [head.documents, head.sessions, head.requests] {
            writer.write_all(&count.to_le_bytes())?;
        }
        if let Some(times) = times {
            write_request_times(&mut writer, times)?;
        }
        Ok(TraceWriter { writer })
    }

    pub fn document(&mut self, document: &Document) -> io::Result<()> {
        let writer = &mut self.writer;
        writer.write_all(&document.size_bytes.to_le_bytes())?;
        writer.write_all(&document.status.to_le_bytes())?;
        writer.write_all(&(document.host.len() as u16).to_le_bytes())?;
        writer.write_all(&(document.name.len() as u32).to_le_bytes())?;
        writer.write_all(document.host.as_bytes())?;
        writer.write_all(document.name.as_bytes())
    }

    /// Writes the next session, which starts `start_ns` after the origin and not before the previous one.
    pub fn session(&mut self, start_ns: u64, requests: &[Request]) -> io::Result<()> {
        self.writer.write_all(&start_ns.to_le_bytes())?;
        self.writer.write_all(&(requests.len() as u32).to_le_bytes())?;
        requests.iter().try_for_each(|request| self.writer.write_all(&request.encoded()))
    }

    /// Writes the next session, whose requests are encoded as in the file.
    pub fn encoded_session(&mut self, start_ns: u64, requests: &[u8]) -> io::Result<()> {
        let count = (requests.len() / Request::ENCODED_BYTES) as u32;
        self.writer.write_all(&start_ns.to_le_bytes())?;
        self.writer.write_all(&count.to_le_bytes())?;
        self.writer.write_all(requests)
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Trace {
    /// Writes the whole trace. Give a buffered writer.
    pub fn write(&self, writer: impl Write) -> io::Result<()> {
        let head = Head {
            origin: self.origin,
            documents: self.documents.len() as u32,
            sessions: self.sessions.len() as u32,
            requests: self.requests.len() as u32,
        };
        let mut writer = TraceWriter::with_times(writer, &head, self.times.as_ref())?;
        self.documents.iter().try_for_each(|document| writer.document(document))?;
        for session in &self.sessions {
            writer.session(session.start_ns, self.requests_of(session))?;
        }
        writer.finish()
    }
}

/// Writes request durations; `read` is its counterpart.
fn write_request_times(writer: &mut impl Write, times: &RequestTimes) -> io::Result<()> {
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
