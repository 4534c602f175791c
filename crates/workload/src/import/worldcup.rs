//! Parses the records of the World Cup 1998 logs (M. Arlitt and T. Jin, "1998 World Cup Web Site Access Logs", August
//! 1998): 1.35 G requests in files of 20-byte records, each big-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | seconds since 1970, UTC |
//! | 4 | client |
//! | 4 | object |
//! | 4 | bytes of the response; all ones for `-` |
//! | 1 | method, an index |
//! | 1 | version of HTTP (2 bits), status as an index (6 bits) |
//! | 1 | type of file, an index |
//! | 1 | server: region (3 bits), number (5 bits) |
//!
//! The URLs are not in the records. A target is made of type and object, such as `/image/123`; a dynamic one has a query.

use std::borrow::Cow;

use super::entry::{Entry, Malformed};
use super::time::NS_PER_SECOND;

pub const RECORD_BYTES: usize = 20;

/// The name for `--log-format`.
pub const NAME: &str = "worldcup98";

const METHODS: [&[u8]; 9] =
    [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"TRACE", b"OPTIONS", b"CONNECT", b"OTHER"];

/// The statuses by index; the one after the last stands for all others.
const STATUSES: [u16; 37] = [
    100, 101, 200, 201, 202, 203, 204, 205, 206, 300, 301, 302, 303, 304, 305, 400, 401, 402, 403, 404, 405,
    406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 500, 501, 502, 503, 504, 505,
];

const TYPES: [&str; 13] = [
    "html",
    "image",
    "audio",
    "video",
    "java",
    "formatted",
    "dynamic",
    "text",
    "archive",
    "program",
    "directory",
    "icl",
    "other",
];
const DYNAMIC: u8 = 6;

/// The servers kept the local time of Paris in summer.
const UTC_OFFSET_SECONDS: i32 = 7200;

/// The days of the logs, with a day more at both ends: 1998-04-25 to 1998-07-28.
const DAYS: std::ops::Range<u32> = 893_455_200..901_663_200;

/// The regions of the servers.
const REGIONS: u8 = 4;

/// Records of a sample that are looked at.
const SAMPLE_RECORDS_MAX: usize = 100;

/// Returns true if the sample is of these logs: each of its first whole records has its time within those of the tournament, and
/// indices within their tables. Text is none: its bytes are not so small.
pub fn is_sample(sample: &[u8]) -> bool {
    let mut records = sample.chunks_exact(RECORD_BYTES).take(SAMPLE_RECORDS_MAX).peekable();
    records.peek().is_some()
        && records.all(|record| {
            let [method, status, kind, server] = [record[16], record[17], record[18], record[19]];
            DAYS.contains(&number(record, 0))
                && usize::from(method) < METHODS.len()
                && usize::from(status & 0x3f) <= STATUSES.len()
                && usize::from(kind) < TYPES.len()
                && server >> 5 < REGIONS
        })
}

/// The longest texts of an entry: `4294967295` and `/formatted/4294967295`; a dynamic one has `?` but a shorter type.
const CLIENT_BYTES: usize = 10;
const TARGET_BYTES: usize = 21;

/// Room for the texts of an entry, which are not in its record.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    client: [u8; CLIENT_BYTES],
    target: [u8; TARGET_BYTES],
}

pub fn parse<'t>(record: &[u8], texts: &'t mut Texts) -> Result<Entry<'t>, Malformed> {
    if record.len() != RECORD_BYTES {
        return Err(Malformed::NotARecord);
    }
    let method = METHODS.get(usize::from(record[16])).ok_or(Malformed::NotARecord)?;
    let status = *STATUSES.get(usize::from(record[17] & 0x3f)).ok_or(Malformed::BadStatus)?;
    let kind = TYPES.get(usize::from(record[18])).ok_or(Malformed::NotARecord)?;
    let unix_ns = i64::from(number(record, 0)) * NS_PER_SECOND;
    let size_bytes = Some(number(record, 12)).filter(|size| *size != u32::MAX).unwrap_or(0);
    let mut client = FromEnd::new(&mut texts.client);
    client.decimal(number(record, 4));
    let mut target = FromEnd::new(&mut texts.target);
    if record[18] == DYNAMIC {
        target.text(b"?");
    }
    target.decimal(number(record, 8));
    target.text(b"/");
    target.text(kind.as_bytes());
    target.text(b"/");
    Ok(Entry {
        client: Cow::Borrowed(client.written()),
        unix_ns,
        logged_unix_ns: unix_ns,
        resolution_ns: NS_PER_SECOND,
        utc_offset_seconds: UTC_OFFSET_SECONDS,
        duration_ns: None,
        upstream_ns: None,
        host: Cow::Borrowed(b""),
        method: Cow::Borrowed(method),
        target: Cow::Borrowed(target.written()),
        status,
        size_bytes: Some(size_bytes.into()),
    })
}

