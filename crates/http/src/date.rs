//! HTTP dates in whole seconds: reads all three forms, writes IMF-fixdate (RFC 9110, 5.6.7).

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The length of an IMF-fixdate such as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_BYTES: usize = 29;

/// The last second of the year 9999, after which IMF-fixdate has no form.
const SECONDS_MAX: u64 = 253_402_300_799;

/// Seconds since 1970, within the range of HTTP dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HttpDate(u64);

impl HttpDate {
    /// The date at `seconds` since 1970, clamped to the range of HTTP dates.
    pub fn from_seconds(seconds: i64) -> HttpDate {
        HttpDate(u64::try_from(seconds).unwrap_or(0).min(SECONDS_MAX))
    }

    /// Reads any of the three forms; `None` for anything else.
    pub fn parse(value: &[u8]) -> Option<HttpDate> {
        let time = httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok()?;
        Some(HttpDate(time.duration_since(UNIX_EPOCH).ok()?.as_secs()))
    }

    pub fn seconds(self) -> u64 {
        self.0
    }

    pub fn text(self) -> [u8; DATE_BYTES] {
        let mut text = [b' '; DATE_BYTES];
        let time: SystemTime = UNIX_EPOCH + Duration::from_secs(self.0);
        write!(text.as_mut_slice(), "{}", httpdate::HttpDate::from(time))
            .expect("an IMF-fixdate has 29 bytes");
        text
    }

    /// The date in ISO 8601, such as `1994-11-06T08:49:37Z`.
    pub fn iso8601(self) -> String {
        const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
        let text = self.text();
        let part = |range: std::ops::Range<usize>| std::str::from_utf8(&text[range]).expect("it is ASCII");
        let month = MONTHS.find(part(8..11)).expect("one of twelve") / 3 + 1;
        format!("{}-{month:02}-{}T{}Z", part(12..16), part(5..7), part(17..25))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_forms_one_date() {
        for form in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(HttpDate::parse(form.as_bytes()), Some(HttpDate(784_111_777)), "{form}");
        }
        assert_eq!(&HttpDate(784_111_777).text(), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(HttpDate(784_111_777).iso8601(), "1994-11-06T08:49:37Z");
        for bad in ["", "yesterday", "Sun, 06 Nov 1994 08:49:37", "784111777"] {
            assert_eq!(HttpDate::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn far_dates_are_clamped() {
        assert_eq!(&HttpDate::from_seconds(-5).text(), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&HttpDate::from_seconds(i64::MAX).text(), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
