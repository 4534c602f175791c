//! HTTP dates in whole seconds: reads all three forms, writes IMF-fixdate (RFC 9110, 5.6.7).

use std::time::UNIX_EPOCH;

/// The length of an IMF-fixdate such as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_BYTES: usize = 29;

/// The last second of the year 9999, after which IMF-fixdate has no form.
const SECONDS_MAX: u64 = 253_402_300_799;

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// Days from 1 March of the year 0 to 1970, and of 400 years.
const DAYS_BEFORE_1970: u64 = 719_468;
const DAYS_PER_ERA: u64 = 146_097;

const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";

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

    /// Without the machinery of formatting: answers of applications rarely have a date, and get one each.
    pub fn text(self) -> [u8; DATE_BYTES] {
        // The first day was a Thursday.
        const WEEKDAYS: &[u8] = b"ThuFriSatSunMonTueWed";
        let (days, second) = (self.0 / SECONDS_PER_DAY, self.0 % SECONDS_PER_DAY);
        // Years that begin in March have their leap day at the end; 400 of them are an era of the calendar.
        let day = days + DAYS_BEFORE_1970;
        let (era, of_era) = (day / DAYS_PER_ERA, day % DAYS_PER_ERA);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / (DAYS_PER_ERA - 1)) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * of_year + 2) / 153;
        let of_month = of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = (month_from_march + 2) % 12;
        let year = era * 400 + year_of_era + u64::from(month < 2);
        let mut text = *b"Thu, 00 Jan 0000 00:00:00 GMT";
        let mut name = |at: usize, names: &[u8], index: u64| {
            text[at..at + 3].copy_from_slice(&names[3 * index as usize..][..3]);
        };
        name(0, WEEKDAYS, days % 7);
        name(8, MONTHS.as_bytes(), month);
        let numbers = [of_month, year / 100, year % 100, second / 3600, second / 60 % 60, second % 60];
        for (at, number) in [5, 12, 14, 17, 20, 23].into_iter().zip(numbers) {
            (text[at], text[at + 1]) = (b'0' + (number / 10) as u8, b'0' + (number % 10) as u8);
        }
        text
    }

    /// The date in ISO 8601, such as `1994-11-06T08:49:37Z`.
    pub fn iso8601(self) -> String {
        let text = self.text();
        let part = |range: std::ops::Range<usize>| std::str::from_utf8(&text[range]).expect("it is ASCII");
        let month = MONTHS.find(part(8..11)).expect("one of twelve") / 3 + 1;
        format!("{}-{month:02}-{}T{}Z", part(12..16), part(5..7), part(17..25))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
    fn every_day_of_an_era_has_the_librarys_text() {
        // Miri would take a quarter of an hour.
        let step = if cfg!(miri) { 997 } else { 1 };
        for day in (0..146_097).step_by(step).chain([2_932_896]) {
            let seconds = day * SECONDS_PER_DAY + day * 7919 % SECONDS_PER_DAY;
            let expected = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(std::str::from_utf8(&HttpDate(seconds).text()), Ok(&*expected));
        }
    }

    #[test]
    fn far_dates_are_clamped() {
        assert_eq!(&HttpDate::from_seconds(-5).text(), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&HttpDate::from_seconds(i64::MAX).text(), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
