//! Opens an object's file: reads and verifies header, key, metadata and checksum table, and a small body.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::format::{CHUNK_BYTES, Damaged, Header, chunk_checksum, decode_table};
use super::read::DiskBody;
use super::{Disk, lock};
use crate::key::Key;
use crate::object::Object;

/// Bodies up to this size are read when their file is opened, and kept in memory if they are admitted.
const WHOLE_BODY_BYTES_MAX: u64 = 1024 * 1024;

/// Bytes read first; most files are smaller.
const FRONT_BYTES: usize = 128 * 1024;

pub struct DiskLookup {
    key: Key<'static>,
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    outcome: Option<Option<Arc<Object>>>,
    waiting: Vec<Waker>,
}

pub struct OpenedFile {
    pub object: Arc<Object>,
    pub sequence: u64,
    pub header: Header,
    pub file: File,
}

/// Why a lookup finds no object.
pub enum Failure {
    Io,
    /// The file failed verification.
    Damaged,
}

impl From<Damaged> for Failure {
    fn from(_: Damaged) -> Failure {
        Failure::Damaged
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Failure::Damaged,
            _ => Failure::Io,
        }
    }
}

impl DiskLookup {
    pub(super) fn new(key: Key<'static>) -> DiskLookup {
        DiskLookup { key, begun: Instant::now(), state: Mutex::default() }
    }

    pub fn key(&self) -> &Key<'static> {
        &self.key
    }

    /// The result; otherwise `waker` is called when it is known.
    pub fn object(&self, waker: &Waker) -> Poll<Option<Arc<Object>>> {
        let mut state = lock(&self.state);
        match &state.outcome {
            Some(outcome) => Poll::Ready(outcome.clone()),
            None => {
                if !state.waiting.iter().any(|known| known.will_wake(waker)) {
                    state.waiting.push(waker.clone());
                }
                Poll::Pending
            }
        }
    }

    pub fn outcome(&self) -> Option<Option<Arc<Object>>> {
        lock(&self.state).outcome.clone()
    }

    /// Returns true if the lookup has waited for at least `timeout`.
    pub(super) fn is_overdue(&self, timeout: Duration) -> bool {
        self.begun.elapsed() >= timeout
    }

    /// Sets the result, unless the lookup has timed out.
    pub(super) fn finish(&self, outcome: Option<Arc<Object>>) {
        let mut state = lock(&self.state);
        state.outcome.get_or_insert(outcome);
        state.waiting.drain(..).for_each(Waker::wake);
    }
}

impl std::fmt::Debug for DiskLookup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("DiskLookup").field("is_done", &lock(&self.state).outcome.is_some()).finish()
    }
}

impl Disk {
    pub(super) fn perform_open(self: &Arc<Self>, lookup: &Arc<DiskLookup>) {
        let hash = lookup.key.hash();
        let found = match self.open_whole(&lookup.key) {
            Ok(found) => found,
            Err(Failure::Io) => {
                self.count(&self.counters.read_failures, 1);
                None
            }
            Err(Failure::Damaged) => {
                self.remove_damaged(hash);
                None
            }
        };
        let mut lookups = lock(&self.lookups);
        // It may have been purged or replaced meanwhile.
        let is_current = lookups.get(&hash).is_some_and(|current| Arc::ptr_eq(current, lookup));
        let found = found.filter(|_| is_current);
        if let Some(object) = &found {
            lock(&self.index).touch(hash);
            if object.external_body().is_none() {
                self.memory.insert(object);
            }
        }
        if is_current {
            lookups.remove(&hash);
        }
        drop(lookups);
        lookup.finish(found);
    }

    fn open_whole(self: &Arc<Self>, key: &Key<'_>) -> Result<Option<Arc<Object>>, Failure> {
        let Some(OpenedFile { object, header, file, .. }) = self.read_front(key)? else { return Ok(None) };
        let mut table = vec![0; 8 * header.chunks() as usize];
        file.read_exact_at(&mut table, header.table_start())?;
        let checksums = decode_table(&header, &table)?;
        if header.length > WHOLE_BODY_BYTES_MAX.min(self.memory_object_bytes_max) {
            let body = DiskBody::new(Arc::clone(self), file, &header, checksums);
            return Ok(Some(Arc::new(object.with_external_body(Arc::new(body)))));
        }
        let mut body = vec![0; header.length as usize];
        file.read_exact_at(&mut body, header.front_bytes() as u64)?;
        for (index, (chunk, checksum)) in body.chunks(CHUNK_BYTES as usize).zip(&checksums).enumerate() {
            if chunk_checksum(header.number, index as u64, chunk) != *checksum {
                return Err(Damaged("a chunk of its body was altered").into());
            }
        }
        let chunks = if body.is_empty() { Vec::new() } else { vec![Arc::from(body)] };
        Ok(Some(Arc::new(Object::new(key, header.kind, header.number, object.metadata(), chunks))))
    }

    /// Reads header, key and metadata; `None` if there is no file, or it belongs to another key.
    pub(super) fn read_front(&self, key: &Key<'_>) -> Result<Option<OpenedFile>, Failure> {
        let file = match self.directory.open_object(key.hash(), false) {
            Ok(file) => file,
            Err(Errno::NOENT) => {
                lock(&self.index).remove(key.hash());
                return Ok(None);
            }
            Err(_) => return Err(Failure::Io),
        };
        let size = file.metadata()?.len();
        let mut front = vec![0; FRONT_BYTES.min(usize::try_from(size).unwrap_or(FRONT_BYTES))];
        file.read_exact_at(&mut front, 0)?;
        let header = Header::decode(&front)?;
        if header.hash != key.hash() || header.file_bytes() != size {
            return Err(Damaged("its length or name does not match its header").into());
        }
        if header.text != key.text() {
            return Ok(None);
        }
        if header.front_bytes() > front.len() {
            front.resize(header.front_bytes(), 0);
            file.read_exact_at(&mut front, 0)?;
        }
        let (sequence, metadata) = header.metadata(&front)?;
        let object = Arc::new(Object::new(key, header.kind, header.number, metadata, Vec::new()));
        Ok(Some(OpenedFile { object, sequence, header, file }))
    }
}
