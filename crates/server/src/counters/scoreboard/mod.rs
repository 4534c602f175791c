//! The board: where loops and worker processes publish their counters, and others read them added up.
//!
//! It lies in memory that processes share, so a child's counters are seen while it lives and kept when it ends,
//! also when it is killed. Who has which place is known to the process that made the board alone: it hands
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
use per_address::Crowd;
pub use per_address::{Permit, network};

/// Places there are; memory is only taken up by those used.
pub const PLACES_MAX: usize = 16 * 1024;

/// The board. Clones are the same board.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    memory: Arc<Memory>,
    tenants: Arc<Mutex<Tenants>>,
    /// Where in the crowd's table addresses are counted: the same for all children, unknown outside.
    hashing: RandomState,
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

impl Default for Scoreboard {
    fn default() -> Self {
        Scoreboard::new()
    }
}

impl Scoreboard {
    /// An empty board.
    ///
    /// # Panics
    /// If there is no memory for it.
    pub fn new() -> Scoreboard {
        let memory = Memory::new().expect("memory for the counters");
        Scoreboard { memory: Arc::new(memory), tenants: Arc::default(), hashing: RandomState::new() }
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

    /// Lets one more connection in over all processes, as far as `limits` allow.
    ///
    /// # Errors
    /// The counter of the limit that is reached.
    pub fn enter(&self, peer: IpAddr, limits: &Limits) -> Result<Permit, Counter> {
        let open = self.memory.open();
        if open.fetch_add(1, Ordering::Relaxed) >= limits.connections_max as u64 {
            open.fetch_sub(1, Ordering::Relaxed);
            return Err(Counter::LimitConnections);
        }
        let Some(max) = limits.connections_per_address.filter(|_| !peer.is_unspecified()) else {
            return Ok(Permit::ANY);
        };
        let seat = self.crowd().enter(peer, max);
        seat.ok_or_else(|| {
            open.fetch_sub(1, Ordering::Relaxed);
            Counter::LimitConnectionsPerAddress
        })
    }

    /// The connection that had `seat` is closed.
    pub fn leave(&self, seat: Permit) {
        if seat.is_taken() {
            self.memory.open().fetch_sub(1, Ordering::Relaxed);
            self.crowd().leave(seat);
        }
    }

    /// The seat of whom the process at `place` is [serving](Place::serve).
    pub fn seat(&self, place: &Place) -> Permit {
        Permit::from_cell(self.memory.seat(place.index).load(Ordering::Relaxed))
    }

    fn crowd(&self) -> Crowd<'_> {
        Crowd { counts: self.memory.crowd(), hashing: &self.hashing }
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
    pub fn inherited(memory: OwnedFd, index: usize) -> io::Result<(Scoreboard, Place)> {
        if index >= PLACES_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let memory = Arc::new(Memory::map(memory)?);
        let place = Place { memory: Arc::clone(&memory), index };
        Ok((Scoreboard { memory, tenants: Arc::default(), hashing: RandomState::new() }, place))
    }

    /// The memory itself, for a program that is executed in a child: see [`Scoreboard::inherited`].
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    fn take(&self, is_worker: bool) -> Place {
        let mut tenants = self.lock();
        // With none given back, those taken are the first so many.
        let index = tenants.free.pop().unwrap_or(tenants.taken.len());
        assert!(index < PLACES_MAX, "more than {PLACES_MAX} processes or loops count");
        tenants.taken.insert(index, Tenant { is_worker, process: None });
        let place = Place { memory: Arc::clone(&self.memory), index };
        place.publish(&Served::default());
        place.serve(Permit::default());
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

    /// Who is served here has `seat`: if the process dies, somebody has to give it back.
    pub fn serve(&self, seat: Permit) {
        self.memory.seat(self.index).store(seat.cell(), Ordering::Relaxed);
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
        let board = Scoreboard::new();
        let (worker, child) = (board.place(), board.passing_place());
        worker.publish(&served(7, 1));
        child.publish(&served(3, 1));
        assert_eq!(board.read(), served(10, 2));
        assert_eq!(board.workers(), [served(7, 1)]);
    }

    #[test]
    fn what_the_dead_counted_stays() {
        let board = Scoreboard::new();
        let limits = Limits { connections_max: 2, ..Limits::default() };
        let enter = || board.enter([127, 0, 0, 1].into(), &limits);
        let seat = enter().unwrap();
        assert_eq!((enter(), enter()), (Ok(Permit::ANY), Err(Counter::LimitConnections)));
        let child = board.passing_place();
        child.publish(&served(3, 1));
        assert_eq!(board.take_back(child), served(3, 1));
        assert_eq!(board.read(), served(3, 0));
        board.leave(seat);
        assert_eq!((enter(), enter()), (Ok(Permit::ANY), Err(Counter::LimitConnections)));
        let next = board.passing_place();
        assert_eq!((next.index(), board.read()), (0, served(3, 0)));
    }

    #[test]
    fn an_address_has_its_limit_over_all_processes() {
        let board = Scoreboard::new();
        let limits = Limits { connections_per_address: Some(1), ..Limits::default() };
        let (place, peer) = (board.place(), [192, 0, 2, 1].into());
        place.serve(board.enter(peer, &limits).unwrap());
        assert_eq!(board.enter(peer, &limits), Err(Counter::LimitConnectionsPerAddress));
        // It dies.
        board.leave(board.seat(&place));
        board.take_back(place);
        assert!(board.enter(peer, &limits).is_ok());
        assert!(!board.seat(&board.place()).is_taken());
    }

    #[test]
    fn another_program_counts_on_it() {
        let board = Scoreboard::new();
        let place = board.place();
        let (theirs, their_place) =
            Scoreboard::inherited(board.fd().try_clone_to_owned().unwrap(), place.index()).unwrap();
        their_place.publish(&served(5, 0));
        let limits = Limits { connections_max: 1, ..Limits::default() };
        assert_eq!(theirs.enter([127, 0, 0, 1].into(), &limits), Ok(Permit::ANY));
        assert_eq!(board.enter([127, 0, 0, 1].into(), &limits), Err(Counter::LimitConnections));
        assert_eq!(board.read(), served(5, 0));
        assert!(Scoreboard::inherited(board.fd().try_clone_to_owned().unwrap(), PLACES_MAX).is_err());
    }
}
