//! Parses Amazon S3's server access log, up to its times.
//!
//! `OWNER BUCKET [06/Feb/2019:00:00:38 +0000] 192.0.2.3 REQUESTER ID REST.GET.OBJECT KEY "GET /KEY HTTP/1.1" 200 - 2662992
//! 3462992 70 10 …`: the moment at which the request came, the bytes of the body, and two times in milliseconds, in all
//! and until the first byte. The bucket stands for the site.

use super::fields::{Field, Time};
use super::template::{Part, Template};
use super::time::{CLF_BYTES, NS_PER_SECOND};

const MILLISECOND_NS: i64 = NS_PER_SECOND / 1000;

pub fn template() -> Template {
    let text = |text: &str| Part::Literal(text.as_bytes().to_vec());
    let blank = || text(" ");
    let ignored = || Part::Field(Field::Ignored);
    let parts = [
        ignored(), // bucket owner
        blank(),
        Part::Field(Field::ServerName),
        text(" ["),
        Part::Fixed(Field::Time(Time::Clf), CLF_BYTES),
        text("] "),
        Part::Field(Field::Client),
        blank(),
        ignored(), // requester
        blank(),
        ignored(), // request id
        blank(),
        ignored(), // operation
        blank(),
        ignored(), // key
        text(" \""),
        Part::Field(Field::Request),
        text("\" "),
        Part::Field(Field::Status),
        blank(),
        ignored(), // error code
        blank(),
        Part::Field(Field::Size),
        blank(),
        ignored(), // object size
        blank(),
        Part::Field(Field::Duration { unit_ns: MILLISECOND_NS }),
        blank(),
        Part::Field(Field::Upstream { unit_ns: MILLISECOND_NS }),
    ];
    Template::new(&parts).expect("there is text between its fields")
}
