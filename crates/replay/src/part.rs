//! A part of a trace's sessions, so that several generators can share one replay.
//!
//! Session *i* lies at the fractional part of *i* φ, φ being the golden ratio. These places are spread so evenly that every
//! part has sessions from all of the trace, and parts that make the whole have each session once.

use std::ops::Range;
use std::str::FromStr;

/// 2³² / φ.
const STEP: u32 = 0x9E37_79B9;

/// The places of the sessions to replay, from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Part(Range<f64>);

impl Part {
    pub fn has(&self, session: u32) -> bool {
        self.0.contains(&(f64::from(session.wrapping_mul(STEP)) / 2_f64.powi(32)))
    }
}

impl FromStr for Part {
    type Err = String;

    /// Parses a part: `0.25..0.5`.
    fn from_str(text: &str) -> Result<Part, String> {
        let range = text
            .split_once("..")
            .and_then(|(from, to)| Some(from.trim().parse::<f64>().ok()?..to.trim().parse::<f64>().ok()?))
            .filter(|range| 0.0 <= range.start && range.start < range.end && range.end <= 1.0);
        range.map(Part).ok_or_else(|| format!("{text:?} is not a part; write it as 0..0.5"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_share_the_sessions() {
        let parts = ["0..0.5", "0.5..0.8", "0.8..1"].map(|text| text.parse::<Part>().unwrap());
        let mut counts = [0; 3];
        for session in 0..10_000 {
            let having: Vec<_> = (0..3).filter(|&part| parts[part].has(session)).collect();
            assert_eq!(having.len(), 1, "session {session}");
            counts[having[0]] += 1;
            // Evenly spread: each part's share of every beginning of the trace is its size.
            let expected = [0.5, 0.3, 0.2].map(|share| share * f64::from(session + 1));
            assert!(
                counts
                    .iter()
                    .zip(expected)
                    .all(|(&count, expected)| (f64::from(count) - expected).abs() < 5.0)
            );
        }
        let whole = "0..1".parse::<Part>().unwrap();
        assert!((0..10_000).all(|session| whole.has(session)));
    }

    #[test]
    fn what_is_no_part_is_refused() {
        for text in ["", "0.5", "0.5..0.5", "0.6..0.5", "-0.1..1", "0..1.1", "a..b", "nan..1"] {
            assert!(text.parse::<Part>().is_err(), "{text}");
        }
    }
}
