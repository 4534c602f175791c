//! The trace of a replay: a file that is read repeatedly, with only its documents in memory.

use std::{
    fs::File,
    io::{BufWriter, Seek, SeekFrom, Write},
    path::Path,
};

use anyhow::Context;
use sojourn_workload::{
    characterise::{Source, StoredTrace},
    trace::{Document, Origin, Request},
    trace_file::{Head, Place, TraceFileError, TraceWriter, WithoutFailed},
};

/// An open trace file with its documents.
pub struct Stored {
    name: String,
    inner: StoredTrace<File>,
}

impl Stored {
    /// Opens a trace file. Skipping failed requests makes another trace, which is written to a temporary file.
    pub fn open(path: &Path, skip_failed: bool) -> anyhow::Result<Stored> {
        let name = path.display().to_string();
        let inner = File::open(path).map_err(TraceFileError::Io).and_then(StoredTrace::open);
        let mut inner = inner.with_context(|| name.clone())?;
        let failed: Vec<bool> = inner.documents().iter().map(Document::is_failed).collect();
        if skip_failed && failed.contains(&true) {
            let copy = tempfile::tempfile().context("cannot make a temporary file (TMPDIR)")?;
            write_without_failed(&mut inner, &failed, &copy).with_context(|| name.clone())?;
            inner = StoredTrace::open(copy)?;
        }
        Ok(Stored { name, inner })
    }

    pub fn head(&self) -> Head {
        self.inner.head()
    }

    pub fn documents(&self) -> &[Document] {
        self.inner.documents()
    }

    /// Reads the whole file, so that errors show before the first request is sent; calls `visit` with each session's
    /// place, start and requests.
    pub fn scan(&mut self, visit: &mut dyn FnMut(Place, u64, &[Request])) -> anyhow::Result<()> {
        let mut scan = || {
            let mut sessions = self.inner.sessions()?;
            let mut requests = Vec::new();
            loop {
                let place = sessions.place();
                let Some(start_ns) = sessions.session(&mut requests)? else { return Ok(()) };
                visit(place, start_ns, &requests);
            }
        };
        scan().map_err(|error: TraceFileError| anyhow::Error::new(error).context(self.name.clone()))
    }

    /// The file, its head, and the place of its first session.
    pub fn into_parts(self) -> (File, Head, Place) {
        self.inner.into_parts()
    }
}

/// The first pass counts, the second one writes.
fn write_without_failed(
    trace: &mut StoredTrace<File>,
    failed: &[bool],
    mut copy: &File,
) -> Result<(), TraceFileError> {
    let Head { origin, documents, .. } = trace.head();
    let (mut first_ns, mut sessions, mut requests) = (None, 0, 0);
    let mut counted = WithoutFailed::new(trace.sessions()?, failed);
    while let Some((start_ns, session)) = counted.session()? {
        first_ns.get_or_insert(start_ns);
        (sessions, requests) = (sessions + 1, requests + session.len() as u32);
    }
    let first_ns = first_ns.unwrap_or(0);
    let origin = Origin { unix_ns: origin.unix_ns + first_ns as i64, ..origin };
    let head = Head { origin, documents, sessions, requests };
    let mut writer = TraceWriter::new(BufWriter::new(copy), &head)?;
    trace.documents().iter().try_for_each(|document| writer.document(document))?;
    let mut kept = WithoutFailed::new(trace.sessions()?, failed);
    while let Some((start_ns, session)) = kept.session()? {
        writer.session(start_ns - first_ns, &session)?;
    }
    writer.finish()?;
    copy.flush()?;
    copy.seek(SeekFrom::Start(0))?;
    Ok(())
}
