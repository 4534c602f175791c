//! The destination of a forward proxy's request: host, port, and whether to use TLS.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use rustls::pki_types::ServerName;
use sojourn_http::host::is_host;
use sojourn_http::host::{NAME_BYTES_MAX, name};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// In lower case; an address has no brackets.
    pub host: Box<str>,
    /// Never 0.
    pub port: u16,
    pub is_secure: bool,
}

impl Origin {
    /// Parses `authority`, without TLS; `default` is the port if it has none.
    pub fn parse(authority: &[u8], default: Option<u16>) -> Option<Origin> {
        if !is_host(authority) {
            return None;
        }
        let mut buffer = [0; NAME_BYTES_MAX];
        let name = std::str::from_utf8(name(authority, &mut buffer)?).ok()?;
        // The colon behind an IPv6 address's bracket, or behind a name.
        let after_address = authority.iter().rposition(|byte| *byte == b']').map_or(0, |bracket| bracket + 1);
        let colon = authority[after_address..].iter().position(|byte| *byte == b':');
        let digits = colon.map_or(&[][..], |colon| &authority[after_address + colon + 1..]);
        let port = match digits {
            [] => default?,
            digits => std::str::from_utf8(digits).ok()?.parse().ok()?,
        };
        let host = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            // An address of a future IP version is refused: without its brackets it would be a name.
            Some(address) => address.parse::<Ipv6Addr>().ok().map(|_| address)?,
            None => name,
        };
        (port != 0).then(|| Origin { host: host.into(), port, is_secure: false })
    }

    /// The name that its certificate must have; `None` if no certificate can have it.
    pub fn certified_name(&self) -> Option<ServerName<'static>> {
        ServerName::try_from(&*self.host).ok().map(|name| name.to_owned())
    }

    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

/// A range of ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    pub const fn new(first: u16, last: u16) -> Ports {
        Ports { first, last }
    }

    pub fn contains(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

/// The text is neither a port nor a range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write ports as 443 or 8000-8999")]
pub struct PortsError;

impl FromStr for Ports {
    type Err = PortsError;

    fn from_str(text: &str) -> Result<Ports, PortsError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.parse().ok().filter(|port| *port > 0).ok_or(PortsError);
        let ports = Ports { first: port(first)?, last: port(last)? };
        if ports.first <= ports.last { Ok(ports) } else { Err(PortsError) }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ports { first, last } if first == last => write!(formatter, "{first}"),
            Ports { first, last } => write!(formatter, "{first}-{last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_origin_is_read_as_it_is_written(authority in prop_oneof![
            any::<Vec<u8>>(),
            "[a-zA-Z0-9.\\[\\]:-]{0,30}".prop_map(String::into_bytes),
        ]) {
            if let Some(origin) = Origin::parse(&authority, Some(80)) {
                let brackets = if origin.host.contains(':') { ("[", "]") } else { ("", "") };
                let written = format!("{}{}{}:{}", brackets.0, origin.host, brackets.1, origin.port);
                prop_assert_eq!(Origin::parse(written.as_bytes(), None), Some(origin));
            }
        }
    }

    #[test]
    fn origins() {
        let of = |authority: &str, default| {
            Origin::parse(authority.as_bytes(), default)
                .map(|origin| (origin.host.into_string(), origin.port))
        };
        let is = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(of("Example.ORG", Some(80)), is("example.org", 80));
        assert_eq!(of("example.org.:8080", Some(80)), is("example.org", 8080));
        assert_eq!(of("h:", Some(80)), is("h", 80));
        assert_eq!(of("[::1]:81", Some(80)), is("::1", 81));
        assert_eq!(of("[::1]", None), None);
        assert_eq!(of("h:443", None), is("h", 443));
        for bad in [
            "",
            "h:0",
            "h:65536",
            "127.1:80",
            "0x7f000001:80",
            "u@h:80",
            "h/:80",
            "/",
            "[::1:80",
            "[v1.a]:80",
        ] {
            assert_eq!(of(bad, Some(80)), None, "{bad}");
        }
        assert_eq!(Origin::parse(b"[::1]:1", None).and_then(|origin| origin.address()), "::1".parse().ok());
    }

    #[test]
    fn ports() {
        assert!(
            "1024-65535".parse::<Ports>().is_ok_and(|ports| ports.contains(1024) && !ports.contains(1023))
        );
        assert_eq!("80".parse(), Ok(Ports::new(80, 80)));
        for bad in ["", "0", "-", "2-1", "80-", "65536", "a"] {
            assert_eq!(bad.parse::<Ports>(), Err(PortsError), "{bad}");
        }
        assert_eq!(Ports::new(1, 2).to_string(), "1-2");
    }
}
