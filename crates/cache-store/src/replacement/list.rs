//! Linked lists and per-slot state, the building blocks of most policies.

/// Marks the end of a list.
const NONE: u32 = u32::MAX;

/// A doubly linked list over slots; each slot occurs at most once.
#[derive(Debug)]
pub struct List {
    links: Vec<Link>,
    front: u32,
    back: u32,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    to_front: u32,
    to_back: u32,
}

impl Default for List {
    fn default() -> List {
        List { links: Vec::new(), front: NONE, back: NONE }
    }
}

impl List {
    pub fn push_front(&mut self, slot: u32) {
        let index = slot as usize;
        if index >= self.links.len() {
            self.links.resize(index + 1, Link { to_front: NONE, to_back: NONE });
        }
        let second = std::mem::replace(&mut self.front, slot);
        self.links[index] = Link { to_front: NONE, to_back: second };
        match second {
            NONE => self.back = slot,
            second => self.links[second as usize].to_front = slot,
        }
    }

    /// Removes `slot`, which must be in the list.
    pub fn remove(&mut self, slot: u32) {
        let Link { to_front, to_back } = self.links[slot as usize];
        match to_front {
            NONE => self.front = to_back,
            neighbour => self.links[neighbour as usize].to_back = to_back,
        }
        match to_back {
            NONE => self.back = to_front,
            neighbour => self.links[neighbour as usize].to_front = to_front,
        }
    }

    /// Moves `slot`, which must be in the list, to the front.
    pub fn move_to_front(&mut self, slot: u32) {
        if self.front != slot {
            self.remove(slot);
            self.push_front(slot);
        }
    }

    pub fn back(&self) -> Option<u32> {
        (self.back != NONE).then_some(self.back)
    }

    /// The neighbour of `slot` on the front side.
    pub fn before(&self, slot: u32) -> Option<u32> {
        Some(self.links[slot as usize].to_front).filter(|slot| *slot != NONE)
    }
}

/// A policy's state per slot, in a vector that grows on demand.
#[derive(Debug, Default)]
pub struct PerSlot<T>(Vec<T>);

impl<T: Clone + Default> PerSlot<T> {
    pub fn set(&mut self, slot: u32, value: T) {
        *self.at(slot) = value;
    }

    pub fn at(&mut self, slot: u32) -> &mut T {
        let index = slot as usize;
        if index >= self.0.len() {
            self.0.resize(index + 1, T::default());
        }
        &mut self.0[index]
    }
}
