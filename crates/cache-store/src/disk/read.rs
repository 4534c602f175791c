//! Reading a large body from its file, a few chunks at a time, each proved in memory before it is handed over.
//!
//! What was proved is what is sent: `sendfile` would send whatever the file holds by then. The page cache is the
//! cache of these bodies; memory holds what readers are at.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::super::extent::Slice;
use super::super::filling::At;
use super::format::{CHUNK_BYTES, Header, chunk_checksum};
use super::{Disk, Work, lock};

/// Chunks that are read at once.
const CHUNKS_PER_READ: u64 = 4;

/// A body in a file, which stays readable when the object is evicted or replaced.
pub struct DiskBody {
    disk: Arc<Disk>,
    file: File,
    start: u64,
    length: u64,
    number: u64,
    hash: u128,
    checksums: Box<[u64]>,
}

/// Chunks on their way from the disk to one reader.
pub(super) struct Loading {
    body: Arc<DiskBody>,
    first_chunk: u64,
    /// Which of the [`Loadings`].
    number: u64,
    begun: Instant,
    state: Mutex<LoadingState>,
}

/// What is on its way, in the order in which it was asked for.
#[derive(Default)]
pub(super) struct Loadings {
    under_way: BTreeMap<u64, Arc<Loading>>,
    next_number: u64,
}

#[derive(Default)]
struct LoadingState {
    outcome: Option<Result<Arc<[u8]>, ()>>,
    waker: Option<Waker>,
}

/// What a reader of such a body has at hand.
#[derive(Default)]
pub struct DiskReader {
    loading: Option<Arc<Loading>>,
}

impl DiskBody {
    pub(super) fn new(disk: Arc<Disk>, file: File, header: &Header, checksums: Box<[u64]>) -> DiskBody {
        let (start, length) = (header.front_bytes() as u64, header.length);
        DiskBody { disk, file, start, length, number: header.number, hash: header.hash, checksums }
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    /// Bytes of the chunks from `first` on that are read at once.
    fn read_bytes(&self, first: u64) -> usize {
        (self.length - first * CHUNK_BYTES).min(CHUNKS_PER_READ * CHUNK_BYTES) as usize
    }

    fn read(&self, first: u64) -> Result<Arc<[u8]>, ()> {
        let mut bytes = vec![0; self.read_bytes(first)];
        let read = self.file.read_exact_at(&mut bytes, self.start + first * CHUNK_BYTES);
        if let Err(error) = &read
            && error.kind() != std::io::ErrorKind::UnexpectedEof
        {
            self.disk.count(&self.disk.counters.read_failures);
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

impl std::fmt::Debug for DiskBody {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("DiskBody").field("length", &self.length).finish_non_exhaustive()
    }
}

impl Loading {
    pub(super) fn perform(&self) {
        let outcome = self.body.read(self.first_chunk);
        lock(&self.body.disk.loadings).under_way.remove(&self.number);
        self.finish(outcome);
    }

    /// Its reader gets no more than it has.
    pub(super) fn give_up(&self) {
        self.finish(Err(()));
    }

    /// What was read; that comes to nothing if it has been given up.
    fn finish(&self, outcome: Result<Arc<[u8]>, ()>) {
        let mut state = lock(&self.state);
        state.outcome.get_or_insert(outcome);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

impl Loadings {
    /// The next: chunks of `body` from the `first` on, of which `waker` tells.
    fn begin(&mut self, body: &Arc<DiskBody>, first: u64, waker: &Waker) -> Arc<Loading> {
        let number = self.next_number;
        self.next_number += 1;
        let state = Mutex::new(LoadingState { outcome: None, waker: Some(waker.clone()) });
        let (body, begun) = (Arc::clone(body), Instant::now());
        let loading = Arc::new(Loading { body, first_chunk: first, number, begun, state });
        self.under_way.insert(number, Arc::clone(&loading));
        loading
    }

    /// Takes out those that have been waited for as long as `patience`.
    pub(super) fn take_overdue(&mut self, patience: Duration) -> Vec<Arc<Loading>> {
        let mut overdue = Vec::new();
        while let Some(oldest) = self.under_way.first_entry()
            && oldest.get().begun.elapsed() >= patience
        {
            overdue.push(oldest.remove());
        }
        overdue
    }
}

impl DiskReader {
    /// What there is at `position`.
    pub fn at(&mut self, body: &Arc<DiskBody>, position: u64, waker: &Waker) -> At {
        if position >= body.length {
            return At::End;
        }
        let chunk = position / CHUNK_BYTES;
        if let Some(loading) = &self.loading {
            let start = loading.first_chunk * CHUNK_BYTES;
            let covers = start <= position && position < start + body.read_bytes(loading.first_chunk) as u64;
            let mut state = lock(&loading.state);
            match &state.outcome {
                Some(Ok(bytes)) if covers => {
                    return At::Bytes(Slice::whole(Arc::clone(bytes)).from((position - start) as usize));
                }
                Some(Err(())) if covers => return At::Truncated,
                None if covers => {
                    state.waker = Some(waker.clone());
                    return At::Later;
                }
                _ => {}
            }
        }
        let loading = lock(&body.disk.loadings).begin(body, chunk, waker);
        self.loading = Some(Arc::clone(&loading));
        let number = loading.number;
        if body.disk.submit(Work::Read(loading)) {
            return At::Later;
        }
        lock(&body.disk.loadings).under_way.remove(&number);
        At::Truncated
    }
}

impl std::fmt::Debug for DiskReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("DiskReader").field("is_loading", &self.loading.is_some()).finish()
    }
}
