//! Content negotiation: lists with weights, as in Accept and Accept-Encoding (RFC 9110, 12.4.2).
//!
//! A weight is counted in thousandths. Elements with an invalid weight are ignored.

/// The weight of an element without `q`.
pub const FULL: u16 = 1000;

/// The elements of `value` with their weights; other parameters are dropped.
pub fn weighted(value: &[u8]) -> impl Iterator<Item = (&[u8], u16)> {
    value.split(|byte| *byte == b',').filter_map(|element| {
        let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().filter(|name| !name.is_empty())?;
        let mut weight = FULL;
        for parameter in parts {
            if let [b'q' | b'Q', b'=', digits @ ..] = parameter {
                weight = thousandths(digits)?;
            }
        }
        Some((name, weight))
    })
}

/// The index of the media type in `offers` (no parameters, best first) that the Accept field `value` prefers. A client
/// that accepts none gets the first, which 12.5.1 allows.
pub fn preferred(value: Option<&[u8]>, offers: &[&str]) -> usize {
    let Some(value) = value else { return 0 };
    let mut best = (0, 0);
    for (index, offer) in offers.iter().enumerate() {
        let weight = weight_of(value, offer);
        if weight > best.1 {
            best = (index, weight);
        }
    }
    best.0
}

/// The weight of the most specific media range that matches `offer`.
fn weight_of(value: &[u8], offer: &str) -> u16 {
    let main_type = offer.split('/').next().unwrap_or_default();
    let mut found = (0, 0);
    for (range, weight) in weighted(value) {
        let specificity = if range.eq_ignore_ascii_case(offer.as_bytes()) {
            3
        } else if range.strip_suffix(b"/*").is_some_and(|it| it.eq_ignore_ascii_case(main_type.as_bytes())) {
            2
        } else if range == b"*/*" {
            1
        } else {
            continue;
        };
        if specificity > found.0 {
            found = (specificity, weight);
        }
    }
    found.1
}

/// Parses a weight: `0` or `1`, with at most three decimals.
fn thousandths(digits: &[u8]) -> Option<u16> {
    let (whole, decimals) = match digits {
        [whole] | [whole, b'.'] => (whole, [].as_slice()),
        [whole, b'.', decimals @ ..] => (whole, decimals),
        _ => return None,
    };
    if decimals.len() > 3 || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let padded = decimals.iter().chain(b"000").take(3);
    let fraction = padded.fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    match (whole, fraction) {
        (b'0', fraction) => Some(fraction),
        (b'1', 0) => Some(FULL),
        _ => None,
    }
}

/// A content coding in which a compressed copy of a document may exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Brotli (RFC 7932).
    Brotli,
    /// Zstandard (RFC 8878).
    Zstd,
    /// gzip (RFC 1952).
    Gzip,
}

impl Coding {
    /// Every coding, best compression first; among equal weights the first one wins.
    pub const ALL: &[Coding] = &[Coding::Brotli, Coding::Zstd, Coding::Gzip];

    /// The name in Content-Encoding and Accept-Encoding.
    pub fn token(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    /// The extension of files compressed this way.
    pub fn suffix(self) -> &'static str {
        match self {
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
        }
    }

    fn is_called(self, name: &[u8]) -> bool {
        // `x-gzip` is an alias (RFC 9110, 8.4.1.3).
        name.eq_ignore_ascii_case(self.token().as_bytes())
            || (self == Coding::Gzip && name.eq_ignore_ascii_case(b"x-gzip"))
    }
}

/// Which representation to send, by Accept-Encoding and the copies that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Coded(Coding),
    Identity,
    /// 406: the client refuses every representation.
    Nothing,
}

/// Chooses among the `available` codings for a client with this Accept-Encoding.
///
/// The highest weight wins, ties go to the first of [`Coding::ALL`]. The uncompressed document wins only with a higher
/// weight; if unlisted it is the last resort, because no client leaves `identity` out to avoid compression.
pub fn choose(accepted: Option<&[u8]>, available: impl Fn(Coding) -> bool) -> Choice {
    let Some(accepted) = accepted else { return Choice::Identity };
    let identity = explicit(accepted, |name| name.eq_ignore_ascii_case(b"identity"));
    let others = explicit(accepted, |name| name == b"*");
    let mut best = (Choice::Nothing, 0);
    for coding in Coding::ALL.iter().copied().filter(|coding| available(*coding)) {
        let weight = explicit(accepted, |name| coding.is_called(name)).or(others).unwrap_or(0);
        if weight > best.1 {
            best = (Choice::Coded(coding), weight);
        }
    }
    match identity {
        Some(0) => best.0,
        Some(weight) if weight > best.1 => Choice::Identity,
        // `*;q=0` refuses `identity` too, unless it is listed (12.5.3).
        None if best.0 == Choice::Nothing && others == Some(0) => Choice::Nothing,
        _ if best.0 == Choice::Nothing => Choice::Identity,
        _ => best.0,
    }
}

