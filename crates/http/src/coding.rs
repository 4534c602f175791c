//! Content codings: how a document may be compressed, and which of those at hand a client wants
//! (RFC 9110, 8.4.1 and 12.5.3).

use crate::preference::weighted;

/// A coding in which a compressed copy of a document may be kept.
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
    /// Every coding, the one that usually compresses best first: so ties between a client's wishes are decided.
    pub const ALL: &[Coding] = &[Coding::Brotli, Coding::Zstd, Coding::Gzip];

    /// The name in Content-Encoding and Accept-Encoding.
    pub fn token(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    /// What the name of a file gets appended when it is compressed so.
    pub fn suffix(self) -> &'static str {
        match self {
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
        }
    }

    fn is_called(self, name: &[u8]) -> bool {
        // x-gzip is the same (8.4.1.3).
        name.eq_ignore_ascii_case(self.token().as_bytes())
            || (self == Coding::Gzip && name.eq_ignore_ascii_case(b"x-gzip"))
    }
}

/// What to send to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The copy in this coding.
    Coded(Coding),
    /// The document as it is.
    Identity,
    /// The client refuses all there is: 406.
    Nothing,
}

/// Which of `available` to send to a client whose Accept-Encoding is `accepted`.
///
/// The greatest weight wins, among equals the first of [`Coding::ALL`]. The document as it is wins only with a
/// greater weight of its own: what is not listed is the last resort, as no client lists it to avoid compression.
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
        // Refusing everything else refuses this, too (12.5.3), unless it is listed.
        None if best.0 == Choice::Nothing && others == Some(0) => Choice::Nothing,
        _ if best.0 == Choice::Nothing => Choice::Identity,
        _ => best.0,
    }
}

/// The weight of the first element that `is_it`.
fn explicit(accepted: &[u8], is_it: impl Fn(&[u8]) -> bool) -> Option<u16> {
    weighted(accepted).find(|(name, _)| is_it(name)).map(|(_, weight)| weight)
}

#[cfg(test)]
mod tests {
    use super::Choice::{Coded, Identity, Nothing};
    use super::Coding::{Brotli, Gzip, Zstd};
    use super::*;

    fn check(accepted: &str, available: &[Coding], expected: Choice) {
        let choice = choose(Some(accepted.as_bytes()), |coding| available.contains(&coding));
        assert_eq!(choice, expected, "{accepted:?} of {available:?}");
    }

    #[test]
    fn the_best_that_both_know() {
        let all = Coding::ALL;
        check("gzip, deflate, br, zstd", all, Coded(Brotli));
        check("gzip, deflate, zstd", all, Coded(Zstd));
        check("gzip, deflate, br, zstd", &[Gzip], Coded(Gzip));
        check("GZIP;q=0.9, br;q=0.5", all, Coded(Gzip));
        check("x-gzip", all, Coded(Gzip));
        check("*", all, Coded(Brotli));
        check("*, br;q=0", all, Coded(Zstd));
        check("gzip;q=0.001", all, Coded(Gzip));
        check("gzip, identity", all, Coded(Gzip));
        assert_eq!(choose(None, |_| true), Identity);
    }

    #[test]
    fn the_document_as_it_is() {
        check("", Coding::ALL, Identity);
        check("identity", Coding::ALL, Identity);
        check("deflate", Coding::ALL, Identity);
        check("gzip;q=0", Coding::ALL, Identity);
        check("gzip;q=0.5, identity", Coding::ALL, Identity);
        check("gzip;q=x", Coding::ALL, Identity);
        check("br", &[Gzip], Identity);
        check("*;q=0, identity;q=0.1", Coding::ALL, Identity);
        check("*", &[], Identity);
    }

    #[test]
    fn what_is_refused() {
        check("identity;q=0, gzip", &[Gzip], Coded(Gzip));
        check("identity;q=0, *", &[Zstd], Coded(Zstd));
        check("*;q=0, gzip;q=0.1", &[Gzip], Coded(Gzip));
        check("identity;q=0", Coding::ALL, Nothing);
        check("*;q=0", Coding::ALL, Nothing);
        check("identity;q=0, br", &[Gzip], Nothing);
    }
}
