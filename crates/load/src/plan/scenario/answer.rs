//! Responses in scenarios: extracting values, and checks.

use std::borrow::Cow;

use regex::bytes::Regex;

use crate::{
    http::cookie_jar::CookieJar,
    plan::scenario::{
        html,
        template::{Context, Template, Unusable},
    },
};

/// The final response to a request.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    pub status: u16,
    /// The head, including the status line.
    pub head: &'a [u8],
    pub body: &'a [u8],
}

impl<'a> Answer<'a> {
    /// The values of the fields with a name, in order.
    pub fn fields(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let lines = self.head.split(|byte| *byte == b'\n').skip(1);
        lines.filter_map(move |line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            line[..colon].eq_ignore_ascii_case(name.as_bytes()).then(|| line[colon + 1..].trim_ascii())
        })
    }

    /// How the body is encoded, as by gzip (RFC 9110, 8.4): its bytes are then not those of its text.
    pub fn content_coding(&self) -> Option<&'a [u8]> {
        let lists = self.fields("content-encoding");
        let mut codings = lists.flat_map(|list| list.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
        let is_none = |coding: &[u8]| coding.is_empty() || coding.eq_ignore_ascii_case(b"identity");
        codings.find(|coding| !is_none(coding)).filter(|_| !self.body.is_empty())
    }

    fn field(&self, name: &str) -> Option<Cow<'a, str>> {
        self.fields(name).next().map(String::from_utf8_lossy)
    }

    fn json(&self) -> Option<serde_json::Value> {
        serde_json::from_slice(self.body).ok()
    }
}

/// Returns true if a `Location` is followed.
pub fn is_redirection(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Where a value is extracted from.
#[derive(Clone, Debug)]
pub enum Source {
    /// The first group of a regular expression, or the whole match without a group.
    Regex(Regex),
    /// A JSON pointer (RFC 6901).
    Pointer(String),
    Header(String),
    Cookie(String),
    /// The value of a form field in HTML.
    Input(String),
}

/// A value extracted from a response.
#[derive(Clone, Debug)]
pub struct Take {
    pub variable: usize,
    pub source: Source,
    /// Applied to the source's value, unless that is a regular expression itself.
    pub pattern: Option<Regex>,
    /// The value if the response has none; without it the request fails.
    pub otherwise: Option<String>,
}

impl Take {
    pub fn value(&self, answer: &Answer<'_>, jar: &CookieJar) -> Option<String> {
        let found = match &self.source {
            Source::Regex(pattern) => group(pattern, answer.body),
            Source::Pointer(pointer) => answer.json().and_then(|json| json.pointer(pointer).map(as_text)),
            Source::Header(name) => answer.field(name).map(Cow::into_owned),
            Source::Cookie(name) => jar.value(name).map(str::to_owned),
            Source::Input(name) => html::input_value(&String::from_utf8_lossy(answer.body), name),
        };
        let found = match &self.pattern {
            Some(pattern) => found.and_then(|found| group(pattern, found.as_bytes())),
            None => found,
        };
        found.or_else(|| self.otherwise.clone())
    }

    pub fn needs_body(&self) -> bool {
        !matches!(self.source, Source::Header(_) | Source::Cookie(_))
    }
}

/// The statuses that are not errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Exactly(u16),
    /// `2xx`: all with this first digit.
    Class(u16),
}

impl Status {
    pub fn parse(text: &str) -> Option<Status> {
        let digit = |class: &str| class.parse().ok().filter(|class| (1..=5).contains(class));
        match text.strip_suffix("xx") {
            Some(class) => digit(class).map(Status::Class),
            None => text.parse().ok().filter(|status| (200..=599).contains(status)).map(Status::Exactly),
        }
    }

    pub fn fits(self, status: u16) -> bool {
        match self {
            Status::Exactly(own) => own == status,
            Status::Class(class) => class == status / 100,
        }
    }
}

/// A check of a response's content.
#[derive(Clone, Debug)]
pub enum Check {
    Contains(Template),
    Lacks(Template),
    Matches(Regex),
    /// The value at a JSON pointer.
    Pointer(String, Template),
    Header(String, Template),
}

impl Check {
    pub fn holds(&self, answer: &Answer<'_>, context: &mut Context<'_>) -> Result<bool, Unusable> {
        let mut filled = |template: &Template| {
            let mut text = Vec::new();
            template.render(&mut text, context).map(|()| text)
        };
        Ok(match self {
            Check::Contains(text) => contains(answer.body, &filled(text)?),
            Check::Lacks(text) => !contains(answer.body, &filled(text)?),
            Check::Matches(pattern) => pattern.is_match(answer.body),
            Check::Pointer(pointer, text) => {
                let found = answer.json().and_then(|json| json.pointer(pointer).map(as_text));
                let text = filled(text)?;
                found.is_some_and(|found| found.as_bytes() == text)
            }
            Check::Header(name, text) => {
                let text = filled(text)?;
                answer.fields(name).any(|value| value == text)
            }
        })
    }

