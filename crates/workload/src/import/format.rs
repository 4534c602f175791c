//! A log format: its name, and the parser of its lines.
//!
//! `clf` is the fast path for the two most common formats. Every other one uses a template or a tree of JSON names to
//! fill in a draft. Formats are chosen by name, by the server's own format string, or by `detect`.

use crate::limits::LINE_BYTES_MAX;
use thiserror::Error;

use super::entry::{Entry, Malformed};
use super::fields::{Draft, Field, Stamp};
use super::json::{MEANINGS, Names};
use super::template::{PARTS_MAX, Template};
use super::w3c::Columns;
use super::{alb, apache, clf, envoy, haproxy, nginx, s3, squid, worldcup};

/// Apache's `vhost_combined` as Debian configures it, up to the relevant fields.
const VHOST_COMBINED: &str = r#"%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#;

/// The format names you can choose.
pub const FORMAT_NAMES: [&str; 11] = [
    "common",
    "combined",
    "vhost_combined",
    "squid",
    "w3c",
    "json",
    "alb",
    "haproxy",
    "envoy",
    "s3",
    worldcup::NAME,
];

#[derive(Clone, Debug)]
pub struct Format {
    name: String,
    reader: Reader,
}

#[derive(Clone, Debug)]
enum Reader {
    Clf,
    Template { template: Template, stamp: Stamp, escapes: bool },
    W3c(Columns),
    Json(Names),
    Haproxy,
    WorldCup(worldcup::Texts),
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    /// Neither a format name nor a format string.
    #[error("unknown log format {0:?}")]
    Unknown(String),
    /// A format string that does not compile.
    #[error("the log format {format:?} cannot be read: {why}")]
    Syntax { format: String, why: String },
    /// A format string without a required field.
    #[error("the log format {format:?} has no field for the {missing}")]
    Incomplete { format: String, missing: &'static str },
    /// A `--json-field` with an unknown meaning, or for a log that is not JSON.
    #[error("--json-field {0:?} is not MEANING=NAME")]
    JsonField(String),
    /// JSON field names for a log that is not JSON.
    #[error("--json-field goes with --log-format json")]
    NotJson,
}

impl FormatError {
    pub fn hint(&self) -> String {
        match self {
            FormatError::Unknown(_) => format!(
                "give one of {}, or the server's own LogFormat (with %) or log_format (with $) string",
                FORMAT_NAMES.join(", ")
            ),
            FormatError::Syntax { .. } => "copy the string from the server's configuration, within single quotes".into(),
            FormatError::Incomplete { .. } => {
                "a format needs a time (%t, $time_local), a status (%>s, $status) and a request (%r, $request)".into()
            }
            FormatError::JsonField(_) => {
                let meanings = MEANINGS.map(|(meaning, _)| meaning).join(", ");
                format!("MEANING is one of {meanings}; NAME is the log's, with dots for objects within objects")
            }
            FormatError::NotJson => "add --log-format json".into(),
        }
    }
}

impl Format {
    /// Builds a format from its name or from a format string: one with `$` is nginx's, one with `%` Apache's.
    /// `json_fields` are `MEANING=NAME`.
    pub fn new(text: &str, json_fields: &[String]) -> Result<Self, FormatError> {
        if text != "json" && !json_fields.is_empty() {
            return Err(FormatError::NotJson);
        }
        match text {
            "common" | "combined" => Ok(Format::clf(text)),
            "vhost_combined" => Format::compiled(text, VHOST_COMBINED),
            "squid" => Ok(Format::template(text, squid::template(), Stamp::End, false)),
            "alb" => Ok(Format::template(text, alb::template(), Stamp::End, true)),
            "envoy" => Ok(Format::template(text, envoy::template(), Stamp::Start, true)),
            "s3" => Ok(Format::template(text, s3::template(), Stamp::Start, false)),
            "haproxy" => Ok(Format::of(text, Reader::Haproxy)),
            worldcup::NAME => Ok(Format::world_cup()),
            "w3c" => Ok(Format::of("w3c", Reader::W3c(Columns::default()))),
            "json" => {
                let fields: Result<Vec<_>, _> = json_fields.iter().map(|field| json_field(field)).collect();
                Ok(Format::of("json", Reader::Json(Names::new(&fields?))))
            }
            text if text.contains(['$', '%']) => Format::compiled(text, text),
            other => Err(FormatError::Unknown(other.to_owned())),
        }
    }

