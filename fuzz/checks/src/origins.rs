//! What must hold for any text that names a proxy's networks, upstreams or targets.

use std::net::{IpAddr, Ipv4Addr};

use sojourn_http::request::{Parsed, Parser};
use sojourn_server::handler::destination::{
    LOOPBACK, Network, Origin, Ports, Refusal, Resolver, Rules, is_public,
};
use sojourn_server::handler::reverse_proxy::{Scheme, UpstreamUrl};

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Addresses of every kind, to test against a network.
const ADDRESSES: [&str; 8] =
    ["0.0.0.0", "127.0.0.1", "192.0.2.1", "255.255.255.255", "::", "::1", "::ffff:192.0.2.1", "2001:db8::1"];

/// A network reads as it is written, contains its own address, and treats both spellings of an address alike; a list of
/// ports reads as it is written, too.
pub fn network(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(ports) = text.parse::<Ports>() {
        assert_eq!(ports.to_string().parse(), Ok(ports));
        assert!(!ports.contains(0));
    }
    let Ok(network) = text.parse::<Network>() else { return };
    let written = network.to_string();
    assert_eq!(written.parse(), Ok(network), "{written}");
    let (first, bits) = written.split_once('/').expect("an address and its bits");
    assert!(network.contains(first.parse().expect("an address")), "{written}");
    for address in ADDRESSES.map(|text| text.parse::<IpAddr>().expect("an address")) {
        is_public(address);
        if let IpAddr::V4(plain) = address {
            assert_eq!(network.contains(address), network.contains(plain.to_ipv6_mapped().into()));
        }
        assert!(
            bits != "0"
                || network.contains(address) == (first.contains(':') == address.to_canonical().is_ipv6())
        );
    }
}

/// Whatever names an upstream or an origin names one host and one port, and reads the same after it is written.
pub fn origin(bytes: &[u8]) {
    if let Some(url) = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<UpstreamUrl>().ok()) {
        assert!(
            (url.port > 0 || url.socket.is_some() || url.bucket.is_some())
                && !url.host.is_empty()
                && (1..=1000).contains(&url.weight)
        );
        assert!(
            url.authority.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#@\\".contains(&byte)),
            "{url:?}"
        );
        let scheme = match url.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::FastCgi => "fcgi",
            Scheme::S3 => "s3",
        };
        let again = format!("{scheme}://{},weight={}", url.name, url.weight).parse();
        assert_eq!(again, Ok(url));
    }
    let forward = Rules {
        clients: LOOPBACK.to_vec(),
        addresses: vec![],
        ports: vec![Ports::new(1, u16::MAX)],
        tunnel_ports: vec![Ports::new(1, u16::MAX)],
        resolver: Resolver::default(),
        tls: None,
    };
    let ask = |method: &[u8]| {
        let text = [method, b" ", bytes, b" HTTP/1.1\r\nHost: other\r\n\r\n"].concat();
        let mut parser = Parser::default();
        let Ok(Parsed::Complete(request)) = parser.parse(&text) else { return None };
        match method {
            b"CONNECT" => forward.tunnel_origin(&request, CLIENT).ok(),
            _ => {
                let origin = forward.origin(&request, CLIENT);
                assert!(origin != Err(Refusal::Client) && origin != Err(Refusal::Port));
                origin.ok()
            }
        }
    };
    for origin in [ask(b"GET"), ask(b"CONNECT")].into_iter().flatten() {
        let brackets = if origin.host.contains(':') { ("[", "]") } else { ("", "") };
        let written = format!("{}{}{}:{}", brackets.0, origin.host, brackets.1, origin.port);
        assert_eq!(Origin::parse(written.as_bytes(), None), Some(origin));
        assert!(!written.contains(['/', '@', '?', '#', '\\', ' ']), "{written}");
    }
}