    pub fn needs_body(&self) -> bool {
        !matches!(self, Check::Header(..))
    }
}

fn group(pattern: &Regex, text: &[u8]) -> Option<String> {
    let found = pattern.captures(text)?;
    let group = found.get(1).or_else(|| found.get(0))?;
    Some(String::from_utf8_lossy(group.as_bytes()).into_owned())
}

/// Strings without quotation marks, everything else as JSON.
fn as_text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn contains(body: &[u8], text: &[u8]) -> bool {
    text.is_empty() || body.windows(text.len()).any(|window| window == text)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::plan::scenario::template::{Place, Variables};

    const HEAD: &[u8] =
        b"HTTP/1.1 200 OK\r\nLocation: /items/17?x\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n";
    const PAGE: &[u8] = b"<p>Hello</p><input type=hidden name='csrf' value=\"a&amp;b\"> id=17;";
    const JSON: &[u8] = br#"{"items": [{"id": 17, "name": "x\"y"}], "ok": true}"#;

    fn taken(source: Source, pattern: Option<&str>, body: &[u8]) -> Option<String> {
        let pattern = pattern.map(|pattern| Regex::new(pattern).unwrap());
        let answer = Answer { status: 200, head: HEAD, body };
        Take { variable: 0, source, pattern, otherwise: None }.value(&answer, &CookieJar::default())
    }

    #[test]
    fn values_are_found() {
        let regex = |pattern: &str| Source::Regex(Regex::new(pattern).unwrap());
        let check = |source, pattern, body, expected: Option<&str>| {
            assert_eq!(taken(source, pattern, body).as_deref(), expected);
        };
        check(regex(r"id=(\d+);"), None, PAGE, Some("17"));
        check(regex(r"id=\d+"), None, PAGE, Some("id=17"));
        check(regex("nothing"), None, PAGE, None);
        check(Source::Pointer("/items/0/id".into()), None, JSON, Some("17"));
        check(Source::Pointer("/items/0/name".into()), None, JSON, Some("x\"y"));
        check(Source::Pointer("/items/1".into()), None, JSON, None);
        check(Source::Pointer("/items".into()), None, PAGE, None);
        check(Source::Header("location".into()), None, PAGE, Some("/items/17?x"));
        check(Source::Header("location".into()), Some(r"(\d+)"), PAGE, Some("17"));
        check(Source::Input("csrf".into()), None, PAGE, Some("a&b"));
        check(Source::Cookie("a".into()), None, PAGE, None);
    }

    #[test]
    fn checks_hold_or_not() {
        let check = |check: Check, body, expected| {
            let answer = Answer { status: 200, head: HEAD, body };
            let random = &mut Xoshiro256PlusPlus::seed_from_u64(1);
            let values = &[Some("Hello".to_owned())];
            let context = &mut Context { values, user: 0, iteration: 0, random };
            assert_eq!(check.holds(&answer, context), Ok(expected), "{check:?}");
        };
        let text = |text: &str| {
            let mut variables = Variables::default();
            variables.define("x");
            Template::parse(text, Place::Body, &mut variables, &|_| None).unwrap()
        };
        check(Check::Contains(text("<p>${x}</p>")), PAGE, true);
        check(Check::Contains(text("nothing")), PAGE, false);
        check(Check::Lacks(text("nothing")), PAGE, true);
        check(Check::Lacks(text("${x}")), PAGE, false);
        check(Check::Matches(Regex::new("id=1.;$").unwrap()), PAGE, true);
        check(Check::Pointer("/ok".into(), text("true")), JSON, true);
        check(Check::Pointer("/ok".into(), text("false")), JSON, false);
        check(Check::Pointer("/nothing".into(), text("true")), JSON, false);
        check(Check::Header("set-cookie".into(), text("b=2")), PAGE, true);
        check(Check::Header("set-cookie".into(), text("b")), PAGE, false);
    }

    #[test]
    fn statuses() {
        assert!(Status::parse("2xx").is_some_and(|status| status.fits(204) && !status.fits(302)));
        assert!(Status::parse("404").is_some_and(|status| status.fits(404) && !status.fits(200)));
        for bad in ["", "20", "6xx", "xx", "2x", "100", "600", "-200"] {
            assert_eq!(Status::parse(bad), None, "{bad}");
        }
    }
}
