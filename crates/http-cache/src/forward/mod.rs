//! Rewrites the fields of forwarded messages (RFC 9110, 7.6).
//!
//! Hop-by-hop fields are dropped in both directions. Fields that claim a client's identity are dropped unless a trusted
//! proxy sent them. Framing fields are dropped too, because the sender writes its own.

use std::net::IpAddr;

use sojourn_http::HttpDate;
use sojourn_http::address::AddressText;
use sojourn_http::date::DATE_BYTES;
use sojourn_http::request::Version;

use super::fields::{Names, Section, append_line};
use super::metadata::Metadata;

/// Hop-by-hop fields: those of one connection, and of one hop's framing and authentication (RFC 9110, 7.6.1 and 11.7;
/// RFC 9113, 8.2.2).
const OF_CONNECTION: Names<12> = Names::new([
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
]);

/// End-to-end fields that a connection option must not remove. Removing them could get a private response stored, or
/// hide the field that selected a variant (RFC 9110, 7.6.1).
const END_TO_END: Names<17> = Names::new([
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
]);

/// Fields in which proxies report a request's origin, its user and the client certificate. Compared with `_` as `-`,
/// because some applications do so.
const ORIGINATORS: [&str; 15] = [
    "client-cert",
    "client-cert-chain",
    "forwarded",
    "front-end-https",
    "surrogate-capability",
    "true-client-ip",
    "x-client-cert",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-real-ip",
    "x-remote-user",
    "x-rewrite-url",
    "x-scheme",
    "x-ssl",
    "x-url-scheme",
];

/// Prefixes of such fields.
const ORIGINATOR_PREFIXES: [&str; 5] =
    ["ssl-client-", "x-auth-request-", "x-forwarded", "x-original-", "x-ssl-"];

/// Conditions to which the origin could answer with 304.
const CONDITIONS: Names<2> = Names::new(["if-modified-since", "if-none-match"]);

/// Fields to which the origin could answer with a part.
const RANGES: Names<2> = Names::new(["if-range", "range"]);

/// Fields that the sender of a request writes anew.
const WRITTEN_HERE: Names<2> = Names::new(["host", "expect"]);

/// How the origin learns the client's address: Forwarded (RFC 7239) and X-Forwarded-For, -Proto and -Host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Originator {
    /// Send the client's address as this proxy sees it, and drop what the client claims.
    #[default]
    Overwrite,
    /// The client is a trusted proxy: keep its fields and append its address.
    Append,
    Drop,
}

/// Why a request is sent to the origin, which decides its conditions and range.
#[derive(Clone, Copy, Debug)]
pub enum Purpose<'a> {
    /// To answer only this client: its conditions and range are forwarded.
    Pass,
    /// To answer this client and store the response: the whole representation is requested.
    Fill,
    /// To answer this client with the part it asked for and store that part: its range is forwarded, its conditions are
    /// not.
    Part,
    /// To complete the stored parts that have this strong validator: requests the missing range, to the end without
    /// `last`, with If-Range, so a changed representation arrives whole (RFC 9110, 13.1.5).
    Rest { tag: &'a [u8], first: u64, last: Option<u64> },
    /// To revalidate the stored variants, or get a new response (RFC 9111, 4.3.1).
    Revalidate(&'a [Metadata<'a>]),
}

#[derive(Clone, Copy, Debug)]
pub struct Via<'a> {
    pub received: Version,
    /// The name of this proxy. If two proxies on a path shared it, the second would report a loop.
    pub pseudonym: &'a str,
}

/// The properties of one request that decide how it is forwarded to the origin.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    /// `None` for an application that is told of requests by variables.
    pub via: Option<Via<'a>>,
    pub client: IpAddr,
    /// `http` or `https`, as used by the client.
    pub scheme: &'a str,
    /// The host that the client requested.
    pub host: &'a [u8],
    pub originator: Originator,
    pub purpose: Purpose<'a>,
    /// True for OPTIONS and TRACE, whose Max-Forwards is decremented.
    pub counts_hops: bool,
}

