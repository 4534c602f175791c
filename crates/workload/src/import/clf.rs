//! Parses one line of Common or Combined Log Format, as tolerantly as real logs need.
//!
//! `host identity user [10/Oct/2000:13:55:36 -0700] "GET /x HTTP/1.0" 200 2326 …`: everything after the size is
//! ignored, so both formats and their extensions are read alike. Requests may contain spaces and quotes: the request
//! ends at the first quote that is followed by a status and a size.

use crate::limits::{HOST_BYTES_MAX, LINE_BYTES_MAX};
use std::borrow::Cow;

use memchr::{memchr, memchr_iter};

use super::entry::{Entry, Malformed, method_and_target, size_bytes, split_absolute, status};
use super::time::{self, CLF_BYTES, NS_PER_SECOND};

/// The most opening brackets to try for a date, because user names may contain one.
const BRACKETS_MAX: usize = 8;

pub fn parse(line: &[u8]) -> Result<Entry<'_>, Malformed> {
    if line.len() > LINE_BYTES_MAX {
        return Err(Malformed::TooLong);
    }
    if line.trim_ascii().is_empty() {
        return Err(Malformed::Empty);
    }
    let (client, rest) = line.split_at(memchr(b' ', line).ok_or(Malformed::NoDate)?);
    let (date, rest) = find_date(rest)?;
    let request_and_rest = rest.trim_ascii_start().strip_prefix(b"\"").ok_or(Malformed::NoRequest)?;
    let (request, status, size_bytes) = memchr_iter(b'"', request_and_rest)
        .find_map(|quote| {
            let (status, size_bytes) = status_and_size(&request_and_rest[quote + 1..])?;
            Some((&request_and_rest[..quote], status, size_bytes))
        })
        .ok_or(Malformed::NoStatusAndSize)?;
    let (method, target) = method_and_target(request);
    let (host, target) = split_absolute(target);
    if host.len() > HOST_BYTES_MAX {
        return Err(Malformed::LongHost);
    }
    let unix_ns = date.unix_seconds * NS_PER_SECOND;
    Ok(Entry {
        client: Cow::Borrowed(client),
        unix_ns,
        logged_unix_ns: unix_ns,
        resolution_ns: NS_PER_SECOND,
        utc_offset_seconds: date.utc_offset_seconds,
        duration_ns: None,
        upstream_ns: None,
        host: Cow::Borrowed(host),
        method: Cow::Borrowed(method),
        target: Cow::Borrowed(target),
        status,
        size_bytes: Some(size_bytes),
    })
}

struct Date {
    unix_seconds: i64,
    utc_offset_seconds: i32,
}

/// Finds the first bracket that contains a date; returns the date and the text after it. `rest` starts after the
/// client.
fn find_date(rest: &[u8]) -> Result<(Date, &[u8]), Malformed> {
    let mut reason = Malformed::NoDate;
    for bracket in memchr_iter(b'[', rest).take(BRACKETS_MAX) {
        reason = Malformed::BadDate;
        let (from, to) = (bracket + 1, bracket + 1 + CLF_BYTES);
        let (Some(text), Some(b']')) = (rest.get(from..to), rest.get(to)) else { continue };
        let Some(date) = date(text) else { continue };
        let fields = rest[..bracket].split(|&byte| byte == b' ').filter(|field| !field.is_empty());
        if fields.count() < 2 {
            return Err(Malformed::MissingField);
        }
        return Ok((date, &rest[to + 1..]));
    }
    Err(reason)
}

fn date(text: &[u8]) -> Option<Date> {
    let (civil, utc_offset_seconds) = time::clf(text)?;
    Some(Date { unix_seconds: civil.unix_seconds(utc_offset_seconds)?, utc_offset_seconds })
}

