//! S3-FIFO (SOSP 2023): a small queue for new objects, a main queue for objects that were used again, and a
//! ghost queue of keys that the small queue evicted.
//!
//! Most objects are requested once: they pass through a tenth of the cache and leave. An object that is used again
//! moves to the main queue, as does one that comes back while its key is a ghost. A hit moves nothing but increments a
//! counter up to three; the main queue reinserts an object once per count.

use std::collections::{HashMap, VecDeque};

use super::list::{List, PerSlot};
use super::{Departure, Item, Kind, Policy};

pub const KIND: Kind = Kind {
    name: "s3-fifo",
    summary: "S3-FIFO: new objects are tried out in a tenth of the cache",
    start: |budget_bytes| Box::new(S3Fifo::new(budget_bytes)),
};

/// The small queue's share of the budget.
const SMALL_SHARE: f64 = 0.1;
/// The ghost queue remembers objects worth this share of the budget.
const GHOST_SHARE: f64 = 0.9;
/// Uses in the small queue after which an object moves to the main queue.
const USES_TO_MOVE: u8 = 2;
const USES_MAX: u8 = 3;

#[derive(Debug)]
struct S3Fifo {
    small: List,
    main: List,
    residents: PerSlot<Resident>,
    small_bytes: u64,
    small_bytes_max: u64,
    /// Until the first eviction, the main queue takes what does not fit into the small one.
    has_evicted: bool,
    main_bytes: u64,
    main_bytes_max: u64,
    ghosts: Ghosts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Resident {
    identity: u64,
    size_bytes: u64,
    uses: u8,
    is_main: bool,
}

impl S3Fifo {
    fn new(budget_bytes: u64) -> S3Fifo {
        let small_bytes_max = (budget_bytes as f64 * SMALL_SHARE) as u64;
        S3Fifo {
            small: List::default(),
            main: List::default(),
            residents: PerSlot::default(),
            small_bytes: 0,
            small_bytes_max,
            has_evicted: false,
            main_bytes: 0,
            main_bytes_max: budget_bytes - small_bytes_max,
            ghosts: Ghosts::new((budget_bytes as f64 * GHOST_SHARE) as u64),
        }
    }

    fn enter(&mut self, slot: u32, is_main: bool) {
        let resident = self.residents.at(slot);
        resident.is_main = is_main;
        resident.uses = 0;
        let size_bytes = resident.size_bytes;
        if is_main {
            self.main.push_front(slot);
            self.main_bytes += size_bytes;
        } else {
            self.small.push_front(slot);
            self.small_bytes += size_bytes;
        }
    }

    fn take_out(&mut self, slot: u32) -> Resident {
        let resident = *self.residents.at(slot);
        if resident.is_main {
            self.main.remove(slot);
            self.main_bytes -= resident.size_bytes;
        } else {
            self.small.remove(slot);
            self.small_bytes -= resident.size_bytes;
        }
        resident
    }

    /// The oldest object of the small queue that was not used again; used ones move to the main queue.
    fn choose_small(&mut self) -> Option<u32> {
        while let Some(slot) = self.small.back() {
            if self.residents.at(slot).uses < USES_TO_MOVE {
                return Some(slot);
            }
            self.take_out(slot);
            self.enter(slot, true);
        }
        None
    }

    /// The oldest object of the main queue with a use count of 0.
    fn choose_main(&mut self) -> Option<u32> {
        while let Some(slot) = self.main.back() {
            let resident = self.residents.at(slot);
            if resident.uses == 0 {
                return Some(slot);
            }
            resident.uses -= 1;
            self.main.move_to_front(slot);
        }
        None
    }
}

impl Policy for S3Fifo {
    fn insert(&mut self, item: Item) {
        let Item { slot, identity, size_bytes } = item;
        let is_early = !self.has_evicted && self.small_bytes >= self.small_bytes_max;
        let is_known = self.ghosts.forget(identity) || is_early;
        self.residents.set(slot, Resident { identity, size_bytes, uses: 0, is_main: false });
        self.enter(slot, is_known);
    }

    fn touch(&mut self, slot: u32) {
        let resident = self.residents.at(slot);
        resident.uses = (resident.uses + 1).min(USES_MAX);
    }

    fn choose(&mut self) -> Option<u32> {
        self.has_evicted = true;
        let chosen = if self.main_bytes > self.main_bytes_max || self.small_bytes == 0 {
            self.choose_main()
        } else {
            self.choose_small()
        };
        chosen.or_else(|| self.choose_main()).or_else(|| self.choose_small())
    }

    fn removed(&mut self, slot: u32, departure: Departure) {
        let resident = self.take_out(slot);
        if departure == Departure::Evicted && !resident.is_main {
            self.ghosts.remember(resident.identity, resident.size_bytes);
        }
    }
}

/// Recently evicted objects, limited by the sum of their sizes.
#[derive(Debug)]
struct Ghosts {
    /// Identity and number of each eviction; forgotten ones are missing from `departures`.
    queue: VecDeque<(u64, u64)>,
    /// By identity: the number of its eviction and its size.
    departures: HashMap<u64, (u64, u64)>,
    departed: u64,
    bytes: u64,
    bytes_max: u64,
}

impl Ghosts {
    fn new(bytes_max: u64) -> Ghosts {
        Ghosts { queue: VecDeque::new(), departures: HashMap::new(), departed: 0, bytes: 0, bytes_max }
    }

    fn remember(&mut self, identity: u64, size_bytes: u64) {
        if size_bytes > self.bytes_max {
            return;
        }
        self.forget(identity);
        self.departed += 1;
        self.departures.insert(identity, (self.departed, size_bytes));
        self.queue.push_back((identity, self.departed));
        self.bytes += size_bytes;
        while self.bytes > self.bytes_max || self.queue.len() > 2 * self.departures.len() + 1 {
            let Some((oldest, departure)) = self.queue.pop_front() else { return };
            if self.departures.get(&oldest).is_some_and(|(number, _)| *number == departure) {
                self.forget(oldest);
            }
        }
    }

    fn forget(&mut self, identity: u64) -> bool {
        let Some((_, size_bytes)) = self.departures.remove(&identity) else { return false };
        self.bytes -= size_bytes;
        true
    }
}
