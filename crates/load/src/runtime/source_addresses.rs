//! Source addresses: more than one if a single one has too few ports.
//!
//! A pair of addresses has some 28,000 ports, and the side that closes first keeps its port in TIME_WAIT for a minute.
//! Long before they run out, finding a free port costs more than a request. For a loopback server any address in
//! 127.0.0.0/8 works, so after a while connections come from 127.1.0.1, then 127.1.0.2, and so on. Elsewhere you can
//! name several addresses.

use std::{
    iter,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

/// The most ports per address in use or in TIME_WAIT: a third, so that a free one is found quickly.
pub const PORTS_PER_SOURCE_MAX: u32 = 10_000;
pub const SOURCES_MAX: usize = 250;

/// The ports of each local address.
#[derive(Debug)]
pub struct Sources {
    addresses: Vec<Option<IpAddr>>,
    ports: Vec<Ports>,
    current: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ports {
    open: u32,
    /// Ports in TIME_WAIT since this address was last selected.
    waiting: u32,
}

impl Sources {
    /// The given addresses, or default ones that can reach the server.
    pub fn new(server: SocketAddr, given: &[IpAddr]) -> Sources {
        let loopback = |number| IpAddr::V4(Ipv4Addr::new(127, 1, 0, number));
        let addresses: Vec<Option<IpAddr>> = match given {
            [_, ..] => given.iter().copied().map(Some).collect(),
            // The first entry lets the kernel choose.
            [] if server.is_ipv4() && server.ip().is_loopback() => {
                iter::once(None).chain((1..SOURCES_MAX as u8).map(loopback).map(Some)).collect()
            }
            [] => vec![None],
        };
        Sources { ports: vec![Ports::default(); addresses.len()], addresses, current: 0 }
    }

    /// The index of the next source address; a full one is used only if all are full.
    pub fn pick(&mut self) -> usize {
        for _ in 0..self.ports.len() {
            let Ports { open, waiting } = self.ports[self.current];
            if open + waiting < PORTS_PER_SOURCE_MAX {
                break;
            }
            self.rotate();
        }
        self.current
    }

    /// The address to bind to; `None` lets the kernel choose.
    pub fn address(&self, source: usize) -> Option<SocketAddr> {
        self.addresses[source].map(|address| SocketAddr::new(address, 0))
    }

    /// Records that the current address has no ports left; returns true if another may be tried.
    pub fn exhausted(&mut self) -> bool {
        self.rotate();
        self.current != 0
    }

    pub fn opened(&mut self, source: usize) {
        self.ports[source].open += 1;
    }

    /// Records a closed connection, and who closed first.
    pub fn closed(&mut self, source: usize, by_server: bool) {
        self.ports[source].open -= 1;
        self.ports[source].waiting += u32::from(!by_server);
    }

    /// When an address is selected again, most of its ports have left TIME_WAIT.
    fn rotate(&mut self) {
        self.current = (self.current + 1) % self.ports.len();
        self.ports[self.current].waiting = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loopback() -> Sources {
        Sources::new("127.0.0.1:80".parse().unwrap(), &[])
    }

    #[test]
    fn a_full_address_is_followed_by_the_next() {
        let mut sources = loopback();
        (0..PORTS_PER_SOURCE_MAX).for_each(|_| sources.opened(0));
        assert_eq!(sources.pick(), 1);
        assert_eq!(sources.address(0), None);
        assert_eq!(sources.address(2), Some("127.1.0.2:0".parse().unwrap()));
        let given = ["10.0.0.7".parse().unwrap()];
        let given = Sources::new("127.0.0.1:80".parse().unwrap(), &given);
        assert_eq!(given.address(0), Some("10.0.0.7:0".parse().unwrap()));
    }

    #[test]
    fn ports_in_time_wait_count_too() {
        let mut sources = loopback();
        for _ in 0..PORTS_PER_SOURCE_MAX {
            sources.opened(0);
            sources.closed(0, true);
        }
        assert_eq!(sources.pick(), 0, "the server closed first, and TIME_WAIT is with it");
        for _ in 0..PORTS_PER_SOURCE_MAX {
            sources.opened(0);
            sources.closed(0, false);
        }
        assert_eq!(sources.pick(), 1);
    }

    #[test]
    fn every_address_is_tried_once() {
        let mut sources = loopback();
        assert_eq!((0..SOURCES_MAX).take_while(|_| sources.exhausted()).count(), SOURCES_MAX - 1);
        assert!(!Sources::new("192.0.2.1:80".parse().unwrap(), &[]).exhausted());
    }
}
