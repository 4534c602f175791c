//! The scoreboard: where loops and worker processes publish their counters, and others read them added up.
//!
//! It lies in memory that processes share, so a child's counters are seen while it lives and kept when it ends,
//! also when it is killed. Who has which place is known to the process that made the scoreboard alone: it hands
//! places out before it forks and takes them back when the child is gone. Publishing takes no lock.

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

mod memory;
mod per_address;

use memory::Memory;
use per_address::PerAddress;
pub use per_address::{Permit, network};

/// Places there are; memory is only taken up by those used.
pub const PLACES_MAX: usize = 16 * 1024;

/// The scoreboard. Clones are the same scoreboard.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    memory: Arc<Memory>,
    owners: Arc<Mutex<Owners>>,
    /// Where in the per_address's table addresses are counted: the same for all children, unknown outside.
    hashing: RandomState,
}

/// Who has which place.
#[derive(Debug, Default)]
struct Owners {
    taken: BTreeMap<usize, Owner>,
    /// Places that were taken and given back.
    free: Vec<usize>,
    /// What those counted who are gone.
    gone: Served,
}

#[derive(Debug)]
struct Owner {
    is_worker: bool,
    process: Option<Pid>,
}

/// One loop's or process's place on the scoreboard.
#[derive(Debug)]
pub struct Place {
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
    /// If there is no memory for it.
    pub fn new() -> Scoreboard {
        let memory = Memory::new().expect("memory for the counters");
        Scoreboard { memory: Arc::new(memory), owners: Arc::default(), hashing: RandomState::new() }
    }

    /// A place for a loop or process that stays, shown by itself among the [workers](Scoreboard::workers).
    ///
    /// # Panics
    /// If more than [`PLACES_MAX`] places are taken: who takes them has a limit below that.
    pub fn place(&self) -> Place {
        self.take(true)
    }

    /// A place for a process that serves one connection.
    ///
    /// # Panics
    /// As [`place`](Scoreboard::place).
    pub fn passing_place(&self) -> Place {
        self.take(false)
    }

    /// `process` publishes to `place`.
    pub fn assign(&self, place: &Place, process: Pid) {
        if let Some(owner) = self.lock().taken.get_mut(&place.index) {
            owner.process = Some(process);
        }
    }

    /// Whoever had `place` is gone: what it counted stays. Returns what it showed last.
    pub fn retire(&self, place: Place) -> Served {
        let mut owners = self.lock();
        let last = place.read();
        owners.gone.merge(&last.clone().totals());
        owners.taken.remove(&place.index);
        owners.free.push(place.index);
        last
    }

    /// The sum over all places, and over those who are gone.
    pub fn read(&self) -> Served {
        let owners = self.lock();
        let mut sum = owners.gone.clone();
        for index in owners.taken.keys() {
            sum.merge(&self.memory.read(*index));
        }
        sum
    }

    /// What each loop or process that stays has counted.
    pub fn workers(&self) -> Vec<Served> {
        let owners = self.lock();
        let workers = owners.taken.iter().filter(|(_, owner)| owner.is_worker);
        workers.map(|(index, _)| self.memory.read(*index)).collect()
    }

    /// The child processes that publish here.
    pub fn processes(&self) -> Vec<Pid> {
        self.lock().taken.values().filter_map(|owner| owner.process).collect()
    }

