//! The cache directives of a request (RFC 9111, 5.2.1), read directly from the received lines, so that a hit builds no
//! map of fields.

use sojourn_http::head::field_lines;

use super::directives::{Argument, DELTA_SECONDS_MAX, directives};

/// The cache directives of a request, and its conditions that only the origin may judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    pub no_cache: bool,
    /// Do not store the response.
    pub no_store: bool,
    /// Answer from the cache, or with 504.
    pub only_if_cached: bool,
    /// The greatest acceptable age. An invalid number counts as 0.
    pub max_age: Option<u32>,
    /// How long the response must still be fresh. An invalid number counts as forever.
    pub min_fresh: Option<u32>,
    /// How stale the response may be; unlimited without a number. An invalid number allows nothing.
    pub max_stale: Option<u32>,
    /// How stale the response may be if the origin fails (RFC 5861, 4).
    pub stale_if_error: u32,
    /// True if there is If-Match or If-Unmodified-Since, which only the origin may judge (RFC 9111, 4.3.2).
    pub is_for_origin: bool,
}

impl RequestDirectives {
    /// Reads the field lines of a parsed request.
    pub fn read(section: &[u8]) -> RequestDirectives {
        let (mut request, mut has_cache_control, mut has_pragma) =
            (RequestDirectives::default(), false, false);
        for (name, value) in field_lines(section) {
            // A quick test of the first letter rejects most fields.
            if !matches!(name.first(), Some(b'c' | b'C' | b'i' | b'I' | b'p' | b'P')) {
                continue;
            }
            let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
            match name.len() {
                13 if is(b"cache-control") => {
                    has_cache_control = true;
                    request.take(value);
                }
                6 if is(b"pragma") => has_pragma |= directives(value).any(|pragma| pragma.is("no-cache")),
                8 if is(b"if-match") => request.is_for_origin = true,
                19 if is(b"if-unmodified-since") => request.is_for_origin = true,
                _ => {}
            }
        }
        // RFC 9111, 5.4: Pragma counts only without Cache-Control.
        request.no_cache |= has_pragma && !has_cache_control;
        request
    }

    fn take(&mut self, value: &[u8]) {
        for directive in directives(value) {
            let seconds = directive.argument.seconds();
            // Of repeated values the stricter one counts.
            let least =
                |earlier: Option<u32>, new: u32| Some(earlier.map_or(new, |earlier| earlier.min(new)));
            match directive.name.to_ascii_lowercase().as_slice() {
                b"no-cache" => self.no_cache = true,
                b"no-store" => self.no_store = true,
                b"only-if-cached" => self.only_if_cached = true,
                b"max-age" => self.max_age = least(self.max_age, seconds.unwrap_or(0)),
                b"min-fresh" => {
                    self.min_fresh = self.min_fresh.max(Some(seconds.unwrap_or(DELTA_SECONDS_MAX)))
                }
                b"max-stale" => {
                    let any = (directive.argument == Argument::None).then_some(DELTA_SECONDS_MAX);
                    self.max_stale = least(self.max_stale, seconds.or(any).unwrap_or(0));
                }
                b"stale-if-error" => self.stale_if_error = seconds.unwrap_or(0),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str) -> RequestDirectives {
        RequestDirectives::read(lines.as_bytes())
    }

    #[test]
    fn directives_of_requests() {
        assert_eq!(read("Host: h\r\nAccept: */*\r\n\r\n"), RequestDirectives::default());
        assert!(read("Cache-Control: No-Cache\r\n").no_cache);
        let all = read(
            "cache-control: max-age=5, min-fresh=\"6\"\r\nCache-Control: max-stale, only-if-cached,no-store\r\n",
        );
        assert_eq!((all.max_age, all.min_fresh, all.max_stale), (Some(5), Some(6), Some(DELTA_SECONDS_MAX)));
        assert!(all.only_if_cached && all.no_store && !all.no_cache);
        assert_eq!(read("Cache-Control: max-stale=7, stale-if-error=8\r\n").max_stale, Some(7));
        assert_eq!(read("Cache-Control: stale-if-error=8\r\n").stale_if_error, 8);
        assert!(read("If-Match: *\r\n").is_for_origin && read("If-Unmodified-Since: x\r\n").is_for_origin);
    }

    #[test]
    fn what_is_unreadable_is_strict() {
        let bad = read("Cache-Control: max-age=x, min-fresh=-1, max-stale=\r\n");
        assert_eq!((bad.max_age, bad.min_fresh, bad.max_stale), (Some(0), Some(DELTA_SECONDS_MAX), Some(0)));
        assert_eq!(read("Cache-Control: max-age=5, max-age=3, max-age=4\r\n").max_age, Some(3));
    }

    /// RFC 9111, 5.4: Pragma without Cache-Control.
    #[test]
    fn pragma() {
        assert!(read("Pragma: x, no-cache\r\n").no_cache);
        assert!(!read("Pragma: x\r\n").no_cache);
        assert!(!read("Pragma: no-cache\r\nCache-Control: max-age=5\r\n").no_cache);
    }
}
