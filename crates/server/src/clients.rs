//! A loop's clients, found by token.
//!
//! A token is an index and a generation, so an event, a timer or an outcome for a client that has left does not reach
//! the next one with the same index.

use slab::Slab;
use sojourn_content::Done;

use crate::connection::{Event, Lane};

/// The number of bits of a token that hold the generation; the highest bits are free for other uses.
const GENERATION_BITS: u32 = 28;

pub const TOKEN_BITS: u32 = 32 + GENERATION_BITS;

/// All clients of a loop; `C` is what the loop keeps about each.
pub struct Clients<C> {
    places: Slab<(u32, C)>,
    /// Distinguishes clients that use the same index one after the other.
    generation: u32,
}

impl<C> Default for Clients<C> {
    fn default() -> Self {
        Clients { places: Slab::new(), generation: 0 }
    }
}

impl<C> Clients<C> {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The client of `token`, unless it has left.
    pub fn find(&mut self, token: u64) -> Option<&mut C> {
        let (generation, client) = self.places.get_mut(place(token))?;
        (u64::from(*generation) == token >> 32).then_some(client)
    }

    /// The client of `token`, which must exist.
    pub fn at(&mut self, token: u64) -> &mut C {
        &mut self.places[place(token)].1
    }

    /// The token of the next client to be inserted.
    pub fn vacant(&self) -> u64 {
        join(self.places.vacant_key(), self.generation)
    }

    /// Inserts the client for which [`vacant`](Self::vacant) returned a token.
    pub fn insert(&mut self, client: C) {
        self.places.insert((self.generation, client));
        self.generation = self.generation.wrapping_add(1) & ((1 << GENERATION_BITS) - 1);
    }

    /// Removes the client of `token`, which must exist.
    pub fn remove(&mut self, token: u64) -> C {
        self.places.remove(place(token)).1
    }

    pub fn iter(&self) -> impl Iterator<Item = &C> {
        self.places.iter().map(|(_, (_, client))| client)
    }

    pub fn tokens(&self) -> Vec<u64> {
        self.places.iter().map(|(place, (generation, _))| join(place, *generation)).collect()
    }
}

fn place(token: u64) -> usize {
    token as u32 as usize
}

fn join(place: usize, generation: u32) -> u64 {
    place as u64 | u64::from(generation) << 32
}

/// Adds the lane of a delegated job to the client's `token`.
pub fn in_lane(token: u64, lane: Lane) -> u64 {
    token | (lane.index() as u64 + 1) << TOKEN_BITS
}

/// Splits such a token: returns the client's token and the event for it.
pub fn outcome(token: u64, done: Done) -> (u64, Event) {
    let client = token & ((1 << TOKEN_BITS) - 1);
    match token >> TOKEN_BITS {
        0 => (client, Event::Done(done)),
        lane => (client, Event::Delivered(Lane::new(lane as usize - 1), Some(done))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_come_back() {
        use sojourn_content::OpenError;
        let token = join(5, (1 << GENERATION_BITS) - 1);
        let done = Done::Opened(Err(OpenError::NotFound));
        assert!(matches!(outcome(token, done.clone()), (same, Event::Done(_)) if same == token));
        for index in 0..Lane::COUNT {
            let (same, event) = outcome(in_lane(token, Lane::new(index)), done.clone());
            assert!(matches!(event, Event::Delivered(lane, Some(_)) if lane.index() == index));
            assert_eq!(same, token);
        }
    }

    #[test]
    fn a_token_does_not_reach_the_next_in_its_place() {
        let mut clients = Clients::default();
        let first = clients.vacant();
        clients.insert("first");
        assert_eq!(clients.find(first), Some(&mut "first"));
        assert_eq!(clients.remove(first), "first");
        let second = clients.vacant();
        clients.insert("second");
        assert_eq!((first as u32, first >> TOKEN_BITS), (second as u32, 0));
        assert_eq!(clients.find(first), None);
        assert_eq!(clients.find(second), Some(&mut "second"));
        assert_eq!(clients.tokens(), [second]);
    }
}