    /// Lets one more connection in over all processes, as far as `limits` allow.
    ///
    /// # Errors
    /// The counter of the limit that is reached.
    pub fn acquire(&self, peer: IpAddr, limits: &Limits) -> Result<Permit, Counter> {
        let open = self.memory.open();
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

    /// The connection that had `permit` is closed.
    pub fn release(&self, permit: Permit) {
        if permit.is_taken() {
            self.memory.open().fetch_sub(1, Ordering::Relaxed);
            self.per_address().release(permit);
        }
    }

    /// The permit of whom the process at `place` is [serving](Place::serve).
    pub fn permit(&self, place: &Place) -> Permit {
        Permit::from_cell(self.memory.permit(place.index).load(Ordering::Relaxed))
    }

    fn per_address(&self) -> PerAddress<'_> {
        PerAddress { counts: self.memory.per_address(), hashing: &self.hashing }
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

    /// The scoreboard of the process that executed this program, and the place it gave it.
    pub fn inherited(memory: OwnedFd, index: usize) -> io::Result<(Scoreboard, Place)> {
        if index >= PLACES_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let memory = Arc::new(Memory::map(memory)?);
        let place = Place { memory: Arc::clone(&memory), index };
        Ok((Scoreboard { memory, owners: Arc::default(), hashing: RandomState::new() }, place))
    }

    /// The memory itself, for a program that is executed in a child: see [`Scoreboard::inherited`].
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    fn take(&self, is_worker: bool) -> Place {
        let mut owners = self.lock();
        // With none given back, those taken are the first so many.
        let index = owners.free.pop().unwrap_or(owners.taken.len());
        assert!(index < PLACES_MAX, "more than {PLACES_MAX} processes or loops count");
        owners.taken.insert(index, Owner { is_worker, process: None });
        let place = Place { memory: Arc::clone(&self.memory), index };
        place.publish(&Served::default());
        place.serve(Permit::default());
        place
    }

    fn lock(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Shows `served` to whoever reads the scoreboard.
    pub fn publish(&self, served: &Served) {
        for (cell, value) in self.memory.row(self.index).iter().zip(served.0) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    /// Who is served here has `permit`: if the process dies, somebody has to give it back.
    pub fn serve(&self, permit: Permit) {
        self.memory.permit(self.index).store(permit.cell(), Ordering::Relaxed);
    }

    /// Its number, for [`Scoreboard::inherited`].
    pub fn index(&self) -> usize {
        self.index
    }

    fn read(&self) -> Served {
        self.memory.read(self.index)
    }
}

#[cfg(test)]
mod tests {
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
        let (worker, child) = (scoreboard.place(), scoreboard.passing_place());
        worker.publish(&served(7, 1));
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
        let child = scoreboard.passing_place();
        child.publish(&served(3, 1));
        assert_eq!(scoreboard.retire(child), served(3, 1));
        assert_eq!(scoreboard.read(), served(3, 0));
        scoreboard.release(permit);
        assert_eq!((enter(), enter()), (Ok(Permit::ANY), Err(Counter::LimitConnections)));
        let next = scoreboard.passing_place();
        assert_eq!((next.index(), scoreboard.read()), (0, served(3, 0)));
    }

    #[test]
    fn an_address_has_its_limit_over_all_processes() {
        let scoreboard = Scoreboard::new();
        let limits = Limits { connections_per_address: Some(1), ..Limits::default() };
        let (place, peer) = (scoreboard.place(), [192, 0, 2, 1].into());
        place.serve(scoreboard.acquire(peer, &limits).unwrap());
        assert_eq!(scoreboard.acquire(peer, &limits), Err(Counter::LimitConnectionsPerAddress));
        // It dies.
        scoreboard.release(scoreboard.permit(&place));
        scoreboard.retire(place);
        assert!(scoreboard.acquire(peer, &limits).is_ok());
        assert!(!scoreboard.permit(&scoreboard.place()).is_taken());
    }

    #[test]
    fn another_program_counts_on_it() {
        let scoreboard = Scoreboard::new();
        let place = scoreboard.place();
        let (theirs, their_place) =
            Scoreboard::inherited(scoreboard.fd().try_clone_to_owned().unwrap(), place.index()).unwrap();
        their_place.publish(&served(5, 0));
        let limits = Limits { connections_max: 1, ..Limits::default() };
        assert_eq!(theirs.acquire([127, 0, 0, 1].into(), &limits), Ok(Permit::ANY));
        assert_eq!(scoreboard.acquire([127, 0, 0, 1].into(), &limits), Err(Counter::LimitConnections));
        assert_eq!(scoreboard.read(), served(5, 0));
        assert!(Scoreboard::inherited(scoreboard.fd().try_clone_to_owned().unwrap(), PLACES_MAX).is_err());
    }
}
