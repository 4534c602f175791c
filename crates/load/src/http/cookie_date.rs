//! Parses cookie dates as leniently as RFC 6265, 5.1.1 specifies, because servers write them in many forms.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// The date, if it is complete; dates before 1970 become 1970.
pub fn parse(text: &str) -> Option<SystemTime> {
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == ':' || !c.is_ascii()));
    for word in words.filter(|word| !word.is_empty()) {
        if time.is_none()
            && let Some(found) = time_of(word)
        {
            time = Some(found);
        } else if day.is_none()
            && let Some(found) = leading_number(word, 1, 2)
        {
            day = Some(found);
        } else if month.is_none()
            && let Some(found) = month_of(word)
        {
            month = Some(found);
        } else if year.is_none()
            && let Some(found) = leading_number(word, 2, 4)
        {
            year = Some(found);
        }
    }
    let (seconds, day, month, year) = (time?, day?, month?, year?);
    let year = match year {
        70..=99 => year + 1900,
        0..=69 => year + 2000,
        _ => year,
    };
    if !(1..=31).contains(&day) || year < 1601 {
        return None;
    }
    let days = days_since_1970(year, month, day);
    let seconds = u64::try_from(days * 86_400 + i64::from(seconds)).unwrap_or(0);
    Some(UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Seconds since midnight of `hh:mm:ss`.
fn time_of(word: &str) -> Option<u32> {
    let mut parts = word.split(':').map(|part| leading_number(part, 1, 2));
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    let is_time = parts.next().is_none() && hours <= 23 && minutes <= 59 && seconds <= 59;
    is_time.then_some(hours * 3600 + minutes * 60 + seconds)
}

/// The leading number of a word, with a minimum and maximum number of digits.
fn leading_number(word: &str, least: usize, most: usize) -> Option<u32> {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    if (least..=most).contains(&digits) { word[..digits].parse().ok() } else { None }
}

fn month_of(word: &str) -> Option<u32> {
    let start = word.get(..3)?.to_ascii_lowercase();
    MONTHS.iter().position(|month| *month == start).map(|place| place as u32 + 1)
}

/// Days in the Gregorian calendar; years begin in March, so that the leap day is the last.
pub fn days_since_1970(year: u32, month: u32, day: u32) -> i64 {
    let year = i64::from(if month <= 2 { year - 1 } else { year });
    let in_year = (153 * ((i64::from(month) + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    let leap_days = year / 4 - year / 100 + year / 400;
    365 * year + leap_days + in_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Option<u64> {
        parse(text).map(|time| time.duration_since(UNIX_EPOCH).unwrap().as_secs())
    }

    #[test]
    fn every_form_that_servers_write() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "6 november 94 8:49:37",
        ] {
            assert_eq!(seconds(text), Some(784_111_777), "{text}");
        }
        assert_eq!(seconds("Thu, 29 Feb 2024 00:00:00 GMT"), Some(1_709_164_800));
        assert_eq!(seconds("Fri, 31 Dec 9999 23:59:59 GMT"), Some(253_402_300_799));
        assert_eq!(seconds("Thu, 01 Jan 1601 00:00:00 GMT"), Some(0));
    }

    #[test]
    fn what_is_no_date() {
        for text in [
            "",
            "tomorrow",
            "0",
            "06 Nov 1994",
            "32 Nov 1994 08:49:37",
            "06 Nov 1994 24:00:00",
            "06 Nov 1 08:49:37",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
