//! Admission control: sessions and bandwidth are reserved from the first PLAY to the end.
//!
//! A session that has never played has no reservation, so SETUP alone takes nothing from others. SETUP is refused early
//! if there is no room then; the final decision is made at the first PLAY.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use sojourn_server::network;

use crate::settings::Settings;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    Sessions,
    Address,
    Bandwidth,
    /// The data of playing sessions comes too late from the disk.
    ReadDelay,
}

/// The limits and the reservations.
#[derive(Debug)]
pub struct Admission {
    sessions_max: usize,
    sessions_per_address: Option<u32>,
    bandwidth_bits_per_second: Option<u64>,
    sessions: usize,
    networks: HashMap<Network, u32>,
    reserved: u64,
    /// True while data comes later from the disk than allowed: another session would delay those that play.
    is_disk_behind: bool,
}

impl Admission {
    pub fn new(settings: &Settings) -> Admission {
        Admission {
            sessions_max: settings.sessions_max,
            sessions_per_address: settings.sessions_per_address,
            bandwidth_bits_per_second: settings.bandwidth_bits_per_second,
            sessions: 0,
            networks: HashMap::new(),
            reserved: 0,
            is_disk_behind: false,
        }
    }

    /// Says whether data comes later from the disk than allowed.
    pub fn set_disk_behind(&mut self, is_disk_behind: bool) {
        self.is_disk_behind = is_disk_behind;
    }

    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Checks that the disk has time for a new session.
    ///
    /// # Errors
    /// If it has none.
    pub fn check_disk(&self) -> Result<(), LimitReached> {
        if self.is_disk_behind { Err(LimitReached::ReadDelay) } else { Ok(()) }
    }

    /// Checks that a session of `peer` at this rate can begin to play.
    ///
    /// # Errors
    /// If a limit is reached.
    pub fn check(&self, peer: IpAddr, bits_per_second: u64) -> Result<(), LimitReached> {
        self.check_disk()?;
        if self.sessions >= self.sessions_max {
            return Err(LimitReached::Sessions);
        }
        let here = self.networks.get(&network(peer)).copied().unwrap_or(0);
        if self.sessions_per_address.is_some_and(|most| here >= most) {
            return Err(LimitReached::Address);
        }
        self.check_bandwidth(bits_per_second)
    }

    /// Checks that this much bandwidth is free.
    ///
    /// # Errors
    /// If it is not.
    pub fn check_bandwidth(&self, bits_per_second: u64) -> Result<(), LimitReached> {
        let wanted = self.reserved.saturating_add(bits_per_second);
        match self.bandwidth_bits_per_second {
            Some(bandwidth) if wanted > bandwidth => Err(LimitReached::Bandwidth),
            _ => Ok(()),
        }
    }

    /// Reserves resources for a session of `peer` at its first PLAY.
    pub fn enter(&mut self, peer: IpAddr, bits_per_second: u64) {
        self.sessions += 1;
        *self.networks.entry(network(peer)).or_default() += 1;
        self.reserved += bits_per_second;
    }

    /// Releases the reservation of an ended session.
    pub fn release(&mut self, peer: IpAddr, bits_per_second: u64) {
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

    /// Reserves bandwidth for one more track of a session that has played.
    pub fn grow(&mut self, bits_per_second: u64) {
        self.reserved += bits_per_second;
    }

    /// Releases bandwidth of a removed track.
    pub fn shrink(&mut self, bits_per_second: u64) {
        self.reserved -= bits_per_second;
    }
}

/// One client for limits per address: an IPv4 address, or an IPv6 /64 network.
pub type Network = (bool, u64);

/// Connections or sessions that may have to give way, in this order: those of the network that has most of them first, and
/// of each network the oldest.
#[derive(Debug, Default)]
pub struct EvictionOrder {
    /// Members of each network by arrival.
    networks: HashMap<Network, BTreeMap<u64, u64>>,
    /// The networks ordered by their number of members, then by their oldest member.
    order: BTreeSet<(usize, Reverse<u64>, Network)>,
    members: HashMap<u64, (Network, u64)>,
    arrivals: u64,
}

impl EvictionOrder {
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Adds a new member from `peer`.
    pub fn enter(&mut self, peer: IpAddr, token: u64) {
        let arrival = self.arrivals;
        self.arrivals += 1;
        let network = network(peer);
        self.members.insert(token, (network, arrival));
        self.change(network, |members| {
            members.insert(arrival, token);
        });
    }

    pub fn release(&mut self, token: u64) {
        let Some((network, arrival)) = self.members.remove(&token) else { return };
        self.change(network, |members| {
            members.remove(&arrival);
        });
    }

