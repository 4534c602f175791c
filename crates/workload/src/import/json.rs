//! Parses JSON lines: one object per line, with values found by name. The default names cover nginx, Caddy, Traefik and
//! Google Cloud.
//!
//! Only relevant values are parsed; serde_json skips the others without building anything. Dots separate names of
//! nested objects: `request.uri`.

use std::borrow::Cow;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::entry::Malformed;
use super::fields::{Draft, Field, Time};
use super::time::NS_PER_SECOND;

const MILLISECOND_NS: i64 = NS_PER_SECOND / 1000;

/// The meanings for `--json-field MEANING=NAME`.
pub const MEANINGS: [(&str, Field); 18] = [
    ("time", Field::Time(Time::Any)),
    ("client", Field::Client),
    ("forwarded_for", Field::ForwardedFor),
    ("host", Field::Host),
    ("request", Field::Request),
    ("method", Field::Method),
    ("target", Field::Target),
    ("path", Field::Path),
    ("query", Field::Query),
    ("status", Field::Status),
    ("size", Field::Size),
    ("size_with_head", Field::SizeWithHead),
    ("duration_s", Field::Duration { unit_ns: NS_PER_SECOND }),
    ("duration_ms", Field::Duration { unit_ns: MILLISECOND_NS }),
    ("duration_us", Field::Duration { unit_ns: 1000 }),
    ("duration_ns", Field::Duration { unit_ns: 1 }),
    ("upstream_s", Field::Upstream { unit_ns: NS_PER_SECOND }),
    ("upstream_ms", Field::Upstream { unit_ns: MILLISECOND_NS }),
];

/// The default names. Google Cloud's `timestamp` marks the start of a request, so its `latency` must not be subtracted
/// and is left out.
const DEFAULTS: [(&str, Field); 59] = [
    ("time", Field::Time(Time::Any)),
    ("timestamp", Field::Time(Time::Any)),
    ("@timestamp", Field::Time(Time::Any)),
    ("ts", Field::Time(Time::Any)),
    ("msec", Field::Time(Time::Any)),
    ("time_local", Field::Time(Time::Any)),
    ("time_iso8601", Field::Time(Time::Any)),
    ("remote_addr", Field::Client),
    ("remote_ip", Field::Client),
    ("client_ip", Field::Client),
    ("clientip", Field::Client),
    ("client", Field::Client),
    ("ClientHost", Field::Client),
    ("request.remote_addr", Field::ClientAndPort),
    ("request.remote_ip", Field::Client),
    ("request.client_ip", Field::Client),
    ("httpRequest.remoteIp", Field::Client),
    ("http_x_forwarded_for", Field::ForwardedFor),
    ("x_forwarded_for", Field::ForwardedFor),
    ("http_host", Field::Host),
    ("vhost", Field::Host),
    ("request.host", Field::Host),
    ("RequestHost", Field::Host),
    ("host", Field::ServerName),
    ("server_name", Field::ServerName),
    ("request", Field::Request),
    ("request_method", Field::Method),
    ("method", Field::Method),
    ("verb", Field::Method),
    ("request.method", Field::Method),
    ("httpRequest.requestMethod", Field::Method),
    ("RequestMethod", Field::Method),
    ("request_uri", Field::Target),
    ("request.uri", Field::Target),
    ("httpRequest.requestUrl", Field::Target),
    ("RequestPath", Field::Target),
    ("uri", Field::Path),
    ("url", Field::Path),
    ("path", Field::Path),
    ("args", Field::Query),
    ("query_string", Field::Query),
    ("query", Field::Query),
    ("status", Field::Status),
    ("status_code", Field::Status),
    ("httpRequest.status", Field::Status),
    ("DownstreamStatus", Field::Status),
    ("body_bytes_sent", Field::Size),
    ("bytes", Field::Size),
    ("size", Field::Size),
    ("DownstreamContentSize", Field::Size),
    ("bytes_sent", Field::SizeWithHead),
    ("httpRequest.responseSize", Field::SizeWithHead),
    ("request_time", Field::Duration { unit_ns: NS_PER_SECOND }),
    ("duration", Field::Duration { unit_ns: NS_PER_SECOND }),
    ("duration_ms", Field::Duration { unit_ns: MILLISECOND_NS }),
    ("Duration", Field::Duration { unit_ns: 1 }),
    ("upstream_response_time", Field::Upstream { unit_ns: NS_PER_SECOND }),
    ("upstream_service_time", Field::Upstream { unit_ns: MILLISECOND_NS }),
    ("OriginDuration", Field::Upstream { unit_ns: 1 }),
];

