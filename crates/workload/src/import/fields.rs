//! The kinds of log fields, and a draft entry that fields fill in one by one.
//!
//! All formats but the fast path use this, whatever the order of their fields. A timestamp or a request may come whole
//! or in parts.

use crate::limits::HOST_BYTES_MAX;
use std::borrow::Cow;

use super::entry::{
    DURATION_NS_MAX, Entry, Malformed, SIZE_BYTES_MAX, method_and_target, size_bytes, split_absolute, status,
};
use super::time::{self, Civil, Decimal, NS_PER_SECOND};

/// The text of a field: part of the line, or a copy where escapes were decoded.
type Text<'a> = Cow<'a, [u8]>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Ignored,
    /// The client's address or name.
    Client,
    /// The client's address and port.
    ClientAndPort,
    /// Addresses from X-Forwarded-For, the client's first; used where no field names the client.
    ForwardedFor,
    /// The address at the other end of the connection, possibly a proxy's; used where nothing else names the client.
    Peer,
    /// The requested host.
    Host,
    /// The server's configured name, used as the host where no [`Field::Host`] exists.
    ServerName,
    Port,
    /// The timestamp, or a part of it.
    Time(Time),
    /// The request's duration, in a unit of this many nanoseconds; of several, the finest counts.
    Duration {
        unit_ns: i64,
    },
    /// A part of the request's duration, and possibly of the upstream's; negative if it did not occur.
    DurationPart {
        unit_ns: i64,
        is_upstream: bool,
    },
    /// The upstream server's response time; the sum of several upstreams.
    Upstream {
        unit_ns: i64,
    },
    /// The duration of W3C logs: seconds with a fraction, else milliseconds.
    TimeTaken,
    /// `GET /x HTTP/1.1`.
    Request,
    /// `GET`.
    Method,
    /// Path and query; an absolute URL also gives the host.
    Target,
    Path,
    /// The query alone, with or without its question mark.
    Query,
    Status,
    /// Squid's `TCP_MISS/200`.
    ResultAndStatus,
    /// The size of the body; a dash means 0.
    Size,
    /// The body's size according to Content-Length; a dash means unknown.
    ContentLength,
    /// The size of head and body, used where the body's size is not logged.
    SizeWithHead,
}

/// The notation of a timestamp or of a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// `10/Oct/2000:13:55:36 -0700`.
    Clf,
    /// `10/Oct/2000:13:55:36.123`.
    ClfWithoutZone,
    /// `2000-10-10T13:55:36.123-07:00`.
    Iso8601,
    /// Time since 1970, in units of this many nanoseconds.
    Epoch {
        unit_ns: i64,
    },
    /// Any of the above, recognised by its form.
    Any,
    /// `2000-10-10`.
    Date,
    /// `13:55:36`.
    Clock,
    /// A fraction of a second to add, in a unit of this many nanoseconds.
    Fraction {
        unit_ns: i64,
    },
    Year,
    Month,
    MonthName,
    Day,
    Hour,
    Minute,
    Second,
    Zone,
}

/// Which end of a request its timestamp marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stamp {
    #[default]
    Start,
    /// The end: the start follows by subtracting the duration.
    End,
}

/// Epoch numbers from here on are milliseconds, from a thousand times this on microseconds, then nanoseconds: the year
/// 5138 in seconds is 1973 in milliseconds.
const EPOCH_UNIT_STEP: i64 = 100_000_000_000;

/// The fields of a line so far.
#[derive(Default)]
pub struct Draft<'a> {
    client: Text<'a>,
    forwarded_for: Text<'a>,
    peer: Text<'a>,
    host: Text<'a>,
    server_name: Text<'a>,
    method: Option<Text<'a>>,
    target: Option<Text<'a>>,
    path: Option<Text<'a>>,
    query: Text<'a>,
    status: Option<u16>,
    size_bytes: Option<u64>,
    size_with_head_bytes: Option<u64>,
    duration_ns: Option<i64>,
    duration_resolution_ns: i64,
    upstream_ns: Option<i64>,
    civil: Option<Civil>,
    civil_fraction_ns: i64,
    epoch_ns: Option<i64>,
    fraction_ns: i64,
    resolution_ns: Option<i64>,
    utc_offset_seconds: i32,
}

