//! Sends of a gateway that leave together.
//!
//! A send wakes the process at the other end if that sleeps, which costs the sender about as much as the send. If sends
//! follow each other closely, the process is still awake when the next one arrives. So a loop whose requests go through
//! upstreams does the work of an iteration first, and then sends: to upstreams, then to clients.

/// So many sends keep a process awake; more would let the first wait for too long.
const GATHERED_MAX: usize = 64;

/// Connections with a parked send.
#[derive(Debug, Default)]
pub struct Gathered {
    to_upstreams: Vec<u64>,
    to_clients: Vec<u64>,
    is_of_gateway: bool,
    /// If not, sends happen at once.
    pub is_gathering: bool,
}

impl Gathered {
    /// Of a loop whose requests go through upstreams; others gather nothing.
    pub fn of_gateway() -> Gathered {
        Gathered { is_of_gateway: true, ..Gathered::default() }
    }

    /// Begins to gather, for one iteration.
    pub fn begin(&mut self) {
        self.is_gathering = self.is_of_gateway;
    }

    pub fn end(&mut self) {
        self.is_gathering = false;
    }

    /// Adds a connection; returns true if that are enough.
    pub fn add(&mut self, token: u64, is_upstream: bool) -> bool {
        let queue = if is_upstream { &mut self.to_upstreams } else { &mut self.to_clients };
        queue.push(token);
        self.to_upstreams.len() + self.to_clients.len() >= GATHERED_MAX
    }

    /// Takes all, in the order in which they are to send.
    pub fn drain(&mut self) -> impl Iterator<Item = u64> {
        self.to_upstreams.drain(..).chain(self.to_clients.drain(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstreams_come_first_and_not_too_many_wait() {
        let mut sends = Gathered::of_gateway();
        assert!(!sends.is_gathering, "outside an iteration");
        sends.begin();
        assert!(sends.is_gathering);
        for (token, is_upstream) in [(1, false), (2, true), (3, false), (4, true)] {
            assert!(!sends.add(token, is_upstream));
        }
        assert_eq!(sends.drain().collect::<Vec<_>>(), [2, 4, 1, 3]);
        assert!((1..GATHERED_MAX as u64).all(|token| !sends.add(token, token % 2 == 0)));
        assert!(sends.add(0, true));
        sends.end();
        assert!(!sends.is_gathering);
        let mut none = Gathered::default();
        none.begin();
        assert!(!none.is_gathering, "of a loop without upstreams");
    }
}
