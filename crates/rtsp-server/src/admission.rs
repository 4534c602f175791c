//! What sessions have been promised: places and bandwidth, from their first PLAY to their end.
//!
//! A session that has never played has been promised nothing, so that nobody takes what others could have by only asking
//! for it. It is told early, at SETUP, when there is no room now; whether there is is decided at its first PLAY.

use std::collections::HashMap;
use std::net::IpAddr;

use sojourn_server::network;

use super::newcomers::Network;
use super::settings::Settings;

/// What there is no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Another session.
    Sessions,
    /// Another session of that address.
    Address,
    /// So much bandwidth.
    Bandwidth,
}

/// What there is, and what of it was promised.
#[derive(Debug)]
pub struct Admission {
    sessions_max: usize,
    sessions_per_address: Option<u32>,
    bandwidth_bits_per_second: Option<u64>,
    sessions: usize,
    networks: HashMap<Network, u32>,
    reserved: u64,
}

impl Admission {
    /// All there is, promised to nobody yet.
    pub fn new(settings: &Settings) -> Admission {
        Admission {
            sessions_max: settings.sessions_max,
            sessions_per_address: settings.sessions_per_address,
            bandwidth_bits_per_second: settings.bandwidth_bits_per_second,
            sessions: 0,
            networks: HashMap::new(),
            reserved: 0,
        }
    }

    /// Bits per second promised.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Whether a session of `peer` that takes so many bits per second can play.
    ///
    /// # Errors
    /// What there is no room for.
    pub fn check(&self, peer: IpAddr, bits_per_second: u64) -> Result<(), Full> {
        if self.sessions >= self.sessions_max {
            return Err(Full::Sessions);
        }
        let here = self.networks.get(&network(peer)).copied().unwrap_or(0);
        if self.sessions_per_address.is_some_and(|most| here >= most) {
            return Err(Full::Address);
        }
        self.check_bandwidth(bits_per_second)
    }

    /// Whether so many bits per second more can be promised.
    ///
    /// # Errors
    /// If they cannot.
    pub fn check_bandwidth(&self, bits_per_second: u64) -> Result<(), Full> {
        let wanted = self.reserved.saturating_add(bits_per_second);
        match self.bandwidth_bits_per_second {
            Some(bandwidth) if wanted > bandwidth => Err(Full::Bandwidth),
            _ => Ok(()),
        }
    }

    /// A session of `peer` begins to play.
    pub fn enter(&mut self, peer: IpAddr, bits_per_second: u64) {
        self.sessions += 1;
        *self.networks.entry(network(peer)).or_default() += 1;
        self.reserved += bits_per_second;
    }

    /// A session that played is over.
    pub fn leave(&mut self, peer: IpAddr, bits_per_second: u64) {
        self.sessions -= 1;
        self.reserved -= bits_per_second;
        let network = network(peer);
        if let Some(count) = self.networks.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                self.networks.remove(&network);
            }
        }
    }

    /// A session that played has one more track.
    pub fn widen(&mut self, bits_per_second: u64) {
        self.reserved += bits_per_second;
    }

    /// A session that played has one track less.
    pub fn narrow(&mut self, bits_per_second: u64) {
        self.reserved -= bits_per_second;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_bandwidth() {
        let settings = Settings {
            sessions_max: 3,
            sessions_per_address: Some(2),
            bandwidth_bits_per_second: Some(100),
            ..Settings::default()
        };
        let mut admission = Admission::new(&settings);
        let [here, there] = [1, 2].map(|number| IpAddr::from([192, 0, 2, number]));
        assert_eq!(admission.check(here, 101), Err(Full::Bandwidth));
        admission.enter(here, 40);
        admission.enter(here, 40);
        assert_eq!(admission.check(here, 1), Err(Full::Address));
        assert_eq!(admission.check(there, 20), Ok(()));
        assert_eq!(admission.check(there, 21), Err(Full::Bandwidth));
        admission.enter(there, 20);
        assert_eq!(admission.check(there, 0), Err(Full::Sessions));
        admission.narrow(20);
        assert_eq!(admission.check_bandwidth(20), Ok(()));
        admission.widen(20);
        admission.leave(here, 40);
        assert_eq!((admission.check(here, 40), admission.reserved()), (Ok(()), 60));
        admission.leave(here, 40);
        admission.leave(there, 20);
        assert_eq!((admission.reserved(), admission.networks.len()), (0, 0));
    }
}