/// Parses ` 200 2326` or ` 304 -`, followed by a space or the end.
fn status_and_size(text: &[u8]) -> Option<(u16, u64)> {
    let [b' ', a, b, c, b' ', size @ ..] = text else { return None };
    let size = &size[..memchr(b' ', size).unwrap_or(size.len())];
    Some((status(&[*a, *b, *c])?, size_bytes(size)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OCTOBER_2000: i64 = 971_211_336; // date -d '10 Oct 2000 13:55:36 -0700' +%s

    fn check(line: &str, expected: (&str, &str, u16, Option<u64>)) {
        let entry = parse(line.as_bytes()).unwrap_or_else(|reason| panic!("{line}: {reason}"));
        let (method, target, status, size_bytes) = expected;
        assert_eq!((&*entry.method, &*entry.target), (method.as_bytes(), target.as_bytes()), "{line}");
        assert_eq!((entry.status, entry.size_bytes), (status, size_bytes), "{line}");
        assert_eq!((&*entry.client, entry.unix_ns), (&b"host"[..], OCTOBER_2000 * NS_PER_SECOND), "{line}");
    }

    fn check_request(request_and_answer: &str, expected: (&str, &str, u16, Option<u64>)) {
        check(&format!("host - - [10/Oct/2000:13:55:36 -0700] {request_and_answer}"), expected);
    }

    fn refused(line: &str, expected: Malformed) {
        assert_eq!(parse(line.as_bytes()), Err(expected), "{line}");
    }

    #[test]
    fn requests_as_real_logs_have_them() {
        check_request(r#""GET /a.gif HTTP/1.0" 200 2326"#, ("GET", "/a.gif", 200, Some(2326)));
        check_request(r#""GET /a HTTP/1.1" 304 - "http://r/" "Agent (X; Y)""#, ("GET", "/a", 304, Some(0)));
        check_request(r#""GET /a" 200 5"#, ("GET", "/a", 200, Some(5)));
        check_request(r#""GET index.html HTTP/V1.0" 200 5"#, ("GET", "index.html", 200, Some(5)));
        check_request(r#""GET /a b  c HTTP/1.0" 404 5"#, ("GET", "/a b  c", 404, Some(5)));
        check_request(r#""GET /a"b" 200 3 HTTP/1.0" 404 5"#, ("GET", "/a\"b", 200, Some(3)));
        check_request(r#""GET /a HTTP/1.0"" 200 5"#, ("GET", "/a", 200, Some(5)));
        check_request(r#""GET /\"x\" HTTP/1.0" 200 5"#, ("GET", r#"/\"x\""#, 200, Some(5)));
        check_request(r#""-" 408 -"#, ("-", "", 408, Some(0)));
        check_request(r#""" 400 0"#, ("", "", 400, Some(0)));
        check_request(r#""GET HTTP/1.0" 400 0"#, ("GET", "", 400, Some(0)));
    }

    #[test]
    fn users_may_hold_spaces_and_brackets() {
        check(
            r#"host - John [Q] Doe [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.0" 200 1"#,
            ("GET", "/", 200, Some(1)),
        );
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        let date = "[10/Oct/2000:13:55:36 -0700]";
        refused("", Malformed::Empty);
        refused("  \t", Malformed::Empty);
        refused("nothing", Malformed::NoDate);
        refused("host - - GET /", Malformed::NoDate);
        refused("host - - [yesterday] \"GET /\" 200 1", Malformed::BadDate);
        refused(&format!("host - {date} \"GET / HTTP/1.0\" 200 1"), Malformed::MissingField);
        refused(&format!("host - - {date} GET /"), Malformed::NoRequest);
        refused(&format!("host - - {date} \"GET index.html 200 3185"), Malformed::NoStatusAndSize);
        refused(&format!("host - - {date} \"GET\" index.html -"), Malformed::NoStatusAndSize);
        refused(&format!("host - - {date} \"GET / HTTP/1.0\" 20 1"), Malformed::NoStatusAndSize);
        refused(
            &format!("host - - {date} \"GET / HTTP/1.0\" 200 99999999999999999999"),
            Malformed::NoStatusAndSize,
        );
        refused(&"x".repeat(LINE_BYTES_MAX + 1), Malformed::TooLong);
    }
}
