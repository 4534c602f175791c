//! Networks in CIDR notation, and which addresses are public.
//!
//! A forward proxy lends its place in the network to its clients. Addresses that only this place can reach (itself, its
//! neighbours, a cloud's metadata service) are refused, whatever name resolves to them (server-side request forgery).
//! Addresses are judged by the registries of special purposes (RFC 6890 and IANA's tables); an address that embeds an
//! IPv4 address is judged by that one.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    prefix_bits: u32,
}

/// Why a text is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Not an address with a prefix length.
    #[error("{0} is not a network: write 192.0.2.0/24, 2001:db8::/32 or 192.0.2.7")]
    Syntax(String),
    /// The address has bits beyond the prefix.
    #[error("{0} has host bits set: the network that contains it is {1}")]
    Host(String, Network),
}

impl Network {
    const fn v4(octets: [u8; 4], prefix_bits: u32) -> Network {
        let [a, b, c, d] = octets;
        Network { first: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix_bits }
    }

    const fn v6(start: [u16; 3], prefix_bits: u32) -> Network {
        let [a, b, c] = start;
        Network { first: IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0)), prefix_bits }
    }

    /// The network of `prefix_bits` that contains `address`.
    fn around(address: IpAddr, prefix_bits: u32) -> Network {
        let first = match address {
            IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & mask_v4(prefix_bits)).into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & mask_v6(prefix_bits)).into(),
        };
        Network { first, prefix_bits }
    }

    /// Returns true if `address` is in it. IPv4-mapped IPv6 addresses (`::ffff:192.0.2.1`) count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && Network::around(address, self.prefix_bits) == *self
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Network, NetworkError> {
        let wrong = || NetworkError::Syntax(text.to_owned());
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let is_number = |bits: &&str| !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let prefix_bits = match bits {
            None => bits_max,
            Some(bits) => {
                Some(bits).filter(is_number).and_then(|bits| bits.parse().ok()).ok_or_else(wrong)?
            }
        };
        // IPv4-mapped addresses never reach the comparison.
        let is_other_spelling = address.to_canonical() != address;
        if prefix_bits > bits_max || is_other_spelling {
            return Err(wrong());
        }
        let network = Network::around(address, prefix_bits);
        if network.first == address { Ok(network) } else { Err(NetworkError::Host(text.to_owned(), network)) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.first, self.prefix_bits)
    }
}

fn mask_v4(prefix_bits: u32) -> u32 {
    u32::MAX.checked_shl(32 - prefix_bits).unwrap_or(0)
}

fn mask_v6(prefix_bits: u32) -> u128 {
    u128::MAX.checked_shl(128 - prefix_bits).unwrap_or(0)
}

/// The local host, in both protocols.
pub const LOOPBACK: [Network; 2] =
    [Network::v4([127, 0, 0, 0], 8), Network { first: IpAddr::V6(Ipv6Addr::LOCALHOST), prefix_bits: 128 }];

/// IPv4 networks that are not public: "this" network, private, carrier-grade NAT (with one cloud's metadata service),
/// loopback, link-local (with most clouds' metadata services), protocol assignments, documentation, 6to4 relays, one
/// cloud's agent, benchmarking, multicast, reserved and broadcast.
const SPECIAL_V4: [Network; 16] = [
    Network::v4([0, 0, 0, 0], 8),
    Network::v4([10, 0, 0, 0], 8),
    Network::v4([100, 64, 0, 0], 10),
    LOOPBACK[0],
    Network::v4([168, 63, 129, 16], 32),
    Network::v4([169, 254, 0, 0], 16),
    Network::v4([172, 16, 0, 0], 12),
    Network::v4([192, 0, 0, 0], 24),
    Network::v4([192, 0, 2, 0], 24),
    Network::v4([192, 88, 99, 0], 24),
    Network::v4([192, 168, 0, 0], 16),
    Network::v4([198, 18, 0, 0], 15),
    Network::v4([198, 51, 100, 0], 24),
    Network::v4([203, 0, 113, 0], 24),
    Network::v4([224, 0, 0, 0], 4),
    Network::v4([240, 0, 0, 0], 4),
];