impl<'a> Draft<'a> {
    /// Sets a field from its text. A dash or empty text means unknown, except for a body's size.
    pub fn set(&mut self, field: Field, text: Text<'a>) -> Result<(), Malformed> {
        if matches!(&*text, b"" | b"-")
            && !matches!((field, &*text), (Field::Request, _) | (Field::Size, b"-"))
        {
            return Ok(());
        }
        match field {
            Field::Ignored => {}
            Field::Client => self.client = text,
            Field::ClientAndPort => {
                self.client = map(text, |text| &text[..memchr::memrchr(b':', text).unwrap_or(text.len())])
            }
            Field::ForwardedFor => self.forwarded_for = first_address(text),
            Field::Peer => self.peer = text,
            Field::Host => self.host = text,
            Field::ServerName => self.server_name = text,
            Field::Port => drop(time::number(&text).ok_or(Malformed::BadPort)?),
            Field::Time(form) => self.set_time(form, &text).ok_or(Malformed::BadTime)?,
            Field::Duration { unit_ns } => self.set_duration(&text, unit_ns)?,
            Field::DurationPart { unit_ns, is_upstream } => {
                if text.first() != Some(&b'-') {
                    let ns = duration_ns(&text, unit_ns)?;
                    self.duration_ns = Some(added(self.duration_ns, ns)?);
                    self.upstream_ns = if is_upstream { Some(ns) } else { self.upstream_ns };
                }
            }
            Field::Upstream { unit_ns } => self.upstream_ns = upstream_ns(&text, unit_ns)?,
            Field::TimeTaken => {
                let is_seconds = memchr::memchr(b'.', &text).is_some();
                let unit_ns = if is_seconds { NS_PER_SECOND } else { NS_PER_SECOND / 1000 };
                self.set_duration(&text, unit_ns)?;
            }
            Field::Request => {
                let (method, target) = split(text, method_and_target);
                (self.method, self.target) = (Some(method), Some(target));
            }
            Field::Method => self.method = Some(text),
            Field::Target => self.target = Some(text),
            Field::Path => self.path = Some(text),
            Field::Query => self.query = text,
            Field::Status => self.status = Some(logged_status(&text).ok_or(Malformed::BadStatus)?),
            Field::ResultAndStatus => {
                let slash = memchr::memchr(b'/', &text).ok_or(Malformed::BadStatus)?;
                self.status = Some(status(&text[slash + 1..]).ok_or(Malformed::BadStatus)?);
            }
            Field::Size | Field::ContentLength => self.size_bytes = Some(whole_bytes(&text)?),
            Field::SizeWithHead => self.size_with_head_bytes = Some(whole_bytes(&text)?),
        }
        Ok(())
    }

    fn set_time(&mut self, form: Time, text: &[u8]) -> Option<()> {
        let number = || time::number(text);
        match form {
            Time::Clf => {
                let (civil, offset) = time::clf(text)?;
                (self.civil, self.utc_offset_seconds) = (Some(civil), offset);
            }
            Time::ClfWithoutZone => {
                let (civil, fraction) = time::clf_without_zone(text)?;
                self.civil = Some(civil);
                self.set_civil_fraction(fraction);
            }
            Time::Iso8601 => {
                let (civil, fraction, offset) = time::iso_8601(text)?;
                self.civil = Some(civil);
                self.utc_offset_seconds = offset.unwrap_or(self.utc_offset_seconds);
                self.set_civil_fraction(fraction);
            }
            Time::Epoch { unit_ns } => {
                let Decimal { ns, resolution_ns } = time::decimal(text, unit_ns)?;
                self.epoch_ns = Some(ns);
                self.refine(resolution_ns);
            }
            Time::Any => return self.set_time(guess(text)?, text),
            Time::Date => {
                let date = time::date(text)?;
                let civil = self.civil();
                (civil.year, civil.month, civil.day) = (date.year, date.month, date.day);
            }
            Time::Clock => {
                let (clock, fraction) = time::time_of_day(text)?;
                let civil = self.civil();
                (civil.hour, civil.minute, civil.second) = (clock.hour, clock.minute, clock.second);
                self.set_civil_fraction(fraction);
            }
            Time::Fraction { unit_ns } => {
                let ns = number()?.checked_mul(unit_ns).filter(|ns| *ns < NS_PER_SECOND)?;
                self.fraction_ns = ns;
                self.refine(unit_ns);
            }
            Time::Year => self.civil().year = number()?,
            Time::Month => self.civil().month = number()?,
            Time::MonthName => self.civil().month = time::month(text)?,
            Time::Day => self.civil().day = time::number(text.trim_ascii_start())?,
            Time::Hour => self.civil().hour = number()?,
            Time::Minute => self.civil().minute = number()?,
            Time::Second => self.civil().second = number()?,
            Time::Zone => self.utc_offset_seconds = time::zone(text)?,
        }
        Some(())
    }