    /// The member to evict: the oldest of the largest network.
    pub fn eviction_candidate(&self) -> Option<u64> {
        self.eviction_candidates().next()
    }

    /// The same, and those to evict if it must stay.
    pub fn eviction_candidates(&self) -> impl Iterator<Item = u64> {
        let EvictionOrder { networks, order, .. } = self;
        let ranked = order.iter().rev().filter_map(move |(.., network)| networks.get(network));
        ranked.flat_map(|members| members.values().copied())
    }

    /// Changes the members of a network and updates its place in the order.
    fn change(&mut self, network: Network, change: impl FnOnce(&mut BTreeMap<u64, u64>)) {
        let rank = |members: &BTreeMap<u64, u64>| {
            members.keys().next().map(|oldest| (members.len(), Reverse(*oldest), network))
        };
        let members = self.networks.entry(network).or_default();
        if let Some(before) = rank(members) {
            self.order.remove(&before);
        }
        change(members);
        match rank(members) {
            Some(after) => {
                self.order.insert(after);
            }
            None => {
                self.networks.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        assert_eq!(admission.check(here, 101), Err(LimitReached::Bandwidth));
        admission.enter(here, 40);
        admission.enter(here, 40);
        assert_eq!(admission.check(here, 1), Err(LimitReached::Address));
        assert_eq!(admission.check(there, 20), Ok(()));
        assert_eq!(admission.check(there, 21), Err(LimitReached::Bandwidth));
        admission.enter(there, 20);
        assert_eq!(admission.check(there, 0), Err(LimitReached::Sessions));
        admission.shrink(20);
        assert_eq!(admission.check_bandwidth(20), Ok(()));
        admission.grow(20);
        admission.release(here, 40);
        assert_eq!((admission.check(here, 40), admission.reserved()), (Ok(()), 60));
        admission.release(here, 40);
        admission.release(there, 20);
        assert_eq!((admission.reserved(), admission.networks.len()), (0, 0));
    }

    #[test]
    fn while_the_disk_is_behind_nobody_begins_to_play() {
        let mut admission = Admission::new(&Settings::default());
        admission.set_disk_behind(true);
        assert_eq!(admission.check(host(1), 1), Err(LimitReached::ReadDelay));
        assert_eq!(admission.check_bandwidth(1), Ok(()), "who plays already may add a track");
        admission.set_disk_behind(false);
        assert_eq!(admission.check(host(1), 1), Ok(()));
    }

    fn host(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    #[test]
    fn who_has_most_gives_way_and_then_the_oldest() {
        let mut evictable = EvictionOrder::default();
        evictable.enter(host(1), 10);
        (20..23).for_each(|token| evictable.enter(host(2), token));
        assert_eq!(evictable.eviction_candidates().collect::<Vec<_>>(), [20, 21, 22, 10]);
        for expected in [20, 21, 10, 22] {
            assert_eq!(evictable.eviction_candidate(), Some(expected));
            evictable.release(expected);
            evictable.release(expected);
        }
        assert_eq!((evictable.eviction_candidate(), evictable.len()), (None, 0));
        assert!(evictable.networks.is_empty() && evictable.order.is_empty());
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one() {
        let mut evictable = EvictionOrder::default();
        evictable.enter("2001:db8::1".parse().unwrap(), 1);
        evictable.enter("2001:db8:0:1::1".parse().unwrap(), 2);
        evictable.enter("2001:db8:0:1:ffff::2".parse().unwrap(), 3);
        assert_eq!(evictable.eviction_candidate(), Some(2));
    }

    proptest! {
        #[test]
        fn as_reckoned_from_scratch(steps in proptest::collection::vec((0u8..5, 0u64..40), 0..200)) {
            let mut evictable = EvictionOrder::default();
            let mut there: Vec<(u8, u64)> = Vec::new();
            for (network, token) in steps {
                if let Some(place) = there.iter().position(|(_, known)| *known == token) {
                    there.remove(place);
                    evictable.release(token);
                } else {
                    there.push((network, token));
                    evictable.enter(host(network), token);
                }
                let count = |network: u8| there.iter().filter(|(known, _)| *known == network).count();
                let most = there.iter().map(|(network, _)| count(*network)).max();
                let first = there.iter().find(|(network, _)| Some(count(*network)) == most);
                prop_assert_eq!(evictable.eviction_candidate(), first.map(|(_, token)| *token));
                prop_assert_eq!(evictable.len(), there.len());
            }
        }
    }
}
