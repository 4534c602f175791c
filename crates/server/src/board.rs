//! The board: where loops and worker processes publish their counters, and others read them added up.
//!
//! It lies in memory that processes share, so a child's counters are seen while it lives and kept when it ends,
//! also when it is killed. Who has which place is known to the process that made the board alone: it hands
//! places out before it forks and takes them back when the child is gone. Publishing takes no lock.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::Pid;

use crate::counters::{COUNT, Served};

/// Places there are; memory is only taken up by those used.
pub const PLACES_MAX: usize = 16 * 1024;

/// The board. Clones are the same board.
#[derive(Clone, Debug)]
pub struct Board {
    memory: Arc<Memory>,
    tenants: Arc<Mutex<Tenants>>,
}

/// Who has which place.
#[derive(Debug, Default)]
struct Tenants {
    taken: BTreeMap<usize, Tenant>,
    /// Places that were taken and given back.
    free: Vec<usize>,
    /// What those counted who are gone.
    gone: Served,
}

#[derive(Debug)]
struct Tenant {
    is_worker: bool,
    process: Option<Pid>,
}

/// One loop's or process's place on the board.
#[derive(Debug)]
pub struct Place {
    memory: Arc<Memory>,
    index: usize,
}

impl Default for Board {
    fn default() -> Self {
        Board::new()
    }
}

impl Board {
    /// An empty board.
    ///
    /// # Panics
    /// If there is no memory for it.
    pub fn new() -> Board {
        let memory = Memory::new().expect("memory for the counters");
        Board { memory: Arc::new(memory), tenants: Arc::default() }
    }

    /// A place for a loop or process that stays, shown by itself among the [workers](Board::workers).
    ///
    /// # Panics
    /// If more than [`PLACES_MAX`] places are taken: who takes them has a limit below that.
    pub fn place(&self) -> Place {
        self.take(true)
    }

    /// A place for a process that serves one connection.
    ///
    /// # Panics
    /// As [`place`](Board::place).
    pub fn passing_place(&self) -> Place {
        self.take(false)
    }

    /// `process` publishes to `place`.
    pub fn let_to(&self, place: &Place, process: Pid) {
        if let Some(tenant) = self.lock().taken.get_mut(&place.index) {
            tenant.process = Some(process);
        }
    }

    /// Whoever had `place` is gone: what it counted stays. Returns what it showed last.
    pub fn take_back(&self, place: Place) -> Served {
        let mut tenants = self.lock();
        let last = place.read();
        tenants.gone.merge(&last.clone().totals());
        tenants.taken.remove(&place.index);
        tenants.free.push(place.index);
        last
    }

    /// The sum over all places, and over those who are gone.
    pub fn read(&self) -> Served {
        let tenants = self.lock();
        let mut sum = tenants.gone.clone();
        for index in tenants.taken.keys() {
            sum.merge(&self.memory.read(*index));
        }
        sum
    }

    /// What each loop or process that stays has counted.
    pub fn workers(&self) -> Vec<Served> {
        let tenants = self.lock();
        let workers = tenants.taken.iter().filter(|(_, tenant)| tenant.is_worker);
        workers.map(|(index, _)| self.memory.read(*index)).collect()
    }

    /// The child processes that publish here.
    pub fn processes(&self) -> Vec<Pid> {
        self.lock().taken.values().filter_map(|tenant| tenant.process).collect()
    }

    /// Counts one more open connection over all processes, unless there are `max` already.
    pub fn enter(&self, max: usize) -> bool {
        let entered = self.memory.open().fetch_add(1, Ordering::Relaxed) < max as u64;
        if !entered {
            self.leave(1);
        }
        entered
    }

    /// So many connections are closed.
    pub fn leave(&self, connections: u64) {
        self.memory.open().fetch_sub(connections, Ordering::Relaxed);
    }

    /// How often log files were to be opened again.
    pub fn reopenings(&self) -> u64 {
        self.memory.reopenings().load(Ordering::Acquire)
    }

    /// Has every process that counts here open its log file again, before it next writes to it.
    pub fn request_reopening(&self) {
        // All a signal handler may do, and all it takes.
        self.memory.reopenings().fetch_add(1, Ordering::Release);
    }

    /// The board of the process that executed this program, and the place it gave it.
    pub fn inherited(memory: OwnedFd, index: usize) -> io::Result<(Board, Place)> {
        if index >= PLACES_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let memory = Arc::new(Memory::map(memory)?);
        let place = Place { memory: Arc::clone(&memory), index };
        Ok((Board { memory, tenants: Arc::default() }, place))
    }

