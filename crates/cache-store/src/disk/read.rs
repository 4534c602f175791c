//! Reads a large body from its file a few chunks at a time and verifies each in memory before returning it.
//!
//! The bytes sent are therefore the verified ones; `sendfile` would send whatever the file contains by then. The
//! kernel's page cache caches these bodies; the process holds only the chunks that readers are at.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::format::{CHUNK_BYTES, Header, chunk_checksum};
use super::{Disk, Work, lock};
use crate::body::{ExternalBody, ExternalReader, ReadStep, Slice};

const CHUNKS_PER_READ: u64 = 4;

/// A body in a file, readable even after the object was evicted or replaced.
pub(super) struct DiskBody {
    disk: Arc<Disk>,
    file: File,
    start: u64,
    length: u64,
    number: u64,
    hash: u128,
    checksums: Box<[u64]>,
}

/// A read in progress for one reader.
pub(super) struct ChunkRead {
    body: Arc<DiskBody>,
    first_chunk: u64,
    number: u64,
    begun: Instant,
    state: Mutex<ChunkReadState>,
}

/// Pending reads in the order of request.
#[derive(Default)]
pub(super) struct ChunkReads {
    under_way: BTreeMap<u64, Arc<ChunkRead>>,
    next_number: u64,
}

#[derive(Default)]
struct ChunkReadState {
    outcome: Option<Result<Arc<[u8]>, ()>>,
    waker: Option<Waker>,
}

/// Reads a body from disk and holds the chunks read ahead.
struct DiskReader {
    body: Arc<DiskBody>,
    chunk_read: Option<Arc<ChunkRead>>,
}

impl DiskBody {
    pub(super) fn new(disk: Arc<Disk>, file: File, header: &Header, checksums: Box<[u64]>) -> DiskBody {
        let (start, length) = (header.front_bytes() as u64, header.length);
        DiskBody { disk, file, start, length, number: header.number, hash: header.hash, checksums }
    }

    /// The number of bytes to read at once from chunk `first` on.
    fn read_bytes(&self, first: u64) -> usize {
        (self.length - first * CHUNK_BYTES).min(CHUNKS_PER_READ * CHUNK_BYTES) as usize
    }

    fn read(&self, first: u64) -> Result<Arc<[u8]>, ()> {
        let mut bytes = vec![0; self.read_bytes(first)];
        let read = self.file.read_exact_at(&mut bytes, self.start + first * CHUNK_BYTES);
        if let Err(error) = &read
            && error.kind() != std::io::ErrorKind::UnexpectedEof
        {
            self.disk.count(&self.disk.counters.read_failures, 1);
            return Err(());
        }
        let is_proved = |(at, chunk): (usize, &[u8])| {
            let index = first + at as u64;
            self.checksums.get(index as usize) == Some(&chunk_checksum(self.number, index, chunk))
        };
        if read.is_err() || !bytes.chunks(CHUNK_BYTES as usize).enumerate().all(is_proved) {
            self.disk.remove_damaged(self.hash);
            return Err(());
        }
        Ok(bytes.into())
    }
}

impl ExternalBody for DiskBody {
    fn length(&self) -> u64 {
        self.length
    }

    fn reader(self: Arc<Self>) -> Box<dyn ExternalReader> {
        Box::new(DiskReader { body: self, chunk_read: None })
    }
}

impl std::fmt::Debug for DiskBody {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("DiskBody").field("length", &self.length).finish_non_exhaustive()
    }
}

impl ChunkRead {
    pub(super) fn perform(&self) {
        let outcome = self.body.read(self.first_chunk);
        lock(&self.body.disk.chunk_reads).under_way.remove(&self.number);
        self.finish(outcome);
    }

    /// Ends the read: its reader gets nothing more.
    pub(super) fn fail(&self) {
        self.finish(Err(()));
    }

    /// Sets the result, unless the read has timed out.
    fn finish(&self, outcome: Result<Arc<[u8]>, ()>) {
        let mut state = lock(&self.state);
        state.outcome.get_or_insert(outcome);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

impl ChunkReads {
    /// Starts the next read: chunks of `body` from `first` on; `waker` is called when it is done.
    fn begin(&mut self, body: &Arc<DiskBody>, first: u64, waker: &Waker) -> Arc<ChunkRead> {
        let number = self.next_number;
        self.next_number += 1;
        let state = Mutex::new(ChunkReadState { outcome: None, waker: Some(waker.clone()) });
        let (body, begun) = (Arc::clone(body), Instant::now());
        let chunk_read = Arc::new(ChunkRead { body, first_chunk: first, number, begun, state });
        self.under_way.insert(number, Arc::clone(&chunk_read));
        chunk_read
    }

    /// Removes and returns the reads that have waited for at least `timeout`.
    pub(super) fn take_overdue(&mut self, timeout: Duration) -> Vec<Arc<ChunkRead>> {
        let mut overdue = Vec::new();
        while let Some(oldest) = self.under_way.first_entry()
            && oldest.get().begun.elapsed() >= timeout
        {
            overdue.push(oldest.remove());
        }
        overdue
    }
}

impl ExternalReader for DiskReader {
    fn read_at(&mut self, position: u64, waker: &Waker) -> ReadStep {
        let body = &self.body;
        if position >= body.length {
            return ReadStep::End;
        }
        let chunk = position / CHUNK_BYTES;
        if let Some(chunk_read) = &self.chunk_read {
            let start = chunk_read.first_chunk * CHUNK_BYTES;
            let covers =
                start <= position && position < start + body.read_bytes(chunk_read.first_chunk) as u64;
            let mut state = lock(&chunk_read.state);
            match &state.outcome {
                Some(Ok(bytes)) if covers => {
                    return ReadStep::Bytes(
                        Slice::whole(Arc::clone(bytes)).from((position - start) as usize),
                    );
                }
                Some(Err(())) if covers => return ReadStep::Truncated,
                None if covers => {
                    state.waker = Some(waker.clone());
                    return ReadStep::Pending;
                }
                _ => {}
            }
        }
        let chunk_read = lock(&body.disk.chunk_reads).begin(body, chunk, waker);
        self.chunk_read = Some(Arc::clone(&chunk_read));
        let number = chunk_read.number;
        if body.disk.submit(Work::Read(chunk_read)) {
            return ReadStep::Pending;
        }
        lock(&body.disk.chunk_reads).under_way.remove(&number);
        ReadStep::Truncated
    }
}

impl std::fmt::Debug for DiskReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("DiskReader").field("is_loading", &self.chunk_read.is_some()).finish()
    }
}