/// Appends the field lines of the request to the origin: Host, the forwarded ones, the conditions, the originator and
/// Via. The caller adds framing and Expect.
pub fn append_request(text: &mut Vec<u8>, received: Section<'_>, hop: &Hop<'_>) {
    append_line(text, b"Host", &[hop.host]);
    let is_left = |name: &[u8]| match hop.purpose {
        Purpose::Pass => false,
        Purpose::Part => CONDITIONS.has(name),
        Purpose::Fill | Purpose::Rest { .. } | Purpose::Revalidate(_) => {
            CONDITIONS.has(name) || RANGES.has(name)
        }
    };
    append_passing(text, received, |name| {
        let is_written_here = WRITTEN_HERE.has(name)
            || hop.counts_hops && name.eq_ignore_ascii_case(b"max-forwards")
            || hop.originator != Originator::Append && is_originator(name);
        !is_written_here && !is_left(name)
    });
    if hop.counts_hops {
        for value in received.values("max-forwards") {
            append_line(text, b"Max-Forwards", &[lowered(value).as_deref().unwrap_or(value)]);
        }
    }
    match hop.purpose {
        Purpose::Pass | Purpose::Fill | Purpose::Part => {}
        Purpose::Rest { tag, first, last } => {
            let last = last.map_or_else(String::new, |last| last.to_string());
            append_line(text, b"Range", &[format!("bytes={first}-{last}").as_bytes()]);
            append_line(text, b"If-Range", &[tag]);
        }
        Purpose::Revalidate(stored) => append_conditions(text, stored),
    }
    if hop.originator != Originator::Drop {
        append_originator(text, received, hop);
    }
    if let Some(via) = hop.via {
        append_via(text, via);
    }
}

/// Appends the response's forwarded fields, Via, and the `date` of its arrival if it has none (RFC 9110, 6.6.1).
/// `is_kept` filters by name. The caller adds Age and framing.
pub fn append_response(
    text: &mut Vec<u8>,
    received: Section<'_>,
    via: Via<'_>,
    date: impl FnOnce() -> [u8; DATE_BYTES],
    is_kept: impl Fn(&[u8]) -> bool,
) {
    let mut has_date = false;
    append_passing(text, received, |name| {
        has_date |= name.eq_ignore_ascii_case(b"date");
        is_kept(name)
    });
    if !has_date {
        append_line(text, b"Date", &[&date()]);
    }
    append_via(text, via);
}

/// Appends the head of an interim response (1xx); it is forwarded (RFC 9110, 15.2).
pub fn append_interim(text: &mut Vec<u8>, status: u16, reason: &[u8], received: Section<'_>, via: Via<'_>) {
    for part in [b"HTTP/1.1 ".as_slice(), status.to_string().as_bytes(), b" ", reason, b"\r\n"] {
        text.extend_from_slice(part);
    }
    append_passing(text, received, |_| true);
    append_via(text, via);
    text.extend_from_slice(b"\r\n");
}

/// Returns true if this proxy is already in the request's Via: a forwarding loop (RFC 9110, 7.6.3).
pub fn is_loop(received: Section<'_>, pseudonym: &str) -> bool {
    received.values("via").any(|value| {
        let bare = without_comments(value);
        let mut hops = bare.split(|byte| *byte == b',');
        hops.any(|hop| {
            let mut words = hop.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            words.nth(1).is_some_and(|name| name.eq_ignore_ascii_case(pseudonym.as_bytes()))
        })
    })
}

pub(super) fn is_set_here(name: &str) -> bool {
    name == "via" || is_originator(name.as_bytes())
}

/// Decides by their names which fields of a message are forwarded.
#[derive(Debug, Default)]
pub struct Passing<'b> {
    /// The connection options of the message: names of further hop-by-hop fields.
    options: Vec<&'b [u8]>,
}

