//! The directives of a response that control caches (RFC 9111, 5.2.2; RFC 5861; RFC 8246; RFC 9213). Invalid or
//! contradictory values are recorded as such: the response is then stale from the start (RFC 9111, 4.2.1).

mod surrogate;
mod targeted;

use sojourn_http::token::is_token;

use crate::directives::{Argument, Directive, directives};
use crate::fields::Section;

/// A number of seconds in a response's directive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delta {
    #[default]
    Absent,
    Seconds(u32),
    /// Not a number, or two different ones.
    Invalid,
}

/// The directives that apply to this cache, from Cache-Control or the first valid targeted field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    pub no_store: bool,
    /// `private` without field names (or with invalid ones): shared caches must not store the response.
    pub private: bool,
    /// `no-cache` without field names (or with invalid ones): every reuse needs validation.
    pub no_cache: bool,
    /// The fields named in `private="…"` and `no-cache="…"`, which must not be reused; spelled as received.
    pub withheld: Vec<Box<[u8]>>,
    /// `public`: may be stored even if the request was authenticated.
    pub public: bool,
    pub must_revalidate: bool,
    /// `proxy-revalidate`: shared caches must never use it stale.
    pub proxy_revalidate: bool,
    /// `must-understand`: store it only if the status code is understood.
    pub must_understand: bool,
    /// The freshness lifetime for shared caches.
    pub s_maxage: Delta,
    pub max_age: Delta,
    /// How long it may be used stale while it is revalidated.
    pub stale_while_revalidate: Delta,
    /// How long it may be used stale if the origin fails.
    pub stale_if_error: Delta,
    /// True if a targeted field takes the place of Cache-Control and Expires (RFC 9213, 2.2).
    pub is_targeted: bool,
}

impl Control {
    /// Reads a response's fields. `targets` are the targeted fields that apply to this cache, most specific first.
    /// `surrogate` is this cache's name if it is a surrogate.
    pub fn of(fields: Section<'_>, targets: &[Box<str>], surrogate: Option<&str>) -> Control {
        let targeted = targets.iter().find_map(|name| targeted::control(fields, name));
        let of_surrogate = || surrogate::control(fields, surrogate?);
        if let Some(control) = targeted.or_else(of_surrogate) {
            return control;
        }
        let mut control = Control::default();
        for value in fields.values("cache-control") {
            directives(value).for_each(|directive| control.take(&directive));
        }
        control
    }

    /// Applies one more directive. Directives without arguments ignore any that are given.
    pub(super) fn take(&mut self, directive: &Directive<'_>) {
        let seconds = || directive.argument.seconds().map_or(Delta::Invalid, Delta::Seconds);
        match directive.name.to_ascii_lowercase().as_slice() {
            b"no-store" => self.no_store = true,
            b"private" => self.private |= !self.parse_withheld(&directive.argument),
            b"no-cache" => self.no_cache |= !self.parse_withheld(&directive.argument),
            b"public" => self.public = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"must-understand" => self.must_understand = true,
            b"s-maxage" => self.s_maxage.merge(seconds()),
            b"max-age" => self.max_age.merge(seconds()),
            b"stale-while-revalidate" => self.stale_while_revalidate.merge(seconds()),
            b"stale-if-error" => self.stale_if_error.merge(seconds()),
            _ => {}
        }
    }

