//! Parses Envoy's default access log, up to the authority.
//!
//! `[2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "nsq2http" "ID" "locations"
//! "tcp://10.0.2.1:80"`: the moment at which the request came, the bytes of the bodies, and two times in milliseconds, in
//! all and of the upstream. The client is the first that x-forwarded-for names.

use super::fields::{Field, Time};
use super::template::{Part, Template};
use super::time::NS_PER_SECOND;

const MILLISECOND_NS: i64 = NS_PER_SECOND / 1000;

pub fn template() -> Template {
    let text = |text: &str| Part::Literal(text.as_bytes().to_vec());
    let ignored = || Part::Field(Field::Ignored);
    let parts = [
        text("["),
        Part::Field(Field::Time(Time::Iso8601)),
        text("] \""),
        Part::Field(Field::Request),
        text("\" "),
        Part::Field(Field::Status),
        text(" "),
        ignored(), // response flags
        text(" "),
        ignored(), // bytes received
        text(" "),
        Part::Field(Field::Size),
        text(" "),
        Part::Field(Field::Duration { unit_ns: MILLISECOND_NS }),
        text(" "),
        Part::Field(Field::Upstream { unit_ns: MILLISECOND_NS }),
        text(" \""),
        Part::Field(Field::ForwardedFor),
        text("\" \""),
        ignored(), // user agent
        text("\" \""),
        ignored(), // request id
        text("\" \""),
        Part::Field(Field::Host),
        text("\""),
    ];
    Template::new(&parts).expect("there is text between its fields")
}