fn number(record: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
}

/// A text that is written from its end.
struct FromEnd<'b> {
    buffer: &'b mut [u8],
    start: usize,
}

impl<'b> FromEnd<'b> {
    fn new(buffer: &'b mut [u8]) -> Self {
        FromEnd { start: buffer.len(), buffer }
    }

    fn text(&mut self, text: &[u8]) {
        let end = self.start;
        self.start -= text.len();
        self.buffer[self.start..end].copy_from_slice(text);
    }

    fn decimal(&mut self, mut number: u32) {
        loop {
            self.text(&[b'0' + (number % 10) as u8]);
            number /= 10;
            if number == 0 {
                return;
            }
        }
    }

    fn written(self) -> &'b [u8] {
        &self.buffer[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time: u32, client: u32, object: u32, size: u32, rest: [u8; 4]) -> Vec<u8> {
        let numbers = [time, client, object, size].map(u32::to_be_bytes);
        [numbers.as_flattened(), &rest].concat()
    }

    #[test]
    fn a_record_is_a_request() {
        // HTTP/1.0 200, an image, from server 5 of the second region.
        let bytes = record(894_000_000, 7, 4_294_967_295, 1234, [0, 0x42, 1, 0x25]);
        let mut texts = Texts::default();
        let entry = parse(&bytes, &mut texts).unwrap();
        assert_eq!((&*entry.client, &*entry.target), (&b"7"[..], &b"/image/4294967295"[..]));
        assert_eq!((&*entry.method, entry.status, entry.size_bytes), (&b"GET"[..], 200, Some(1234)));
        assert_eq!((entry.unix_ns, entry.resolution_ns), (894_000_000 * NS_PER_SECOND, NS_PER_SECOND));
        let dynamic = record(894_000_000, 0, 0, u32::MAX, [2, 13, 6, 0]);
        let entry = parse(&dynamic, &mut texts).unwrap();
        assert_eq!((&*entry.client, &*entry.target), (&b"0"[..], &b"/dynamic/0?"[..]));
        assert_eq!((&*entry.method, entry.status, entry.size_bytes), (&b"POST"[..], 304, Some(0)));
        let longest = record(894_000_000, u32::MAX, u32::MAX, 1, [0, 2, 10, 0]);
        let entry = parse(&longest, &mut texts).unwrap();
        assert_eq!((&*entry.client, &*entry.target), (&b"4294967295"[..], &b"/directory/4294967295"[..]));
    }

    #[test]
    fn what_is_outside_the_tables_is_malformed() {
        let refused = |record: &[u8]| parse(record, &mut Texts::default()).unwrap_err();
        let check = |rest: [u8; 4], expected| {
            assert_eq!(refused(&record(894_000_000, 1, 1, 1, rest)), expected);
        };
        check([9, 2, 1, 0], Malformed::NotARecord);
        check([0, 37, 1, 0], Malformed::BadStatus);
        check([0, 0xff, 1, 0], Malformed::BadStatus);
        check([0, 2, 13, 0], Malformed::NotARecord);
        assert_eq!(refused(&[0; 19]), Malformed::NotARecord);
        assert_eq!(refused(&[0; 21]), Malformed::NotARecord);
    }

    #[test]
    fn a_sample_is_told_by_its_times_and_tables() {
        let whole = record(894_000_000, 1, 1, 1, [0, 2, 1, 0x7f]);
        assert!(is_sample(&whole));
        assert!(is_sample(&[&whole[..], &whole[..7]].concat()));
        assert!(!is_sample(&whole[..19]));
        assert!(!is_sample(&record(DAYS.end, 1, 1, 1, [0, 2, 1, 0])));
        assert!(!is_sample(&record(DAYS.start - 1, 1, 1, 1, [0, 2, 1, 0])));
        assert!(!is_sample(&[whole, record(894_000_000, 1, 1, 1, [0, 2, 1, 0x80])].concat()));
        assert!(!is_sample(b"192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 200 1\n"));
    }
}
