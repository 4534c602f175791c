//! Local addresses to connect from: more than one when one has not ports enough.
//!
//! A pair of addresses has some 28,000 ports. Towards a loopback server any address of 127.0.0.0/8 will
//! do, so further connections come from 127.1.0.1, 127.1.0.2 and so on.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The most connections from one address, well below the number of ports so that finding one stays cheap.
pub const CONNECTIONS_PER_SOURCE_MAX: u32 = 20_000;
/// The most addresses.
pub const SOURCES_MAX: usize = 64;

/// How many connections each local address has.
#[derive(Debug)]
pub struct Sources {
    open: Vec<u32>,
    /// Addresses before this one had no port left when last tried.
    first: usize,
}

impl Sources {
    /// The addresses that can reach a server.
    pub fn towards(server: SocketAddr) -> Sources {
        let many = server.is_ipv4() && server.ip().is_loopback();
        Sources { open: vec![0; if many { SOURCES_MAX } else { 1 }], first: 0 }
    }

    /// The address to connect from next; one that is full is used only when all are.
    pub fn pick(&self) -> usize {
        let roomy =
            (self.first..self.open.len()).find(|&source| self.open[source] < CONNECTIONS_PER_SOURCE_MAX);
        roomy.unwrap_or(self.first)
    }

    /// The address to bind to; the first source leaves the choice to the kernel.
    pub fn address(source: usize) -> Option<SocketAddr> {
        let number = u8::try_from(source).ok().filter(|&number| number > 0)?;
        Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 1, 0, number)), 0))
    }

    /// Notes that an address has no port left; answers whether another may be tried.
    pub fn exhausted(&mut self, source: usize) -> bool {
        let another = source + 1 < self.open.len();
        // Ports come back when old connections leave TIME_WAIT, so that the first is worth a try again.
        self.first = if another { source + 1 } else { 0 };
        another
    }

    /// Notes a connection opened.
    pub fn opened(&mut self, source: usize) {
        self.open[source] += 1;
    }

    /// Notes a connection closed.
    pub fn closed(&mut self, source: usize) {
        self.open[source] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_address_is_followed_by_the_next() {
        let mut sources = Sources::towards("127.0.0.1:80".parse().unwrap());
        (0..CONNECTIONS_PER_SOURCE_MAX).for_each(|_| sources.opened(0));
        assert_eq!(sources.pick(), 1);
        sources.closed(0);
        assert_eq!(sources.pick(), 0);
        assert_eq!(Sources::address(0), None);
        assert_eq!(Sources::address(2), Some("127.1.0.2:0".parse().unwrap()));
    }

    #[test]
    fn exhausted_addresses_are_left_until_all_are() {
        let mut sources = Sources::towards("127.0.0.1:80".parse().unwrap());
        assert!(sources.exhausted(0));
        assert_eq!(sources.pick(), 1);
        assert!(!sources.exhausted(SOURCES_MAX - 1));
        assert_eq!(sources.pick(), 0);
        assert!(!Sources::towards("192.0.2.1:80".parse().unwrap()).exhausted(0));
    }
}
