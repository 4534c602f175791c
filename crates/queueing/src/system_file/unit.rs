//! Quantities with units: `"195ms"`, `"1.5Mbit/s"`, `"0.4851us/B"`, `"40/s"`.
//!
//! One table of units feeds parsing and the error messages. KB is 1,000 bytes and KiB 1,024; `Mbps` is
//! refused, because people read it as bits and as bytes.

use super::SystemFileError;
use super::reader::{Value, suggestion};

/// The dimension of a quantity. Values come out in seconds, bytes, seconds per byte, bytes per second or 1/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dimension {
    Time,
    Size,
    TimePerByte,
    Bandwidth,
    Rate,
}

/// (unit, dimension, factor to the base unit).
const UNITS: &[(&str, Dimension, f64)] = &[
    ("ns", Dimension::Time, 1e-9),
    ("us", Dimension::Time, 1e-6),
    ("µs", Dimension::Time, 1e-6),
    ("ms", Dimension::Time, 1e-3),
    ("s", Dimension::Time, 1.0),
    ("min", Dimension::Time, 60.0),
    ("h", Dimension::Time, 3600.0),
    ("B", Dimension::Size, 1.0),
    ("KB", Dimension::Size, 1e3),
    ("MB", Dimension::Size, 1e6),
    ("GB", Dimension::Size, 1e9),
    ("KiB", Dimension::Size, 1024.0),
    ("MiB", Dimension::Size, 1_048_576.0),
    ("GiB", Dimension::Size, 1_073_741_824.0),
    ("ns/B", Dimension::TimePerByte, 1e-9),
    ("us/B", Dimension::TimePerByte, 1e-6),
    ("µs/B", Dimension::TimePerByte, 1e-6),
    ("ms/KB", Dimension::TimePerByte, 1e-6),
    ("ms/KiB", Dimension::TimePerByte, 1e-3 / 1024.0),
    ("s/MB", Dimension::TimePerByte, 1e-6),
    ("bit/s", Dimension::Bandwidth, 1.0 / 8.0),
    ("kbit/s", Dimension::Bandwidth, 1e3 / 8.0),
    ("Mbit/s", Dimension::Bandwidth, 1e6 / 8.0),
    ("Gbit/s", Dimension::Bandwidth, 1e9 / 8.0),
    ("KB/s", Dimension::Bandwidth, 1e3),
    ("MB/s", Dimension::Bandwidth, 1e6),
    ("GB/s", Dimension::Bandwidth, 1e9),
    ("/s", Dimension::Rate, 1.0),
    ("/min", Dimension::Rate, 1.0 / 60.0),
    ("/h", Dimension::Rate, 1.0 / 3600.0),
];

/// The plausible range of each dimension apart from zero, in its base unit: far wider than real systems, yet small
/// enough that products and squares stay finite.
const RANGES: &[(Dimension, f64, f64)] = &[
    (Dimension::Time, 1e-15, 1e7),
    (Dimension::Size, 1e-3, 1e15),
    (Dimension::TimePerByte, 1e-24, 1e3),
    (Dimension::Bandwidth, 1e-3, 1e20),
    (Dimension::Rate, 1e-9, 1e12),
];

impl Dimension {
    /// Refuses a value outside [`RANGES`]; `what` names the quantity in the message.
    pub(super) fn check(self, amount: f64, what: &str) -> Result<(), String> {
        let (_, least, most) = RANGES.iter().find(|row| row.0 == self).expect("every dimension has a range");
        if amount == 0.0 || (*least..=*most).contains(&amount.abs()) {
            return Ok(());
        }
        let unit = UNITS.iter().find(|row| row.1 == self && row.2 == 1.0).map_or("s/B", |row| row.0);
        Err(format!("{what} must be 0, or from {least:e}{unit} to {most:e}{unit}"))
    }

    fn example(self) -> &'static str {
        match self {
            Self::Time => "195ms",
            Self::Size => "8.5KB",
            Self::TimePerByte => "0.4851us/B",
            Self::Bandwidth => "1.5Mbit/s",
            Self::Rate => "40/s",
        }
    }

    pub(super) fn factor(self, value: &Value<'_>) -> Result<f64, SystemFileError> {
        self.factor_of(value.text()?, value)
    }

    fn factor_of(self, unit: &str, value: &Value<'_>) -> Result<f64, SystemFileError> {
        let found = UNITS.iter().find(|(name, dimension, _)| *name == unit && *dimension == self);
        found.map(|(_, _, factor)| *factor).ok_or_else(|| {
            let names: Vec<&str> = UNITS.iter().filter(|row| row.1 == self).map(|row| row.0).collect();
            // Suggesting a unit for a bare "Mbps" would be a guess between bits and bytes.
            let hint = match self {
                Self::Bandwidth if unit.ends_with("ps") => {
                    "write bits as `Mbit/s` and bytes as `MB/s`".to_owned()
                }
                _ => suggestion(unit, &names),
            };
            value.error(format!("`{}`: \"{unit}\" is not a valid unit here; {hint}", value.key))
        })
    }
}

/// A non-negative quantity in the base unit of its dimension.
pub(super) fn quantity(value: &Value<'_>, dimension: Dimension) -> Result<f64, SystemFileError> {
    let amount = signed_quantity(value, dimension)?;
    if amount < 0.0 {
        let text = value.text()?.trim();
        return Err(value.error(format!("`{}` must be non-negative and finite, not \"{text}\"", value.key)));
    }
    Ok(amount)
}

/// A quantity of either sign in the base unit of its dimension.
pub(super) fn signed_quantity(value: &Value<'_>, dimension: Dimension) -> Result<f64, SystemFileError> {
    let example = dimension.example();
    if value.is_number() {
        return Err(
            value.error(format!("`{}` needs a unit: write it as text, such as \"{example}\"", value.key))
        );
    }
    let text = value.text()?.trim();
    let split = number_length(text);
    let (digits, unit) = (text[..split].trim(), text[split..].trim());
    let number: f64 = digits.parse().map_err(|_| {
        value.error(format!(
            "`{}` must be a number with a unit such as \"{example}\", not \"{text}\"",
            value.key
        ))
    })?;
    if unit.is_empty() {
        return Err(value.error(format!("`{}` needs a unit, such as \"{example}\"", value.key)));
    }
    let amount = number * dimension.factor_of(unit, value)?;
    if !amount.is_finite() {
        return Err(value.error(format!("`{}` must be finite, not \"{text}\"", value.key)));
    }
    let what = format!("`{}`, \"{text}\",", value.key);
    dimension.check(amount, &what).map_err(|message| value.error(message))?;
    Ok(amount)
}

/// As [`quantity`], and above zero.
pub(super) fn positive(value: &Value<'_>, dimension: Dimension) -> Result<f64, SystemFileError> {
    let amount = quantity(value, dimension)?;
    if amount > 0.0 { Ok(amount) } else { Err(value.error(format!("`{}` must be above zero", value.key))) }
}

/// The number of leading bytes that belong to the number; an exponent counts only if digits follow it.
pub(super) fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit() || **b == b'.').count();
    let sign = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let mut length = sign + digits(sign);
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let exponent_sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits(length + 1 + exponent_sign);
        if exponent > 0 {
            length += 1 + exponent_sign + exponent;
        }
    }
    length
}
