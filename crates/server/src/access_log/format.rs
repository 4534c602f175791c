//! Apache's LogFormat, a text with `%` directives (mod_log_config, mod_logio), parsed once.
//!
//! Only what a static server knows is supported; other directives are an error that names them. Directives known at the
//! start of a response are separate from those that wait for its end ([`AtEnd`]).

const FORMAT_BYTES_MAX: usize = 4096;

/// The most directives in a format that wait for the end of the response.
pub const AT_END_MAX: usize = 8;

pub const NICKNAMES: &[(&str, &str)] = &[
    ("common", COMMON),
    ("combined", r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#),
    ("json", JSON),
    ("combined-cache", r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %{cache}x"#),
    ("squid", SQUID),
];

const COMMON: &str = r#"%h %l %u %t "%r" %>s %b"#;

const JSON: &str = concat!(
    r#"{"time":"%{%Y-%m-%dT%H:%M:%SZ}t","client":"%a","host":"%V","method":"%m","path":"%U","query":"%q","#,
    r#""protocol":"%H","status":%>s,"body_bytes":%B,"sent_bytes":%O,"duration_us":%D,"#,
    r#""referer":"%{Referer}i","user_agent":"%{User-Agent}i"}"#,
);

/// The native format of Squid's access.log.
const SQUID: &str = concat!(
    "%{end:%s}t.%{end:msec_frac}t %{ms}T %a %{cache}x/%>s %O %m %{url}x %u %{upstream}x ",
    "%{Content-Type}o",
);

/// The format of a log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFormat {
    pub(super) items: Vec<Item>,
    pub(super) escape: Escape,
}

/// How values from clients are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// C escapes: bytes that are not visible ASCII become `\xhh`; a missing value is `-`.
    Apache,
    /// For a JSON string; a missing value is empty.
    Json,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Text(Vec<u8>),
    Directive { what: Directive, on: Option<Statuses> },
}

/// The statuses for which a directive is written; otherwise it is `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statuses {
    codes: Vec<u16>,
    others: bool,
}

impl Statuses {
    pub fn include(&self, code: u16) -> bool {
        self.codes.contains(&code) != self.others
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Directive {
    /// `%a`, `%h`
    Peer,
    /// `%l`, `%u`: always `-`.
    Nobody,
    /// `%t`
    Time,
    /// `%{FORMAT}t`
    TimeAs(String),
    /// `%r`
    RequestLine,
    /// `%m`
    Method,
    /// `%U`
    Path,
    /// `%q`
    Query,
    /// `%H`
    Protocol,
    /// `%v`, `%V`
    Host,
    /// `%{NAME}i`
    RequestField(String),
    /// `%{NAME}o`
    ResponseField(String),
    /// `%s`
    Status,
    /// `%k`
    EarlierRequests,
    /// `%{cache}x`: what a proxy's cache did.
    Outcome,
    /// `%{upstream}x`: the upstream that was asked.
    Upstream,
    /// `%{url}x`: the target with scheme and host.
    Url,
    /// `%P`
    Process,
    AtEnd(AtEnd),
}

/// Directives whose value is known at the end of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtEnd {
    /// `%b`: bytes of body, `-` for none.
    BodyBytesOrDash,
    /// `%B`
    BodyBytes,
    /// `%O`: including the head.
    SentBytes,
    /// `%D`, `%{us}T`
    Microseconds,
    /// `%{ms}T`
    Milliseconds,
    /// `%T`
    Seconds,
    /// `%{end:%s}t`: seconds since 1970.
    EndSecond,
    /// `%{end:msec_frac}t`: the milliseconds of that.
    EndMillisecond,
}

impl AtEnd {
    fn is_duration(self) -> bool {
        matches!(self, AtEnd::Microseconds | AtEnd::Milliseconds | AtEnd::Seconds)
    }

    fn is_moment(self) -> bool {
        matches!(self, AtEnd::EndSecond | AtEnd::EndMillisecond)
    }
}

/// Why a format is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{what}\nhint: {hint}")]
pub struct FormatError {
    what: String,
    hint: String,
}

impl LogFormat {
    /// Parses a format, or the nickname of one.
    ///
    /// # Errors
    /// Which directive is unknown, and where.
    pub fn parse(text: &str) -> Result<LogFormat, FormatError> {
        let nickname = NICKNAMES.iter().find(|(name, _)| *name == text);
        if nickname.is_none() && !text.contains('%') {
            let names: Vec<&str> = NICKNAMES.iter().map(|(name, _)| *name).collect();
            return Err(error(
                format!("unknown log format {text:?}"),
                &format!("use {}, or Apache's directives, as in '{COMMON}'", names.join(", ")),
            ));
        }
        let format = nickname.map_or(text, |(_, format)| format);
        if format.len() > FORMAT_BYTES_MAX {
            return Err(error(
                format!("the log format has more than {FORMAT_BYTES_MAX} bytes"),
                "shorten it",
            ));
        }
        let escape = if format.starts_with('{') { Escape::Json } else { Escape::Apache };
        let items = Reader { format, rest: format }.items()?;
        let this = LogFormat { items, escape };
        if this.at_end().count() > AT_END_MAX {
            let what = format!("the log format has more than {AT_END_MAX} directives of %b %B %O %D %T");
            return Err(error(what, "leave out repeated ones"));
        }
        Ok(this)
    }