/// The relevant names as a tree.
#[derive(Clone, Debug, Default)]
pub struct Names {
    field: Option<Field>,
    children: Vec<(String, Names)>,
}

impl Names {
    /// Builds the tree from the default names and the given ones, which replace the defaults of the same meaning.
    pub fn new(given: &[(Field, String)]) -> Self {
        let mut names = Names::default();
        let replaced = |field: &Field| given.iter().any(|(other, _)| same_meaning(field, other));
        for (name, field) in DEFAULTS.iter().filter(|(_, field)| !replaced(field)) {
            names.add(name, *field);
        }
        for (field, name) in given {
            names.add(name, *field);
        }
        names
    }

    fn add(&mut self, name: &str, field: Field) {
        let node = name.split('.').fold(self, |node, key| {
            let known = node.children.iter().position(|(other, _)| other == key);
            let index = known.unwrap_or_else(|| {
                node.children.push((key.to_owned(), Names::default()));
                node.children.len() - 1
            });
            &mut node.children[index].1
        });
        node.field = Some(field);
    }

    /// Parses a line into a draft.
    pub fn fill<'a>(&self, draft: &mut Draft<'a>, line: &'a [u8]) -> Result<(), Malformed> {
        let mut refused = None;
        let mut json = serde_json::Deserializer::from_slice(line);
        let object = Object { names: self, draft, refused: &mut refused };
        let read = object.deserialize(&mut json).and_then(|()| json.end());
        match (read, refused) {
            (Ok(()), _) => Ok(()),
            (Err(_), reason) => Err(reason.unwrap_or(Malformed::NotJson)),
        }
    }
}

/// Compares kinds of fields: durations in any unit are the same, and a target replaces a path.
fn same_meaning(one: &Field, other: &Field) -> bool {
    let class = |field: &Field| match field {
        Field::Duration { .. } => 0,
        Field::Target | Field::Path | Field::Request => 1,
        Field::Host | Field::ServerName => 2,
        Field::Client | Field::ClientAndPort | Field::ForwardedFor => 3,
        Field::Size | Field::SizeWithHead => 4,
        Field::Time(_) => 5,
        Field::Status => 6,
        Field::Method => 7,
        Field::Upstream { .. } => 8,
        _ => 9,
    };
    class(one) == class(other)
}

/// Deserialises one object into the draft.
struct Object<'n, 'd, 'a> {
    names: &'n Names,
    draft: &'d mut Draft<'a>,
    refused: &'d mut Option<Malformed>,
}

impl<'de> DeserializeSeed<'de> for Object<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(found) = map.next_key_seed(Key(self.names))? {
            let Some(names) = found else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let raw = map.next_value::<&RawValue>()?.get();
            if raw.starts_with('{') {
                let object = Object { names, draft: &mut *self.draft, refused: &mut *self.refused };
                let mut json = serde_json::Deserializer::from_str(raw);
                object.deserialize(&mut json).map_err(de::Error::custom)?;
            } else if let (Some(field), Some(text)) = (names.field, text(raw)) {
                self.draft.set(field, text).map_err(|reason| {
                    *self.refused = Some(reason);
                    de::Error::custom(reason)
                })?;
            }
        }
        Ok(())
    }
}

/// Looks a key up among the names.
struct Key<'n>(&'n Names);

impl<'de, 'n> DeserializeSeed<'de> for Key<'n> {
    type Value = Option<&'n Names>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'n> Visitor<'_> for Key<'n> {
    type Value = Option<&'n Names>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.children.iter().find(|(name, _)| name == key).map(|(_, names)| names))
    }
}

/// The text of a string or number; `None` for `null`, `true` and lists.
fn text(raw: &str) -> Option<Cow<'_, [u8]>> {
    match raw.as_bytes() {
        [b'"', inside @ .., b'"'] if memchr::memchr(b'\\', inside).is_none() => Some(Cow::Borrowed(inside)),
        [b'"', ..] => serde_json::from_str::<String>(raw).ok().map(|text| Cow::Owned(text.into_bytes())),
        [b'-' | b'0'..=b'9', ..] => Some(Cow::Borrowed(raw.as_bytes())),
        _ => None,
    }
}
