//! The log lines of a synthetic site: Combined Log Format, on one fixed day.

use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use super::site::Site;
use super::visits::{Entry, Kind};

const DATE: &str = "15/May/2024";
const SITE: &str = "https://www.example.org";

/// RFC 5737: the first addresses of the networks reserved for documentation.
const IPV4_NETWORKS: [[u8; 3]; 3] = [[192, 0, 2], [198, 51, 100], [203, 0, 113]];

const AGENTS: [&str; 4] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15",
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Mobile Safari/537.36",
];

pub fn write(writer: &mut impl Write, site: &Site, entry: &Entry) -> io::Result<()> {
    let seconds = entry.at_ms / 1000;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    write!(writer, "{} - - [{DATE}:{hour:02}:{minute:02}:{second:02} +0000] \"", address(entry.client))?;
    let path = site.path(entry.document);
    let size_bytes = site.size_bytes(entry.document);
    let (method, path, status, size_bytes) = match entry.kind {
        Kind::Damaged => return writeln!(writer, "GET {path}"),
        Kind::Plain => ("GET", path, 200, Some(size_bytes)),
        Kind::NotModified => ("GET", path, 304, None),
        Kind::Query => {
            ("GET", format!("/search?q=word{}", entry.document), 200, Some(2000 + size_bytes % 4000))
        }
        Kind::NotFound => ("GET", format!("/old{path}"), 404, Some(196)),
        Kind::Redirect => ("GET", format!("/go{path}"), 302, Some(210)),
        Kind::Post => ("POST", "/contact".into(), 200, Some(1234)),
        Kind::Partial => ("GET", path, 206, Some(size_bytes.div_ceil(2))),
        Kind::Head => ("HEAD", path, 200, None),
    };
    write!(writer, "{method} {path} HTTP/1.1\" {status} ")?;
    match size_bytes {
        Some(size_bytes) => write!(writer, "{size_bytes}")?,
        None => write!(writer, "-")?,
    }
    let agent = AGENTS[entry.client as usize % AGENTS.len()];
    match entry.page == entry.document {
        true => writeln!(writer, " \"-\" \"{agent}\""),
        false => writeln!(writer, " \"{SITE}{}\" \"{agent}\"", site.path(entry.page)),
    }
}

/// A documentation address for a client: IPv4 as long as they last, then IPv6 (RFC 3849).
pub fn address(client: u32) -> std::net::IpAddr {
    let hosts = 254;
    match IPV4_NETWORKS.get((client / hosts) as usize) {
        Some(&[a, b, c]) => Ipv4Addr::new(a, b, c, (client % hosts + 1) as u8).into(),
        None => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, (client >> 16) as u16, client as u16).into(),
    }
}