    /// The directives at the end, in order.
    pub(super) fn at_end(&self) -> impl Iterator<Item = AtEnd> {
        self.items.iter().filter_map(|item| match item {
            Item::Directive { what: Directive::AtEnd(at_end), .. } => Some(*at_end),
            _ => None,
        })
    }

    /// Returns true if a line contains the duration of a response.
    pub fn has_durations(&self) -> bool {
        self.at_end().any(AtEnd::is_duration)
    }

    /// Returns true if a line contains the time at which a response ended.
    pub(super) fn has_moments(&self) -> bool {
        self.at_end().any(AtEnd::is_moment)
    }
}

struct Reader<'a> {
    format: &'a str,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn items(mut self) -> Result<Vec<Item>, FormatError> {
        let mut items = Vec::new();
        let mut text = Vec::new();
        while let Some(character) = self.take() {
            match character {
                '%' if self.rest.starts_with('%') => {
                    self.take();
                    text.push(b'%');
                }
                '%' => {
                    if !text.is_empty() {
                        items.push(Item::Text(std::mem::take(&mut text)));
                    }
                    items.push(self.directive()?);
                }
                // As in Apache's configuration files.
                '\\' => match self.take() {
                    Some('t') => text.push(b'\t'),
                    Some('n') => {
                        return Err(error(
                            "the log format contains a line break",
                            "each request is one line",
                        ));
                    }
                    Some(other) => push(&mut text, other),
                    None => text.push(b'\\'),
                },
                '\n' | '\r' => {
                    return Err(error("the log format contains a line break", "each request is one line"));
                }
                other => push(&mut text, other),
            }
        }
        // The line end is part of the last text.
        text.push(b'\n');
        items.push(Item::Text(text));
        Ok(items)
    }

    fn take(&mut self) -> Option<char> {
        let character = self.rest.chars().next()?;
        self.rest = &self.rest[character.len_utf8()..];
        Some(character)
    }

    /// Parses the text after a `%`: statuses, `<` or `>`, an argument in braces, a letter.
    fn directive(&mut self) -> Result<Item, FormatError> {
        let start = self.format.len() - self.rest.len() - 1;
        let on = self.statuses(start)?;
        // Requests are never redirected internally, so the first status is the last.
        self.rest = self.rest.strip_prefix(['<', '>']).unwrap_or(self.rest);
        let mut argument = None;
        if let Some(rest) = self.rest.strip_prefix('{') {
            let end = rest.find('}').ok_or_else(|| self.unknown(start, "`{` has no `}`"))?;
            argument = Some(&rest[..end]);
            self.rest = &rest[end + 1..];
        }
        let letter = self.take().ok_or_else(|| self.unknown(start, "it has no letter"))?;
        let what = what(letter, argument).ok_or_else(|| self.unknown(start, "unknown directive"))?;
        Ok(Item::Directive { what, on })
    }

    fn statuses(&mut self, start: usize) -> Result<Option<Statuses>, FormatError> {
        let others = self.rest.starts_with('!');
        let list = self.rest.trim_start_matches('!');
        let end = list.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(list.len());
        let (codes, rest) = list.split_at(end);
        self.rest = rest;
        if codes.is_empty() && !others {
            return Ok(None);
        }
        let codes = codes.split(',').map(str::parse).collect::<Result<_, _>>();
        let codes =
            codes.map_err(|_| self.unknown(start, "statuses are numbers, as in %!200,304{Referer}i"))?;
        Ok(Some(Statuses { codes, others }))
    }

    fn unknown(&self, start: usize, why: &str) -> FormatError {
        let end = self.format.len() - self.rest.len();
        let column = self.format[..start].chars().count() + 1;
        error(
            format!("the log format's directive `{}` at column {column}: {why}", &self.format[start..end]),
            "supported: %a %h %l %u %t %{FORMAT}t %r %m %U %q %H %v %V %s %b %B %O %D %T %k %P %{NAME}i %{NAME}o \
             %{cache}x %{upstream}x %{url}x",
        )
    }
}

