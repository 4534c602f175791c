//! The grammar of Cache-Control (RFC 9111, 5.2): a list of directives, some with an argument.
//!
//! Arguments may be tokens or quoted strings, whichever form a directive should have (5.2). Malformed arguments are
//! passed on as such, so that the caller can choose the safe reading: an unreadable `max-age` makes a response stale,
//! not fresh for the heuristic's time.

use std::borrow::Cow;

use sojourn_http::token::is_token;

/// Larger numbers of seconds become this: practically forever (RFC 9111, 1.2.2).
pub const DELTA_SECONDS_MAX: u32 = 1 << 31;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive<'b> {
    /// The name, in any case.
    pub name: &'b [u8],
    /// The text after `=`.
    pub argument: Argument<'b>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument<'b> {
    None,
    /// A token, or the content of a quoted string.
    Value(Cow<'b, [u8]>),
    /// Malformed: whitespace around `=`, an unterminated quote, or bytes that no token has.
    Malformed,
}

impl Directive<'_> {
    /// Returns true if the directive has this name; `name` must be in lower case.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

impl Argument<'_> {
    /// The argument in seconds; `None` if it is not a number.
    pub fn seconds(&self) -> Option<u32> {
        match self {
            Argument::Value(value) => delta_seconds(value),
            Argument::None | Argument::Malformed => None,
        }
    }
}

/// Parses any number of digits (RFC 9111, 1.2.2).
pub fn delta_seconds(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let more = |number: u32, byte: &u8| number.saturating_mul(10).saturating_add(u32::from(byte - b'0'));
    Some(digits.iter().fold(0, more).min(DELTA_SECONDS_MAX))
}

pub fn directives(value: &[u8]) -> Directives<'_> {
    Directives { rest: value }
}

/// The iterator that [`directives`] returns.
#[derive(Clone, Debug)]
pub struct Directives<'b> {
    rest: &'b [u8],
}

impl<'b> Iterator for Directives<'b> {
    type Item = Directive<'b>;

    fn next(&mut self) -> Option<Directive<'b>> {
        let start = self.rest.iter().position(|byte| !matches!(byte, b',' | b' ' | b'\t'))?;
        self.rest = &self.rest[start..];
        let end = self.rest.iter().position(|byte| matches!(byte, b',' | b'=')).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        let bare = name.trim_ascii_end();
        let argument = match rest.strip_prefix(b"=") {
            None => Argument::None,
            Some(after) => {
                self.rest = after;
                let argument = if after.starts_with(b"\"") { self.quoted() } else { self.token() };
                if bare.len() < name.len() { Argument::Malformed } else { argument }
            }
        };
        Some(Directive { name: bare, argument })
    }
}

impl<'b> Directives<'b> {
    /// The rest of the element, up to the next comma.
    fn element(&mut self) -> &'b [u8] {
        let end = self.rest.iter().position(|byte| *byte == b',').unwrap_or(self.rest.len());
        let (element, rest) = self.rest.split_at(end);
        self.rest = rest;
        element.trim_ascii_end()
    }

    fn token(&mut self) -> Argument<'b> {
        let token = self.element();
        let is_whole = !token.is_empty() && token.iter().all(|byte| is_token(*byte));
        if is_whole { Argument::Value(Cow::Borrowed(token)) } else { Argument::Malformed }
    }

    /// A quoted string (RFC 9110, 5.6.4). An unterminated one hides nothing: the list continues within it.
    fn quoted(&mut self) -> Argument<'b> {
        let inner = &self.rest[1..];
        let (mut at, mut escapes) = (0, false);
        let end = loop {
            match inner.get(at) {
                None => {
                    self.rest = inner;
                    self.element();
                    return Argument::Malformed;
                }
                Some(b'"') => break at,
                Some(b'\\') => {
                    escapes = true;
                    at += 2;
                }
                Some(_) => at += 1,
            }
        };
        self.rest = &inner[end + 1..];
        match (self.element().trim_ascii_start(), escapes) {
            ([], false) => Argument::Value(Cow::Borrowed(&inner[..end])),
            ([], true) => Argument::Value(Cow::Owned(unescaped(&inner[..end]))),
            _ => Argument::Malformed,
        }
    }
}

fn unescaped(quoted: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(quoted.len());
    let mut bytes = quoted.iter();
    while let Some(byte) = bytes.next() {
        text.extend(if *byte == b'\\' { bytes.next() } else { Some(byte) });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(value: &str) -> Vec<(String, String)> {
        directives(value.as_bytes())
            .map(|directive| {
                let argument = match directive.argument {
                    Argument::None => "-".to_owned(),
                    Argument::Malformed => "?".to_owned(),
                    Argument::Value(value) => String::from_utf8_lossy(&value).into_owned(),
                };
                (String::from_utf8_lossy(directive.name).into_owned(), argument)
            })
            .collect()
    }

    fn check(value: &str, expected: &[(&str, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        assert_eq!(all(value), expected, "{value}");
    }

    #[test]
    fn lists() {
        check("no-store", &[("no-store", "-")]);
        check("max-age=5,public", &[("max-age", "5"), ("public", "-")]);
        check(" , a ,, b=\"c, d\\\"e\" ,\tf=g ", &[("a", "-"), ("b", "c, d\"e"), ("f", "g")]);
        check("a=\"\"", &[("a", "")]);
        check("", &[]);
    }

    /// A directive inside quotes is ignored; one after an unterminated quote counts. Both are the safe reading.
    #[test]
    fn bent_grammar() {
        check("x=\"max-age=5\", max-age=1", &[("x", "max-age=5"), ("max-age", "1")]);
        check("max-age =5", &[("max-age", "?")]);
        check("max-age= 5", &[("max-age", "?")]);
        check("max-age=", &[("max-age", "?")]);
        check("max-age=5;x", &[("max-age", "?")]);
        check("a=\"b\" c, d", &[("a", "?"), ("d", "-")]);
        check("a=\"b, no-store", &[("a", "?"), ("no-store", "-")]);
        check("a=\"b\\", &[("a", "?")]);
        check("=x", &[("", "x")]);
    }

    #[test]
    fn seconds() {
        for (text, expected) in [
            ("0", Some(0)),
            ("003600", Some(3600)),
            ("2147483648", Some(DELTA_SECONDS_MAX)),
            ("99999999999999999999", Some(DELTA_SECONDS_MAX)),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1.0", None),
            ("'5'", None),
            ("a5", None),
        ] {
            assert_eq!(delta_seconds(text.as_bytes()), expected, "{text}");
        }
    }
}
