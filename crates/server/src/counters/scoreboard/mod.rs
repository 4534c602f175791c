//! The scoreboard: loops and worker processes publish their counters here, and others read the sums.
//!
//! It is in shared memory, so a child's counters are visible while it lives and kept when it ends or is killed. Only
//! the process that made the scoreboard knows the owner of each slot: it assigns slots before it forks and takes them
//! back when the child has ended. Publishing needs no lock.

use std::collections::BTreeMap;
use std::hash::RandomState;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::Pid;

use crate::counters::{Counter, Served};
use crate::limits::Limits;
use crate::memory::is_short as memory_is_short;

mod memory;
mod per_address;

use memory::Memory;
use per_address::PerAddress;
pub use per_address::{Permit, network};

/// The number of slots; only used ones take memory. The interpreter keeps account of each byte.
pub const SLOTS_MAX: usize = if cfg!(miri) { 16 } else { 16 * 1024 };

#[derive(Clone, Debug)]
pub struct Scoreboard {
    memory: Arc<Memory>,
    owners: Arc<Mutex<Owners>>,
    /// Maps addresses to cells of the table of connections per address: the same for all children, secret to clients.
    hashing: RandomState,
}

#[derive(Debug, Default)]
struct Owners {
    taken: BTreeMap<usize, Owner>,
    /// Slots that were returned.
    free: Vec<usize>,
    /// The counts of ended processes.
    gone: Served,
}

#[derive(Debug)]
struct Owner {
    is_worker: bool,
    process: Option<Pid>,
}

#[derive(Debug)]
pub struct Slot {
    memory: Arc<Memory>,
    index: usize,
}

impl Default for Scoreboard {
    fn default() -> Self {
        Scoreboard::new()
    }
}

impl Scoreboard {
    /// An empty scoreboard.
    ///
    /// # Panics
    /// If memory cannot be allocated.
    pub fn new() -> Scoreboard {
        let memory = Memory::new().expect("memory for the counters");
        Scoreboard { memory: Arc::new(memory), owners: Arc::default(), hashing: RandomState::new() }
    }

    /// A slot for a long-lived loop or process, listed among the [workers](Scoreboard::workers).
    ///
    /// # Panics
    /// If more than [`SLOTS_MAX`] slots are taken; the callers' limits are lower.
    pub fn slot(&self) -> Slot {
        self.take(true)
    }

    /// A slot for a process that serves one connection.
    ///
    /// # Panics
    /// Like [`slot`](Scoreboard::slot).
    pub fn connection_slot(&self) -> Slot {
        self.take(false)
    }

    /// Records the process that counts in `slot`.
    pub fn assign(&self, slot: &Slot, process: Pid) {
        if let Some(owner) = self.lock().taken.get_mut(&slot.index) {
            owner.process = Some(process);
        }
    }

    /// Records that the owner of `slot` has ended and keeps its counts. Returns the last values it published.
    pub fn retire(&self, slot: Slot) -> Served {
        let mut owners = self.lock();
        let last = slot.read();
        owners.gone.merge(&last.clone().totals());
        owners.taken.remove(&slot.index);
        owners.free.push(slot.index);
        last
    }

    /// The sum over all slots and ended processes.
    pub fn read(&self) -> Served {
        let owners = self.lock();
        let mut sum = owners.gone.clone();
        for index in owners.taken.keys() {
            sum.merge(&self.memory.slots[*index].read());
        }
        sum
    }

    /// The counts of each long-lived loop or process.
    pub fn workers(&self) -> Vec<Served> {
        let owners = self.lock();
        let workers = owners.taken.iter().filter(|(_, owner)| owner.is_worker);
        workers.map(|(index, _)| self.memory.slots[*index].read()).collect()
    }

    /// The child processes that publish here.
    pub fn processes(&self) -> Vec<Pid> {
        self.lock().taken.values().filter_map(|owner| owner.process).collect()
    }

    /// Admits one more connection, counted over all processes, within `limits`.
    ///
    /// # Errors
    /// The counter of the limit that is reached.
    pub fn acquire(&self, peer: IpAddr, limits: &Limits) -> Result<Permit, Counter> {
        if memory_is_short() {
            return Err(Counter::LimitMemory);
        }
        let open = &self.memory.server.open;
        if open.fetch_add(1, Ordering::Relaxed) >= limits.connections_max as u64 {
            open.fetch_sub(1, Ordering::Relaxed);
            return Err(Counter::LimitConnections);
        }
        let Some(max) = limits.connections_per_address.filter(|_| !peer.is_unspecified()) else {
            return Ok(Permit::ANY);
        };
        let permit = self.per_address().acquire(peer, max);
        permit.ok_or_else(|| {
            open.fetch_sub(1, Ordering::Relaxed);
            Counter::LimitConnectionsPerAddress
        })
    }