/// The global unicast addresses of IPv6; others are unspecified, loopback, local, multicast or unassigned.
const GLOBAL_V6: Network = Network::v6([0x2000, 0, 0], 3);

/// Exceptions within global IPv6 space: protocol assignments including Teredo; documentation, twice; 6to4, which would
/// carry a packet to any IPv4 address.
const SPECIAL_V6: [Network; 4] = [
    Network::v6([0x2001, 0, 0], 23),
    Network::v6([0x2001, 0xdb8, 0], 32),
    Network::v6([0x2002, 0, 0], 16),
    Network::v6([0x3fff, 0, 0], 20),
];

/// Addresses by which IPv6 hosts reach IPv4 (RFC 6052): the last 32 bits are the destination.
const TRANSLATED: Network = Network::v6([0x64, 0xff9b, 0], 96);

/// Returns true if `address` means the same host everywhere on the internet.
pub fn is_public(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_in = |networks: &[Network]| networks.iter().any(|network| network.contains(address));
    match address {
        IpAddr::V4(_) => !is_in(&SPECIAL_V4),
        IpAddr::V6(translated) if TRANSLATED.contains(address) => {
            is_public(Ipv4Addr::from_bits(translated.to_bits() as u32).into())
        }
        IpAddr::V6(_) => GLOBAL_V6.contains(address) && !is_in(&SPECIAL_V6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_a_network_or_none(text in ".*|[0-9a-f:.]{0,20}/?[0-9]{0,4}") {
            if let Ok(network) = text.parse::<Network>() {
                prop_assert_eq!(network.to_string().parse(), Ok(network));
                prop_assert!(network.contains(network.first));
            }
        }

        #[test]
        fn who_shares_the_prefix_is_inside(bits: u128, other: u128, prefix_bits in 0..=128u32) {
            let network = Network::around(Ipv6Addr::from_bits(bits).into(), prefix_bits);
            let is_same = (bits ^ other) & mask_v6(prefix_bits) == 0;
            let other = IpAddr::from(Ipv6Addr::from_bits(other));
            // An IPv4-mapped address is in no IPv6 network.
            prop_assert_eq!(network.contains(other), is_same && other.to_canonical() == other);
        }
    }

    #[test]
    fn networks_and_who_is_in_them() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.255.255", "11.0.0.0"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::10.1.2.3"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("::/0", "ffff::", "1.2.3.4"),
            ("fd00::/9", "fd7f:1::", "fd80::"),
            ("::1", "::1", "::2"),
        ] {
            let parsed: Network = network.parse().unwrap();
            assert!(parsed.contains(inside.parse().unwrap()), "{inside} in {network}");
            assert!(!parsed.contains(outside.parse().unwrap()), "{outside} in {network}");
            assert_eq!(parsed.to_string().parse(), Ok(parsed));
        }
        for bad in [
            "",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/",
            "10/8",
            "::/129",
            "localhost",
            "::ffff:10.0.0.0/104",
        ] {
            assert_eq!(bad.parse::<Network>(), Err(NetworkError::Syntax(bad.to_owned())));
        }
        let error = "10.1.0.0/8".parse::<Network>().unwrap_err().to_string();
        assert!(error.ends_with("10.0.0.0/8"), "{error}");
    }

    #[test]
    fn what_is_for_everybody() {
        for public in [
            "1.1.1.1",
            "192.0.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1",
            "64:ff9b::1.1.1.1",
            "::ffff:1.1.1.1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for special in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "127.255.255.254",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.100.100.200",
            "169.254.169.254",
            "168.63.129.16",
            "192.0.0.192",
            "192.0.2.1",
            "198.19.0.1",
            "224.0.0.1",
            "239.255.255.250",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:127.0.0.1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2002:7f00:1::",
            "2002:808:808::1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1.1.1.1",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "100::1",
            "5f00::1",
        ] {
            assert!(!is_public(special.parse().unwrap()), "{special}");
        }
    }
}