/// The weight of the first element for which `is_it` is true.
fn explicit(accepted: &[u8], is_it: impl Fn(&[u8]) -> bool) -> Option<u16> {
    weighted(accepted).find(|(name, _)| is_it(name)).map(|(_, weight)| weight)
}

#[cfg(test)]
mod tests {
    use super::Choice::{Coded, Identity, Nothing};
    use super::Coding::{Brotli, Gzip, Zstd};
    use super::*;

    fn check(value: &str, expected: &[(&str, u16)]) {
        let found: Vec<_> = weighted(value.as_bytes())
            .map(|(name, weight)| (std::str::from_utf8(name).unwrap(), weight))
            .collect();
        assert_eq!(found, expected, "{value:?}");
    }

    #[test]
    fn lists() {
        check("gzip, deflate ,br;q=0.5", &[("gzip", 1000), ("deflate", 1000), ("br", 500)]);
        check("a ; Q=0.001, b;q=1.000,c;q=0.,d;level=1;q=0", &[("a", 1), ("b", 1000), ("c", 0), ("d", 0)]);
        check("", &[]);
        check(" , ;q=1,,", &[]);
        for bad in ["a;q=", "a;q=2", "a;q=1.001", "a;q=0.0001", "a;q=-1", "a;q=.5", "a;q=x", "a;q=1.0x"] {
            check(bad, &[]);
        }
    }

    #[test]
    fn media_types() {
        let check = |value: &str, expected| {
            let offers = ["text/html", "application/json"];
            assert_eq!(preferred(Some(value.as_bytes()), &offers), expected, "{value:?}");
        };
        check("*/*", 0);
        check("application/json", 1);
        check("text/html;q=0.5, application/json", 1);
        check("text/*, application/json;q=0.9", 0);
        check("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", 0);
        check("application/*;q=0.5, */*;q=0.4", 1);
        check("text/html;q=0, */*", 1);
        check("image/png", 0);
        check("", 0);
        assert_eq!(preferred(None, &["text/html", "application/json"]), 0);
    }

    fn check_choice(accepted: &str, available: &[Coding], expected: Choice) {
        let choice = choose(Some(accepted.as_bytes()), |coding| available.contains(&coding));
        assert_eq!(choice, expected, "{accepted:?} of {available:?}");
    }

    #[test]
    fn the_best_that_both_know() {
        let all = Coding::ALL;
        check_choice("gzip, deflate, br, zstd", all, Coded(Brotli));
        check_choice("gzip, deflate, zstd", all, Coded(Zstd));
        check_choice("gzip, deflate, br, zstd", &[Gzip], Coded(Gzip));
        check_choice("GZIP;q=0.9, br;q=0.5", all, Coded(Gzip));
        check_choice("x-gzip", all, Coded(Gzip));
        check_choice("*", all, Coded(Brotli));
        check_choice("*, br;q=0", all, Coded(Zstd));
        check_choice("gzip;q=0.001", all, Coded(Gzip));
        check_choice("gzip, identity", all, Coded(Gzip));
        assert_eq!(choose(None, |_| true), Identity);
    }

    #[test]
    fn the_document_as_it_is() {
        check_choice("", Coding::ALL, Identity);
        check_choice("identity", Coding::ALL, Identity);
        check_choice("deflate", Coding::ALL, Identity);
        check_choice("gzip;q=0", Coding::ALL, Identity);
        check_choice("gzip;q=0.5, identity", Coding::ALL, Identity);
        check_choice("gzip;q=x", Coding::ALL, Identity);
        check_choice("br", &[Gzip], Identity);
        check_choice("*;q=0, identity;q=0.1", Coding::ALL, Identity);
        check_choice("*", &[], Identity);
    }

    #[test]
    fn what_is_refused() {
        check_choice("identity;q=0, gzip", &[Gzip], Coded(Gzip));
        check_choice("identity;q=0, *", &[Zstd], Coded(Zstd));
        check_choice("*;q=0, gzip;q=0.1", &[Gzip], Coded(Gzip));
        check_choice("identity;q=0", Coding::ALL, Nothing);
        check_choice("*;q=0", Coding::ALL, Nothing);
        check_choice("identity;q=0, br", &[Gzip], Nothing);
    }
}
