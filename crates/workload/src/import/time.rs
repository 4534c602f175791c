//! Timestamps as logs write them: the calendar, the named notations, and decimal seconds.
//!
//! Every function accepts exactly its notation and returns `None` for any other. The resolution matters as much as the
//! value: a timestamp of whole seconds is spread within its second later.

/// The years a log may cover: its first and last times are less than `trace_file::TIME_NS_MAX` apart.
pub const YEARS: std::ops::RangeInclusive<i64> = 1970..=2115;

pub const NS_PER_SECOND: i64 = 1_000_000_000;

/// The latest time in seconds since 1970: a day after the last year, for zones behind UTC.
pub const UNIX_SECONDS_MAX: i64 = 4_607_280_000 + 86_400;

/// The largest UTC offset, in hours.
const ZONE_HOURS_MAX: i64 = 18;

/// The length of `10/Oct/2000:13:55:36 -0700`.
pub const CLF_BYTES: usize = 26;

/// The length of `10/Oct/2000:13:55:36`.
const CLF_CLOCK_BYTES: usize = 20;

/// A decimal number in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    pub ns: i64,
    /// The value of its last digit.
    pub resolution_ns: i64,
}

/// A date and time of day, possibly invalid, without a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Civil {
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
}

impl Civil {
    /// Seconds since 1970 on a clock `offset_seconds` ahead of UTC; `None` for an invalid date.
    pub fn unix_seconds(&self, offset_seconds: i32) -> Option<i64> {
        let Civil { year, month, day, hour, minute, second } = *self;
        let date = YEARS.contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
        // 60 is a leap second.
        let clock = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
        let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
        (date && clock).then_some(seconds - i64::from(offset_seconds))
    }
}

/// Parses `10/Oct/2000:13:55:36 -0700` by fixed columns; returns the date and the UTC offset.
pub fn clf(text: &[u8]) -> Option<(Civil, i32)> {
    let [clock @ .., b' ', z0, z1, z2, z3, z4] = text else { return None };
    Some((clf_clock(clock)?, zone(&[*z0, *z1, *z2, *z3, *z4])?))
}

/// Parses `10/Oct/2000:13:55:36.123` with any number of fractional digits.
pub fn clf_without_zone(text: &[u8]) -> Option<(Civil, Decimal)> {
    let (clock, fraction) = text.split_at_checked(CLF_CLOCK_BYTES)?;
    let digits = fraction.strip_prefix(b".").filter(|digits| !digits.is_empty())?;
    Some((clf_clock(clock)?, fraction_of(digits, NS_PER_SECOND)?))
}

/// Parses `10/Oct/2000:13:55:36`.
fn clf_clock(text: &[u8]) -> Option<Civil> {
    let [d1, d2, b'/', m1, m2, m3, b'/', y @ ..] = text else { return None };
    let [y1, y2, y3, y4, b':', h1, h2, b':', i1, i2, b':', s1, s2] = y else { return None };
    Some(Civil {
        year: number(&[*y1, *y2, *y3, *y4])?,
        month: month(&[*m1, *m2, *m3])?,
        day: number(&[*d1, *d2])?,
        hour: number(&[*h1, *h2])?,
        minute: number(&[*i1, *i2])?,
        second: number(&[*s1, *s2])?,
    })
}

/// Parses `2000-10-10T13:55:36` (or with a space for the T), with an optional fraction and zone (ISO 8601, RFC 3339);
/// returns the date, the fraction and the UTC offset if given.
pub fn iso_8601(text: &[u8]) -> Option<(Civil, Decimal, Option<i32>)> {
    let (day, rest) = text.split_at_checked(10)?;
    let rest =
        rest.strip_prefix(b"T").or_else(|| rest.strip_prefix(b" ")).or_else(|| rest.strip_prefix(b"t"))?;
    let zone_at = rest.iter().position(|byte| matches!(byte, b'Z' | b'z' | b'+' | b'-'));
    let (clock, zone_text) = rest.split_at(zone_at.unwrap_or(rest.len()));
    let offset_seconds = if zone_text.is_empty() { None } else { Some(zone(zone_text)?) };
    let (clock, fraction) = time_of_day(clock)?;
    let civil = Civil { hour: clock.hour, minute: clock.minute, second: clock.second, ..date(day)? };
    Some((civil, fraction, offset_seconds))
}

