//! Writes an object: the body as it arrives, then the checksum table, the header last, and finally renames the file.
//!
//! Each job writes the available bytes and ends; the next is queued when there are more. Bytes are taken from the
//! budget before they are written, so unfinished files count, and the policy evicts others for them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use xxhash_rust::xxh3::Xxh3;

use super::directory::{Temporary, allocated_bytes};
use super::format::{CHUNK_BYTES, Header, METADATA_BYTES_MAX, encode_table};
use super::{Disk, lock};
use crate::body::Slice;
use crate::busy_object::{BusyObject, WriteStep};
use crate::key::{KEY_TEXT_BYTES_MAX, Key};
use crate::object::{Object, ObjectKind};

/// The budget is taken in units of this size, the smallest allocation of file systems.
const BLOCK_BYTES: u64 = 4096;

/// An object being written to disk.
pub struct Writer {
    key: Key<'static>,
    number: u64,
    metadata: Mutex<Box<[u8]>>,
    source: Source,
    is_cancelled: AtomicBool,
    waiting_bytes: AtomicU64,
    progress: Mutex<Progress>,
}

pub enum Source {
    BusyObject(Arc<BusyObject>),
    Object(Arc<Object>),
}

#[derive(Default)]
struct Progress {
    file: Option<(Temporary, File, Header)>,
    position: u64,
    checksums: Vec<u64>,
    /// The running checksum of the last, incomplete chunk.
    hasher: Option<Box<Xxh3>>,
    reserved_bytes: u64,
}

struct GivenUp;

impl From<std::io::Error> for GivenUp {
    fn from(_: std::io::Error) -> GivenUp {
        GivenUp
    }
}

impl From<rustix::io::Errno> for GivenUp {
    fn from(_: rustix::io::Errno) -> GivenUp {
        GivenUp
    }
}

impl Writer {
    pub fn new(key: Key<'static>, number: u64, metadata: &[u8], source: Source) -> Writer {
        Writer {
            key,
            number,
            metadata: Mutex::new(metadata.into()),
            source,
            is_cancelled: AtomicBool::new(false),
            waiting_bytes: AtomicU64::new(0),
            progress: Mutex::default(),
        }
    }

    pub fn hash(&self) -> u128 {
        self.key.hash()
    }

    pub fn is_of(&self, busy: &Arc<BusyObject>) -> bool {
        matches!(&self.source, Source::BusyObject(own) if Arc::ptr_eq(own, busy))
    }

    /// Cancels the write: the file will not be published.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        if let Source::BusyObject(busy) = &self.source {
            busy.leave_disk();
        }
    }

    /// Returns true if the disk has held back the insertion for at least `timeout`.
    pub fn is_overdue(&self, timeout: Duration) -> bool {
        matches!(&self.source, Source::BusyObject(busy) if busy.is_blocked_on_disk(timeout))
    }

    pub fn await_turn(&self, bytes: u64) {
        self.waiting_bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Records newer metadata for the object being written.
    pub fn freshen(&self, object: &Object) {
        if object.number() == self.number {
            *lock(&self.metadata) = object.metadata().into();
        }
    }

    fn kind(&self) -> ObjectKind {
        match &self.source {
            Source::BusyObject(_) => ObjectKind::Response,
            Source::Object(object) => object.kind(),
        }
    }

    fn next(&self, position: u64) -> WriteStep {
        match &self.source {
            Source::BusyObject(busy) => busy.to_disk(position),
            Source::Object(object) => {
                object.slice(position).map_or(WriteStep::Complete, |it| WriteStep::Bytes(vec![it]))
            }
        }
    }
}

impl Disk {
    pub(super) fn perform_write(&self, writer: &Arc<Writer>) {
        let mut progress = lock(&writer.progress);
        loop {
            let is_cancelled = writer.is_cancelled.load(Ordering::Acquire);
            let outcome = match writer.next(progress.position) {
                _ if is_cancelled => break,
                WriteStep::Pending => return,
                WriteStep::Truncated => break,
                WriteStep::Bytes(slices) => {
                    slices.iter().try_for_each(|slice| self.write_body(writer, &mut progress, slice))
                }
                WriteStep::Complete => {
                    let outcome = self.publish(writer, &mut progress);
                    if outcome.is_ok() {
                        self.forget(writer, &mut progress);
                        return;
                    }
                    outcome
                }
            };
            if outcome.is_err() {
                self.count(&self.counters.write_failures, 1);
                break;
            }
        }
        self.forget(writer, &mut progress);
    }

    fn forget(&self, writer: &Arc<Writer>, progress: &mut Progress) {
        writer.cancel();
        progress.file = None;
        self.waiting_bytes.fetch_sub(writer.waiting_bytes.swap(0, Ordering::AcqRel), Ordering::AcqRel);
        lock(&self.index).release(std::mem::take(&mut progress.reserved_bytes));
        let mut writers = lock(&self.writers);
        if writers.get(&writer.hash()).is_some_and(|current| Arc::ptr_eq(current, writer)) {
            writers.remove(&writer.hash());
        }
    }

