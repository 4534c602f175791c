//! What a client prefers: lists with weights, as in Accept and Accept-Encoding (RFC 9110, 12.4.2).
//!
//! A weight is counted in thousandths. An element whose weight cannot be read says nothing and is left out.

/// The weight of an element that has none.
pub const FULL: u16 = 1000;

/// The elements of `value`, each with its weight; parameters other than the weight are left out.
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

/// Which of `offers` (media types without parameters, the server's favourite first) the Accept field `value`
/// prefers: an index. Whoever accepts none of them gets the first (12.5.1 allows it, and it is readable).
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

/// The weight of the most specific range that covers `offer`.
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

/// `0`, `1`, or either with up to three decimals, at most 1.
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

#[cfg(test)]
mod tests {
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
}