/// Parses `2000-10-10` as midnight.
pub fn date(text: &[u8]) -> Option<Civil> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text else { return None };
    let year = number(&[*y1, *y2, *y3, *y4])?;
    Some(Civil { year, month: number(&[*m1, *m2])?, day: number(&[*d1, *d2])?, ..Civil::default() })
}

/// Parses `13:55:36` with an optional fraction; sets only the time of day.
pub fn time_of_day(text: &[u8]) -> Option<(Civil, Decimal)> {
    let [h1, h2, b':', i1, i2, b':', s1, s2, fraction @ ..] = text else { return None };
    let (hour, minute, second) = (number(&[*h1, *h2])?, number(&[*i1, *i2])?, number(&[*s1, *s2])?);
    let fraction = match fraction {
        [] => Decimal { ns: 0, resolution_ns: NS_PER_SECOND },
        [b'.' | b',', digits @ ..] if !digits.is_empty() => fraction_of(digits, NS_PER_SECOND)?,
        _ => return None,
    };
    Some((Civil { hour, minute, second, ..Civil::default() }, fraction))
}

/// Parses `-0700`, `-07:00` or `Z` into seconds ahead of UTC.
pub fn zone(text: &[u8]) -> Option<i32> {
    let (sign, digits) = match text {
        b"Z" | b"z" => return Some(0),
        [sign, h1, h2, b':', m1, m2] | [sign, h1, h2, m1, m2] => (sign, [*h1, *h2, *m1, *m2]),
        [sign, h1, h2] => (sign, [*h1, *h2, b'0', b'0']),
        _ => return None,
    };
    let (hours, minutes) = (number(&digits[..2])?, number(&digits[2..])?);
    if hours > ZONE_HOURS_MAX || minutes > 59 {
        return None;
    }
    let seconds = (hours * 3600 + minutes * 60) as i32;
    match sign {
        b'+' => Some(seconds),
        b'-' => Some(-seconds),
        _ => None,
    }
}

/// The number of a month's English three-letter abbreviation.
pub fn month(name: &[u8]) -> Option<i64> {
    let months = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    months.chunks_exact(3).position(|month| month == name).map(|index| index as i64 + 1)
}

/// Parses a number in units of `unit_ns`, with optional fraction and exponent, within the range of a timestamp: `12`,
/// `1700000000.123`, `1.5e-05`.
pub fn decimal(text: &[u8], unit_ns: i64) -> Option<Decimal> {
    let point = memchr::memchr(b'.', text);
    let (whole, fraction) = text.split_at(point.unwrap_or(text.len()));
    let plain = || {
        let whole = if whole.is_empty() && fraction.len() > 1 { 0 } else { number(whole)? };
        let whole_ns = whole.checked_mul(unit_ns)?;
        let fraction = match fraction {
            [] | [b'.'] => Decimal { ns: 0, resolution_ns: unit_ns },
            digits => fraction_of(&digits[1..], unit_ns)?,
        };
        Some(Decimal { ns: whole_ns.checked_add(fraction.ns)?, ..fraction })
    };
    plain()
        .or_else(|| scientific(text, unit_ns))
        .filter(|decimal| decimal.ns <= UNIX_SECONDS_MAX * NS_PER_SECOND)
}

fn scientific(text: &[u8], unit_ns: i64) -> Option<Decimal> {
    memchr::memchr2(b'e', b'E', text)?;
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let ns = value * unit_ns as f64;
    (0.0..9.2e18).contains(&ns).then_some(Decimal { ns: ns as i64, resolution_ns: 1 })
}

/// Parses the digits after the decimal point, in units of `unit_ns`, truncated to a nanosecond.
fn fraction_of(digits: &[u8], unit_ns: i64) -> Option<Decimal> {
    let (mut ns, mut place) = (0, unit_ns);
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        place /= 10;
        ns += i64::from(digit - b'0') * place;
    }
    Some(Decimal { ns, resolution_ns: place.max(1) })
}

/// Formats a time to the second in ISO 8601, on a clock `offset_seconds` ahead of UTC.
pub fn written(unix_ns: i64, offset_seconds: i32) -> String {
    let seconds = unix_ns.div_euclid(NS_PER_SECOND) + i64::from(offset_seconds);
    let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
    let clock = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    let sign = if offset_seconds < 0 { '-' } else { '+' };
    let (zone_hours, zone_minutes) = (offset_seconds.abs() / 3600, offset_seconds.abs() / 60 % 60);
    let date = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    format!("{date}{sign}{zone_hours:02}:{zone_minutes:02}")
}

