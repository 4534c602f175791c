//! Parses the access log of AWS's Application Load Balancer: blank-separated columns, some of them quoted.
//!
//! `http 2018-07-02T22:23:00.186641Z app/NAME/ID 192.168.131.39:2817 10.0.0.1:80 0.000 0.001 0.000 200 200 34 366 "GET
//! http://www.example.com:80/ HTTP/1.1" …`: the moment at which the answer was ready, three times that make up the
//! request's (-1: not reached), and the bytes sent including the head.

use super::fields::{Field, Time};
use super::template::Template;
use super::time::NS_PER_SECOND;

/// The template, up to the last relevant column.
pub fn template() -> Template {
    let part = |is_upstream| Field::DurationPart { unit_ns: NS_PER_SECOND, is_upstream };
    Template::columns([
        Field::Ignored, // type
        Field::Time(Time::Iso8601),
        Field::Ignored, // elb
        Field::ClientAndPort,
        Field::Ignored, // target:port
        part(false),
        part(true),
        part(false),
        Field::Status,
        Field::Ignored, // target_status_code
        Field::Ignored, // received_bytes
        Field::SizeWithHead,
        Field::Request,
    ])
}
