//! The text of an IP address or a port, without the machinery of formatting: every request that is passed on has one or two.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};

/// The longest: eight groups of four digits, or six and an IPv4 address.
const TEXT_BYTES_MAX: usize = 45;

#[derive(Clone, Copy, Debug)]
pub struct AddressText {
    bytes: [u8; TEXT_BYTES_MAX],
    length: usize,
}

impl AddressText {
    pub fn of(address: IpAddr) -> AddressText {
        let mut text = AddressText { bytes: [0; TEXT_BYTES_MAX], length: 0 };
        match address {
            IpAddr::V4(address) => text.push_v4(address),
            IpAddr::V6(address) => {
                let mut rest = &mut text.bytes[..];
                write!(rest, "{address}").expect("there is room for the longest");
                text.length = TEXT_BYTES_MAX - rest.len();
            }
        }
        text
    }

    pub fn of_port(port: u16) -> AddressText {
        let mut text = AddressText { bytes: [0; TEXT_BYTES_MAX], length: 0 };
        for unit in [10_000, 1000, 100, 10, 1] {
            if port >= unit || unit == 1 {
                text.push(b'0' + (port / unit % 10) as u8);
            }
        }
        text
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn push_v4(&mut self, address: Ipv4Addr) {
        for (index, octet) in address.octets().into_iter().enumerate() {
            if index > 0 {
                self.push(b'.');
            }
            if octet >= 100 {
                self.push(b'0' + octet / 100);
            }
            if octet >= 10 {
                self.push(b'0' + octet / 10 % 10);
            }
            self.push(b'0' + octet % 10);
        }
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_standard_library_has_it() {
        let longest = "1111:2222:3333:4444:5555:6666:7777:8888";
        for text in ["0.0.0.0", "127.0.0.1", "255.109.10.99", "::", "::1", "::ffff:192.0.2.1", longest] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(AddressText::of(address).as_bytes(), address.to_string().as_bytes());
        }
        for port in [0, 9, 10, 80, 100, 999, 8080, 10_000, 65_535] {
            assert_eq!(AddressText::of_port(port).as_bytes(), port.to_string().as_bytes());
        }
    }
}
