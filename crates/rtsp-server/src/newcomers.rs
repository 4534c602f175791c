//! Who has come and has yet to show what for: connections without a session, and sessions that have never played.
//!
//! Each kind has so many places. When they are taken, nobody is turned away: one gives way who has been there longest,
//! of the network that has most of them. So whoever fills the places by himself loses his own, and of many who come
//! with one each the oldest goes, which has had the most time to go on.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use sojourn_server::network;

/// What counts as one client: an IPv4 address, or an IPv6 network.
pub type Network = (bool, u64);

/// Newcomers of one kind.
#[derive(Debug, Default)]
pub struct Newcomers {
    /// Of each network, by when they came.
    networks: HashMap<Network, BTreeMap<u64, u64>>,
    /// The same networks by how many they have, and then by the oldest.
    order: BTreeSet<(usize, Reverse<u64>, Network)>,
    /// Where each of them is.
    members: HashMap<u64, (Network, u64)>,
    /// How many have ever come.
    arrivals: u64,
}

impl Newcomers {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Somebody who was not there has come from `peer`.
    pub fn enter(&mut self, peer: IpAddr, token: u64) {
        let arrival = self.arrivals;
        self.arrivals += 1;
        let network = network(peer);
        self.members.insert(token, (network, arrival));
        self.change(network, |members| {
            members.insert(arrival, token);
        });
    }

    /// Who was there is no newcomer any more.
    pub fn leave(&mut self, token: u64) {
        let Some((network, arrival)) = self.members.remove(&token) else { return };
        self.change(network, |members| {
            members.remove(&arrival);
        });
    }

    /// Who is to give way.
    pub fn first_to_go(&self) -> Option<u64> {
        let (_, Reverse(oldest), network) = self.order.last()?;
        self.networks.get(network)?.get(oldest).copied()
    }

    /// Changes the members of a network, and its place in the order with them.
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

    fn host(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    #[test]
    fn who_has_most_gives_way_and_then_the_oldest() {
        let mut newcomers = Newcomers::default();
        newcomers.enter(host(1), 10);
        (20..23).for_each(|token| newcomers.enter(host(2), token));
        for expected in [20, 21, 10, 22] {
            assert_eq!(newcomers.first_to_go(), Some(expected));
            newcomers.leave(expected);
            newcomers.leave(expected);
        }
        assert_eq!((newcomers.first_to_go(), newcomers.len()), (None, 0));
        assert!(newcomers.networks.is_empty() && newcomers.order.is_empty());
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one() {
        let mut newcomers = Newcomers::default();
        newcomers.enter("2001:db8::1".parse().unwrap(), 1);
        newcomers.enter("2001:db8:0:1::1".parse().unwrap(), 2);
        newcomers.enter("2001:db8:0:1:ffff::2".parse().unwrap(), 3);
        assert_eq!(newcomers.first_to_go(), Some(2));
    }

    proptest! {
        #[test]
        fn as_reckoned_from_scratch(steps in proptest::collection::vec((0u8..5, 0u64..40), 0..200)) {
            let mut newcomers = Newcomers::default();
            let mut there: Vec<(u8, u64)> = Vec::new();
            for (network, token) in steps {
                if let Some(place) = there.iter().position(|(_, known)| *known == token) {
                    there.remove(place);
                    newcomers.leave(token);
                } else {
                    there.push((network, token));
                    newcomers.enter(host(network), token);
                }
                let count = |network: u8| there.iter().filter(|(known, _)| *known == network).count();
                let most = there.iter().map(|(network, _)| count(*network)).max();
                let first = there.iter().find(|(network, _)| Some(count(*network)) == most);
                prop_assert_eq!(newcomers.first_to_go(), first.map(|(_, token)| *token));
                prop_assert_eq!(newcomers.len(), there.len());
            }
        }
    }
}
