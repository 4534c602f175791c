//! The rules of a forward proxy: which clients it serves, and to which ports and addresses it connects.
//!
//! By default it is closed: it serves only clients of this host, and connects only to public addresses ([`is_public`]).
//! The rules check the address itself, and the connection goes to the checked address: a name is not looked up twice
//! for a connection, so a different second answer (DNS rebinding) has no effect.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use sojourn_http::request::{Request, Scheme, Version};

use super::{Addresses, Network, Origin, Ports, Refusal, Resolver, is_public};
use crate::tls::UpstreamTls;

/// The default port of `http` URIs.
const HTTP_PORT: u16 = 80;

/// The default port of `https` URIs.
const HTTPS_PORT: u16 = 443;

/// The ports that requests may use by default: the web's, and unprivileged ones.
pub const PORTS: [Ports; 3] = [Ports::new(80, 80), Ports::new(443, 443), Ports::new(1024, 65535)];

/// The ports that tunnels may use by default: few, because a tunnel can carry any protocol.
pub const TUNNEL_PORTS: [Ports; 1] = [Ports::new(443, 443)];

/// The rules and the resolver.
#[derive(Debug)]
pub struct Rules {
    pub clients: Vec<Network>,
    /// Networks that may be reached although they are not public.
    pub addresses: Vec<Network>,
    pub ports: Vec<Ports>,
    pub tunnel_ports: Vec<Ports>,
    pub resolver: Resolver,
    /// The trusted authorities; without any, `https` targets are refused.
    pub tls: Option<Arc<ClientConfig>>,
}

impl Rules {
    /// The destination of `request` from a client at `peer`.
    pub fn origin(&self, request: &Request<'_>, peer: IpAddr) -> Result<Origin, Refusal> {
        self.check_client(peer)?;
        let (is_secure, port) = match request.scheme {
            Some(Scheme::Http) => (false, HTTP_PORT),
            Some(Scheme::Https) if self.tls.is_some() => (true, HTTPS_PORT),
            Some(Scheme::Https) => return Err(Refusal::Scheme),
            None => return Err(Refusal::Target),
        };
        let origin = request.host.and_then(|host| Origin::parse(host, Some(port)));
        let origin = Origin { is_secure, ..origin.ok_or(Refusal::Target)? };
        if is_secure && origin.certified_name().is_none() {
            return Err(Refusal::Target);
        }
        check_port(origin, &self.ports)
    }

    /// The TLS settings for `origin`, if it uses TLS.
    pub fn tls_with(&self, origin: &Origin) -> Option<UpstreamTls> {
        let config = self.tls.as_ref().filter(|_| origin.is_secure)?;
        Some(UpstreamTls { config: Arc::clone(config), name: origin.certified_name()? })
    }

    /// The destination of the tunnel that `request` asks for.
    pub fn tunnel_origin(&self, request: &Request<'_>, peer: IpAddr) -> Result<Origin, Refusal> {
        self.check_client(peer)?;
        if request.version == Version::Http2 {
            return Err(Refusal::Tunnel);
        }
        let origin = Origin::parse(request.target, None);
        check_port(origin.ok_or(Refusal::Target)?, &self.tunnel_ports)
    }

    /// The permitted ones of `addresses`.
    pub fn permitted(&self, addresses: &[IpAddr]) -> Result<Addresses, Refusal> {
        if addresses.is_empty() {
            return Err(Refusal::Name);
        }
        let is_allowed = |address: IpAddr| self.addresses.iter().any(|network| network.contains(address));
        let permitted: Addresses =
            addresses.iter().copied().filter(|address| is_public(*address) || is_allowed(*address)).collect();
        if permitted.is_empty() { Err(Refusal::Address) } else { Ok(permitted) }
    }

    pub fn cached(&self, origin: &Origin) -> Option<Addresses> {
        match origin.address() {
            Some(address) => Some(Arc::from([address])),
            None => self.resolver.cached(&origin.host),
        }
    }

    fn check_client(&self, peer: IpAddr) -> Result<(), Refusal> {
        let is_served = self.clients.iter().any(|network| network.contains(peer));
        if is_served { Ok(()) } else { Err(Refusal::Client) }
    }
}

