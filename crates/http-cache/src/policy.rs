//! The operator's choices, and the limits.

use super::key::Spelling;

/// The choices of one cache.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Targeted fields that are for us, in lower case, the most specific first (RFC 9213, 2.2).
    pub targets: Vec<Box<str>>,
    /// True for the origin's own cache, to which Surrogate-Control applies; its name is that in Via.
    pub is_surrogate: bool,
    /// The part of the time since Last-Modified that a response without a lifetime stays fresh, in percent (RFC 9111,
    /// 4.2.2).
    pub heuristic_percent: u32,
    /// The longest lifetime that is guessed.
    pub heuristic_seconds_max: u32,
    /// How long a heuristically cacheable error (404, 410, ...) stays fresh that says nothing about it; 0 for never.
    pub error_seconds: u32,
    /// The longest lifetime of any error, whatever it says.
    pub error_seconds_max: u32,
    /// How long a response may be used stale when the origin does not answer, where nothing forbids it (RFC 9111,
    /// 4.2.4). What the response or the request allows counts if it is longer.
    pub disconnected_seconds: u32,
}

impl Policy {
    /// Which spellings of a path are one: a gateway knows its origin, a proxy must not guess (RFC 9110, 7.7).
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