/// Parses decimal digits; `None` for anything else and for more than eighteen digits.
pub fn number(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    digits
        .iter()
        .try_fold(0, |value, digit| digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0')))
}

/// Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", days_from_civil, for years from 1 on.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clf_seconds(text: &str) -> Option<i64> {
        clf(text.as_bytes()).and_then(|(civil, offset)| civil.unix_seconds(offset))
    }

    #[test]
    fn dates_are_of_the_zone_they_name() {
        let check = |text: &str, expected: Option<i64>| assert_eq!(clf_seconds(text), expected, "{text}");
        check("01/Jan/1970:00:00:00 +0000", Some(0));
        check("31/Dec/1969:23:30:00 -0030", None);
        check("01/Jan/1970:05:30:00 +0530", Some(0));
        check("29/Feb/2000:12:00:00 +0000", Some(951_825_600));
        check("31/Dec/2115:23:59:60 +0000", Some(4_607_280_000));
        check("01/Jan/2116:00:00:00 +0000", None);
        check("32/Jan/2000:12:00:00 +0000", None);
        check("01/Foo/2000:12:00:00 +0000", None);
        check("01/Jan/2000:24:00:00 +0000", None);
        check("01/Jan/2000:12:00:00 ~0000", None);
        check("01/Jan/2000:12:00:00 +0000 ", None);
        check("", None);
    }

    #[test]
    fn what_is_written_is_read_back() {
        for (unix_seconds, offset) in [(0, 0), (951_825_600, -9000), (971_211_336, 3600), (4_607_279_999, 0)]
        {
            let text = written(unix_seconds * NS_PER_SECOND + 5, offset);
            let (civil, _, zone) = iso_8601(text.as_bytes()).unwrap();
            assert_eq!((civil.unix_seconds(offset), zone), (Some(unix_seconds), Some(offset)), "{text}");
        }
    }

    #[test]
    fn iso_dates_may_have_a_fraction_and_a_zone() {
        let check = |text: &str, expected: Option<(i64, i64, i64)>| {
            let parsed = iso_8601(text.as_bytes()).and_then(|(civil, fraction, zone)| {
                Some((civil.unix_seconds(zone.unwrap_or(0))?, fraction.ns, fraction.resolution_ns))
            });
            assert_eq!(parsed, expected, "{text}");
        };
        let october_2000 = 971_211_336; // date -d '2000-10-10T13:55:36-07:00' +%s
        check("2000-10-10T13:55:36-07:00", Some((october_2000, 0, NS_PER_SECOND)));
        check("2000-10-10T20:55:36Z", Some((october_2000, 0, NS_PER_SECOND)));
        check("2000-10-10 20:55:36.25", Some((october_2000, 250_000_000, 10_000_000)));
        check("2000-10-10T20:55:36.123456789+00:00", Some((october_2000, 123_456_789, 1)));
        check("2000-10-10T20:55:36,1234567899Z", Some((october_2000, 123_456_789, 1)));
        check("2000-10-10T20:55:36+05:", None);
        check("2000-10-10T20:55:36.", None);
        check("2000-10-10T20:55", None);
        check("2000-10-1é", None);
    }

    #[test]
    fn decimals_keep_what_they_say_and_how_finely() {
        let check = |text: &str, unit_ns, expected: Option<(i64, i64)>| {
            let parsed = decimal(text.as_bytes(), unit_ns).map(|decimal| (decimal.ns, decimal.resolution_ns));
            assert_eq!(parsed, expected, "{text}");
        };
        check("1066036250.129", NS_PER_SECOND, Some((1_066_036_250_129_000_000, 1_000_000)));
        check("7", 1_000_000, Some((7_000_000, 1_000_000)));
        check("0.005", NS_PER_SECOND, Some((5_000_000, 1_000_000)));
        check(".5", NS_PER_SECOND, Some((500_000_000, 100_000_000)));
        check("1.5e-05", NS_PER_SECOND, Some((15_000, 1)));
        check("1.5e99", NS_PER_SECOND, None);
        check("-1", NS_PER_SECOND, None);
        check("", NS_PER_SECOND, None);
        check(".", NS_PER_SECOND, None);
        check("5000000000", NS_PER_SECOND, None);
        check("99999999999999999999", 1, None);
    }
}
