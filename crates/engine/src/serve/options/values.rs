//! How sizes, times and the like are written.

use std::time::Duration;

use sojourn_load::duration::{DurationError, parse};

/// `64KiB`, `128MiB`, `1GiB`, or plain bytes.
pub fn size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        unit => return Err(format!("unknown unit {unit:?}: use B, KiB, MiB or GiB")),
    };
    let number: usize = digits.parse().map_err(|_| "a size looks like 128MiB".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
}

/// `60s`, `500ms`, `2m`, as for load.
pub fn duration(text: &str) -> Result<Duration, DurationError> {
    parse(text).map(|time| Duration::from_nanos(time.0))
}

/// `7:12`, a descriptor and a number.
pub fn counters(text: &str) -> Result<(i32, usize), String> {
    let pair = text.split_once(':').and_then(|(fd, place)| Some((fd.parse().ok()?, place.parse().ok()?)));
    pair.ok_or_else(|| "expected FD:PLACE".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        assert_eq!(size("64KiB"), Ok(65536));
        assert_eq!(size("7"), Ok(7));
        assert!(size("7kb").is_err() && size("KiB").is_err() && size("99999999999GiB").is_err());
        assert_eq!(duration("1500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert!(duration("7").is_err() && duration("-1s").is_err());
    }
}