    /// Admitted connections, in all processes.
    pub fn open(&self) -> u64 {
        self.memory.server.open.load(Ordering::Relaxed)
    }

    /// Returns the permit of a closed connection.
    pub fn release(&self, permit: Permit) {
        if permit.is_taken() {
            self.memory.server.open.fetch_sub(1, Ordering::Relaxed);
            self.per_address().release(permit);
        }
    }

    /// The permit of the connection that the process of `slot` is [serving](Slot::serve).
    pub fn permit(&self, slot: &Slot) -> Permit {
        Permit::from_cell(self.memory.slots[slot.index].permit.load(Ordering::Relaxed))
    }

    fn per_address(&self) -> PerAddress<'_> {
        PerAddress { counts: &self.memory.per_address, hashing: &self.hashing }
    }

    /// How often reopening the log files was requested.
    pub fn reopenings(&self) -> u64 {
        self.memory.server.reopenings.load(Ordering::Acquire)
    }

    /// Makes every process that counts here reopen its log file before its next write.
    pub fn request_reopening(&self) {
        // A single atomic operation, as a signal handler must.
        self.memory.server.reopenings.fetch_add(1, Ordering::Release);
    }

    /// Records that a successor serves: requests in progress may then take longer than after a stop.
    pub fn set_successor(&self) {
        self.memory.server.has_successor.store(1, Ordering::Release);
    }

    pub fn has_successor(&self) -> bool {
        self.memory.server.has_successor.load(Ordering::Acquire) != 0
    }

    /// Takes one of the connections that workers which share a listener may still accept after a stop, all of them together: as
    /// many as `waiting` says to the first. Returns false if none is left.
    pub fn take_after_stop(&self, waiting: impl FnOnce() -> usize) -> bool {
        let left = &self.memory.server.left_after_stop;
        if left.load(Ordering::Relaxed) == 0 {
            // If several count at the same time, the first one is right.
            let counted = waiting() as u64 + 1;
            let _ = left.compare_exchange(0, counted, Ordering::Relaxed, Ordering::Relaxed);
        }
        let less = |left: u64| left.checked_sub(1).filter(|left| *left > 0);
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Returns true if a process left an incomplete line in the log file, which the caller must then end.
    pub fn take_log_incomplete(&self) -> bool {
        self.memory.server.log_incomplete.swap(0, Ordering::AcqRel) != 0
    }

    /// Records that the last line in the log file is incomplete; the next process that writes ends it.
    pub fn mark_log_incomplete(&self) {
        self.memory.server.log_incomplete.store(1, Ordering::Release);
    }

    /// Opens the scoreboard in a program that a child has executed, with the slot assigned to it.
    pub fn inherited(memory: OwnedFd, index: usize) -> io::Result<(Scoreboard, Slot)> {
        if index >= SLOTS_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let memory = Arc::new(Memory::map(memory)?);
        let slot = Slot { memory: Arc::clone(&memory), index };
        Ok((Scoreboard { memory, owners: Arc::default(), hashing: RandomState::new() }, slot))
    }

    /// The shared memory, to be inherited by a program executed in a child: see [`Scoreboard::inherited`].
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    fn take(&self, is_worker: bool) -> Slot {
        let mut owners = self.lock();
        // If none was returned, the taken slots are the first ones.
        let index = owners.free.pop().unwrap_or(owners.taken.len());
        assert!(index < SLOTS_MAX, "more than {SLOTS_MAX} processes or loops count");
        owners.taken.insert(index, Owner { is_worker, process: None });
        let slot = Slot { memory: Arc::clone(&self.memory), index };
        slot.publish(&Served::default());
        slot.serve(Permit::default());
        slot
    }

    fn lock(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Publishes `served` to readers of the scoreboard.
    pub fn publish(&self, served: &Served) {
        for (cell, counter) in self.memory.slots[self.index].counters.iter().zip(Counter::ALL) {
            cell.store(served.value(*counter), Ordering::Relaxed);
        }
    }

    /// The same for counters of which only this slot's owner has published any.
    pub fn publish_changes(&self, served: &mut Served) {
        let row = &self.memory.slots[self.index].counters;
        served.publish_changes(|index, value| row[index].store(value, Ordering::Relaxed));
    }

    /// Records the permit of the connection served here; if the process dies, its parent releases it.
    pub fn serve(&self, permit: Permit) {
        self.memory.slots[self.index].permit.store(permit.cell(), Ordering::Relaxed);
    }

    /// The slot's number, for [`Scoreboard::inherited`].
    pub fn index(&self) -> usize {
        self.index
    }

    fn read(&self) -> Served {
        self.memory.slots[self.index].read()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    fn served(requests: u64, open: u64) -> Served {
        let mut served = Served::default();
        served.add(Counter::Requests, requests);
        served.set(Counter::ConnectionsOpen, open);
        served
    }

    #[test]
    fn the_board_adds_up() {
        let scoreboard = Scoreboard::new();
        let (worker, child) = (scoreboard.slot(), scoreboard.connection_slot());
        let mut own = served(7, 2);
        worker.publish_changes(&mut own);
        own.set(Counter::ConnectionsOpen, 1);
        worker.publish_changes(&mut own);
        child.publish(&served(3, 1));
        assert_eq!(scoreboard.read(), served(10, 2));
        assert_eq!(scoreboard.workers(), [served(7, 1)]);
    }

    #[test]
    fn what_the_dead_counted_stays() {
        let scoreboard = Scoreboard::new();
        let limits = Limits { connections_max: 2, ..Limits::default() };
        let enter = || scoreboard.acquire([127, 0, 0, 1].into(), &limits);
        let permit = enter().unwrap();
        assert_eq!((enter(), enter()), (Ok(Permit::ANY), Err(Counter::LimitConnections)));
        let child = scoreboard.connection_slot();
        child.publish(&served(3, 1));
        assert_eq!(scoreboard.retire(child), served(3, 1));
        assert_eq!(scoreboard.read(), served(3, 0));
        scoreboard.release(permit);
        assert_eq!((enter(), enter()), (Ok(Permit::ANY), Err(Counter::LimitConnections)));
        let next = scoreboard.connection_slot();
        assert_eq!((next.index(), scoreboard.read()), (0, served(3, 0)));
    }

    #[test]
    fn an_address_has_its_limit_over_all_processes() {
        let scoreboard = Scoreboard::new();
        let limits = Limits { connections_per_address: Some(1), ..Limits::default() };
        let (slot, peer) = (scoreboard.slot(), [192, 0, 2, 1].into());
        slot.serve(scoreboard.acquire(peer, &limits).unwrap());
        assert_eq!(scoreboard.acquire(peer, &limits), Err(Counter::LimitConnectionsPerAddress));
        // The process dies.
        scoreboard.release(scoreboard.permit(&slot));
        scoreboard.retire(slot);
        assert!(scoreboard.acquire(peer, &limits).is_ok());
        assert!(!scoreboard.permit(&scoreboard.slot()).is_taken());
    }

    #[test]
    fn after_a_stop_as_many_are_accepted_as_waited() {
        let scoreboard = Scoreboard::new();
        // Who asks later counts later.
        let taken: Vec<bool> = (2..6).map(|waiting| scoreboard.take_after_stop(|| waiting)).collect();
        assert_eq!(taken, [true, true, false, false]);
        assert!(!Scoreboard::new().take_after_stop(|| 0));
    }

    #[test]
    fn many_count_at_once() {
        const ROUNDS: u64 = 20;
        let (scoreboard, inside) = (Scoreboard::new(), AtomicU64::new(0));
        let limits = Limits { connections_max: 2, ..Limits::default() };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let slot = scoreboard.slot();
                    for round in 1..=ROUNDS {
                        if let Ok(permit) = scoreboard.acquire([127, 0, 0, 1].into(), &limits) {
                            slot.serve(permit);
                            assert!(inside.fetch_add(1, Ordering::SeqCst) < 2, "too many were admitted");
                            inside.fetch_sub(1, Ordering::SeqCst);
                            slot.serve(Permit::default());
                            scoreboard.release(permit);
                        }
                        slot.publish(&served(round, 0));
                        assert!(scoreboard.read().value(Counter::Requests) >= round);
                    }
                    assert_eq!(scoreboard.retire(slot), served(ROUNDS, 0));
                });
            }
        });
        assert_eq!((scoreboard.read(), scoreboard.open()), (served(3 * ROUNDS, 0), 0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no other program")]
    fn another_program_counts_on_it() {
        let scoreboard = Scoreboard::new();
        let slot = scoreboard.slot();
        let (theirs, their_slot) =
            Scoreboard::inherited(scoreboard.fd().try_clone_to_owned().unwrap(), slot.index()).unwrap();
        their_slot.publish(&served(5, 0));
        let limits = Limits { connections_max: 1, ..Limits::default() };
        assert_eq!(theirs.acquire([127, 0, 0, 1].into(), &limits), Ok(Permit::ANY));
        assert_eq!(scoreboard.acquire([127, 0, 0, 1].into(), &limits), Err(Counter::LimitConnections));
        assert_eq!(scoreboard.read(), served(5, 0));
        assert!(Scoreboard::inherited(scoreboard.fd().try_clone_to_owned().unwrap(), SLOTS_MAX).is_err());
    }
}