    /// The memory itself, for a program that is executed in a child: see [`Board::inherited`].
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.file.as_fd()
    }

    fn take(&self, is_worker: bool) -> Place {
        let mut tenants = self.lock();
        // With none given back, those taken are the first so many.
        let index = tenants.free.pop().unwrap_or(tenants.taken.len());
        assert!(index < PLACES_MAX, "more than {PLACES_MAX} processes or loops count");
        tenants.taken.insert(index, Tenant { is_worker, process: None });
        let place = Place { memory: Arc::clone(&self.memory), index };
        place.publish(&Served::default());
        place
    }

    fn lock(&self) -> MutexGuard<'_, Tenants> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Shows `served` to whoever reads the board.
    pub fn publish(&self, served: &Served) {
        for (cell, value) in self.memory.row(self.index).iter().zip(served.0) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    /// Its number, for [`Board::inherited`].
    pub fn index(&self) -> usize {
        self.index
    }

    fn read(&self) -> Served {
        self.memory.read(self.index)
    }
}

/// A row per place, a row before them for what is counted over all.
#[derive(Debug)]
struct Memory {
    file: OwnedFd,
    start: NonNull<AtomicU64>,
}

/// Counters per row, whole cache lines: neighbours do not slow each other down.
const ROW: usize = COUNT.next_multiple_of(8);

const MEMORY_BYTES: usize = (PLACES_MAX + 1) * ROW * size_of::<u64>();

// SAFETY: it is a table of atomics, mapped until the last owner is gone.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn new() -> io::Result<Memory> {
        let file = memfd_create("counters", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, MEMORY_BYTES as u64)?;
        Memory::map(file)
    }

    fn map(file: OwnedFd) -> io::Result<Memory> {
        if rustix::fs::fstat(&file)?.st_size != MEMORY_BYTES as i64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "that is no board of this version"));
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice, of a file that is never truncated.
        let start =
            unsafe { mmap(std::ptr::null_mut(), MEMORY_BYTES, protection, MapFlags::SHARED, &file, 0)? };
        let start = NonNull::new(start.cast()).expect("mappings do not begin at 0");
        Ok(Memory { file, start })
    }

    /// Connections open in all processes.
    fn open(&self) -> &AtomicU64 {
        self.shared(0)
    }

    /// How often log files were to be opened again.
    fn reopenings(&self) -> &AtomicU64 {
        self.shared(1)
    }

    /// A cell of the row before the places.
    fn shared(&self, cell: usize) -> &AtomicU64 {
        assert!(cell < ROW);
        // SAFETY: a cell of the mapping's first row; any bits are an atomic, and it lives as long as `self`.
        unsafe { self.start.add(cell).as_ref() }
    }

    fn row(&self, index: usize) -> &[AtomicU64] {
        assert!(index < PLACES_MAX);
        // SAFETY: row `index + 1` is within the mapping; any bits are atomics, and they live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.add((index + 1) * ROW).as_ptr(), COUNT) }
    }

    fn read(&self, index: usize) -> Served {
        let row = self.row(index);
        Served(std::array::from_fn(|counter| row[counter].load(Ordering::Relaxed)))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length; nothing borrowed from it outlives it.
        let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), MEMORY_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counter;

    fn served(requests: u64, open: u64) -> Served {
        let mut served = Served::default();
        served.add(Counter::Requests, requests);
        served.set(Counter::ConnectionsOpen, open);
        served
    }

    #[test]
    fn the_board_adds_up() {
        let board = Board::new();
        let (worker, child) = (board.place(), board.passing_place());
        worker.publish(&served(7, 1));
        child.publish(&served(3, 1));
        assert_eq!(board.read(), served(10, 2));
        assert_eq!(board.workers(), [served(7, 1)]);
    }

    #[test]
    fn what_the_dead_counted_stays() {
        let board = Board::new();
        assert!(board.enter(2) && board.enter(2) && !board.enter(2));
        let child = board.passing_place();
        child.publish(&served(3, 1));
        assert_eq!(board.take_back(child), served(3, 1));
        assert_eq!(board.read(), served(3, 0));
        board.leave(1);
        assert!(board.enter(2) && !board.enter(2));
        let next = board.passing_place();
        assert_eq!((next.index(), board.read()), (0, served(3, 0)));
    }

    #[test]
    fn another_program_counts_on_it() {
        let board = Board::new();
        let place = board.place();
        let (theirs, their_place) =
            Board::inherited(board.fd().try_clone_to_owned().unwrap(), place.index()).unwrap();
        their_place.publish(&served(5, 0));
        assert!(theirs.enter(1) && !board.enter(1));
        assert_eq!(board.read(), served(5, 0));
        assert!(Board::inherited(board.fd().try_clone_to_owned().unwrap(), PLACES_MAX).is_err());
    }
}
