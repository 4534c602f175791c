//! The operator's settings for one cache.

use super::key::Spelling;

#[derive(Clone, Debug)]
pub struct Policy {
    /// Targeted fields that apply to this cache (RFC 9213, 2.2), in lower case, most specific first.
    pub targets: Vec<Box<str>>,
    /// True for a surrogate (the origin's own cache), which obeys Surrogate-Control; its name is that in Via.
    pub is_surrogate: bool,
    /// Heuristic freshness: a response without an explicit lifetime stays fresh for this percentage of the time since
    /// Last-Modified (RFC 9111, 4.2.2).
    pub heuristic_percent: u32,
    /// The longest heuristic lifetime.
    pub heuristic_seconds_max: u32,
    /// Lifetime of heuristically cacheable errors (404, 410, ...) that give none; 0 to not store them.
    pub error_seconds: u32,
    /// The longest lifetime of any error, even if it gives a longer one.
    pub error_seconds_max: u32,
    /// How long a response may be used stale when the origin does not answer and nothing forbids it (RFC 9111, 4.2.4).
    /// A longer time allowed by the response or the request takes precedence.
    pub disconnected_seconds: u32,
}

impl Policy {
    /// Which spellings of a path share a key: a gateway knows its origin, a proxy must not guess (RFC 9110, 7.7).
    pub fn spelling(&self) -> Spelling {
        if self.is_surrogate { Spelling::Normalised } else { Spelling::Kept }
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            targets: vec!["cdn-cache-control".into()],
            is_surrogate: false,
            heuristic_percent: 10,
            heuristic_seconds_max: 86_400,
            error_seconds: 0,
            error_seconds_max: 300,
            disconnected_seconds: 0,
        }
    }
}