fn what(letter: char, argument: Option<&str>) -> Option<Directive> {
    use Directive as W;
    Some(match (letter, argument) {
        ('a' | 'h', None) => W::Peer,
        ('l' | 'u', None) => W::Nobody,
        ('t', None) => W::Time,
        ('t', Some("end:%s" | "end:sec")) => W::AtEnd(AtEnd::EndSecond),
        ('t', Some("end:msec_frac")) => W::AtEnd(AtEnd::EndMillisecond),
        ('t', Some(format)) => W::TimeAs(known_time(format)?.to_owned()),
        ('r', None) => W::RequestLine,
        ('m', None) => W::Method,
        ('U', None) => W::Path,
        ('q', None) => W::Query,
        ('H', None) => W::Protocol,
        ('v' | 'V', None) => W::Host,
        ('i', Some(name)) if !name.is_empty() => W::RequestField(name.to_owned()),
        ('o', Some(name)) if !name.is_empty() => W::ResponseField(name.to_owned()),
        ('s', None) => W::Status,
        ('k', None) => W::EarlierRequests,
        ('P', None | Some("pid")) => W::Process,
        ('x', Some("cache")) => W::Outcome,
        ('x', Some("upstream")) => W::Upstream,
        ('x', Some("url")) => W::Url,
        ('b', None) => W::AtEnd(AtEnd::BodyBytesOrDash),
        ('B', None) => W::AtEnd(AtEnd::BodyBytes),
        ('O', None) => W::AtEnd(AtEnd::SentBytes),
        ('D', None) | ('T', Some("us")) => W::AtEnd(AtEnd::Microseconds),
        ('T', Some("ms")) => W::AtEnd(AtEnd::Milliseconds),
        ('T', None | Some("s")) => W::AtEnd(AtEnd::Seconds),
        _ => return None,
    })
}

/// Checks a time format: returns it if every conversion is supported. `sec` is Apache's name of `%s`.
fn known_time(format: &str) -> Option<&str> {
    let format = if format == "sec" { "%s" } else { format };
    let conversions = format.split('%').skip(1);
    // An empty piece is the second of two percent signs, or one at the end.
    let known = |piece: &str| {
        piece.is_empty() || piece.starts_with(['Y', 'm', 'd', 'H', 'M', 'S', 'b', 'a', 'F', 'T', 's', 'z'])
    };
    (!format.is_empty() && !format.ends_with('%') && conversions.into_iter().all(known)).then_some(format)
}

fn push(text: &mut Vec<u8>, character: char) {
    let mut bytes = [0; 4];
    text.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
}

fn error(what: impl Into<String>, hint: &str) -> FormatError {
    FormatError { what: what.into(), hint: hint.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nicknames_and_formats_are_known() {
        for (name, format) in NICKNAMES {
            assert_eq!(LogFormat::parse(name), LogFormat::parse(format), "{name}");
        }
        assert!(!LogFormat::parse("combined").unwrap().has_durations());
        assert!(LogFormat::parse("json").unwrap().has_durations());
    }

    #[test]
    fn what_is_not_known_is_named() {
        let check = |format: &str, expected: &str| {
            let said = LogFormat::parse(format).unwrap_err().to_string();
            assert!(said.starts_with(expected) && said.contains("\nhint: "), "{format:?}: {said}");
        };
        check("combind", "unknown log format \"combind\"");
        check("%h %Z", "the log format's directive `%Z` at column 4: unknown directive");
        check("%{Referer}x", "the log format's directive `%{Referer}x` at column 1: unknown directive");
        check("%{%Q}t", "the log format's directive `%{%Q}t` at column 1: unknown directive");
        check("%{i", "the log format's directive `%` at column 1: `{` has no `}`");
        check("%h %", "the log format's directive `%` at column 4: it has no letter");
        check("%!h", "the log format's directive `%!` at column 1: statuses are numbers");
        check("%{}i", "the log format's directive `%{}i` at column 1: unknown directive");
        check("%h\n%h", "the log format contains a line break");
        check("%b%b%b%b%b%b%b%b%b", "the log format has more than 8 directives");
        check(&"%h".repeat(3000), "the log format has more than 4096 bytes");
    }

    proptest::proptest! {
        /// Any text is accepted or refused with a hint, without a panic.
        #[test]
        fn any_text_is_read_or_refused(text in "([%{}<>!,\"\\\\0-9a-zA-Z \n]|\\PC){0,60}") {
            match LogFormat::parse(&text) {
                Ok(format) => assert!(!format.items.is_empty() && format.at_end().count() <= AT_END_MAX),
                Err(error) => assert!(error.to_string().contains("\nhint: ")),
            }
        }
    }
}
