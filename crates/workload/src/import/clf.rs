//! One line of Common or Combined Log Format, told apart into its fields as tolerantly as real logs need.
//!
//! `host identity user [10/Oct/2000:13:55:36 -0700] "GET /x HTTP/1.0" 200 2326 …`: whatever follows the
//! size is ignored, so both formats and their extensions are read alike. Requests may hold spaces and
//! quotes: the request ends at the first quote that a status and a size follow.

use memchr::{memchr, memchr_iter, memrchr};
use serde::Serialize;
use thiserror::Error;

use super::lines::LINE_BYTES_MAX;

/// No document is larger than this (1 TiB); a larger number is a damaged line.
const SIZE_BYTES_MAX: u64 = 1 << 40;

/// Years a log can be of: its first and its last moment are less than `trace_file::TIME_NS_MAX` apart.
const YEARS: std::ops::RangeInclusive<i64> = 1970..=2115;

/// The length of `[10/Oct/2000:13:55:36 -0700]`.
const DATE_BYTES: usize = 28;

/// How many opening brackets are tried for a date: user names may hold one.
const BRACKETS_MAX: usize = 8;

/// The fields of a line that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Address or name of the client.
    pub client: &'a [u8],
    /// Seconds since 1970-01-01 00:00 UTC.
    pub unix_seconds: i64,
    /// What the log's clock is ahead of UTC.
    pub utc_offset_seconds: i32,
    /// The first word of the request.
    pub method: &'a [u8],
    /// What lies between method and version; empty where no request was sent (`-`).
    pub target: &'a [u8],
    /// The status code, three digits.
    pub status: u16,
    /// The size of the body; `None` for `-`.
    pub size_bytes: Option<u64>,
}

/// Why a line is not an entry.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Malformed {
    /// Longer than [`LINE_BYTES_MAX`].
    #[error("longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// Nothing on it.
    #[error("empty line")]
    Empty,
    /// No bracket after the client.
    #[error("no [date] after the client")]
    NoDate,
    /// A bracket, but no date in it.
    #[error("the date in brackets is not like [10/Oct/2000:13:55:36 -0700]")]
    BadDate,
    /// Fewer than two fields between client and date.
    #[error("client, identity and user expected before the date")]
    MissingField,
    /// No quote after the date.
    #[error("no request in quotes after the date")]
    NoRequest,
    /// No quote after which a status and a size stand.
    #[error("no closing quote, status and size after the request")]
    NoStatusAndSize,
}

/// Tells a line apart.
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
    let Date { unix_seconds, utc_offset_seconds } = date;
    Ok(Entry { client, unix_seconds, utc_offset_seconds, method, target, status, size_bytes })
}

struct Date {
    unix_seconds: i64,
    utc_offset_seconds: i32,
}

/// The first bracket that holds a date, and what follows it. `rest` begins after the client.
fn find_date(rest: &[u8]) -> Result<(Date, &[u8]), Malformed> {
    let mut reason = Malformed::NoDate;
    for bracket in memchr_iter(b'[', rest).take(BRACKETS_MAX) {
        reason = Malformed::BadDate;
        let Some(text) = rest.get(bracket..bracket + DATE_BYTES) else { break };
        if let Some(date) = parse_date(text) {
            let fields = rest[..bracket].split(|&byte| byte == b' ').filter(|field| !field.is_empty());
            if fields.count() < 2 {
                return Err(Malformed::MissingField);
            }
            return Ok((date, &rest[bracket + DATE_BYTES..]));
        }
    }
    Err(reason)
}

/// `[10/Oct/2000:13:55:36 -0700]`: fixed columns, as every server writes it.
fn parse_date(text: &[u8]) -> Option<Date> {
    let [b'[', d1, d2, b'/', m1, m2, m3, b'/', y @ .., b']'] = text else { return None };
    let [y1, y2, y3, y4, b':', h1, h2, b':', i1, i2, b':', s1, s2, b' ', sign, z1, z2, z3, z4] = y else {
        return None;
    };
    let day = number(&[*d1, *d2])?;
    let month = month(&[*m1, *m2, *m3])?;
    let year = number(&[*y1, *y2, *y3, *y4])?;
    let (hour, minute, second) = (number(&[*h1, *h2])?, number(&[*i1, *i2])?, number(&[*s1, *s2])?);
    let (zone_hours, zone_minutes) = (number(&[*z1, *z2])?, number(&[*z3, *z4])?);
    let in_range = (1..=31).contains(&day) && YEARS.contains(&year) && hour < 24 && minute < 60;
    if !in_range || second > 60 || zone_hours > 18 || zone_minutes > 59 {
        return None;
    }
    let offset = zone_hours * 3600 + zone_minutes * 60;
    let utc_offset_seconds = match sign {
        b'+' => offset,
        b'-' => -offset,
        _ => return None,
    };
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    Some(Date { unix_seconds: seconds - utc_offset_seconds, utc_offset_seconds: utc_offset_seconds as i32 })
}

