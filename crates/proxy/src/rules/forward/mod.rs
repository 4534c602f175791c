//! What changes in the fields of a message that is passed on (RFC 9110, 7.6).
//!
//! What belongs to one connection stays behind, both ways. What a client says about who it is does not reach the origin
//! unless a trusted proxy says it. The framing is decided anew ([`super::framing`]), so Content-Length stays behind too.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, Version, header};
use sojourn_http::HttpDate;

use super::fields::{Fields, members};

/// Fields of one connection, or of one hop's framing and authentication (RFC 9110, 7.6.1 and 11.7; RFC 9113, 8.2.2).
const HOP_BY_HOP: [&str; 12] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    "content-length",
];

/// Fields that no connection option removes: they are for everybody, and one that says otherwise would have a private
/// response stored or a request go elsewhere (RFC 9110, 7.6.1).
const END_TO_END: [&str; 18] = [
    "age",
    "authorization",
    "cache-control",
    "content-encoding",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "etag",
    "expires",
    "host",
    "last-modified",
    "pragma",
    "range",
    "set-cookie",
    "vary",
    "via",
    "x-forwarded-for",
];

/// What says where a request came from. Some applications take `_` for `-`.
const ORIGINATORS: [&str; 9] = [
    "forwarded",
    "x-forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-forwarded-server",
    "x-real-ip",
];

/// What the origin is told about the client, in X-Forwarded-For, -Proto, -Host and Forwarded (RFC 7239).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Originator {
    /// The client's address as we see it; what the client itself says is dropped.
    #[default]
    Overwrite,
    /// The client is a trusted proxy: its word stays, its address is appended.
    Append,
    /// Nothing, whoever says it.
    Drop,
}

/// One request's way to the origin.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    /// The name of this proxy in Via; no two proxies on a way may share it, or loops are seen where none are.
    pub pseudonym: &'a HeaderValue,
    /// The version of the received message.
    pub received: Version,
    /// The client.
    pub client: IpAddr,
    /// `http` or `https`, as the client came.
    pub scheme: &'a str,
    /// The host that the client asked for.
    pub host: &'a HeaderValue,
    /// What is said about the client.
    pub originator: Originator,
}

/// Makes a received request's fields those of the request to the origin: hop-by-hop fields and the expectation go, Via
/// and the originator come, Host is the host asked for.
pub fn request(fields: &mut HeaderMap, hop: &Hop<'_>) {
    remove_hop_by_hop(fields);
    // The proxy itself answers an expectation, once it knows whether it wants the body.
    fields.remove(header::EXPECT);
    fields.insert(header::HOST, hop.host.clone());
    if hop.originator != Originator::Append {
        remove_originators(fields);
    }
    if hop.originator != Originator::Drop {
        add_originator(fields, hop);
    }
    add_via(fields, hop.received, hop.pseudonym);
}

/// Makes a received response's fields those of the response to the client, which may also be stored.
pub fn response(fields: &mut HeaderMap, received: Version, pseudonym: &HeaderValue, now: i64) {
    remove_hop_by_hop(fields);
    add_date(fields, now);
    add_via(fields, received, pseudonym);
}

/// Removes what belongs to one connection, and what Connection names.
pub fn remove_hop_by_hop(fields: &mut HeaderMap) {
    let options: Vec<HeaderName> = members(fields, "connection")
        .filter_map(|option| HeaderName::from_bytes(option).ok())
        .filter(|name| !END_TO_END.contains(&name.as_str()))
        .collect();
    for name in options {
        fields.remove(name);
    }
    for name in HOP_BY_HOP {
        fields.remove(name);
    }
}

/// Says when a response came that does not say when it was made (RFC 9110, 6.6.1).
pub fn add_date(fields: &mut HeaderMap, now: i64) {
    if !fields.contains_key(header::DATE) {
        let text = HttpDate::from_seconds(now).text();
        fields.insert(header::DATE, HeaderValue::from_bytes(&text).expect("a date is a field value"));
    }
}

/// Whether a request has been here before: this proxy is in its Via (RFC 9110, 7.6.3).
pub fn is_loop(fields: &impl Fields, pseudonym: &HeaderValue) -> bool {
    fields.values("via").any(|value| {
        let bare = without_comments(value);
        let mut hops = bare.split(|byte| *byte == b',');
        hops.any(|hop| {
            let mut words = hop.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            words.nth(1).is_some_and(|name| name.eq_ignore_ascii_case(pseudonym.as_bytes()))
        })
    })
}

/// Whether a response that varies by `name` varies by what we say and not the client.
pub(super) fn is_set_here(name: &str) -> bool {
    name == "via" || is_originator(name)
}

fn add_via(fields: &mut HeaderMap, received: Version, pseudonym: &HeaderValue) {
    let version: &[u8] = match received {
        Version::HTTP_10 => b"1.0 ",
        Version::HTTP_2 => b"2.0 ",
        _ => b"1.1 ",
    };
    let hop = [version, pseudonym.as_bytes()].concat();
    fields.append(header::VIA, HeaderValue::from_bytes(&hop).expect("a version and a field value"));
}

fn is_originator(name: &str) -> bool {
    ORIGINATORS.contains(&name)
        || name.contains('_') && ORIGINATORS.contains(&name.replace('_', "-").as_str())
}

fn remove_originators(fields: &mut HeaderMap) {
    let names: Vec<_> = fields.keys().filter(|name| is_originator(name.as_str())).cloned().collect();
    for name in names {
        fields.remove(name);
    }
}

fn add_originator(fields: &mut HeaderMap, hop: &Hop<'_>) {
    let host = hop.host.as_bytes();
    let client = match hop.client {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("\"[{address}]\""),
    };
    let start = format!("for={client};proto={};host=\"", hop.scheme);
    let element = [start.as_bytes(), host, b"\""].concat();
    // A host has no quotes: it was checked when the request was read.
    let value =
        |bytes: &[u8]| HeaderValue::from_bytes(bytes).expect("addresses, schemes and hosts are field values");
    fields.append("forwarded", value(&element));
    fields.append("x-forwarded-for", value(hop.client.to_string().as_bytes()));
    fields.entry("x-forwarded-proto").or_insert_with(|| value(hop.scheme.as_bytes()));
    fields.entry("x-forwarded-host").or_insert_with(|| value(host));
}

/// The value without its comments, which nest and may hold commas (RFC 9110, 5.6.5).
fn without_comments(value: &[u8]) -> Vec<u8> {
    let (mut bare, mut depth) = (Vec::new(), 0_usize);
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'(' => depth += 1,
            b')' if depth > 0 => depth -= 1,
            b'\\' if depth > 0 => drop(bytes.next()),
            _ if depth == 0 => bare.push(*byte),
            _ => {}
        }
    }
    bare
}

#[cfg(test)]
mod tests;
