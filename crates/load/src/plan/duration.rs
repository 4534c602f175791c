//! Parses durations such as `4s`, `200ms`, `1.5m`. A number without a unit is refused, because seconds and milliseconds
//! are equally likely to be meant.

use sojourn_measure::Nanos;
use thiserror::Error;

const UNITS: [(&str, f64); 6] =
    [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

pub const DURATION_HOURS_MAX: f64 = 24.0 * 366.0;

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DurationError {
    #[error("{0:?} has no unit; write it as 4s, 200ms or 1m")]
    NoUnit(String),
    #[error("{0:?} is not a duration; write it as 4s, 200ms or 1m")]
    NotADuration(String),
}

pub fn parse(text: &str) -> Result<Nanos, DurationError> {
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let refused = || DurationError::NotADuration(text.to_owned());
    let number: f64 = number.parse().map_err(|_| refused())?;
    if unit.is_empty() {
        return Err(DurationError::NoUnit(text.to_owned()));
    }
    let (_, unit_ns) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(refused)?;
    let nanos = number * unit_ns;
    if nanos > DURATION_HOURS_MAX * 3600e9 { Err(refused()) } else { Ok(Nanos(nanos.round() as u64)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_units() {
        let check = |text, expected| assert_eq!(parse(text), Ok(Nanos(expected)), "{text}");
        check("4s", 4_000_000_000);
        check("200ms", 200_000_000);
        check("1m", 60_000_000_000);
        check("1.5h", 5_400_000_000_000);
        check("0s", 0);
        check("50us", 50_000);
        check("7ns", 7);
    }

    #[test]
    fn refusals() {
        assert_eq!(parse("4"), Err(DurationError::NoUnit("4".into())));
        for bad in ["", "s", "-1s", "4 s", "4sec", "1.2.3s", "infs", "99999999h", "1e3s"] {
            assert_eq!(parse(bad), Err(DurationError::NotADuration(bad.into())), "{bad}");
        }
    }
}