    fn write_body(&self, writer: &Writer, progress: &mut Progress, slice: &Slice) -> Result<(), GivenUp> {
        self.begin_file(writer, progress)?;
        let mut bytes = slice.as_bytes();
        let length = progress.position + bytes.len() as u64;
        if length > self.settings.object_bytes_max {
            return Err(GivenUp);
        }
        let front_bytes = progress.header().front_bytes() as u64;
        self.reserve(progress, front_bytes + length)?;
        let (_, file, _) = progress.file.as_ref().expect("it was begun");
        file.write_all_at(bytes, front_bytes + progress.position)?;
        while !bytes.is_empty() {
            let index = progress.position / CHUNK_BYTES;
            let left = (CHUNK_BYTES - progress.position % CHUNK_BYTES) as usize;
            let (part, rest) = bytes.split_at(left.min(bytes.len()));
            let seed = writer.number.wrapping_add(index);
            progress.hasher.get_or_insert_with(|| Box::new(Xxh3::with_seed(seed))).update(part);
            progress.position += part.len() as u64;
            if progress.position.is_multiple_of(CHUNK_BYTES) {
                progress.end_chunk();
            }
            bytes = rest;
        }
        if let Source::BusyObject(busy) = &writer.source {
            busy.is_on_disk(progress.position);
        }
        Ok(())
    }

    fn begin_file(&self, writer: &Writer, progress: &mut Progress) -> Result<(), GivenUp> {
        if progress.file.is_some() {
            return Ok(());
        }
        let slot_capacity = {
            // Event loops take this lock, so it is not held while waiting for the disk.
            let metadata = lock(&writer.metadata);
            let is_too_long = metadata.len() > METADATA_BYTES_MAX;
            (!is_too_long).then(|| Header::slot_capacity_for(&metadata)).ok_or(GivenUp)?
        };
        if writer.key.text().len() > KEY_TEXT_BYTES_MAX {
            return Err(GivenUp);
        }
        let header = Header {
            kind: writer.kind(),
            text: writer.key.text().to_vec(),
            slot_capacity,
            length: 0,
            hash: writer.hash(),
            number: writer.number,
            table_checksum: 0,
        };
        let (temporary, file) = self.directory.temporary()?;
        progress.file = Some((temporary, file, header));
        Ok(())
    }

    /// Reserves the budget for a file of this size, evicting others.
    fn reserve(&self, progress: &mut Progress, file_bytes: u64) -> Result<(), GivenUp> {
        let wanted = file_bytes.next_multiple_of(BLOCK_BYTES);
        let more = wanted.saturating_sub(progress.reserved_bytes);
        let mut evicted = Vec::new();
        let fits = lock(&self.index).reserve(more, &mut evicted);
        self.remove_files(&evicted);
        if !fits {
            return Err(GivenUp);
        }
        progress.reserved_bytes += more;
        Ok(())
    }

    /// Writes table and header, and gives the file its name.
    fn publish(&self, writer: &Writer, progress: &mut Progress) -> Result<(), GivenUp> {
        self.begin_file(writer, progress)?;
        if progress.hasher.is_some() {
            progress.end_chunk();
        }
        let (table, table_checksum) = encode_table(&progress.checksums);
        let length = progress.position;
        let (temporary, file, mut header) = progress.file.take().expect("it was begun");
        (header.length, header.table_checksum) = (length, table_checksum);
        self.reserve(progress, header.file_bytes())?;
        let mut front = header.encode();
        front.extend(header.encode_slot(1, &lock(&writer.metadata)).ok_or(GivenUp)?);
        front.resize(header.front_bytes(), 0);
        file.write_all_at(&table, header.table_start())?;
        file.write_all_at(&front, 0)?;
        let allocated = allocated_bytes(&file)?;

        let naming = lock(&self.naming);
        if writer.is_cancelled.load(Ordering::Acquire) {
            return Ok(());
        }
        temporary.publish(writer.hash())?;
        let mut evicted = Vec::new();
        let mut index = lock(&self.index);
        index.release(std::mem::take(&mut progress.reserved_bytes));
        index.insert(writer.hash(), allocated);
        index.shrink(&mut evicted);
        drop(index);
        self.remove_files(&evicted);
        drop(naming);
        self.count(&self.counters.written, 1);
        Ok(())
    }

    /// Writes the object's new metadata into its file, unless that now holds another object.
    pub(super) fn perform_freshen(&self, object: &Object) {
        let key = Key::of_text(object.key_text());
        let _naming = lock(&self.naming);
        let Ok(Some(opened)) = self.read_front(&key) else { return };
        if opened.header.number != object.number() {
            return;
        }
        let sequence = opened.sequence + 1;
        let start = opened.header.slot_start(((sequence - 1) % 2) as usize) as u64;
        let written = opened.header.encode_slot(sequence, object.metadata()).is_some_and(|slot| {
            let file = self.directory.open_object(object.hash(), true);
            file.is_ok_and(|file| file.write_all_at(&slot, start).is_ok())
        });
        // A file with stale metadata would be revalidated over and over, so it is removed.
        if !written {
            let _ = self.directory.remove(object.hash());
            lock(&self.index).remove(object.hash());
        }
    }
}

impl Progress {
    fn header(&self) -> &Header {
        let (_, _, header) = self.file.as_ref().expect("it was begun");
        header
    }

    fn end_chunk(&mut self) {
        if let Some(hasher) = self.hasher.take() {
            self.checksums.push(hasher.digest());
        }
    }
}