fn check_port(origin: Origin, ports: &[Ports]) -> Result<Origin, Refusal> {
    if ports.iter().any(|ports| ports.contains(origin.port)) { Ok(origin) } else { Err(Refusal::Port) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::destination::LOOPBACK;
    use sojourn_http::request::{Parsed, Parser};

    fn closed() -> Rules {
        Rules {
            clients: LOOPBACK.to_vec(),
            addresses: vec![],
            ports: PORTS.to_vec(),
            tunnel_ports: TUNNEL_PORTS.to_vec(),
            resolver: Resolver::default(),
            tls: None,
        }
    }

    fn origin(line: &str, peer: &str) -> Result<String, Refusal> {
        let text = format!("{line} HTTP/1.1\r\nHost: other\r\n\r\n");
        let Ok(Parsed::Complete(request)) = Parser::default().parse(text.as_bytes()) else {
            panic!("{text}")
        };
        let (rules, peer) = (closed(), peer.parse().unwrap());
        let origin = match line.starts_with("CONNECT") {
            true => rules.tunnel_origin(&request, peer),
            false => rules.origin(&request, peer),
        };
        origin.map(|Origin { host, port, .. }| format!("{host} {port}"))
    }

    #[test]
    fn who_may_go_where() {
        for (line, peer, expected) in [
            ("GET http://H/a", "127.0.0.1", Ok("h 80")),
            ("GET http://h:8080/a", "::1", Ok("h 8080")),
            ("GET http://h/a", "::ffff:127.0.0.1", Ok("h 80")),
            ("GET http://h/a", "192.0.2.1", Err(Refusal::Client)),
            ("GET /a", "127.0.0.1", Err(Refusal::Target)),
            ("GET ftp://h/a", "127.0.0.1", Err(Refusal::Target)),
            ("GET https://h/a", "127.0.0.1", Err(Refusal::Scheme)),
            ("GET http://h:25/a", "127.0.0.1", Err(Refusal::Port)),
            ("CONNECT h:443", "127.0.0.1", Ok("h 443")),
            ("CONNECT [::1]:443", "127.0.0.1", Ok("::1 443")),
            ("CONNECT h:22", "127.0.0.1", Err(Refusal::Port)),
            ("CONNECT h", "127.0.0.1", Err(Refusal::Target)),
            ("CONNECT /", "127.0.0.1", Err(Refusal::Target)),
            ("CONNECT http://h:443/", "127.0.0.1", Err(Refusal::Target)),
            ("CONNECT 127.1:443", "127.0.0.1", Err(Refusal::Target)),
            ("CONNECT h:443", "10.0.0.1", Err(Refusal::Client)),
        ] {
            assert_eq!(origin(line, peer), expected.map(str::to_owned), "{line} from {peer}");
        }
    }

    #[test]
    fn https_goes_where_a_certificate_can_be_for() {
        let roots = rustls::RootCertStore::empty();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
        let rules = Rules { tls: Some(Arc::new(config)), ..closed() };
        let origin = |target: &str| {
            let text = format!("GET {target} HTTP/1.1\r\nHost: other\r\n\r\n");
            let Ok(Parsed::Complete(request)) = Parser::default().parse(text.as_bytes()) else {
                panic!("{text}")
            };
            rules.origin(&request, [127, 0, 0, 1].into())
        };
        for (target, host, port) in [("https://H/a", "h", 443), ("https://[::1]:8443/a", "::1", 8443)] {
            let expected = Origin { host: host.into(), port, is_secure: true };
            assert!(rules.tls_with(&expected).is_some());
            assert_eq!(origin(target), Ok(expected));
        }
        let plain = origin("http://h/a").unwrap();
        assert!(!plain.is_secure && rules.tls_with(&plain).is_none());
        assert_eq!(origin("https://h:25/a"), Err(Refusal::Port));
        // A host that no certificate's name can match.
        assert_eq!(origin(&format!("https://{}.example/", "a".repeat(64))), Err(Refusal::Target));
    }

    #[test]
    fn only_what_is_for_everybody_or_allowed() {
        let addresses =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        let mut rules = closed();
        let mixed = addresses(&["127.0.0.1", "1.1.1.1", "10.0.0.1"]);
        assert_eq!(*rules.permitted(&mixed).unwrap(), addresses(&["1.1.1.1"])[..]);
        assert_eq!(rules.permitted(&addresses(&["10.0.0.1", "::1"])), Err(Refusal::Address));
        assert_eq!(rules.permitted(&[]), Err(Refusal::Name));
        rules.addresses = vec!["10.0.0.0/8".parse().unwrap()];
        assert_eq!(*rules.permitted(&mixed).unwrap(), addresses(&["1.1.1.1", "10.0.0.1"])[..]);
    }
}
