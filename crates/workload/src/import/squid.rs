//! Parses Squid's native access.log: ten columns per request.
//!
//! `1066036250.129     7 10.0.0.1 TCP_MISS/200 4242 GET http://host/path user HIER_DIRECT/1.2.3.4 text/html`: the end
//! of the exchange, its duration in milliseconds, and the bytes sent including the head.

use super::fields::{Field, Time};
use super::template::Template;
use super::time::NS_PER_SECOND;

/// The template, up to the last relevant column.
pub fn template() -> Template {
    Template::columns([
        Field::Time(Time::Epoch { unit_ns: NS_PER_SECOND }),
        Field::Duration { unit_ns: NS_PER_SECOND / 1000 },
        Field::Client,
        Field::ResultAndStatus,
        Field::SizeWithHead,
        Field::Method,
        Field::Target,
    ])
}
