//! The link's addresses: the server has the first address of a network, the clients the following ones.

use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use thiserror::Error;

use crate::namespace::Namespace;
use crate::netlink::{self, Netlink};
use crate::tun::Tun;

pub const LINES_MAX: u32 = 10_000;

/// The device's queue in the kernel, long enough for packets that arrive while this program is busy with others.
const DEVICE_QUEUE_PACKETS: u32 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    base: u32,
    prefix: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NetworkError {
    #[error("{0:?} is not a network such as 10.77.0.0/16, with a prefix from /8 to /30 and host bits zero")]
    NotANetwork(String),
    #[error("a network of /{prefix} has {room} addresses for clients, not {lines}")]
    TooSmall {
        prefix: u8,
        /// The number of client addresses in the network.
        room: u32,
        /// The number of lines requested.
        lines: u32,
    },
}

impl Network {
    pub fn parse(text: &str) -> Result<Network, NetworkError> {
        let refused = || NetworkError::NotANetwork(text.to_owned());
        let (base, prefix) = text.split_once('/').ok_or_else(refused)?;
        let base: Ipv4Addr = base.parse().map_err(|_| refused())?;
        let prefix: u8 =
            prefix.parse().ok().filter(|prefix| (8..=30).contains(prefix)).ok_or_else(refused)?;
        let base = u32::from(base);
        if base & (u32::MAX >> prefix) != 0 { Err(refused()) } else { Ok(Network { base, prefix }) }
    }

    /// Checks that the network has enough addresses for the clients.
    pub fn holds(&self, lines: u32) -> Result<(), NetworkError> {
        // Without the network address, the server's and the broadcast address.
        let room = (u32::MAX >> self.prefix) - 2;
        if lines <= room { Ok(()) } else { Err(NetworkError::TooSmall { prefix: self.prefix, room, lines }) }
    }

    pub fn server(&self) -> Ipv4Addr {
        (self.base + 1).into()
    }

    pub fn client(&self, line: u32) -> Ipv4Addr {
        (self.base + 2 + line).into()
    }

    pub fn line(&self, client: Ipv4Addr) -> Option<u32> {
        u32::from(client).checked_sub(self.base + 2)
    }

    /// Creates the server's device in the calling thread's namespace.
    pub(crate) fn server_side(&self) -> io::Result<Tun> {
        let tun = Tun::create("sojourn%d")?;
        self.put_server(&tun.name)?;
        Ok(tun)
    }

    pub(crate) fn client_side(&self, namespace: &Namespace, lines: u32) -> io::Result<Tun> {
        namespace.inside(|| {
            let tun = Tun::create("sojourn%d")?;
            self.put_clients(&tun.name, lines)?;
            Ok(tun)
        })
    }

    /// Whether a device in the calling thread's namespace has an address in this network. The kernel gives the same
    /// address to a second device, too, and then sends everything through the first.
    fn is_taken(&self) -> bool {
        // Nothing is sent; the kernel chooses the source of the route.
        let source = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
            socket.connect((self.server(), 9))?;
            socket.local_addr()
        });
        match source.map(|source| source.ip()) {
            Ok(IpAddr::V4(source)) => u32::from(source) & !(u32::MAX >> self.prefix) == self.base,
            _ => false,
        }
    }

    /// Gives `device`, in the calling thread's namespace, the server's address and brings it up.
    pub(crate) fn put_server(&self, device: &str) -> io::Result<()> {
        if self.is_taken() {
            return Err(io::Error::from_raw_os_error(libc::EEXIST));
        }
        let netlink = Netlink::new()?;
        let index = netlink::index_of(device)?;
        netlink.add_address(index, self.server(), self.prefix)?;
        netlink.bring_up(index, DEVICE_QUEUE_PACKETS)
    }

    /// Gives `device`, in the calling thread's namespace, the clients' addresses and brings it up.
    pub(crate) fn put_clients(&self, device: &str, lines: u32) -> io::Result<()> {
        let netlink = Netlink::new()?;
        let index = netlink::index_of(device)?;
        netlink.add_address(index, self.client(0), self.prefix)?;
        netlink.bring_up(index, DEVICE_QUEUE_PACKETS)?;
        (1..lines).try_for_each(|line| netlink.add_address(index, self.client(line), 32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let network = Network::parse("10.77.0.0/16").unwrap();
        assert_eq!(network.server(), Ipv4Addr::new(10, 77, 0, 1));
        assert_eq!(network.client(0), Ipv4Addr::new(10, 77, 0, 2));
        assert_eq!(network.client(254), Ipv4Addr::new(10, 77, 1, 0));
        assert_eq!(network.line(network.client(9_999)), Some(9_999));
        assert_eq!(network.line(network.server()), None);
        assert!(network.holds(65_533).is_ok());
        assert!(network.holds(65_534).is_err());
    }

    #[test]
    fn refusals() {
        for bad in ["", "10.77.0.0", "10.77.0.1/16", "10.77.0.0/31", "10.77.0.0/7", "10.77.0/16", "::/64"] {
            assert_eq!(Network::parse(bad), Err(NetworkError::NotANetwork(bad.into())), "{bad}");
        }
    }

    #[test]
    fn a_network_of_this_machine_is_taken() {
        assert!(Network::parse("127.0.0.0/8").unwrap().is_taken());
        assert!(!Network::parse("240.0.0.0/24").unwrap().is_taken());
    }
}