    /// The fast path, named as one of the two formats it reads.
    pub(super) fn clf(name: &str) -> Self {
        Format::of(name, Reader::Clf)
    }

    pub(super) fn world_cup() -> Self {
        Format::of(worldcup::NAME, Reader::WorldCup(worldcup::Texts::default()))
    }

    /// The length of a record; `None` if entries are lines.
    pub(super) fn record_bytes(&self) -> Option<usize> {
        matches!(self.reader, Reader::WorldCup(_)).then_some(worldcup::RECORD_BYTES)
    }

    /// Whether each line is read without regard to those before it.
    pub(super) fn is_stateless(&self) -> bool {
        !matches!(self.reader, Reader::W3c(_))
    }

    fn of(name: &str, reader: Reader) -> Self {
        Format { name: name.to_owned(), reader }
    }

    fn template(name: &str, template: Template, stamp: Stamp, escapes: bool) -> Self {
        Format::of(name, Reader::Template { template, stamp, escapes })
    }

    fn compiled(name: &str, format: &str) -> Result<Self, FormatError> {
        let refused = |why: String| FormatError::Syntax { format: format.to_owned(), why };
        let (parts, stamp) = match format.contains('$') {
            true => (nginx::compile(format).map_err(refused)?, Stamp::End),
            false => apache::compile(format).map_err(refused)?,
        };
        if parts.len() > PARTS_MAX {
            return Err(refused(format!("it has more than {PARTS_MAX} parts")));
        }
        let adjacent = || refused("two fields follow each other with nothing between them".into());
        let template = Template::new(&parts).ok_or_else(adjacent)?;
        let incomplete = |missing| FormatError::Incomplete { format: format.to_owned(), missing };
        missing(&template).map_or(Ok(()), |missing| Err(incomplete(missing)))?;
        Ok(Format::of(name, Reader::Template { template, stamp, escapes: true }))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if targets are logged with backslash escapes, as Apache and nginx do.
    pub(super) fn escapes(&self) -> bool {
        match &self.reader {
            Reader::Clf => true,
            Reader::Template { escapes, .. } => *escapes,
            Reader::W3c(_) | Reader::Json(_) | Reader::Haproxy | Reader::WorldCup(_) => false,
        }
    }

    /// Parses a line; `None` for a directive, which describes the log and not a request. What a record says only by numbers is
    /// spelled in the format.
    pub fn read<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<Entry<'a>>, Malformed> {
        let reader = match &mut self.reader {
            Reader::Clf => return clf::parse(line).map(Some),
            Reader::WorldCup(texts) => return worldcup::parse(line, texts).map(Some),
            other => other,
        };
        if line.len() > LINE_BYTES_MAX {
            return Err(Malformed::TooLong);
        }
        if line.trim_ascii().is_empty() {
            return Err(Malformed::Empty);
        }
        let mut draft = Draft::default();
        let stamp = match reader {
            Reader::Clf | Reader::WorldCup(_) => unreachable!("answered above"),
            Reader::Template { template, stamp, .. } => {
                template.fill(&mut draft, line)?;
                *stamp
            }
            Reader::W3c(columns) if line.starts_with(b"#") => {
                columns.directive(line)?;
                return Ok(None);
            }
            Reader::W3c(columns) => {
                columns.fill(&mut draft, line)?;
                Stamp::End
            }
            Reader::Haproxy => {
                haproxy::fill(&mut draft, line)?;
                Stamp::Start
            }
            Reader::Json(names) => {
                names.fill(&mut draft, line)?;
                Stamp::End
            }
        };
        draft.entry(stamp).map(Some)
    }
}

fn json_field(text: &str) -> Result<(Field, String), FormatError> {
    let refused = || FormatError::JsonField(text.to_owned());
    let (meaning, name) = text.split_once('=').filter(|(_, name)| !name.is_empty()).ok_or_else(refused)?;
    let known = MEANINGS.iter().find(|(known, _)| *known == meaning).ok_or_else(refused)?;
    Ok((known.1, name.to_owned()))
}

fn missing(template: &Template) -> Option<&'static str> {
    let has = |wanted: fn(&Field) -> bool| template.fields().any(|field| wanted(&field));
    if !has(|field| matches!(field, Field::Time(_))) {
        Some("time")
    } else if !has(|field| matches!(field, Field::Status | Field::ResultAndStatus)) {
        Some("status")
    } else if !has(|field| matches!(field, Field::Request | Field::Target | Field::Path)) {
        Some("request")
    } else {
        None
    }
}