fn number(digits: &[u8]) -> Option<i64> {
    digits
        .iter()
        .try_fold(0, |value, digit| digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0')))
}

fn month(name: &[u8; 3]) -> Option<i64> {
    let months = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    months.chunks_exact(3).position(|month| month == name).map(|index| index as i64 + 1)
}

/// Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", days_from_civil, for years from 1 on.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// ` 200 2326` or ` 304 -`, then a space or the end.
fn status_and_size(text: &[u8]) -> Option<(u16, Option<u64>)> {
    let [b' ', a, b, c, b' ', size @ ..] = text else { return None };
    let status = number(&[*a, *b, *c])? as u16;
    let size = &size[..memchr(b' ', size).unwrap_or(size.len())];
    if size == b"-" {
        return Some((status, None));
    }
    if size.is_empty() || size.len() > SIZE_BYTES_MAX.ilog10() as usize + 1 {
        return None;
    }
    let size_bytes = number(size)? as u64;
    (size_bytes <= SIZE_BYTES_MAX).then_some((status, Some(size_bytes)))
}

/// The target is all that lies between the first word and a last word that begins with `HTTP/`, so that
/// targets with spaces and HTTP/0.9 requests (no version) are read too.
fn method_and_target(request: &[u8]) -> (&[u8], &[u8]) {
    let Some(space) = memchr(b' ', request) else { return (request, b"") };
    let (method, rest) = request.split_at(space);
    let is_version = |word: &[u8]| word.starts_with(b"HTTP/");
    let target = match memrchr(b' ', rest) {
        Some(last) if is_version(&rest[last + 1..]) => &rest[..last],
        _ => rest,
    };
    (method, target.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OCTOBER_2000: i64 = 971_211_336; // date -d '10 Oct 2000 13:55:36 -0700' +%s

    fn check(line: &str, expected: (&str, &str, u16, Option<u64>)) {
        let entry = parse(line.as_bytes()).unwrap_or_else(|reason| panic!("{line}: {reason}"));
        let (method, target, status, size_bytes) = expected;
        assert_eq!((entry.method, entry.target), (method.as_bytes(), target.as_bytes()), "{line}");
        assert_eq!((entry.status, entry.size_bytes), (status, size_bytes), "{line}");
        assert_eq!((entry.client, entry.unix_seconds), (&b"host"[..], OCTOBER_2000), "{line}");
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
        check_request(r#""GET /a HTTP/1.1" 304 - "http://r/" "Agent (X; Y)""#, ("GET", "/a", 304, None));
        check_request(r#""GET /a" 200 5"#, ("GET", "/a", 200, Some(5)));
        check_request(r#""GET index.html HTTP/V1.0" 200 5"#, ("GET", "index.html", 200, Some(5)));
        check_request(r#""GET /a b  c HTTP/1.0" 404 5"#, ("GET", "/a b  c", 404, Some(5)));
        check_request(r#""GET /a"b" 200 3 HTTP/1.0" 404 5"#, ("GET", "/a\"b", 200, Some(3)));
        check_request(r#""GET /a HTTP/1.0"" 200 5"#, ("GET", "/a", 200, Some(5)));
        check_request(r#""GET /\"x\" HTTP/1.0" 200 5"#, ("GET", r#"/\"x\""#, 200, Some(5)));
        check_request(r#""-" 408 -"#, ("-", "", 408, None));
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
    fn dates_are_of_the_zone_they_name() {
        let check = |date: &str, expected: Option<i64>| {
            let parsed = parse_date(date.as_bytes()).map(|date| date.unix_seconds);
            assert_eq!(parsed, expected, "{date}");
        };
        check("[01/Jan/1970:00:00:00 +0000]", Some(0));
        check("[31/Dec/1969:23:30:00 -0030]", None);
        check("[01/Jan/1970:05:30:00 +0530]", Some(0));
        check("[29/Feb/2000:12:00:00 +0000]", Some(951_825_600));
        check("[31/Dec/2115:23:59:60 +0000]", Some(4_607_280_000));
        check("[01/Jan/2116:00:00:00 +0000]", None);
        check("[32/Jan/2000:12:00:00 +0000]", None);
        check("[01/Foo/2000:12:00:00 +0000]", None);
        check("[01/Jan/2000:24:00:00 +0000]", None);
        check("[01/Jan/2000:12:00:00 ~0000]", None);
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