impl<'b> Passing<'b> {
    pub fn of(received: Section<'b>) -> Passing<'b> {
        // Most messages have no such field.
        let options =
            if received.has("connection") { received.members("connection").collect() } else { Vec::new() };
        Passing { options }
    }

    /// Returns true unless the field is hop-by-hop.
    pub fn passes(&self, name: &[u8]) -> bool {
        let is_option = || self.options.iter().any(|option| option.eq_ignore_ascii_case(name));
        !OF_CONNECTION.has(name) && (self.options.is_empty() || !is_option() || END_TO_END.has(name))
    }
}

pub(super) fn append_passing(
    text: &mut Vec<u8>,
    received: Section<'_>,
    mut is_kept: impl FnMut(&[u8]) -> bool,
) {
    let start = text.len();
    // Most messages have no options of the connection: one pass is enough for them.
    if !append_lines(text, received, &Passing::default(), &mut is_kept) {
        text.truncate(start);
        append_lines(text, received, &Passing::of(received), &mut is_kept);
    }
}

/// Appends the fields that pass; false if `passing` lacks the options that there are.
fn append_lines(
    text: &mut Vec<u8>,
    received: Section<'_>,
    passing: &Passing<'_>,
    is_kept: &mut impl FnMut(&[u8]) -> bool,
) -> bool {
    let mut has_all = true;
    for (line, name, value) in received.whole_lines() {
        if passing.passes(name) {
            if !is_kept(name) {
                continue;
            }
            // As most are written.
            if line.len() == name.len() + 2 + value.len() + 2
                && line[name.len() + 1] == b' '
                && line.ends_with(b"\r\n")
            {
                text.extend_from_slice(line);
            } else {
                append_line(text, name, &[value]);
            }
        } else {
            has_all &= !name.eq_ignore_ascii_case(b"connection");
        }
    }
    has_all
}

pub(super) fn append_via(text: &mut Vec<u8>, via: Via<'_>) {
    let version: &[u8] = match via.received {
        Version::Http10 => b"1.0 ",
        Version::Http11 => b"1.1 ",
        Version::Http2 => b"2.0 ",
    };
    append_line(text, b"Via", &[version, via.pseudonym.as_bytes()]);
}

/// Returns true if a client could forge where a request comes from by the field called `name`.
pub fn is_originator(name: &[u8]) -> bool {
    // No other letters begin them.
    if !matches!(name.first().map(u8::to_ascii_lowercase), Some(b'c' | b'f' | b's' | b't' | b'x')) {
        return false;
    }
    let is_same = |(one, other): (&u8, u8)| *one == b'_' && other == b'-' || one.eq_ignore_ascii_case(&other);
    let begins = |prefix: &&str| name.len() >= prefix.len() && name.iter().zip(prefix.bytes()).all(is_same);
    ORIGINATORS.iter().any(|other| name.len() == other.len() && begins(other))
        || ORIGINATOR_PREFIXES.iter().any(begins)
}

/// Max-Forwards for the next hop; `None` if the value is not a positive number (RFC 9110, 7.6.2).
fn lowered(value: &[u8]) -> Option<Vec<u8>> {
    let hops: u32 = std::str::from_utf8(value).ok()?.parse().ok()?;
    value.iter().all(u8::is_ascii_digit).then(|| hops.saturating_sub(1).to_string().into_bytes())
}

/// The host needs no escaping: the request parser has checked that it has no quotes.
fn append_originator(text: &mut Vec<u8>, received: Section<'_>, hop: &Hop<'_>) {
    let address = AddressText::of(hop.client);
    let [start, end]: [&[u8]; 2] = if hop.client.is_ipv6() { [b"for=\"[", b"]\""] } else { [b"for=", b""] };
    let scheme = hop.scheme.as_bytes();
    let element = [start, address.as_bytes(), end, b";proto=", scheme, b";host=\"", hop.host, b"\""];
    append_line(text, b"Forwarded", &element);
    append_line(text, b"X-Forwarded-For", &[address.as_bytes()]);
    for (name, value) in [("X-Forwarded-Proto", scheme), ("X-Forwarded-Host", hop.host)] {
        if hop.originator != Originator::Append || !received.has(name) {
            append_line(text, name.as_bytes(), &[value]);
        }
    }
}

/// Removes comments, which nest and may contain commas (RFC 9110, 5.6.5).
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

/// Appends the conditions that let the origin select a stored variant with 304: all entity tags, and the date if there
/// is only one variant (RFC 9111, 4.3.1). The client's own conditions are evaluated later, against the answer.
pub(super) fn append_conditions(text: &mut Vec<u8>, stored: &[Metadata<'_>]) {
    let mut tags: Vec<&[u8]> =
        stored.iter().map(|one| one.entity_tag).filter(|tag| !tag.is_empty()).collect();
    tags.sort_unstable();
    tags.dedup();
    if !tags.is_empty() {
        append_line(text, b"If-None-Match", &[&tags.join(b", ".as_slice())]);
    }
    if let [Metadata { last_modified: Some(modified), .. }] = stored {
        append_line(text, b"If-Modified-Since", &[&HttpDate::from_seconds(*modified).text()]);
    }
}

#[cfg(test)]
mod tests;
