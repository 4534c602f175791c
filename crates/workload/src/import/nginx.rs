//! Compiles an nginx `log_format` string (ngx_http_log_module, ngx_http_core_module).
//!
//! A variable is `$name` or `${name}`; irrelevant ones are skipped. nginx writes a line when the request has ended, so
//! its timestamps mark ends.

use super::fields::{Field, Time};
use super::template::Part;
use super::time::{CLF_BYTES, NS_PER_SECOND};

/// Compiles the format string. The error describes what is wrong.
pub fn compile(format: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut rest = format;
    while let Some(at) = rest.find('$') {
        literal(&mut parts, &rest[..at]);
        let name;
        (name, rest) = variable(&rest[at + 1..])?;
        parts.push(part(name));
        // `$is_args$args` after `$uri` may be empty, so nothing separates the two. Neither is needed.
        if name == "is_args" {
            parts.pop();
            rest = rest.strip_prefix("$args").or_else(|| rest.strip_prefix("$query_string")).unwrap_or(rest);
            if let Some(path) = parts.last_mut().filter(|part| **part == Part::Field(Field::Path)) {
                *path = Part::Field(Field::Target);
            }
        }
    }
    literal(&mut parts, rest);
    Ok(parts)
}

fn literal(parts: &mut Vec<Part>, text: &str) {
    if !text.is_empty() {
        parts.push(Part::Literal(text.as_bytes().to_vec()));
    }
}

/// Splits a variable name from the text after a `$`; returns it and the rest.
fn variable(text: &str) -> Result<(&str, &str), String> {
    if let Some(braced) = text.strip_prefix('{') {
        return braced.split_once('}').ok_or_else(|| format!("${text}: no }} after {{"));
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if end == 0 { Err(format!("${text}: no name after $")) } else { Ok(text.split_at(end)) }
}

fn part(name: &str) -> Part {
    Part::Field(match name {
        "time_local" => return Part::Fixed(Field::Time(Time::Clf), CLF_BYTES),
        "time_iso8601" => Field::Time(Time::Iso8601),
        "msec" => Field::Time(Time::Epoch { unit_ns: NS_PER_SECOND }),
        "request_time" => Field::Duration { unit_ns: NS_PER_SECOND },
        "upstream_response_time" => return Part::List(Field::Upstream { unit_ns: NS_PER_SECOND }),
        "upstream_addr"
        | "upstream_bytes_received"
        | "upstream_bytes_sent"
        | "upstream_connect_time"
        | "upstream_header_time"
        | "upstream_response_length"
        | "upstream_status" => return Part::List(Field::Ignored),
        "remote_addr" => Field::Client,
        "http_x_forwarded_for" | "proxy_add_x_forwarded_for" => Field::ForwardedFor,
        "http_host" | "host" => Field::Host,
        "server_name" => Field::ServerName,
        "server_port" | "remote_port" => Field::Port,
        "request" => Field::Request,
        "request_method" => Field::Method,
        "request_uri" => Field::Target,
        "uri" | "document_uri" => Field::Path,
        "args" | "query_string" => Field::Query,
        "status" => Field::Status,
        "body_bytes_sent" => Field::Size,
        "bytes_sent" => Field::SizeWithHead,
        _ => Field::Ignored,
    })
}
