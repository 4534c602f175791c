//! Parses sizes, times and similar values.

use std::time::Duration;

use sojourn_load::duration::{DurationError, parse};
use sojourn_measure::limits::memory_bytes;

/// Parses `64KiB`, `128MiB`, `1GiB`, or plain bytes.
pub fn size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        unit => return Err(format!("unknown unit {unit:?}: use B, KiB, MiB or GiB")),
    };
    let number: usize = digits.parse().map_err(|_| "write a size such as 128MiB".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
}

/// The largest default share of the machine's memory for bodies, as 1 / N, because connections need memory too.
pub const BODIES_SHARE: u64 = 8;
/// The same for paths and response fields: below 1 GiB of memory all three budgets shrink together.
pub const PATHS_SHARE: u64 = 64;
pub const HEADS_SHARE: u64 = 128;

/// The default budget of a cache: the usual one, but at most `1 / share` of the available memory, which a control group
/// may limit.
pub fn budget(usual: usize, share: u64) -> usize {
    usual.min(usize::try_from(memory_bytes() / share).unwrap_or(usual))
}

/// Parses `60s`, `500ms`, `2m`, as for load.
pub fn duration(text: &str) -> Result<Duration, DurationError> {
    parse(text).map(|time| Duration::from_nanos(time.0))
}

/// Parses `7:12`, a descriptor and a number.
pub fn counters(text: &str) -> Result<(i32, usize), String> {
    let pair = text.split_once(':').and_then(|(fd, place)| Some((fd.parse().ok()?, place.parse().ok()?)));
    pair.ok_or_else(|| "expected FD:PLACE".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_no_more_than_a_share_of_memory() {
        assert_eq!(budget(1000, 2), 1000);
        assert_eq!(budget(usize::MAX, 4) as u64, memory_bytes() / 4);
    }

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