    fn set_duration(&mut self, text: &[u8], unit_ns: i64) -> Result<(), Malformed> {
        let Decimal { ns, resolution_ns } = duration(text, unit_ns)?;
        if self.duration_ns.is_none() || resolution_ns <= self.duration_resolution_ns {
            (self.duration_ns, self.duration_resolution_ns) = (Some(ns), resolution_ns);
        }
        Ok(())
    }

    fn civil(&mut self) -> &mut Civil {
        self.civil.get_or_insert_default()
    }

    fn set_civil_fraction(&mut self, fraction: Decimal) {
        self.civil_fraction_ns = fraction.ns;
        self.refine(fraction.resolution_ns);
    }

    /// Keeps the finest resolution of several timestamps.
    fn refine(&mut self, resolution_ns: i64) {
        let known = self.resolution_ns.unwrap_or(i64::MAX);
        self.resolution_ns = Some(resolution_ns.min(known));
    }

    /// Builds the entry if all required fields are present; `stamp` tells what the timestamp marks.
    pub fn entry(self, stamp: Stamp) -> Result<Entry<'a>, Malformed> {
        let logged_unix_ns = self.unix_ns()?;
        let status = self.status.ok_or(Malformed::MissingValue)?;
        let target = match (self.target, self.path) {
            (Some(target), _) => target,
            (None, Some(path)) => with_query(path, &self.query),
            (None, None) => return Err(Malformed::MissingValue),
        };
        if memchr::memchr(b'\n', &target).is_some() {
            return Err(Malformed::BadTarget); // only JSON can say one
        }
        let host = if self.host.is_empty() { self.server_name } else { self.host };
        let (host, target) = without_authority(host, target);
        if host.len() > HOST_BYTES_MAX {
            return Err(Malformed::LongHost);
        }
        let clients = [self.client, self.forwarded_for, self.peer];
        let led_back_ns = if stamp == Stamp::End { self.duration_ns.unwrap_or(0) } else { 0 };
        Ok(Entry {
            client: clients.into_iter().find(|client| !client.is_empty()).unwrap_or_default(),
            unix_ns: logged_unix_ns - led_back_ns,
            logged_unix_ns,
            resolution_ns: self.resolution_ns.unwrap_or(NS_PER_SECOND),
            utc_offset_seconds: self.utc_offset_seconds,
            duration_ns: self.duration_ns,
            upstream_ns: self.upstream_ns,
            host,
            method: self.method.unwrap_or_default(),
            target,
            status,
            size_bytes: self.size_bytes.or(self.size_with_head_bytes),
        })
    }

    fn unix_ns(&self) -> Result<i64, Malformed> {
        if let Some(epoch_ns) = self.epoch_ns {
            return Ok(epoch_ns + self.fraction_ns);
        }
        let civil = self.civil.ok_or(Malformed::MissingValue)?;
        let seconds = civil.unix_seconds(self.utc_offset_seconds).ok_or(Malformed::BadTime)?;
        Ok(seconds * NS_PER_SECOND + self.civil_fraction_ns + self.fraction_ns)
    }
}

