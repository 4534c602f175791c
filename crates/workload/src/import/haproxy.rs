//! Parses HAProxy's HTTP log (`option httplog`, `httpslog`), with or without a syslog prefix.
//!
//! `Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109
//! 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"`: the moment at which the request came, by the
//! proxy's own clock, which has no zone; five times in milliseconds, of which the fourth is the server's until its head and
//! the last one is the request's (-1: not reached; `+`: logged before the end); the bytes sent including the head.
//!
//! The bracket with the moment is looked for, so what stands before the client does not matter. Captured headers in
//! braces may be there or not: the request is what begins at the next quote.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memrchr};

use super::entry::Malformed;
use super::fields::{Draft, Field, Time};
use super::time::NS_PER_SECOND;

/// The most brackets to try for the timestamp: a process number has one, and a syslog daemon may add others.
const BRACKETS_MAX: usize = 8;

/// The length of `06/Feb/2009:12:14:14.655`.
const MOMENT_BYTES: usize = 24;

const MILLISECOND_NS: i64 = NS_PER_SECOND / 1000;

/// Parses a line into a draft.
pub fn fill<'a>(draft: &mut Draft<'a>, line: &'a [u8]) -> Result<(), Malformed> {
    let bracket =
        memchr_iter(b'[', line).take(BRACKETS_MAX).find(|at| line.get(at + 1 + MOMENT_BYTES) == Some(&b']'));
    let (before, rest) = line.split_at(bracket.ok_or(Malformed::NoDate)?);
    let (moment, rest) = rest[1..].split_at(MOMENT_BYTES);
    draft.set(Field::Time(Time::ClfWithoutZone), Cow::Borrowed(moment))?;
    let before = before.trim_ascii_end();
    let client = &before[memrchr(b' ', before).map_or(0, |blank| blank + 1)..];
    draft.set(Field::ClientAndPort, Cow::Borrowed(client))?;

    let mut rest = &rest[1..];
    let mut next = || {
        rest = rest.trim_ascii_start();
        let word;
        (word, rest) = rest.split_at(memchr(b' ', rest).unwrap_or(rest.len()));
        if word.is_empty() { Err(Malformed::Separator) } else { Ok(word) }
    };
    let (_frontend, _backend_and_server) = (next()?, next()?);
    times(draft, next()?)?;
    draft.set(Field::Status, Cow::Borrowed(next()?))?;
    let bytes = next()?;
    draft.set(Field::SizeWithHead, Cow::Borrowed(bytes.strip_prefix(b"+").unwrap_or(bytes)))?;

    let quote = memchr(b'"', rest).ok_or(Malformed::NoRequest)?;
    let request = &rest[quote + 1..];
    // A syslog daemon may cut a long line off. HAProxy writes a quote within a request as #22.
    let request = &request[..memchr(b'"', request).unwrap_or(request.len())];
    draft.set(Field::Request, Cow::Borrowed(if request == b"<BADREQ>" { b"" } else { request }))
}

/// Parses `10/0/30/69/109`: request wait, queue, connect, server response, total.
fn times<'a>(draft: &mut Draft<'a>, text: &'a [u8]) -> Result<(), Malformed> {
    let times: Vec<&[u8]> = text.split(|&byte| byte == b'/').collect();
    let [_, _, _, server, all] = times[..] else { return Err(Malformed::BadDuration) };
    let all = all.strip_prefix(b"+").unwrap_or(all);
    draft.set(Field::DurationPart { unit_ns: MILLISECOND_NS, is_upstream: false }, Cow::Borrowed(all))?;
    draft.set(Field::Upstream { unit_ns: MILLISECOND_NS }, Cow::Borrowed(server))
}