    /// Reads a list of field names; false if it is invalid, so that the directive applies to the whole response.
    fn parse_withheld(&mut self, argument: &Argument<'_>) -> bool {
        let Argument::Value(list) = argument else { return false };
        let names = list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|name| !name.is_empty());
        let names: Vec<Box<[u8]>> = names.map(Box::from).collect();
        let are_names = !names.is_empty() && names.iter().all(|name| name.iter().all(|byte| is_token(*byte)));
        if are_names {
            self.withheld.extend(names);
        }
        are_names
    }

    /// The lifetime for shared caches; of several directives the first in RFC 9111, 4.2.1 takes precedence.
    pub fn lifetime(&self) -> Delta {
        match (self.s_maxage, self.max_age) {
            (Delta::Absent, max_age) => max_age,
            (s_maxage, _) => s_maxage,
        }
    }

    pub fn withholds(&self, name: &[u8]) -> bool {
        self.withheld.iter().any(|other| other.eq_ignore_ascii_case(name))
    }

    /// Returns true if it may be stored although the request was authenticated (RFC 9111, 3.5).
    pub fn allows_authenticated(&self) -> bool {
        self.public || self.must_revalidate || self.s_maxage != Delta::Absent
    }

    /// Returns true if it must never be used stale; `s-maxage` implies that for shared caches (RFC 9111, 5.2.2.10).
    pub fn forbids_stale(&self) -> bool {
        self.must_revalidate || self.proxy_revalidate || self.s_maxage != Delta::Absent
    }
}

impl Delta {
    /// Merges a repeated directive: an equal value changes nothing, a different one makes it invalid.
    fn merge(&mut self, other: Delta) {
        *self = match (*self, other) {
            (Delta::Absent, other) => other,
            (Delta::Seconds(one), Delta::Seconds(two)) if one == two => *self,
            _ => Delta::Invalid,
        };
    }

    /// The seconds of a permission; 0 if it is invalid.
    pub fn or_none(self) -> u32 {
        match self {
            Delta::Seconds(seconds) => seconds,
            Delta::Absent | Delta::Invalid => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(values: &[&str]) -> Control {
        let lines: String = values.iter().map(|value| format!("Cache-Control: {value}\r\n")).collect();
        Control::of(Section(lines.as_bytes()), &[], None)
    }

    #[test]
    fn names_in_any_case() {
        assert!(control(&["nO-StOrE"]).no_store);
        assert!(control(&["No-Cache"]).no_cache);
        assert_eq!(control(&["MaX-AgE=5"]).lifetime(), Delta::Seconds(5));
        assert_eq!(control(&["max-age=\"5\""]).lifetime(), Delta::Seconds(5));
        assert!(control(&["no-store=1"]).no_store);
    }

    /// RFC 9111, 4.2.1: repeated directives with different values.
    #[test]
    fn several_values() {
        assert_eq!(control(&["max-age=5", "max-age=5"]).lifetime(), Delta::Seconds(5));
        assert_eq!(control(&["max-age=5, max-age=6"]).lifetime(), Delta::Invalid);
        assert_eq!(control(&["max-age=5", "max-age=x"]).lifetime(), Delta::Invalid);
        assert_eq!(control(&["max-age"]).lifetime(), Delta::Invalid);
        assert_eq!(control(&["max-age=5, s-maxage=6"]).lifetime(), Delta::Seconds(6));
        assert_eq!(control(&["s-maxage=x, max-age=5"]).lifetime(), Delta::Invalid);
        assert_eq!(control(&["x=\"max-age=9\", max-age=5"]).lifetime(), Delta::Seconds(5));
    }

    #[test]
    fn field_names() {
        let with = control(&["no-cache=\"Set-Cookie, X-A\", private=\"X-B\""]);
        assert!(!with.no_cache && !with.private);
        assert!(["set-cookie", "x-a", "x-b"].iter().all(|name| with.withholds(name.as_bytes())));
        assert_eq!(with.withheld.len(), 3);
        assert!(control(&["private=\"a b\""]).private);
        assert!(control(&["no-cache=\"\""]).no_cache);
        assert!(control(&["no-cache=\"a"]).no_cache);
        let both = control(&["no-cache, no-cache=\"a\""]);
        assert!(both.no_cache);
    }

    #[test]
    fn permissions() {
        assert!(control(&["public"]).allows_authenticated());
        assert!(control(&["s-maxage=5"]).allows_authenticated() && control(&["s-maxage=5"]).forbids_stale());
        assert!(!control(&["max-age=5"]).allows_authenticated());
        assert!(control(&["proxy-revalidate"]).forbids_stale());
        assert_eq!(control(&["stale-while-revalidate=x"]).stale_while_revalidate.or_none(), 0);
    }
}