/// Guesses the notation of a timestamp.
fn guess(text: &[u8]) -> Option<Time> {
    if text.get(2) == Some(&b'/') {
        return Some(Time::Clf);
    }
    if text.get(4) == Some(&b'-') {
        return Some(Time::Iso8601);
    }
    let whole = &text[..memchr::memchr2(b'.', b'e', text).unwrap_or(text.len())];
    let (mut number, mut unit_ns) = (time::number(whole)?, NS_PER_SECOND);
    while number >= EPOCH_UNIT_STEP && unit_ns > 1 {
        (number, unit_ns) = (number / 1000, unit_ns / 1000);
    }
    Some(Time::Epoch { unit_ns })
}

fn duration_ns(text: &[u8], unit_ns: i64) -> Result<i64, Malformed> {
    duration(text, unit_ns).map(|duration| duration.ns)
}

/// A duration in `unit_ns`, unless the text ends in its own unit (`0.093s`, `1.5ms`).
fn duration(text: &[u8], unit_ns: i64) -> Result<Decimal, Malformed> {
    let units: [(&[u8], i64); 5] =
        [(b"ns", 1), ("µs".as_bytes(), 1000), (b"us", 1000), (b"ms", 1_000_000), (b"s", NS_PER_SECOND)];
    let own = units.into_iter().find_map(|(suffix, unit_ns)| Some((text.strip_suffix(suffix)?, unit_ns)));
    let (digits, unit_ns) = own.unwrap_or((text, unit_ns));
    let decimal = time::decimal(digits, unit_ns).filter(|decimal| decimal.ns <= DURATION_NS_MAX);
    decimal.ok_or(Malformed::BadDuration)
}

/// Parses a status. Proxies log 0 or -1 when the client left before the response.
fn logged_status(text: &[u8]) -> Option<u16> {
    if matches!(text, b"0" | b"-1") { Some(0) } else { status(text) }
}

fn added(before: Option<i64>, ns: i64) -> Result<i64, Malformed> {
    let sum = before.unwrap_or(0) + ns;
    if sum <= DURATION_NS_MAX { Ok(sum) } else { Err(Malformed::BadDuration) }
}

/// Sums upstream times. nginx logs `0.010, 0.200 : 0.005` for several servers, and a dash for one that did not answer.
fn upstream_ns(text: &[u8], unit_ns: i64) -> Result<Option<i64>, Malformed> {
    let times = text.split(|byte| matches!(byte, b',' | b':' | b' ')).filter(|time| !time.is_empty());
    times
        .filter(|time| time[0] != b'-')
        .try_fold(None, |sum, time| added(sum, duration_ns(time, unit_ns)?).map(Some))
}

/// Parses a size given as a number or a string of digits; JSON writers may add a fraction of zero.
fn whole_bytes(text: &[u8]) -> Result<u64, Malformed> {
    let text = text.strip_suffix(b".0").unwrap_or(text);
    debug_assert!(SIZE_BYTES_MAX.ilog10() < 18, "a size is a number");
    size_bytes(text).ok_or(Malformed::BadSize)
}

/// `client, proxy1, proxy2`.
fn first_address(text: Text<'_>) -> Text<'_> {
    map(text, |text| text[..memchr::memchr(b',', text).unwrap_or(text.len())].trim_ascii())
}

/// Splits a text in two; copies only if the text is already a copy.
fn split<'a>(text: Text<'a>, parts: impl Fn(&[u8]) -> (&[u8], &[u8])) -> (Text<'a>, Text<'a>) {
    match text {
        Cow::Borrowed(text) => {
            let (one, other) = parts(text);
            (Cow::Borrowed(one), Cow::Borrowed(other))
        }
        Cow::Owned(text) => {
            let (one, other) = parts(&text);
            (Cow::Owned(one.to_vec()), Cow::Owned(other.to_vec()))
        }
    }
}

/// Maps a text to a part of it; copies only if the text is already a copy.
fn map(text: Text<'_>, part: impl Fn(&[u8]) -> &[u8]) -> Text<'_> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(part(text)),
        Cow::Owned(text) => Cow::Owned(part(&text).to_vec()),
    }
}

fn with_query<'a>(path: Text<'a>, query: &[u8]) -> Text<'a> {
    let query = query.strip_prefix(b"?").unwrap_or(query);
    if query.is_empty() { path } else { Cow::Owned([&path, &b"?"[..], query].concat()) }
}

/// Returns the host named by the target if it has one, because a proxy's log records it nowhere else.
fn without_authority<'a>(host: Text<'a>, target: Text<'a>) -> (Text<'a>, Text<'a>) {
    if split_absolute(&target).0.is_empty() { (host, target) } else { split(target, split_absolute) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(fields: &[(Field, &'static str)], stamp: Stamp) -> Result<Entry<'static>, Malformed> {
        let mut draft = Draft::default();
        for (field, text) in fields {
            draft.set(*field, Cow::Borrowed(text.as_bytes()))?;
        }
        draft.entry(stamp)
    }

    const NEEDED: [(Field, &str); 3] =
        [(Field::Time(Time::Any), "100.25"), (Field::Request, "GET /a HTTP/1.1"), (Field::Status, "200")];

    fn with(fields: &[(Field, &'static str)]) -> Result<Entry<'static>, Malformed> {
        entry(&[&NEEDED, fields].concat(), Stamp::End)
    }

    #[test]
    fn the_start_is_the_end_less_the_duration() {
        let taken = (Field::Duration { unit_ns: NS_PER_SECOND }, "0.05");
        let ended = with(&[taken]).unwrap();
        assert_eq!((ended.unix_ns, ended.logged_unix_ns), (100_200_000_000, 100_250_000_000));
        let began = entry(&[&NEEDED[..], &[taken]].concat(), Stamp::Start).unwrap();
        assert_eq!((began.unix_ns, began.resolution_ns), (100_250_000_000, 10_000_000));
        for (text, expected) in
            [("0.093s", 93_000_000), ("1.5ms", 1_500_000), ("2µs", 2000), ("1e-05", 10_000)]
        {
            let found = with(&[(Field::Duration { unit_ns: NS_PER_SECOND }, text)]).unwrap();
            assert_eq!(found.duration_ns, Some(expected), "{text}");
        }
        assert_eq!(
            with(&[(Field::Duration { unit_ns: NS_PER_SECOND }, "604801")]),
            Err(Malformed::BadDuration)
        );
    }

    #[test]
    fn times_of_parts_and_of_several_servers_are_added() {
        let part = |text, is_upstream| (Field::DurationPart { unit_ns: NS_PER_SECOND, is_upstream }, text);
        let found = with(&[part("0.001", false), part("0.020", true), part("0.300", false)]).unwrap();
        assert_eq!((found.duration_ns, found.upstream_ns), (Some(321_000_000), Some(20_000_000)));
        let found = with(&[part("-1", false), part("-1", true), part("-1", false)]).unwrap();
        assert_eq!((found.duration_ns, found.upstream_ns), (None, None));
        assert_eq!(with(&[part("604800", false), part("1", false)]), Err(Malformed::BadDuration));
        for (text, expected) in [
            ("0.010, 0.200 : 0.005", Some(215_000_000)),
            ("-", None),
            ("-, 0.5", Some(500_000_000)),
            ("0.000", Some(0)),
        ] {
            let found = with(&[(Field::Upstream { unit_ns: NS_PER_SECOND }, text)]).unwrap();
            assert_eq!(found.upstream_ns, expected, "{text}");
        }
    }

    #[test]
    fn an_answer_that_never_came_has_no_status() {
        for text in ["0", "-1", "000"] {
            let found = entry(&[NEEDED[0], NEEDED[1], (Field::Status, text)], Stamp::Start).unwrap();
            assert_eq!(found.status, 0, "{text}");
        }
    }

    #[test]
    fn moments_are_guessed_by_their_look() {
        let check = |text: &'static str, expected_ns: i64| {
            let fields = [(Field::Time(Time::Any), text), NEEDED[1], NEEDED[2]];
            assert_eq!(entry(&fields, Stamp::Start).unwrap().unix_ns, expected_ns, "{text}");
        };
        let october_2000 = 971_211_336;
        check("10/Oct/2000:13:55:36 -0700", october_2000 * NS_PER_SECOND);
        check("2000-10-10T20:55:36.5Z", october_2000 * NS_PER_SECOND + 500_000_000);
        check("971211336", october_2000 * NS_PER_SECOND);
        check("971211336123", october_2000 * NS_PER_SECOND + 123_000_000);
        check("971211336123456", october_2000 * NS_PER_SECOND + 123_456_000);
        check("971211336123456789", october_2000 * NS_PER_SECOND + 123_456_789);
    }

    #[test]
    fn a_request_may_come_in_parts() {
        let time = NEEDED[0];
        let parts = [time, NEEDED[2], (Field::Method, "GET"), (Field::Path, "/a"), (Field::Query, "b=c")];
        let found = entry(&parts, Stamp::Start).unwrap();
        assert_eq!((&*found.method, &*found.target), (&b"GET"[..], &b"/a?b=c"[..]));
        assert_eq!(entry(&parts[..4], Stamp::Start).unwrap().target, &b"/a"[..]);
        assert_eq!(entry(&parts[..3], Stamp::Start), Err(Malformed::MissingValue));
        assert_eq!(entry(&parts[1..], Stamp::Start), Err(Malformed::MissingValue));
    }

    #[test]
    fn the_better_source_of_a_value_wins() {
        let found = with(&[
            (Field::ServerName, "default"),
            (Field::ForwardedFor, "10.1.1.1, 10.2.2.2"),
            (Field::SizeWithHead, "300"),
        ]);
        let found = found.unwrap();
        assert_eq!(
            (&*found.host, &*found.client, found.size_bytes),
            (&b"default"[..], &b"10.1.1.1"[..], Some(300))
        );
        let found = with(&[
            (Field::Host, "site"),
            (Field::ServerName, "default"),
            (Field::Client, "::1"),
            (Field::ForwardedFor, "10.1.1.1"),
            (Field::Size, "100"),
            (Field::SizeWithHead, "300"),
        ]);
        let found = found.unwrap();
        assert_eq!((&*found.host, &*found.client, found.size_bytes), (&b"site"[..], &b"::1"[..], Some(100)));
        let client = |fields: &[(Field, &'static str)]| with(fields).unwrap().client;
        let (own, peer) = ((Field::Client, "::1"), (Field::Peer, "10.3.3.3"));
        assert_eq!(&*client(&[own, peer]), b"::1");
        assert_eq!(&*client(&[(Field::ForwardedFor, "10.1.1.1"), peer]), b"10.1.1.1");
        assert_eq!(&*client(&[peer]), b"10.3.3.3");
        let micros = (Field::Duration { unit_ns: 1000 }, "215300");
        let seconds = (Field::Duration { unit_ns: NS_PER_SECOND }, "0");
        for durations in [[micros, seconds], [seconds, micros]] {
            assert_eq!(with(&durations).unwrap().duration_ns, Some(215_300_000));
        }
        let absolute = [NEEDED[0], NEEDED[2], (Field::Method, "GET"), (Field::Target, "http://h:81/x")];
        let found = entry(&absolute, Stamp::Start).unwrap();
        assert_eq!((&*found.host, &*found.target), (&b"h:81"[..], &b"/x"[..]));
    }

    #[test]
    fn values_that_are_none_are_named() {
        let check = |field, text, expected| assert_eq!(with(&[(field, text)]), Err(expected), "{text}");
        check(Field::Status, "20", Malformed::BadStatus);
        check(Field::ResultAndStatus, "TCP_MISS", Malformed::BadStatus);
        check(Field::Size, "1x", Malformed::BadSize);
        check(Field::Port, "http", Malformed::BadPort);
        check(Field::Time(Time::Any), "yesterday", Malformed::BadTime);
        check(Field::Target, "/a\nb", Malformed::BadTarget);
    }
}
